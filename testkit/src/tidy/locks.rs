//! Checks that only `sync` implements locks, and that every lock class has a lock.

use super::Problem;
use super::layers::members_of;
use super::manifest::dependencies;
use super::source::Source;

/// The file with the table of lock classes.
const TABLE: &str = "sync/src/class.rs";

/// The lock class of tests.
const TEST_CLASS: &str = "Test";

/// Crates of raw locks, which only `sync` may use.
const RAW_LOCKS: &[&str] = &["lock_api", "parking_lot", "parking_lot_core"];

/// Reports classes that no code outside of tests uses for a lock.
pub(super) fn unused_classes(sources: &[Source]) -> Vec<Problem> {
    let Some(table) = sources.iter().find(|source| source.path == TABLE) else {
        return Vec::new();
    };
    let classes = classes(table).into_iter().filter(|(_, class)| class != TEST_CLASS);
    let unused = classes.filter(|(_, class)| !sources.iter().any(|source| uses(source, class)));
    unused
        .map(|(line, class)| {
            let message = format!("no lock has the class {class}");
            Problem::new(TABLE, line + 1, "lock class", message)
        })
        .collect()
}

/// Reports members of the workspace other than `sync` that depend on a crate of raw locks.
pub(super) fn raw_locks(manifests: &[(String, String)]) -> Vec<Problem> {
    let root = manifests.iter().find(|(path, _)| path == "Cargo.toml");
    let members = root.map(|(_, text)| members_of(text)).unwrap_or_default();
    let mut problems = Vec::new();
    for (path, text) in manifests {
        let member = path.strip_suffix("/Cargo.toml").filter(|name| members.contains(name));
        if member.is_none_or(|name| name == "sync") {
            continue;
        }
        let raw = dependencies(text).into_iter();
        for dependency in raw.filter(|dependency| RAW_LOCKS.contains(&dependency.name.as_str())) {
            let message = format!("{} is for sync only: take locks from there", dependency.name);
            problems.push(Problem::new(path, dependency.line, "raw lock", message));
        }
    }
    problems
}

/// Returns the line index and name of every row of the table: `Name = "text";`.
fn classes(table: &Source) -> Vec<(usize, String)> {
    let rows = table.lines.iter().enumerate();
    rows.filter_map(|(index, row)| {
        let (name, text) = row.trim().split_once(" = ")?;
        let is_name =
            name.starts_with(char::is_uppercase) && name.chars().all(super::source::is_word);
        let is_row = is_name && text.starts_with('"') && text.ends_with("\";");
        is_row.then(|| (index, name.to_string()))
    })
    .collect()
}

/// Whether the code of this file outside of tests names the class.
fn uses(source: &Source, class: &str) -> bool {
    if source.path == TABLE || source.is_test_file() {
        return false;
    }
    let is_named = |line: &String| {
        let mut named = line.split("LockClass::").skip(1);
        named.any(|rest| rest.split(|c| !super::source::is_word(c)).next() == Some(class))
    };
    source.code.iter().zip(&source.is_test).any(|(line, is_test)| !is_test && is_named(line))
}

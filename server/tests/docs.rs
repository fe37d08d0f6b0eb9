//! The documents match the program: their configurations are accepted, their tables are generated
//! from the code, and their links lead to files.
//!
//! `UPDATE_DOCS=1` writes the pages that are generated from tables.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use forebay_http::policy::reason::Reason;
use forebay_server::config::{Config, Setting, all_settings};
use forebay_server::counters::COUNTERS;
use forebay_server::events::Event;
use forebay_sync::LockClass;

/// The text before the table of counters; [`COUNTERS_STORE`] follows the table.
const COUNTERS_INTRO: &str = include_str!("docs/counters_intro.md");
const COUNTERS_STORE: &str = include_str!("docs/counters_store.md");

/// The text before the table of lock classes.
const LOCKS_INTRO: &str = include_str!("docs/locks_intro.md");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn text(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the path from the root and the text of every Markdown file at the root and below `docs`.
fn pages() -> Vec<(PathBuf, String)> {
    let mut folders = vec![PathBuf::from("docs")];
    let mut paths = listed(Path::new(""));
    while let Some(folder) = folders.pop() {
        let inside = listed(&folder);
        folders.extend(inside.iter().filter(|path| root().join(path).is_dir()).cloned());
        paths.extend(inside);
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    assert!(paths.len() >= 10, "{paths:?}");
    paths.into_iter().map(|path| (path.clone(), text(&path))).collect()
}

fn listed(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(folder)).expect("the folder is there");
    entries.flatten().map(|entry| folder.join(entry.file_name())).collect()
}

/// Returns the fenced blocks of one language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let opening = format!("```{language}\n");
    let pieces = page.split(opening.as_str()).skip(1);
    pieces.map(|piece| piece.split("```").next().unwrap_or_default()).collect()
}

/// Returns the texts in backquotes outside fenced blocks.
fn quoted(page: &str) -> BTreeSet<&str> {
    let prose = page.split("```").step_by(2);
    prose.flat_map(|prose| prose.split('`').skip(1).step_by(2)).collect()
}

/// Returns the quoted word with which a table row begins, and the rest of the row, for each such
/// row.
fn rows(page: &str) -> impl Iterator<Item = (&str, &str)> {
    page.lines().filter_map(|line| {
        let (first, rest) = line.strip_prefix("| `")?.split_once('`')?;
        Some((first, rest))
    })
}

#[test]
fn every_configuration_in_the_documents_is_valid() {
    let mut count = 0;
    for (path, page) in pages() {
        for block in blocks(&page, "toml") {
            count += 1;
            if let Err(errors) = Config::from_toml(block, &root().join(&path).display().to_string())
            {
                panic!("{errors}");
            }
        }
    }
    assert!(count >= 2, "README and docs/settings.md have one configuration each; found {count}");
}

#[test]
fn the_readme_begins_with_two_commands_and_the_second_is_what_ci_runs() {
    let readme = text("README.md");
    let first = blocks(&readme, "sh").first().copied().unwrap_or_default();
    let commands: Vec<_> =
        first.lines().map(|line| line.split('#').next().unwrap_or("").trim()).collect();
    assert_eq!(commands, ["cargo run --release -- try", "cargo test --workspace"]);
    let begins_at = readme.lines().position(|line| line.starts_with(commands[0]));
    assert!(begins_at.is_some_and(|line| line < 10), "the commands stand at line {begins_at:?}");
    assert!(text(".ci/run").contains(commands[1]));
}

#[test]
fn every_link_in_the_documents_leads_to_a_file() {
    for (path, page) in pages() {
        for link in page.split("](").skip(1) {
            let target = link.split([')', '#']).next().unwrap_or_default();
            let file = root().join(&path).with_file_name(target);
            let is_elsewhere = target.is_empty() || target.contains("://");
            assert!(is_elsewhere || file.exists(), "{}: {target}", path.display());
        }
    }
}

#[test]
fn the_page_of_counters_is_the_one_that_the_table_gives() {
    let mut wanted = format!("{COUNTERS_INTRO}\n| counter | kind | meaning |\n|---|---|---|\n");
    for def in COUNTERS {
        wanted += &format!("| `{}` | {} | {} |\n", def.name, def.kind.name(), def.help);
    }
    wanted = wanted + "\n" + COUNTERS_STORE;
    is_up_to_date("docs/counters.md", &wanted);
}

#[test]
fn the_page_of_lock_classes_is_the_one_that_the_table_gives() {
    let mut wanted = format!("{LOCKS_INTRO}| class | protects |\n|---|---|\n");
    for class in LockClass::ALL.iter().filter(|class| **class != LockClass::Test) {
        wanted += &format!("| `{}` | {} |\n", class.name(), class.protects());
    }
    is_up_to_date("docs/locks.md", &wanted);
}

/// Checks that the page equals the wanted text. If `UPDATE_DOCS=1` is set, first writes the page.
fn is_up_to_date(page: &str, wanted: &str) {
    let path = root().join(page);
    if std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        fs::write(&path, wanted).expect("docs/ can be written");
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == wanted, "{page} is out of date: run the tests with UPDATE_DOCS=1");
}

#[test]
fn the_page_of_logs_has_every_event_with_its_level_and_no_other() {
    let page = text("docs/logs.md");
    let (_, section) = page.split_once("\n## Events\n").expect("a section on events");
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut listed: BTreeSet<_> = rows(section).map(|(name, _)| name).collect();
    for event in Event::ALL {
        let (name, level, _) = event.describe();
        let row = rows(section).find(|(listed, _)| *listed == name);
        let (_, row) = row.unwrap_or_else(|| panic!("docs/logs.md has no event {name}"));
        assert!(row.starts_with(&format!(" | {level} |")), "{name} has level {level}");
        listed.remove(name);
    }
    assert_eq!(listed, BTreeSet::new(), "docs/logs.md lists events that do not exist");
}

#[test]
fn the_page_of_misses_explains_every_reason() {
    let page = text("docs/why-a-miss.md");
    let (_, section) = page.split_once("\n## Details\n").expect("a section on details");
    let section = section.split("\n## ").next().unwrap_or_default();
    let first_cells =
        section.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let mut listed: Vec<_> =
        first_cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    listed.retain(|word| *word != "detail");
    listed.sort_unstable();
    let mut known: Vec<_> = Reason::ALL.iter().map(|reason| reason.word()).collect();
    known.sort_unstable();
    assert_eq!(listed, known, "docs/why-a-miss.md differs from the table of reasons");
}

#[test]
fn the_page_of_limits_has_every_limit() {
    let page = text("docs/limits.md");
    let section = page.split("\n## ").next().unwrap_or_default();
    let listed: BTreeSet<_> = rows(section).map(|(name, _)| name).collect();
    let limits = all_settings().filter(|setting| is_limit(setting)).map(|setting| setting.name);
    assert_eq!(listed, limits.collect(), "docs/limits.md differs from the table of limits");
}

#[test]
fn the_pages_of_operations_name_only_counters_that_exist() {
    let counters = text("docs/counters.md");
    let known: BTreeSet<_> = rows(&counters).map(|(name, _)| name).collect();
    for name in [
        "cache-tools",
        "limits",
        "logs",
        "metrics",
        "purging",
        "signals",
        "validation",
        "why-a-miss",
    ] {
        let page = text(format!("docs/{name}.md"));
        let is_counter = |word: &&str| word.ends_with("_total");
        let has_labels = |word: &&str| word.starts_with("site_") || word.starts_with("rule_");
        let names = quoted(&page).into_iter().filter(|word| is_counter(word) && !has_labels(word));
        for counter in names {
            assert!(
                known.contains(counter),
                "docs/{name}.md names {counter}, which is not a counter"
            );
        }
    }
}

/// Whether the name of the setting says that the setting is a limit.
fn is_limit(setting: &Setting) -> bool {
    ["_max", "_min", "_grace_ms"].iter().any(|end| setting.name.ends_with(end))
}

//! Finds type names that are defined twice, and type names that say no role.

use std::collections::BTreeMap;

use super::source::Source;

const KEYWORDS: &[&str] = &["enum", "struct", "trait", "type", "union"];

/// Folders with separate workspaces, whose names do not clash with names of this workspace.
const APART: &[&str] = &["bench", "fuzz"];

/// Participles that do not end in -ed.
const IRREGULAR: &[&str] = &[
    "Asleep", "Awake", "Begun", "Bought", "Bound", "Broken", "Brought", "Built", "Caught",
    "Chosen", "Cut", "Done", "Drawn", "Fallen", "Found", "Given", "Gone", "Got", "Grown", "Heard",
    "Held", "Hidden", "Kept", "Known", "Laid", "Learnt", "Left", "Lent", "Lost", "Made", "Meant",
    "Met", "Paid", "Put", "Read", "Risen", "Said", "Seen", "Sent", "Shown", "Shut", "Sold",
    "Spent", "Split", "Spoken", "Sworn", "Taken", "Thrown", "Told", "Torn", "Undone", "Unsent",
    "Unseen", "Woken", "Won", "Written",
];

/// Words in -ed that are not participles.
const NO_PARTICIPLES: &[&str] = &["Bed", "Feed", "Need", "Red", "Seed", "Shed", "Speed"];

/// The declaration of a type: its file, its line counted from 1, and its name.
pub(super) type NameDeclaration<'a> = (&'a str, usize, String);

/// Returns the types that the workspace declares outside of tests.
pub(super) fn types<'a>(sources: &'a [Source]) -> Vec<NameDeclaration<'a>> {
    let ours = sources.iter().filter(|source| {
        !source.is_test_file() && !APART.iter().any(|folder| source.path.starts_with(folder))
    });
    let declared = |source: &'a Source| {
        let lines = source.declared(KEYWORDS).into_iter();
        let lines = lines.filter(|(line, _)| !source.is_test[*line] && is_item(source, *line));
        lines.map(|(line, name)| (source.path.as_str(), line + 1, name))
    };
    ours.flat_map(declared).collect()
}

/// Returns definitions whose name is also defined in another file.
pub(super) fn twice<'a>(types: &[NameDeclaration<'a>]) -> Vec<NameDeclaration<'a>> {
    let mut files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (path, _, name) in types {
        files.entry(name).or_default().push(path);
    }
    let is_twice =
        |(path, _, name): &&NameDeclaration| files[name.as_str()].iter().any(|at| at != path);
    types.iter().filter(is_twice).cloned().collect()
}

/// Returns names that consist of one participle.
pub(super) fn participles<'a>(types: &[NameDeclaration<'a>]) -> Vec<NameDeclaration<'a>> {
    types.iter().filter(|(_, _, name)| is_participle(name)).cloned().collect()
}

fn is_participle(name: &str) -> bool {
    let is_one_word = name.chars().skip(1).all(char::is_lowercase);
    let ends_like_one = name.ends_with("ed") && !NO_PARTICIPLES.contains(&name);
    is_one_word && (ends_like_one || IRREGULAR.contains(&name))
}

/// Whether the declaration on this line is an item. Associated types are indented; names in macros
/// contain `$`.
fn is_item(source: &Source, line: usize) -> bool {
    let code = &source.code[line];
    let is_associated = code.starts_with(' ') && code.trim_start().starts_with("type ");
    !is_associated && !code.contains('$')
}

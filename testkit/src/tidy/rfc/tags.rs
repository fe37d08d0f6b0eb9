//! Finds the tags of requirements in code, tests and test vectors.

use super::super::source::Source;

const MARK: &str = "RFC: ";

/// A comment that names a requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequirementTag {
    pub(super) id: String,
    /// The file's path from the root.
    pub(super) path: String,
    /// Line, counted from 1.
    pub(super) line: usize,
    /// The function, item or test vector that the tag belongs to, if it belongs to one.
    pub(super) item: Option<String>,
    pub(super) is_test: bool,
}

/// Returns the tags of a file. Only Rust files and test vectors have any.
pub(super) fn tags(path: &str, text: &str) -> Vec<RequirementTag> {
    if path.ends_with(".rs") {
        return of_source(&Source::new(path, text));
    }
    match path.contains("/tests/vectors/") {
        true => of_vectors(path, text),
        false => Vec::new(),
    }
}

fn of_source(source: &Source) -> Vec<RequirementTag> {
    let mut tags = Vec::new();
    for (line, comment) in source.comments.iter().enumerate() {
        let text = comment.trim_start().trim_start_matches('/').trim_start();
        let Some(ids) = text.strip_prefix(MARK) else { continue };
        let is_test = source.is_test_file() || source.is_test[line];
        let item = around(source, line).or_else(|| below(source, line));
        tags.extend(each(ids, &source.path, line, item.as_deref(), is_test));
    }
    tags
}

/// Returns the name of the innermost function that contains a line.
fn around(source: &Source, line: usize) -> Option<String> {
    let functions = source.declared(&["fn"]).into_iter().rev();
    let mut containing = functions.filter(|(first, _)| {
        *first < line && source.block_from(*first).is_some_and(|lines| lines.contains(&line))
    });
    containing.next().map(|(_, name)| name)
}

/// Returns the name of the item whose comment contains a line.
fn below(source: &Source, line: usize) -> Option<String> {
    const KEYWORDS: &[&str] = &["fn", "struct", "enum", "const", "static", "trait", "type"];
    let is_passed = |code: &str| code.trim().is_empty() || code.trim().starts_with("#[");
    let next = (line..source.code.len()).find(|next| !is_passed(&source.code[*next]))?;
    let items = source.declared(KEYWORDS);
    items.into_iter().find(|(first, _)| *first == next).map(|(_, name)| name)
}

/// Returns the tags of a file of test vectors. A tag belongs to the next vector.
fn of_vectors(path: &str, text: &str) -> Vec<RequirementTag> {
    let mut tags = Vec::new();
    for (line, comment) in text.lines().enumerate() {
        let Some(ids) = comment.strip_prefix("# ").and_then(|text| text.strip_prefix(MARK)) else {
            continue;
        };
        let name = |line: &str| Some(line.strip_prefix('[')?.strip_suffix(']')?.to_string());
        let item = text.lines().skip(line + 1).find_map(name);
        tags.extend(each(ids, path, line, item.as_deref(), true));
    }
    tags
}

/// Returns the tags of one comment.
fn each<'a>(
    ids: &'a str,
    path: &'a str,
    line: usize,
    item: Option<&'a str>,
    is_test: bool,
) -> impl Iterator<Item = RequirementTag> {
    ids.split(',').map(move |id| RequirementTag {
        id: id.trim().into(),
        path: path.into(),
        line: line + 1,
        item: item.map(String::from),
        is_test,
    })
}

//! A Rust file cut into code, comments and strings, line by line.
//!
//! This is not a parser: it recognises strings, comments, braces and the word after `fn`. That is
//! enough for the checks, and a brace or a keyword in a string or a comment cannot mislead them.

use std::ops::Range;

/// A file in three views, each with the same number of lines.
#[derive(Debug)]
pub(super) struct Source {
    /// The file's path from the root of the tree.
    pub(super) path: String,
    /// The lines of the file as written.
    pub(super) lines: Vec<String>,
    /// The lines without comments and without the contents of strings.
    pub(super) code: Vec<String>,
    /// The comments of each line, without code.
    pub(super) comments: Vec<String>,
    /// String literals, with the line on which each begins.
    pub(super) strings: Vec<(usize, String)>,
    /// Whether each line belongs to an inline test module.
    pub(super) is_test: Vec<bool>,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    /// Index of the line with `fn`.
    pub(super) line: usize,
    /// Lines of code from `fn` to its closing brace; empty lines and comments do not count.
    pub(super) size: usize,
}

impl Source {
    pub(super) fn new(path: &str, text: &str) -> Source {
        let (code, comments, strings) = split(text);
        let to_lines = |text: &str| text.lines().map(String::from).collect::<Vec<_>>();
        let mut source = Source {
            path: path.into(),
            lines: to_lines(text),
            code: to_lines(&code),
            comments: to_lines(&comments),
            strings,
            is_test: Vec::new(),
        };
        source.is_test = vec![false; source.lines.len()];
        for range in source.test_modules() {
            source.is_test[range].fill(true);
        }
        source
    }

    /// Whether the whole file is test code.
    pub(super) fn is_test_file(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        self.path.split('/').any(|part| part == "tests") || name.ends_with("tests.rs")
    }

    /// Returns every function with a body, including nested functions.
    pub(super) fn functions(&self) -> Vec<Function> {
        let mut functions = Vec::new();
        for (line, name) in self.declared(&["fn"]) {
            if let Some(range) = self.block_from(line) {
                let is_code = |line: &&String| !line.trim().is_empty();
                let size = self.code[range].iter().filter(is_code).count();
                functions.push(Function { name, line, size });
            }
        }
        functions
    }

    /// Returns the line index and name of every declaration with one of these keywords.
    pub(super) fn declared(&self, keywords: &[&str]) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        for (index, line) in self.code.iter().enumerate() {
            let words: Vec<&str> = line.split(|c: char| !is_word(c)).collect();
            for pair in words.windows(2) {
                let is_name = pair[1].starts_with(|c: char| c.is_alphabetic() || c == '_');
                if keywords.contains(&pair[0]) && is_name && !keywords.contains(&pair[1]) {
                    found.push((index, pair[1].to_string()));
                }
            }
        }
        found
    }

    /// Whether this comment marker is on the line or in the `reach` lines above it.
    pub(super) fn has_comment_above(&self, line: usize, mark: &str, reach: usize) -> bool {
        let from = line.saturating_sub(reach);
        self.comments[from..=line].iter().any(|comment| comment.contains(mark))
    }

    /// Returns the lines of each inline `#[cfg(test)] mod … { … }`.
    fn test_modules(&self) -> Vec<Range<usize>> {
        let is_cfg = |line: &String| line.trim().starts_with("#[cfg(") && line.contains("test");
        let starts = self.code.iter().enumerate().filter(|(_, line)| is_cfg(line));
        starts
            .filter_map(|(index, _)| {
                let next = (index + 1..self.code.len()).find(|&next| {
                    let line = self.code[next].trim();
                    !line.is_empty() && !line.starts_with("#[")
                })?;
                let is_module = self.code[next].contains("mod ") && self.code[next].contains('{');
                let block = is_module.then(|| self.block_from(next)).flatten()?;
                Some(index..block.end)
            })
            .collect()
    }

    /// Returns the lines from `line` to the end of the first block of braces that begins on or
    /// after it. Returns `None` if a semicolon outside of brackets comes first.
    pub(super) fn block_from(&self, line: usize) -> Option<Range<usize>> {
        let (mut braces, mut others) = (0usize, 0usize);
        for index in line..self.code.len() {
            for c in self.code[index].chars() {
                match c {
                    '(' | '[' => others += 1,
                    ')' | ']' => others = others.saturating_sub(1),
                    ';' if braces == 0 && others == 0 => return None,
                    '{' => braces += 1,
                    '}' if braces == 1 => return Some(line..index + 1),
                    '}' => braces = braces.saturating_sub(1),
                    _ => {}
                }
            }
        }
        None
    }
}

pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether the line contains `word` as a whole word.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    line.split(|c: char| !is_word(c)).any(|other| other == word)
}

/// Returns the text without comments and the contents of strings, the text with only the comments,
/// and the string literals with their lines.
fn split(text: &str) -> (String, String, Vec<(usize, String)>) {
    let (mut code, mut comments, mut strings) = (String::new(), String::new(), Vec::new());
    let (mut rest, mut line) = (text, 0);
    let mut before = ' ';
    while let Some(first) = rest.chars().next() {
        let (size, kind) = piece(rest, before);
        let (taken, after) = rest.split_at(size);
        match kind {
            Kind::Code => push(&mut code, &mut comments, taken),
            Kind::Comment => push(&mut comments, &mut code, taken),
            Kind::Text => {
                let blank: String = taken.chars().map(blank).collect();
                code.push_str(&blank);
                comments.push_str(&blank);
                if !taken.starts_with('\'') {
                    strings.push((line, taken.to_string()));
                }
            }
        }
        line += taken.matches('\n').count();
        before = taken.chars().next_back().unwrap_or(first);
        rest = after;
    }
    (code, comments, strings)
}

enum Kind {
    Code,
    Comment,
    Text,
}

fn push(into: &mut String, other: &mut String, taken: &str) {
    into.push_str(taken);
    other.extend(taken.chars().map(blank));
}

fn blank(c: char) -> char {
    if c == '\n' { '\n' } else { ' ' }
}

/// Returns the length and kind of the token at the start of `rest`. `before` is the character
/// before it.
fn piece(rest: &str, before: char) -> (usize, Kind) {
    if rest.starts_with("//") {
        return (rest.find('\n').unwrap_or(rest.len()), Kind::Comment);
    }
    if rest.starts_with("/*") {
        return (rest.find("*/").map_or(rest.len(), |at| at + 2), Kind::Comment);
    }
    if rest.starts_with('"') {
        return (quoted(rest, '"'), Kind::Text);
    }
    if !is_word(before)
        && let Some(size) = raw_string(rest)
    {
        return (size, Kind::Text);
    }
    if rest.starts_with('\'') && is_character(rest) {
        return (quoted(rest, '\''), Kind::Text);
    }
    (code_run(rest), Kind::Code)
}

/// Returns the length of the word or the white space at the start of `rest`, or the length of one
/// character if it starts with neither.
fn code_run(rest: &str) -> usize {
    let run_of = |is_part: fn(char) -> bool| rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    let first = rest.chars().next().map_or(1, char::len_utf8);
    run_of(is_word).max(run_of(char::is_whitespace)).max(first)
}

/// Whether a quote at the start of `rest` begins a character literal. A lifetime has no closing
/// quote after one character.
fn is_character(rest: &str) -> bool {
    let mut inside = rest.chars().skip(1);
    match inside.next() {
        Some('\\') => true,
        Some(_) => inside.next() == Some('\''),
        None => false,
    }
}

/// Returns the length of a quoted text, in which a backslash escapes a quote.
fn quoted(rest: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

/// Returns the length of the raw string at the start of `rest`: `r"…"`, `r#"…"#` or `br"…"`.
fn raw_string(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r'))?;
    let hashes: String = after.chars().take_while(|&c| c == '#').collect();
    let opened = after[hashes.len()..].strip_prefix('"')?;
    let start = rest.len() - opened.len();
    let end = format!("\"{hashes}");
    Some(opened.find(&end).map_or(rest.len(), |at| start + at + end.len()))
}

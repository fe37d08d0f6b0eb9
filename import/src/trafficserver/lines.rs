//! The format of files that end in `.config`: a rule on each line, in words.

use std::rc::Rc;

use super::source::SourceLine;
use crate::ImportError;

/// A line that is not empty and no comment.
#[derive(Clone, Debug)]
pub(super) struct ConfigLine {
    pub(super) at: SourceLine,
    pub(super) words: Vec<String>,
}

impl ConfigLine {
    pub(super) fn word(&self, index: usize) -> &str {
        self.words.get(index).map_or("", String::as_str)
    }

    /// The words as names and values; a word without `=` has an empty value.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.words.iter().map(|word| word.split_once('=').unwrap_or((word, "")))
    }

    /// The value of the first pair with this name.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.pairs().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// Splits a file into lines. A backslash at the end of a line joins it with the next.
///
/// # Errors
/// A quote is not closed, or a line has control characters.
pub(super) fn config_lines(text: &str, file: &Rc<str>) -> Result<Vec<ConfigLine>, ImportError> {
    let mut found = Vec::new();
    let mut lines = (1_u32..).zip(text.lines());
    while let Some((line, text)) = lines.next() {
        let mut text = text.trim().to_owned();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        while text.ends_with('\\') {
            text.pop();
            text.push(' ');
            match lines.next() {
                Some((_, next)) => text.push_str(next.trim()),
                None => break,
            }
        }
        let at = SourceLine { file: Rc::clone(file), line };
        let words = words(&text, &at)?;
        if !words.is_empty() {
            found.push(ConfigLine { at, words });
        }
    }
    Ok(found)
}

/// Splits a line at white space that is not within double quotes, and drops the quotes.
fn words(text: &str, at: &SourceLine) -> Result<Vec<String>, ImportError> {
    let (mut words, mut word, mut is_word) = (Vec::new(), String::new(), false);
    let mut open = None;
    for (offset, c) in text.char_indices() {
        let column = u32::try_from(offset + 1).unwrap_or(u32::MAX);
        match c {
            '"' => {
                open = if open.is_some() { None } else { Some(column) };
                is_word = true;
            }
            c if c.is_whitespace() && open.is_none() => {
                if is_word {
                    words.push(std::mem::take(&mut word));
                }
                is_word = false;
            }
            c if c.is_control() && c != '\t' => {
                return Err(at.error(column, "a control character"));
            }
            c => {
                word.push(c);
                is_word = true;
            }
        }
    }
    if let Some(column) = open {
        return Err(at.error(column, "the quote is not closed"));
    }
    if is_word {
        words.push(word);
    }
    Ok(words)
}

//! Splits a line into words, by the rules of the language:
//!
//! - White space separates words. So does `=`: it is a word of its own if white space precedes it,
//!   and is dropped if it ends a word. A `+` at the beginning of a word is a word of its own.
//! - `"…"` is a word. A backslash makes the next character literal, in quotes too.
//! - `/…/` at the beginning of a word is a word; it ends at a slash that no backslash precedes, and
//!   nothing else in it is special.
//! - `{…}` and `(…)` are words; only backslashes are special in them, and a quote in `{…}` is an
//!   error.
//! - A line whose first character other than white space is `#` is a comment. Elsewhere `#` is not
//!   special.
//!
//! The column of each byte of a word is kept, so that findings can point at the source.

use std::ops::Range;

use crate::diagnostic::{Diagnostic, RuleSpan};

/// A word with the column of each of its bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct SourceWord {
    text: String,
    /// Column of each byte of `text`.
    columns: Vec<u32>,
    /// The whole word in the source, including its quotes.
    pub(crate) at: RuleSpan,
    /// Whether the word was in quotes or contains an escaped character.
    pub(crate) quoted: bool,
    /// Whether no white space separates the word from the previous word of its line.
    pub(crate) glued: bool,
}

impl SourceWord {
    /// The text, without quotes and backslashes.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the word looks like the beginning of a comment. The language has no comments after
    /// words.
    pub(crate) fn is_comment(&self) -> bool {
        self.text.starts_with('#') && !self.quoted
    }

    /// Returns the span of a part of the text.
    pub(crate) fn at_part(&self, part: Range<usize>) -> RuleSpan {
        let Some(columns) = self.columns.get(part) else {
            return self.at;
        };
        match (columns.first(), columns.last()) {
            (Some(first), Some(last)) => {
                RuleSpan { line: self.at.line, column: *first, len: last - first + 1 }
            }
            _ => self.at,
        }
    }

    /// Returns a part as a word. `part` must lie within the text and on character boundaries.
    pub(crate) fn part(&self, part: Range<usize>) -> SourceWord {
        let text = self.text.get(part.clone()).unwrap_or_default().to_owned();
        let columns = self.columns.get(part.clone()).unwrap_or_default().to_vec();
        SourceWord { text, columns, at: self.at_part(part), quoted: self.quoted, glued: false }
    }

    /// Appends another word, with `between` in the middle.
    pub(crate) fn join(&mut self, between: &str, other: &SourceWord) {
        for character in between.chars() {
            self.push(character, other.at.column.saturating_sub(1).max(1));
        }
        self.text.push_str(&other.text);
        self.columns.extend_from_slice(&other.columns);
        self.quoted |= other.quoted;
        self.at.len = (other.at.column + other.at.len).saturating_sub(self.at.column).max(1);
    }

    fn push(&mut self, character: char, column: u32) {
        self.text.push(character);
        let len = character.len_utf8() as u32;
        self.columns.extend(column..column + len);
    }
}

/// The kind of the current word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LexState {
    Word,
    Quotes,
    Regex,
    Braces,
    Parens,
}

struct Lexer {
    line: u32,
    words: Vec<SourceWord>,
    /// The current word.
    word: Option<(SourceWord, LexState)>,
    /// The previous character; a space before the first character of the line.
    before: char,
}

/// Returns the words of a line; none for an empty line or a comment.
pub(crate) fn lex(line: u32, text: &str) -> Result<Vec<SourceWord>, Diagnostic> {
    if text.trim_start().starts_with('#') {
        return Ok(Vec::new());
    }
    let mut lexer = Lexer { line, words: Vec::new(), word: None, before: ' ' };
    let mut characters = text.char_indices();
    while let Some((place, character)) = characters.next() {
        let column = place as u32 + 1;
        let escaped = character == '\\' && !lexer.is_inside(LexState::Regex);
        if !escaped {
            lexer.take(character, column)?;
            lexer.before = character;
            continue;
        }
        lexer.begin(LexState::Word, column).quoted = true;
        if let Some((_, taken)) = characters.next() {
            lexer.begin(LexState::Word, column).push(taken, column + 1);
            lexer.before = taken;
        }
    }
    lexer.finish()
}

impl Lexer {
    fn is_inside(&self, inside: LexState) -> bool {
        matches!(self.word, Some((_, now)) if now == inside)
    }

    /// Returns the current word, or begins one.
    fn begin(&mut self, inside: LexState, column: u32) -> &mut SourceWord {
        let glued = !self.words.is_empty() && !self.before.is_ascii_whitespace();
        let at = RuleSpan { line: self.line, column, len: 1 };
        let (word, _) = self
            .word
            .get_or_insert_with(|| (SourceWord { at, glued, ..SourceWord::default() }, inside));
        word
    }

    fn push(&mut self, inside: LexState, character: char, column: u32) {
        self.begin(inside, column).push(character, column);
    }

    fn end(&mut self, column_after: u32) {
        if let Some((mut word, _)) = self.word.take() {
            word.at.len = column_after.saturating_sub(word.at.column).max(1);
            self.words.push(word);
        }
    }

    fn take(&mut self, character: char, column: u32) -> Result<(), Diagnostic> {
        let inside = self.word.as_ref().map(|(_, inside)| *inside);
        match inside {
            None => self.take_outside(character, column),
            Some(LexState::Word) => return self.take_in_word(character, column),
            Some(LexState::Quotes) if character == '"' => self.end(column + 1),
            Some(LexState::Braces) if character == '"' => {
                return Err(stray_quote(self.line, column));
            }
            Some(now) => {
                let closes = match now {
                    LexState::Regex => character == '/' && self.before != '\\',
                    LexState::Braces => character == '}',
                    LexState::Parens => character == ')',
                    LexState::Word | LexState::Quotes => false,
                };
                self.push(now, character, column);
                if closes {
                    self.end(column + 1);
                }
            }
        }
        Ok(())
    }

    fn take_outside(&mut self, character: char, column: u32) {
        match character {
            _ if character.is_ascii_whitespace() => {}
            '=' | '+' => {
                self.push(LexState::Word, character, column);
                self.end(column + 1);
            }
            '"' => self.begin(LexState::Quotes, column).quoted = true,
            '/' => self.push(LexState::Regex, character, column),
            '{' if self.before != '%' => self.push(LexState::Braces, character, column),
            '(' => self.push(LexState::Parens, character, column),
            _ => self.push(LexState::Word, character, column),
        }
    }

    fn take_in_word(&mut self, character: char, column: u32) -> Result<(), Diagnostic> {
        match character {
            _ if character.is_ascii_whitespace() || character == '=' => self.end(column),
            '"' => return Err(stray_quote(self.line, column)),
            // This is refused, because Apache Traffic Server drops the part of the word before the
            // bracket.
            '(' | '{' if character == '(' || self.before != '%' => {
                let at = RuleSpan { line: self.line, column, len: 1 };
                let message = format!("`{character}` in the middle of a word");
                return Err(Diagnostic::error(at, message).hint("put the word in quotes"));
            }
            _ => self.push(LexState::Word, character, column),
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<SourceWord>, Diagnostic> {
        let Some((word, inside)) = self.word.take() else {
            return Ok(self.words);
        };
        let at = RuleSpan { len: 1, ..word.at };
        let message = match inside {
            LexState::Quotes => {
                let problem = Diagnostic::error(at, "the quote that begins here has no end");
                return Err(problem.hint("add a \" at the end; write a quote in a text as \\\""));
            }
            LexState::Braces => "this `{` has no `}`",
            LexState::Parens => "this `(` has no `)`",
            LexState::Word | LexState::Regex => {
                let after = word.columns.last().map_or(word.at.column + 1, |last| last + 1);
                self.word = Some((word, inside));
                self.end(after);
                return Ok(self.words);
            }
        };
        Err(Diagnostic::error(at, message))
    }
}

fn stray_quote(line: u32, column: u32) -> Diagnostic {
    let at = RuleSpan { line, column, len: 1 };
    Diagnostic::error(at, "a quote cannot stand in the middle of a word")
        .hint("put the whole word in quotes, or write \\\" for a quote in it")
}

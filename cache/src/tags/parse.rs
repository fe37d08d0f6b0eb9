//! The parser of expressions over tags. It does not recurse, since users may nest to any depth.

use std::fmt;
use std::str::FromStr;

use super::expr::{ExprPart, TagExpr, push};
use super::record::check;
use super::{TERMS_MAX, TagsError};

/// A syntax error in an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagExprError {
    /// The byte offset in the text at which the error is.
    pub at: usize,
    /// The description of the error.
    pub what: &'static str,
}

/// A token of the text form.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ExprToken {
    Tag(Vec<u8>),
    Not,
    And,
    Or,
    Open,
    Close,
}

/// An operator or an opening parenthesis whose right operand is not parsed yet. The values are in
/// the order of their binding strength, the weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PendingToken {
    Open,
    Or,
    And,
    Not,
}

#[derive(Default)]
struct ExprParser {
    bytes: Vec<u8>,
    waiting: Vec<(PendingToken, usize)>,
    terms: usize,
    /// Whether the previous token ends an operand: it is a tag or a closing parenthesis.
    is_behind_operand: bool,
}

impl FromStr for TagExpr {
    type Err = TagExprError;

    fn from_str(text: &str) -> Result<TagExpr, TagExprError> {
        let mut reading = ExprParser::default();
        let mut at = 0;
        while let Some((start, token, end)) = next_token(text, at)? {
            reading.take(token, start)?;
            at = end;
        }
        reading.end(text.len())
    }
}

impl ExprParser {
    fn take(&mut self, token: ExprToken, at: usize) -> Result<(), TagExprError> {
        match token {
            ExprToken::Tag(tag) => self.tag(&tag, at),
            ExprToken::Not | ExprToken::Open if self.is_behind_operand => Err(missing_operator(at)),
            ExprToken::Not => self.wait(PendingToken::Not, at),
            ExprToken::Open => self.wait(PendingToken::Open, at),
            ExprToken::And | ExprToken::Or | ExprToken::Close if !self.is_behind_operand => {
                Err(TagExprError {
                    at,
                    what: "there is no tag before this operator or parenthesis",
                })
            }
            ExprToken::And => self.join(PendingToken::And, at),
            ExprToken::Or => self.join(PendingToken::Or, at),
            ExprToken::Close => self.close(at),
        }
    }

    fn tag(&mut self, tag: &[u8], at: usize) -> Result<(), TagExprError> {
        if self.is_behind_operand {
            return Err(missing_operator(at));
        }
        check(tag).map_err(|error| TagExprError {
            at,
            what: match error {
                TagsError::TooLong { .. } => "a tag can have at most 250 bytes",
                _ => "a tag must not be empty or contain a NUL byte",
            },
        })?;
        self.terms += 1;
        if self.terms > TERMS_MAX {
            return Err(TagExprError { at, what: "an expression can have at most 64 tags" });
        }
        push(&mut self.bytes, ExprPart::Tag(tag));
        self.is_behind_operand = true;
        Ok(())
    }

    fn wait(&mut self, what: PendingToken, at: usize) -> Result<(), TagExprError> {
        // This limit is far above any useful expression.
        if self.waiting.len() >= 4 * TERMS_MAX {
            return Err(TagExprError { at, what: "the expression is nested too deeply" });
        }
        self.waiting.push((what, at));
        self.is_behind_operand = false;
        Ok(())
    }

    fn join(&mut self, what: PendingToken, at: usize) -> Result<(), TagExprError> {
        self.give_out(what);
        self.wait(what, at)
    }

    fn close(&mut self, at: usize) -> Result<(), TagExprError> {
        self.give_out(PendingToken::Or);
        match self.waiting.pop() {
            Some((PendingToken::Open, _)) => Ok(()),
            _ => Err(TagExprError { at, what: "this closing parenthesis has no opening one" }),
        }
    }

    /// Emits the pending operators that bind at least as strongly as `binding`.
    fn give_out(&mut self, binding: PendingToken) {
        while let Some((waiting, _)) = self.waiting.pop_if(|(waiting, _)| *waiting >= binding) {
            push(
                &mut self.bytes,
                match waiting {
                    PendingToken::Not => ExprPart::Not,
                    PendingToken::And => ExprPart::And,
                    PendingToken::Or | PendingToken::Open => ExprPart::Or,
                },
            );
        }
    }

    fn end(mut self, at: usize) -> Result<TagExpr, TagExprError> {
        if !self.is_behind_operand {
            return Err(TagExprError { at, what: "there is no tag at the end of the expression" });
        }
        self.give_out(PendingToken::Or);
        match self.waiting.pop() {
            Some((_, at)) => Err(TagExprError { at, what: "this parenthesis is not closed" }),
            None => Ok(TagExpr::of_bytes(self.bytes)),
        }
    }
}

fn missing_operator(at: usize) -> TagExprError {
    TagExprError { at, what: "`and` or `or` is missing before this operand" }
}

/// Returns the first token at or after an offset, with the offsets of its start and its end.
fn next_token(text: &str, from: usize) -> Result<Option<(usize, ExprToken, usize)>, TagExprError> {
    let bytes = text.as_bytes();
    let blank = bytes.iter().skip(from).take_while(|byte| byte.is_ascii_whitespace()).count();
    let at = from + blank;
    let token = match bytes.get(at) {
        None => return Ok(None),
        Some(b'(') => (at, ExprToken::Open, at + 1),
        Some(b')') => (at, ExprToken::Close, at + 1),
        Some(b'"') => {
            let (tag, end) = quoted(bytes, at)?;
            (at, ExprToken::Tag(tag), end)
        }
        Some(_) => word(bytes, at)?,
    };
    Ok(Some(token))
}

fn word(bytes: &[u8], at: usize) -> Result<(usize, ExprToken, usize), TagExprError> {
    let ends = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'(' | b')' | b'"');
    let rest = bytes.get(at..).unwrap_or_default();
    let length = rest.iter().position(ends).unwrap_or(rest.len());
    let word = rest.get(..length).unwrap_or_default();
    if let Some(comma) = word.iter().position(|byte| *byte == b',') {
        let what = "write `or` or `and` between tags, and a tag with a comma in double quotes";
        return Err(TagExprError { at: at + comma, what });
    }
    let token = match word.to_ascii_lowercase().as_slice() {
        b"and" => ExprToken::And,
        b"or" => ExprToken::Or,
        b"not" => ExprToken::Not,
        _ => ExprToken::Tag(word.to_vec()),
    };
    Ok((at, token, at + length))
}

fn quoted(bytes: &[u8], at: usize) -> Result<(Vec<u8>, usize), TagExprError> {
    let mut tag = Vec::new();
    let mut rest = bytes.iter().enumerate().skip(at + 1);
    while let Some((place, byte)) = rest.next() {
        match byte {
            b'"' => return Ok((tag, place + 1)),
            b'\\' => match rest.next() {
                Some((_, escaped @ (b'"' | b'\\'))) => tag.push(*escaped),
                _ => {
                    let what = "a backslash must precede a quote or a backslash";
                    return Err(TagExprError { at: place, what });
                }
            },
            _ => tag.push(*byte),
        }
    }
    Err(TagExprError { at, what: "this quote is not closed" })
}

impl fmt::Display for TagExprError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "at byte {}: {}", self.at, self.what)
    }
}

impl std::error::Error for TagExprError {}

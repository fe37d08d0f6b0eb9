//! The tokens of VCL.

use std::rc::Rc;

use crate::ImportError;

/// Symbols, the longer ones first.
const SYMBOLS: &[&str] = &[
    "==", "!=", "!~", "&&", "||", "<=", ">=", "+=", "-=", "*=", "/=", "++", "--", "{", "}", "(",
    ")", ";", ",", "=", "~", "!", "<", ">", "+", "-", "*", "/", "%",
];

/// A position in a file.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct VclPlace {
    pub(super) file: Rc<str>,
    pub(super) line: u32,
    pub(super) column: u32,
}

impl VclPlace {
    pub(super) fn error(&self, message: impl Into<String>) -> ImportError {
        let file = self.file.to_string();
        ImportError { file, line: self.line, column: self.column, message: message.into() }
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum TokenKind {
    /// A name with its dots and hyphens, such as `req.http.X-Own`.
    Word(String),
    /// A number with its unit, such as `10s`.
    Number(String),
    Text(String),
    Symbol(&'static str),
    /// Inline C.
    Foreign,
}

#[derive(Clone, Debug)]
pub(super) struct VclToken {
    pub(super) kind: TokenKind,
    pub(super) place: VclPlace,
}

struct VclLexer<'t> {
    text: &'t str,
    at: usize,
    line: u32,
    line_start: usize,
    file: Rc<str>,
}

/// The tokens of a file.
pub(super) fn tokens(text: &str, file: &str) -> Result<Vec<VclToken>, ImportError> {
    let mut lexer = VclLexer { text, at: 0, line: 1, line_start: 0, file: Rc::from(file) };
    let mut all = Vec::new();
    loop {
        lexer.skip()?;
        if lexer.rest().is_empty() {
            return Ok(all);
        }
        let place = lexer.place();
        all.push(VclToken { kind: lexer.next(&place)?, place });
    }
}

impl<'t> VclLexer<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn place(&self) -> VclPlace {
        let column = u32::try_from(self.at - self.line_start + 1).unwrap_or(u32::MAX);
        VclPlace { file: self.file.clone(), line: self.line, column }
    }

    fn advance(&mut self, count: usize) {
        let passed = &self.rest()[..count];
        self.line += u32::try_from(passed.matches('\n').count()).unwrap_or(0);
        if let Some(at) = passed.rfind('\n') {
            self.line_start = self.at + at + 1;
        }
        self.at += count;
    }

    /// Skips spaces and comments.
    fn skip(&mut self) -> Result<(), ImportError> {
        loop {
            let rest = self.rest();
            let spaces = rest.len() - rest.trim_start().len();
            self.advance(spaces);
            let rest = self.rest();
            if rest.starts_with('#') || rest.starts_with("//") {
                self.advance(rest.find('\n').unwrap_or(rest.len()));
            } else if rest.starts_with("/*") {
                let Some(end) = rest.find("*/") else {
                    return Err(self.place().error("this comment is not closed"));
                };
                self.advance(end + 2);
            } else if spaces == 0 {
                return Ok(());
            }
        }
    }

    fn next(&mut self, place: &VclPlace) -> Result<TokenKind, ImportError> {
        let rest = self.rest();
        for (open, close) in [("{\"", "\"}"), ("\"\"\"", "\"\"\"")] {
            if let Some(inner) = rest.strip_prefix(open) {
                return self.enclosed(inner, open, close, place).map(TokenKind::Text);
            }
        }
        if let Some(inner) = rest.strip_prefix("C{") {
            self.enclosed(inner, "C{", "}C", place)?;
            return Ok(TokenKind::Foreign);
        }
        if let Some(inner) = rest.strip_prefix('"') {
            let line = inner.lines().next().unwrap_or("");
            if !line.contains('"') {
                return Err(place.error("this quote is not closed on its line"));
            }
            return self.enclosed(inner, "\"", "\"", place).map(TokenKind::Text);
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        let first = rest.chars().next().unwrap_or(' ');
        if first.is_ascii_digit() {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.');
            return Ok(TokenKind::Number(self.word(end)));
        }
        if first.is_ascii_alphabetic() || first == '_' || first == '.' {
            return Ok(TokenKind::Word(self.word(rest.find(|c| !is_name(c)))));
        }
        let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) else {
            return Err(place.error(format!("unexpected {first:?}")));
        };
        self.advance(symbol.len());
        Ok(TokenKind::Symbol(symbol))
    }

    fn word(&mut self, end: Option<usize>) -> String {
        let rest = self.rest();
        let word = &rest[..end.unwrap_or(rest.len())];
        self.advance(word.len());
        word.to_owned()
    }

    fn enclosed(
        &mut self,
        inner: &str,
        open: &str,
        close: &str,
        place: &VclPlace,
    ) -> Result<String, ImportError> {
        let Some(end) = inner.find(close) else {
            return Err(place.error(format!("{open} has no {close}")));
        };
        self.advance(open.len() + end + close.len());
        Ok(inner[..end].to_owned())
    }
}

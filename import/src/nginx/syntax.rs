//! The syntax of nginx: words, quotes, comments and blocks.

use std::rc::Rc;

use crate::ImportError;

/// Deepest nesting of blocks and includes.
pub(super) const DEPTH_MAX: usize = 32;

/// Blocks with these endings hold Lua, not directives.
const FOREIGN: &str = "_by_lua_block";

/// A directive with its arguments, and its block if it has one.
#[derive(Clone, Debug)]
pub(super) struct NginxDirective {
    pub(super) name: String,
    pub(super) args: Vec<String>,
    pub(super) block: Option<Vec<NginxDirective>>,
    pub(super) file: Rc<str>,
    pub(super) line: u32,
}

impl NginxDirective {
    /// An argument, or nothing.
    pub(super) fn arg(&self, index: usize) -> &str {
        self.args.get(index).map_or("", String::as_str)
    }

    /// The directives of the block.
    pub(super) fn inner(&self) -> &[NginxDirective] {
        self.block.as_deref().unwrap_or_default()
    }
}

enum Token {
    Word(String),
    End,
    Open,
    Close,
}

struct SyntaxReader<'t> {
    text: &'t [u8],
    at: usize,
    line: u32,
    line_start: usize,
    file: Rc<str>,
}

/// Reads the text of a file.
pub(super) fn parse(text: &str, file: &str) -> Result<Vec<NginxDirective>, ImportError> {
    let file: Rc<str> = Rc::from(file);
    let mut reader = SyntaxReader { text: text.as_bytes(), at: 0, line: 1, line_start: 0, file };
    let mut open: Vec<(NginxDirective, Vec<NginxDirective>)> = Vec::new();
    let mut here = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut line = 1;
    loop {
        let token = reader.next()?;
        match token {
            Some(Token::Word(word)) => {
                if words.is_empty() {
                    line = reader.line;
                }
                words.push(word);
            }
            Some(Token::End) if words.is_empty() => return Err(reader.error("unexpected \";\"")),
            Some(Token::End) => here.push(reader.directive(&mut words, line, None)),
            Some(Token::Open) if words.is_empty() => return Err(reader.error("unexpected \"{\"")),
            Some(Token::Open) if words[0].ends_with(FOREIGN) => {
                reader.skip_foreign()?;
                here.push(reader.directive(&mut words, line, Some(Vec::new())));
            }
            Some(Token::Open) if open.len() >= DEPTH_MAX => {
                return Err(reader.error("blocks are nested too deeply"));
            }
            Some(Token::Open) => {
                let parent = reader.directive(&mut words, line, None);
                open.push((parent, std::mem::take(&mut here)));
            }
            Some(Token::Close) if !words.is_empty() => {
                return Err(reader.error("unexpected \"}\": the directive before it has no \";\""));
            }
            Some(Token::Close) => {
                let Some((mut directive, outer)) = open.pop() else {
                    return Err(reader.error("unexpected \"}\": no block is open"));
                };
                directive.block = Some(std::mem::replace(&mut here, outer));
                here.push(directive);
            }
            None if !words.is_empty() => {
                return Err(reader.error(&format!("\"{}\" has no \";\"", words[0])));
            }
            None => break,
        }
    }
    match open.pop() {
        None => Ok(here),
        Some((directive, _)) => {
            let (name, line) = (&directive.name, directive.line);
            Err(reader.error(&format!("the block \"{name}\" of line {line} has no \"}}\"")))
        }
    }
}

impl SyntaxReader<'_> {
    fn error(&self, message: &str) -> ImportError {
        let column = self.at.saturating_sub(self.line_start).max(1);
        ImportError {
            file: self.file.to_string(),
            line: self.line,
            column: u32::try_from(column).unwrap_or(u32::MAX),
            message: message.to_owned(),
        }
    }

    fn directive(
        &self,
        words: &mut Vec<String>,
        line: u32,
        block: Option<Vec<NginxDirective>>,
    ) -> NginxDirective {
        let mut words = std::mem::take(words).into_iter();
        let name = words.next().unwrap_or_default();
        NginxDirective { name, args: words.collect(), block, file: self.file.clone(), line }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn bump(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        if byte == b'\n' {
            self.line += 1;
            self.line_start = self.at;
        }
        Some(byte)
    }

    fn next(&mut self) -> Result<Option<Token>, ImportError> {
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => {
                    self.bump();
                }
                b'#' => {
                    while self.peek().is_some_and(|byte| byte != b'\n') {
                        self.bump();
                    }
                }
                _ => break,
            }
        }
        let Some(byte) = self.peek() else { return Ok(None) };
        let single = match byte {
            b';' => Some(Token::End),
            b'{' => Some(Token::Open),
            b'}' => Some(Token::Close),
            _ => None,
        };
        if single.is_some() {
            self.bump();
            return Ok(single);
        }
        match byte {
            b'"' | b'\'' => self.quoted(byte).map(Some),
            _ => self.bare().map(Some),
        }
    }

    fn quoted(&mut self, quote: u8) -> Result<Token, ImportError> {
        self.bump();
        let opened = self.error("this quote is not closed");
        let mut word = Vec::new();
        loop {
            let Some(byte) = self.bump() else { return Err(opened) };
            match byte {
                _ if byte == quote => break,
                b'\\' => self.escape(&mut word),
                _ => word.push(byte),
            }
        }
        match self.peek() {
            None | Some(b' ' | b'\t' | b'\r' | b'\n' | b';' | b'{' | b')') => {}
            Some(_) => {
                self.bump();
                return Err(self.error("a space or \";\" must follow the quote"));
            }
        }
        Ok(Token::Word(String::from_utf8_lossy(&word).into_owned()))
    }

    fn bare(&mut self) -> Result<Token, ImportError> {
        let mut word = Vec::new();
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' | b';' => break,
                // `${name}` is a variable, not a block.
                b'{' if word.last() == Some(&b'$') => {
                    while let Some(byte) = self.bump() {
                        word.push(byte);
                        if byte == b'}' {
                            break;
                        }
                        if byte.is_ascii_whitespace() {
                            return Err(self.error("\"${\" has no \"}\""));
                        }
                    }
                }
                b'{' => break,
                b'\\' => {
                    self.bump();
                    self.escape(&mut word);
                }
                _ => {
                    self.bump();
                    word.push(byte);
                }
            }
        }
        Ok(Token::Word(String::from_utf8_lossy(&word).into_owned()))
    }

    /// nginx decodes these escapes; before any other byte the backslash stays, as regular
    /// expressions need it.
    fn escape(&mut self, word: &mut Vec<u8>) {
        match self.bump() {
            Some(byte @ (b'"' | b'\'' | b'\\')) => word.push(byte),
            Some(b't') => word.push(b'\t'),
            Some(b'r') => word.push(b'\r'),
            Some(b'n') => word.push(b'\n'),
            Some(byte) => word.extend([b'\\', byte]),
            None => word.push(b'\\'),
        }
    }

    fn skip_foreign(&mut self) -> Result<(), ImportError> {
        let opened = self.error("this block has no \"}\"");
        let mut depth = 1;
        while depth > 0 {
            match self.bump() {
                Some(b'{') => depth += 1,
                Some(b'}') => depth -= 1,
                Some(_) => {}
                None => return Err(opened),
            }
        }
        Ok(())
    }
}

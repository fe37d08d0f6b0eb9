//! Tokens to a tree.

use std::path::PathBuf;

use super::lexer::{TokenKind, VclPlace, VclToken};
use super::syntax::{Acl, AclEntry, Expr, SectionField, Statement, StatementKind, Vcl, VclSection};
use crate::ImportError;

/// Deepest nesting of blocks, conditions and calls.
const DEPTH_MAX: usize = 48;

const COMPARISONS: &[&str] = &["==", "!=", "~", "!~", "<", ">", "<=", ">="];

/// A file that is included.
pub(super) struct Include {
    pub(super) place: VclPlace,
    pub(super) path: PathBuf,
    pub(super) is_pattern: bool,
}

pub(super) struct Parser<'t> {
    tokens: &'t [VclToken],
    at: usize,
    depth: usize,
    end: VclPlace,
}

type ParseResult<T> = Result<T, ImportError>;

impl<'t> Parser<'t> {
    pub(super) fn new(tokens: &'t [VclToken], end: VclPlace) -> Parser<'t> {
        Parser { tokens, at: 0, depth: 0, end }
    }

    fn place(&self) -> VclPlace {
        self.tokens.get(self.at).map_or_else(|| self.end.clone(), |token| token.place.clone())
    }

    fn peek(&self) -> Option<&'t TokenKind> {
        self.tokens.get(self.at).map(|token| &token.kind)
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self.peek(), Some(TokenKind::Symbol(found)) if *found == symbol)
    }

    fn take(&mut self, symbol: &str) -> bool {
        let found = self.is_symbol(symbol);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &str) -> ParseResult<()> {
        if self.take(symbol) {
            return Ok(());
        }
        Err(self.place().error(format!("expected \"{symbol}\", found {}", self.shown())))
    }

    fn shown(&self) -> String {
        match self.peek() {
            None => "the end of the file".to_owned(),
            Some(TokenKind::Word(word) | TokenKind::Number(word)) => format!("\"{word}\""),
            Some(TokenKind::Text(_)) => "a text".to_owned(),
            Some(TokenKind::Symbol(symbol)) => format!("\"{symbol}\""),
            Some(TokenKind::Foreign) => "inline C".to_owned(),
        }
    }

    fn word(&mut self, meaning: &str) -> ParseResult<String> {
        let Some(TokenKind::Word(word)) = self.peek() else {
            return Err(self.place().error(format!("expected {meaning}, found {}", self.shown())));
        };
        self.at += 1;
        Ok(word.clone())
    }

    fn text(&mut self, meaning: &str) -> ParseResult<String> {
        let Some(TokenKind::Text(text)) = self.peek() else {
            return Err(self.place().error(format!("expected {meaning}, found {}", self.shown())));
        };
        self.at += 1;
        Ok(text.clone())
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> ParseResult<T>) -> ParseResult<T> {
        if self.depth >= DEPTH_MAX {
            return Err(self.place().error("blocks and parentheses are nested too deeply"));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Reads declarations up to the end or the next `include`, which it returns.
    pub(super) fn declarations(&mut self, vcl: &mut Vcl) -> ParseResult<Option<Include>> {
        while let Some(kind) = self.peek() {
            let place = self.place();
            if *kind == TokenKind::Foreign {
                self.at += 1;
                vcl.foreign.push(place);
                continue;
            }
            match self.word("a declaration")?.as_str() {
                "vcl" => {
                    if !matches!(self.peek(), Some(TokenKind::Number(version))
                        if matches!(version.as_str(), "4.0" | "4.1"))
                    {
                        let found = self.shown();
                        let hint = "this is VCL of another version; only 4.0 and 4.1 are read";
                        return Err(self.place().error(format!("{hint}, found {found}")));
                    }
                    self.at += 1;
                    self.expect(";")?;
                }
                "import" => {
                    vcl.imports.push((place, self.word("the name of a module")?));
                    if let Some(TokenKind::Word(from)) = self.peek()
                        && from == "from"
                    {
                        self.at += 1;
                        self.text("a file")?;
                    }
                    self.expect(";")?;
                }
                "include" => {
                    let is_pattern = self.take("+");
                    if let Some(TokenKind::Word(glob)) = self.peek()
                        && glob == "glob"
                    {
                        self.at += 1;
                    }
                    let path = PathBuf::from(self.text("a file")?);
                    self.expect(";")?;
                    return Ok(Some(Include { place, path, is_pattern }));
                }
                "backend" => vcl.backends.push(self.section(place)?),
                "probe" => vcl.probes.push(self.section(place)?),
                "acl" => vcl.acls.push(self.acl()?),
                "sub" => {
                    let name = self.word("the name of a sub")?;
                    let statements = self.block()?;
                    vcl.subs.entry(name).or_default().extend(statements);
                }
                other => {
                    return Err(place.error(format!(
                        "\"{other}\" is no declaration; expected vcl, import, include, backend, \
                         probe, acl or sub"
                    )));
                }
            }
        }
        Ok(None)
    }

    fn section(&mut self, place: VclPlace) -> ParseResult<VclSection> {
        let name = self.word("a name")?;
        if let Some(TokenKind::Word(none)) = self.peek()
            && none == "none"
        {
            self.at += 1;
            self.expect(";")?;
            return Ok(VclSection { place, name, fields: Vec::new() });
        }
        let fields = self.fields()?;
        Ok(VclSection { place, name, fields })
    }

    fn fields(&mut self) -> ParseResult<Vec<SectionField>> {
        self.expect("{")?;
        let mut fields = Vec::new();
        while !self.take("}") {
            let place = self.place();
            let word = self.word("a field such as .host, or \"}\"")?;
            let Some(name) = word.strip_prefix('.') else {
                return Err(place.error(format!("a field begins with a dot: .{word}")));
            };
            self.expect("=")?;
            let name = name.to_owned();
            if self.is_symbol("{") {
                let inner = self.deeper(Self::fields)?;
                self.take(";");
                fields.push(SectionField { place, name, value: String::new(), inner });
                continue;
            }
            let mut values = Vec::new();
            while !self.is_symbol(";") {
                match self.peek() {
                    Some(
                        TokenKind::Word(value) | TokenKind::Number(value) | TokenKind::Text(value),
                    ) => values.push(value.clone()),
                    Some(TokenKind::Symbol("+" | "-")) => {}
                    _ => return Err(self.place().error(format!("{word} has no \";\""))),
                }
                self.at += 1;
            }
            self.expect(";")?;
            fields.push(SectionField { place, name, value: values.join(" "), inner: Vec::new() });
        }
        Ok(fields)
    }

    fn acl(&mut self) -> ParseResult<Acl> {
        let name = self.word("the name of the acl")?;
        // Flags, such as `+log`.
        while self.is_symbol("+") || self.is_symbol("-") {
            self.at += 1;
            self.word("a flag")?;
        }
        self.expect("{")?;
        let mut entries = Vec::new();
        while !self.take("}") {
            let is_negated = self.take("!");
            let is_group = self.take("(");
            let is_negated = self.take("!") || is_negated;
            let address = self.text("an address, or \"}\"")?;
            let mut bits = None;
            if self.take("/") {
                let Some(TokenKind::Number(number)) = self.peek() else {
                    return Err(self.place().error("expected the length of the prefix"));
                };
                bits = Some(number.clone());
                self.at += 1;
            }
            if is_group {
                self.expect(")")?;
            }
            self.expect(";")?;
            entries.push(AclEntry { is_negated, address, bits });
        }
        Ok(Acl { name, entries })
    }

    fn block(&mut self) -> ParseResult<Vec<Statement>> {
        self.deeper(|parser| {
            parser.expect("{")?;
            let mut statements = Vec::new();
            while !parser.take("}") {
                if parser.take(";") {
                    continue;
                }
                let place = parser.place();
                if parser.is_symbol("{") {
                    statements.extend(parser.block()?);
                } else if parser.peek() == Some(&TokenKind::Foreign) {
                    parser.at += 1;
                    statements.push(Statement { place, kind: StatementKind::Foreign });
                } else {
                    let kind = parser.statement()?;
                    statements.push(Statement { place, kind });
                }
            }
            Ok(statements)
        })
    }

    fn statement(&mut self) -> ParseResult<StatementKind> {
        let word = self.word("a statement, or \"}\"")?;
        let kind = match word.as_str() {
            "if" => return self.condition(),
            "set" => self.set()?,
            "unset" | "remove" => StatementKind::Unset(self.word("a variable")?),
            "call" => StatementKind::Call(self.word("the name of a sub")?),
            "return" => self.returned()?,
            "new" => {
                let name = self.word("a name")?;
                self.expect("=")?;
                let class = self.word("a class")?;
                self.arguments()?;
                StatementKind::New(name, class)
            }
            "synthetic" if !self.is_symbol("(") => {
                let text = self.concat()?;
                StatementKind::Do(Expr::Call(word, vec![text]))
            }
            _ if self.is_symbol("(") => {
                let arguments = self.arguments()?;
                StatementKind::Do(Expr::Call(word, arguments))
            }
            _ => {
                self.at -= 1;
                return Err(self.place().error(format!(
                    "\"{word}\" is no statement; expected if, set, unset, call or return"
                )));
            }
        };
        self.expect(";")?;
        Ok(kind)
    }

    fn set(&mut self) -> ParseResult<StatementKind> {
        let name = self.word("a variable")?;
        for (symbol, is_sum) in [("=", false), ("+=", true), ("-=", false), ("*=", false)] {
            if self.take(symbol) {
                let mut value = self.any()?;
                if is_sum {
                    value = Expr::Concat(vec![Expr::Name(name.clone()), value]);
                } else if symbol != "=" {
                    value = Expr::Other;
                }
                return Ok(StatementKind::Set(name, value));
            }
        }
        Err(self.place().error(format!("expected \"=\" after {name}, found {}", self.shown())))
    }

    fn returned(&mut self) -> ParseResult<StatementKind> {
        if !self.take("(") {
            return Ok(StatementKind::Return(String::new(), Vec::new()));
        }
        let action = self.word("an action")?;
        let arguments = if self.is_symbol("(") { self.arguments()? } else { Vec::new() };
        self.expect(")")?;
        Ok(StatementKind::Return(action, arguments))
    }

    fn condition(&mut self) -> ParseResult<StatementKind> {
        let mut branches = Vec::new();
        loop {
            self.expect("(")?;
            let test = self.any()?;
            self.expect(")")?;
            branches.push((test, self.block()?));
            let next = match self.peek() {
                Some(TokenKind::Word(word)) => word.as_str(),
                _ => "",
            };
            match next {
                "elsif" | "elseif" | "elif" => self.at += 1,
                "else" => {
                    self.at += 1;
                    match self.peek() {
                        Some(TokenKind::Word(word)) if word == "if" => self.at += 1,
                        _ => return Ok(StatementKind::If(branches, self.block()?)),
                    }
                }
                _ => return Ok(StatementKind::If(branches, Vec::new())),
            }
        }
    }

    fn arguments(&mut self) -> ParseResult<Vec<Expr>> {
        self.expect("(")?;
        let mut all = Vec::new();
        while !self.take(")") {
            if !all.is_empty() {
                self.expect(",")?;
            }
            // A named argument, such as `warmup = 0.5`.
            if matches!(self.peek(), Some(TokenKind::Word(_)))
                && matches!(
                    self.tokens.get(self.at + 1).map(|token| &token.kind),
                    Some(TokenKind::Symbol("="))
                )
            {
                self.at += 2;
            }
            all.push(self.any()?);
        }
        Ok(all)
    }

    fn any(&mut self) -> ParseResult<Expr> {
        self.deeper(|parser| {
            let mut parts = vec![parser.all()?];
            while parser.take("||") {
                parts.push(parser.all()?);
            }
            Ok(single(parts, Expr::Any))
        })
    }

    fn all(&mut self) -> ParseResult<Expr> {
        let mut parts = vec![self.comparison()?];
        while self.take("&&") {
            parts.push(self.comparison()?);
        }
        Ok(single(parts, Expr::All))
    }

    fn comparison(&mut self) -> ParseResult<Expr> {
        if self.take("!") {
            let inner = self.deeper(Self::comparison)?;
            return Ok(Expr::Not(Box::new(inner)));
        }
        let left = self.concat()?;
        let Some(symbol) = COMPARISONS.iter().find(|symbol| self.is_symbol(symbol)) else {
            return Ok(left);
        };
        self.at += 1;
        let right = self.concat()?;
        Ok(Expr::Compare(Box::new(left), symbol, Box::new(right)))
    }

    /// Texts may follow one another with or without a `+`.
    fn concat(&mut self) -> ParseResult<Expr> {
        let mut parts = vec![self.primary()?];
        let mut is_arithmetic = false;
        loop {
            if self.take("+") {
                parts.push(self.primary()?);
            } else if self.take("-") || self.take("*") || self.take("/") || self.take("%") {
                is_arithmetic = true;
                self.primary()?;
            } else if matches!(self.peek(), Some(TokenKind::Text(_) | TokenKind::Word(_))) {
                parts.push(self.primary()?);
            } else {
                break;
            }
        }
        if is_arithmetic {
            return Ok(Expr::Other);
        }
        Ok(single(parts, Expr::Concat))
    }

    fn primary(&mut self) -> ParseResult<Expr> {
        let Some(kind) = self.peek() else {
            return Err(self.place().error("expected a value, found the end of the file"));
        };
        let kind = kind.clone();
        self.at += 1;
        match kind {
            TokenKind::Text(text) => Ok(Expr::Text(text)),
            TokenKind::Number(number) => Ok(Expr::Number(number)),
            TokenKind::Word(name) if self.is_symbol("(") => {
                let arguments = self.deeper(Self::arguments)?;
                Ok(Expr::Call(name, arguments))
            }
            TokenKind::Word(name) => Ok(Expr::Name(name)),
            TokenKind::Symbol("(") => {
                let inner = self.any()?;
                self.expect(")")?;
                Ok(inner)
            }
            TokenKind::Symbol("-") => {
                self.primary()?;
                Ok(Expr::Other)
            }
            TokenKind::Symbol(_) | TokenKind::Foreign => {
                self.at -= 1;
                Err(self.place().error(format!("expected a value, found {}", self.shown())))
            }
        }
    }
}

fn single(mut parts: Vec<Expr>, join: impl FnOnce(Vec<Expr>) -> Expr) -> Expr {
    match parts.len() {
        1 => parts.remove(0),
        _ => join(parts),
    }
}

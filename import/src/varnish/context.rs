//! The conditions under which a statement is reached, as alternatives of conditions of rules.

use super::eval::{Evaluator, RequestKind, Truth};
use super::lexer::VclPlace;
use super::outcome::{Cond, RequestState};
use super::regex;
use super::rulefile;
use super::source::VclSource;
use super::syntax::{Expr, field_of, seconds};

/// Alternatives, and conditions of one of them.
const ALTERNATIVES_MAX: usize = 16;
const LITERALS_MAX: usize = 12;

/// Fields whose meaning for the cache Varnish has read before the VCL runs.
pub(super) const LIFETIME: &[&str] = &["cache-control", "expires", "pragma"];

/// A property of a request or a response.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Atom {
    /// Responses with these statuses, or with this one and above.
    Status(Vec<u16>, bool),
    /// A field of the response, and the expression that it matches.
    Field(String, String),
    Request(Cond),
    /// The request has a query, and the whole URL matches although the path does not.
    InQuery(Cond),
    /// The response has a shorter lifetime than the VCL names.
    IsShort,
    /// Forebay does not store such a response either.
    IsUnstored,
    /// The request only renews a stored response.
    IsBackground,
}

/// An atom or its negation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CondLiteral {
    pub(super) atom: Atom,
    pub(super) is_positive: bool,
    /// How often the VCL may have changed the field before.
    changes: usize,
}

/// Alternatives, in each of which all conditions hold. They may hold for more requests than those
/// that reach the statement.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Context {
    pub(super) any: Vec<Vec<CondLiteral>>,
    /// Whether they hold for no other requests.
    pub(super) is_exact: bool,
}

impl Context {
    pub(super) fn always() -> Context {
        Context { any: vec![Vec::new()], is_exact: true }
    }

    pub(super) fn never() -> Context {
        Context { any: Vec::new(), is_exact: true }
    }

    /// Nothing is known about the condition.
    fn unknown() -> Context {
        Context { any: vec![Vec::new()], is_exact: false }
    }

    pub(super) fn is_never(&self) -> bool {
        self.any.is_empty()
    }

    pub(super) fn is_always(&self) -> bool {
        self.is_exact && self.any.iter().any(Vec::is_empty)
    }

    /// Whether all responses are errors, or no client waits for them.
    pub(super) fn is_of_errors(&self) -> bool {
        let is_error = |one: &CondLiteral| match &one.atom {
            Atom::Status(list, _) => one.is_positive && list.iter().all(|status| *status >= 400),
            Atom::IsBackground => one.is_positive,
            _ => false,
        };
        !self.is_never() && self.any.iter().all(|literals| literals.iter().any(is_error))
    }

    pub(super) fn and(&self, other: &Context) -> Context {
        let mut any: Vec<Vec<CondLiteral>> = Vec::new();
        let mut is_exact = self.is_exact && other.is_exact;
        for one in &self.any {
            for two in &other.any {
                let mut all = one.clone();
                for literal in two.iter().filter(|literal| !one.contains(literal)) {
                    match all.len() < LITERALS_MAX {
                        true => all.push(literal.clone()),
                        false => is_exact = false,
                    }
                }
                let is_contrary = |literal: &CondLiteral| {
                    let negated =
                        CondLiteral { is_positive: !literal.is_positive, ..literal.clone() };
                    all.contains(&negated)
                };
                if !all.iter().any(is_contrary) && !any.contains(&all) {
                    any.push(all);
                }
            }
        }
        match any.len() <= ALTERNATIVES_MAX {
            true => Context { any, is_exact },
            false => Context { any: self.any.clone(), is_exact: false },
        }
    }

    pub(super) fn or(&self, other: &Context) -> Context {
        let new = other.any.iter().filter(|one| !self.any.contains(one));
        let any: Vec<_> = self.any.iter().chain(new).cloned().collect();
        let is_exact = self.is_exact && other.is_exact;
        if any.iter().any(Vec::is_empty) {
            return Context { any: vec![Vec::new()], is_exact };
        }
        match any.len() <= ALTERNATIVES_MAX {
            true => Context { any, is_exact },
            false => Context::unknown(),
        }
    }
}

/// Changes of the response so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ChangeLog {
    pub(super) fields: Vec<String>,
    /// Fields that are removed from all responses.
    pub(super) removed: Vec<String>,
    /// Fields whose value rules do not know.
    pub(super) unknown: Vec<String>,
    /// The lifetime, if the VCL has set it: `None` inside if it depends on conditions.
    pub(super) lifetime: Option<Option<u64>>,
    /// Whether the VCL may have set a lifetime of 0.
    pub(super) may_be_zero: bool,
}

impl ChangeLog {
    pub(super) fn count(&self, field: &str) -> usize {
        self.fields.iter().filter(|known| *known == field).count()
    }
}

impl CondLiteral {
    fn field(&self) -> &str {
        match &self.atom {
            Atom::Field(name, _) => name,
            Atom::Status(..) => "status",
            _ => "",
        }
    }

    /// Whether the field still has the value that was tested.
    pub(super) fn is_current(&self, log: &ChangeLog) -> bool {
        self.changes == log.count(self.field())
    }

    /// Whether the origin's response had the value that was tested.
    pub(super) fn is_of_origin(&self) -> bool {
        self.changes == 0
    }

    /// Its conditions that a request has before the origin is asked.
    pub(super) fn request_conds(&self) -> Vec<(Cond, bool)> {
        match &self.atom {
            Atom::Request(cond) => vec![(cond.clone(), self.is_positive)],
            Atom::InQuery(cond) if self.is_positive => {
                vec![(Cond::HasQuery, true), (cond.clone(), true)]
            }
            _ => Vec::new(),
        }
    }

    /// The lines of rules; `None` if rules cannot have the condition.
    pub(super) fn lines(&self) -> Option<String> {
        let not = if self.is_positive { "" } else { " [NOT]" };
        Some(match &self.atom {
            Atom::Status(list, false) => {
                let list: Vec<_> = list.iter().map(u16::to_string).collect();
                format!("cond %{{STATUS}} ({}){not}\n", list.join(","))
            }
            Atom::Status(list, true) => {
                format!("cond %{{STATUS}} >{}{not}\n", list.first().map_or(499, |one| one - 1))
            }
            Atom::Field(name, pattern) if rulefile::is_name(name) => {
                format!("cond %{{HEADER:{name}}} {}{not}\n", regex::in_rules(pattern))
            }
            Atom::Request(cond) => rulefile::cond_line(cond, self.is_positive)?,
            Atom::InQuery(cond) if self.is_positive => {
                let query = rulefile::cond_line(&Cond::HasQuery, true)?;
                format!("{query}{}", rulefile::cond_line(cond, true)?)
            }
            _ => return None,
        })
    }
}

/// Reads conditions of subs behind `vcl_recv`.
pub(super) struct ContextReader<'c> {
    pub(super) source: &'c VclSource<'c>,
    pub(super) kind: RequestKind<'c>,
    pub(super) place: &'c VclPlace,
    pub(super) log: &'c ChangeLog,
    /// Whether the method is that of the kind of requests.
    pub(super) knows_method: bool,
}

impl ContextReader<'_> {
    /// The requests for which the condition holds, and those for which it does not.
    pub(super) fn both(&self, test: &Expr) -> (Context, Context) {
        match test {
            Expr::Not(inner) => {
                let (yes, no) = self.both(inner);
                (no, yes)
            }
            Expr::All(parts) => parts
                .iter()
                .map(|part| self.both(part))
                .fold((Context::always(), Context::never()), |(yes, no), (part, not_part)| {
                    (yes.and(&part), no.or(&not_part))
                }),
            Expr::Any(parts) => parts
                .iter()
                .map(|part| self.both(part))
                .fold((Context::never(), Context::always()), |(yes, no), (part, not_part)| {
                    (yes.or(&part), no.and(&not_part))
                }),
            Expr::Compare(left, symbol, right) => self.compare(test, left, symbol, right),
            Expr::Name(name) => match response_field(name) {
                Some(field) => self.of_field(&field, ".".to_owned(), true),
                None => self.named(test, &name.to_ascii_lowercase()),
            },
            _ => self.of_request(test),
        }
    }

    fn named(&self, test: &Expr, name: &str) -> (Context, Context) {
        match name {
            "bereq.uncacheable" => known(false),
            "beresp.uncacheable" => self.literal(Atom::IsUnstored, true),
            "bereq.is_bgfetch" => self.literal(Atom::IsBackground, true),
            _ => self.of_request(test),
        }
    }

    fn compare(&self, test: &Expr, left: &Expr, symbol: &str, right: &Expr) -> (Context, Context) {
        let name = left.name();
        match name.as_str() {
            "beresp.status" | "resp.status" => return self.status(symbol, right),
            "beresp.ttl" => return self.lifetime(symbol, right),
            "req.method" | "bereq.method" if !self.knows_method => {
                return self.method(symbol, right);
            }
            _ => {}
        }
        let Some(field) = response_field(&name) else { return self.of_request(test) };
        let Some(text) = right.text() else { return unknown() };
        let is_positive = !symbol.starts_with('!');
        let is_regex = symbol.ends_with('~');
        // Forebay stores no such responses either.
        let is_unstored = match field.as_str() {
            "cache-control" => is_regex && is_private(&text),
            "vary" => text == "*" && symbol == "==",
            _ => false,
        };
        if is_unstored && !self.touches(&field) {
            return self.literal(Atom::IsUnstored, is_positive);
        }
        match is_regex {
            true if regex::is_linear(&text) => self.of_field(&field, text, is_positive),
            true => unknown(),
            false if text.is_empty() => self.of_field(&field, "^$".to_owned(), is_positive),
            false => {
                let whole = format!("^{}$", regex::literal(&text));
                self.of_field(&field, whole, is_positive)
            }
        }
    }

    fn method(&self, symbol: &str, right: &Expr) -> (Context, Context) {
        let Some(text) = right.text() else { return unknown() };
        let literals = match symbol.ends_with('~') {
            true => regex::expand(&text, false).filter(|(_, no_case)| !no_case),
            false => Some((vec![regex::PatternText::whole(&text)], false)),
        };
        let Some((literals, _)) = literals else { return unknown() };
        if !literals.iter().all(|one| one.starts && one.ends) {
            return unknown();
        }
        let names = literals.into_iter().map(|one| one.text).collect();
        self.literal(Atom::Request(Cond::Method(names)), !symbol.starts_with('!'))
    }

    fn status(&self, symbol: &str, right: &Expr) -> (Context, Context) {
        let Expr::Number(number) = right else { return unknown() };
        let Ok(status) = number.parse::<u16>() else { return unknown() };
        let above = |first: u16| Atom::Status(vec![first.max(1)], true);
        match symbol {
            "==" => self.literal(Atom::Status(vec![status], false), true),
            "!=" => self.literal(Atom::Status(vec![status], false), false),
            ">=" => self.literal(above(status), true),
            ">" => self.literal(above(status.saturating_add(1)), true),
            "<" | "<=" if status >= 599 => known(true),
            "<" => self.literal(above(status), false),
            "<=" => self.literal(above(status.saturating_add(1)), false),
            _ => unknown(),
        }
    }

    fn lifetime(&self, symbol: &str, right: &Expr) -> (Context, Context) {
        let Expr::Number(number) = right else { return unknown() };
        let Some(limit) = seconds(number) else { return unknown() };
        let is_less = match symbol {
            "<" | "<=" => true,
            ">" | ">=" => false,
            "==" if limit == 0.0 => true,
            _ => return unknown(),
        };
        match self.log.lifetime {
            Some(Some(known_s)) => {
                let lifetime = known_s as f64;
                known(match symbol {
                    "<" => lifetime < limit,
                    "<=" => lifetime <= limit,
                    ">" => lifetime > limit,
                    ">=" => lifetime >= limit,
                    _ => lifetime == limit,
                })
            }
            Some(None) if self.log.may_be_zero => unknown(),
            // The lifetime that the origin's fields state is known only then.
            _ if limit <= 0.0 && symbol != ">=" => {
                let (yes, no) = self.literal(Atom::IsUnstored, is_less);
                if is_less { (yes, Context::unknown()) } else { (Context::unknown(), no) }
            }
            _ => self.literal(Atom::IsShort, is_less),
        }
    }

    fn of_field(&self, field: &str, pattern: String, is_positive: bool) -> (Context, Context) {
        let is_changed = self.log.fields.iter().any(|known| known == field);
        let has = |list: &[String]| list.iter().any(|known| known == field);
        if has(&self.log.removed) && !pattern.contains('^') {
            return known(!is_positive);
        }
        if is_changed && LIFETIME.contains(&field) || has(&self.log.unknown) {
            return unknown();
        }
        if field == "set-cookie" && pattern == "." && !is_changed && !self.touches("set-cookie") {
            return self.literal(Atom::IsUnstored, is_positive);
        }
        self.literal(Atom::Field(field.to_owned(), pattern), is_positive)
    }

    /// Whether any sub changes the field of responses.
    fn touches(&self, field: &str) -> bool {
        self.source.response_fields.contains(field)
    }

    fn of_request(&self, test: &Expr) -> (Context, Context) {
        let state = RequestState::default();
        let place = self.place;
        let evaluator = Evaluator { source: self.source, kind: self.kind, state: &state, place };
        match evaluator.decide(&as_request(test)) {
            Truth::Known(value) => known(value),
            Truth::Depends(Cond::Other(..), _) => unknown(),
            Truth::Depends(cond, is_positive) => self.literal(Atom::Request(cond), is_positive),
            Truth::Guarded(guard, otherwise, inner) => match *inner {
                Truth::Depends(cond @ Cond::Url(_), is_positive) if guard == Cond::HasQuery => {
                    // With another query than the path has it, rules for the path bypass the cache.
                    match otherwise == is_positive {
                        true => known(otherwise),
                        false => self.literal(Atom::InQuery(cond), is_positive),
                    }
                }
                _ if guard == Cond::HasQuery && !otherwise => {
                    let (yes, no) = self.literal(Atom::InQuery(Cond::HasQuery), true);
                    (Context { is_exact: false, ..yes }, no)
                }
                _ => unknown(),
            },
        }
    }

    fn literal(&self, atom: Atom, is_positive: bool) -> (Context, Context) {
        let mut one = CondLiteral { atom, is_positive, changes: 0 };
        one.changes = self.log.count(one.field());
        let is_in_query = matches!(one.atom, Atom::InQuery(_));
        let other = CondLiteral { is_positive: !is_positive, ..one.clone() };
        let of = |literal: CondLiteral| match is_in_query && !literal.is_positive {
            // Statements for other requests may also apply to these.
            true => Context::always(),
            false => Context { any: vec![vec![literal]], is_exact: true },
        };
        (of(one), of(other))
    }
}

fn known(value: bool) -> (Context, Context) {
    match value {
        true => (Context::always(), Context::never()),
        false => (Context::never(), Context::always()),
    }
}

fn unknown() -> (Context, Context) {
    (Context::unknown(), Context::unknown())
}

fn response_field(name: &str) -> Option<String> {
    field_of(name, "beresp.http.")
}

/// Whether each of the texts forbids to store a response.
fn is_private(pattern: &str) -> bool {
    let bare = pattern.strip_prefix("(?i:").and_then(|rest| rest.strip_suffix(')'));
    let bare = bare.or_else(|| pattern.strip_prefix("(?i)")).unwrap_or(pattern);
    let bare = bare.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(bare);
    bare.split('|').all(|one| matches!(one, "no-cache" | "no-store" | "private"))
}

/// The condition with `bereq` in place of `req`.
fn as_request(test: &Expr) -> Expr {
    let renamed = |name: &String| match name.strip_prefix("bereq.") {
        Some(rest) => Expr::Name(format!("req.{rest}")),
        None => Expr::Name(name.clone()),
    };
    match test {
        Expr::Name(name) => renamed(name),
        Expr::Compare(left, symbol, right) => match &**left {
            Expr::Name(name) => Expr::Compare(Box::new(renamed(name)), symbol, right.clone()),
            _ => test.clone(),
        },
        _ => test.clone(),
    }
}

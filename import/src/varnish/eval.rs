//! Conditions of `vcl_recv`: true, false, or a property of the request.

use super::lexer::VclPlace;
use super::outcome::{Cond, Cookies, RequestState};
use super::regex;
use super::source::{HostName, VclSource, host_literals, is_host};
use super::syntax::{Expr, field_of};
use super::url::{PathTest, QueryEffect, is_of_one_parameter, path_test, whole_url};

/// A kind of requests for which the VCL is followed.
#[derive(Clone, Copy)]
pub(super) struct RequestKind<'k> {
    pub(super) method: &'k str,
    pub(super) host: &'k HostName,
    /// The tests of the path that hold.
    pub(super) paths: &'k [PathTest],
    /// Tests of the path of which each may hold; all others do not.
    pub(super) open: &'k [PathTest],
    /// Whether the request is as the client sent it, or may differ in fields that the VCL changes.
    pub(super) is_original: bool,
}

/// The value of a condition.
pub(super) enum Truth {
    Known(bool),
    /// The condition, and whether it is not negated.
    Depends(Cond, bool),
    /// The value without the first condition; if that holds, the second decides.
    Guarded(Cond, bool, Box<Truth>),
}

use Truth::{Depends, Guarded, Known};

impl Truth {
    fn negated(self, negate: bool) -> Truth {
        match self {
            Known(value) => Known(value != negate),
            Depends(cond, positive) => Depends(cond, positive != negate),
            Guarded(guard, value, inner) => {
                Guarded(guard, value != negate, Box::new(inner.negated(negate)))
            }
        }
    }

    fn without_guard(self, value: bool) -> Truth {
        match self {
            Guarded(guard, _, inner) => Guarded(guard, value, inner),
            other => other,
        }
    }
}

/// A method that the VCL does not name.
pub(super) const OTHER_METHOD: &str = "OTHER";

/// Expressions for a field without a value.
const BLANK: &[&str] = &["^\\s*$", "^ *$", "^$", "^[; ]*$", "^[;\\s]*$", "^;*$", "^\\s*;*\\s*$"];

pub(super) struct Evaluator<'e> {
    pub(super) source: &'e VclSource<'e>,
    pub(super) kind: RequestKind<'e>,
    pub(super) state: &'e RequestState,
    pub(super) place: &'e VclPlace,
}

impl Evaluator<'_> {
    /// The value of a condition without `&&`, `||` and `!`.
    pub(super) fn decide(&self, test: &Expr) -> Truth {
        match test {
            Expr::Name(name) => self.name(&name.to_ascii_lowercase()),
            Expr::Compare(left, symbol, right) => self.compare(left, symbol, right),
            // Health decides between values of `grace` only, or it is noted with the origins.
            Expr::Call(name, _) if name == "std.healthy" => Known(true),
            Expr::Call(name, _) => self.other(format!("{name}()")),
            _ => self.other("this condition".to_owned()),
        }
    }

    fn other(&self, shown: String) -> Truth {
        Depends(Cond::Other(self.place.clone(), shown), true)
    }

    fn name(&self, name: &str) -> Truth {
        match name {
            "true" => Known(true),
            "false" | "req.restarts" | "req.esi_level" => Known(false),
            _ => match field_of(name, "req.http.") {
                Some(field) => self.field(&field),
                None => self.other(name.to_owned()),
            },
        }
    }

    /// Whether the value of the field is not known.
    fn is_unknown(&self, field: &str) -> bool {
        self.state.unknown.contains(field)
            || !self.kind.is_original && self.source.changed_fields.contains(field)
    }

    /// False without the guard; otherwise not known.
    fn guarded(&self, guard: Cond, shown: &str) -> Truth {
        Guarded(guard, false, Box::new(self.other(shown.to_owned())))
    }

    /// Whether a field is there.
    fn field(&self, field: &str) -> Truth {
        // Varnish itself adds the client's address.
        if matches!(field, "host" | "x-forwarded-for") {
            return Known(true);
        }
        if self.is_unknown(field) {
            return self.other(format!("req.http.{field}, which the VCL changes"));
        }
        if field == "cookie" {
            let any = Cond::Field(field.to_owned());
            return match &self.state.cookies {
                Cookies::None => Known(false),
                Cookies::Only(names) => Depends(cookies(names), true),
                Cookies::All => Depends(any, true),
                Cookies::Fewer => self.guarded(any, "a filtered Cookie"),
                Cookies::Other => self.other("a changed Cookie".to_owned()),
            };
        }
        match self.state.fields.iter().rev().find(|change| change.name == field) {
            // A copy of a field that is not there is there and empty.
            Some(change) if change.value.as_ref().is_some_and(|value| value.contains('%')) => {
                self.other(format!("req.http.{field}"))
            }
            Some(change) => Known(change.value.is_some()),
            None => Depends(Cond::Field(field.to_owned()), true),
        }
    }

    fn compare(&self, left: &Expr, symbol: &str, right: &Expr) -> Truth {
        let name = left.name();
        let negate = symbol.starts_with('!');
        let is_regex = symbol.ends_with('~');
        let shown = || format!("{} {symbol} …", if name.is_empty() { "(…)" } else { &name });
        if name == "client.ip" && is_regex {
            let list = self.source.acls.get(right.name().as_str());
            return match list.or_else(|| self.acl(right)) {
                Some(Some(list)) => Depends(Cond::Client(list.clone()), true).negated(negate),
                _ => self.other(format!("client.ip {symbol} {}", right.name())).negated(negate),
            };
        }
        if matches!(name.as_str(), "req.restarts" | "req.esi_level") {
            let Expr::Number(number) = right else { return self.other(shown()) };
            let value: f64 = number.parse().unwrap_or(0.0);
            return match symbol {
                _ if !self.kind.is_original => self.other(shown()),
                "==" => Known(value == 0.0),
                "!=" => Known(value != 0.0),
                ">" => Known(false),
                "<" => Known(value > 0.0),
                ">=" => Known(value <= 0.0),
                _ => Known(true),
            };
        }
        let (Some(text), true) = (right.text(), is_regex || matches!(symbol, "==" | "!=")) else {
            return self.other(shown());
        };
        let truth = match name.as_str() {
            "req.method" | "bereq.method" => self.method(&text, is_regex),
            "req.url" | "bereq.url" => self.url(&text, is_regex),
            "req.http.host" | "bereq.http.host" => self.host(&text, is_regex),
            _ => match field_of(&name, "req.http.") {
                Some(field) => self.field_is(&field, &text, is_regex),
                None => self.other(shown()),
            },
        };
        truth.negated(negate)
    }

    fn acl(&self, name: &Expr) -> Option<&Option<Vec<String>>> {
        let Expr::Name(name) = name else { return None };
        self.source.acls.get(name.as_str())
    }

    fn method(&self, text: &str, is_regex: bool) -> Truth {
        let (method, is_other) = (self.kind.method, self.kind.method == OTHER_METHOD);
        let shown = || format!("req.method and {text}");
        if !is_regex {
            // Methods beyond those that are told apart.
            return match is_other && !self.source.methods.contains(text) {
                true => self.other(shown()),
                false => Known(method == text),
            };
        }
        let Some((literals, no_case)) = regex::expand(text, false) else {
            return self.other(shown());
        };
        let is_one_of = |one: &regex::PatternText| {
            one.starts && one.ends && !no_case && self.source.methods.contains(&one.text)
        };
        if is_other {
            return match literals.iter().all(is_one_of) {
                true => Known(false),
                false => self.other(shown()),
            };
        }
        Known(literals.iter().any(|literal| match no_case {
            true => literal.matches(&method.to_ascii_lowercase()),
            false => literal.matches(method),
        }))
    }

    fn url(&self, text: &str, is_regex: bool) -> Truth {
        let whole = whole_url(text, is_regex);
        let shown = || format!("req.url ~ {text}");
        let decide = |whole: Option<String>| match whole {
            Some(whole) => Depends(Cond::Url(whole), true),
            None => self.other(shown()),
        };
        let Some(path) = path_test(text, is_regex) else {
            // Rules see the query as the client sent it.
            let is_changed = self.state.sort_query || !self.state.drop_query.is_empty();
            let is_known = !is_changed || is_of_one_parameter(text);
            return decide(whole.filter(|_| is_known));
        };
        if !self.source.paths.contains(&path) || self.kind.open.contains(&path) {
            let of_path = regex::without_slash(&path.regex).map(Cond::Path);
            return match (&path.query, of_path) {
                (QueryEffect::None, Some(cond)) => Depends(cond, true),
                (QueryEffect::Never, _) if whole.is_none() => decide(None),
                _ => decide(whole),
            };
        }
        let holds = self.kind.paths.contains(&path);
        match path.query {
            QueryEffect::Never if holds => Depends(Cond::HasQuery, false),
            QueryEffect::Decides { unless, also, whole, .. }
                if holds && unless || !holds && also =>
            {
                Guarded(Cond::HasQuery, holds, Box::new(decide(whole)))
            }
            _ => Known(holds),
        }
    }

    fn host(&self, text: &str, is_regex: bool) -> Truth {
        let shown = format!("req.http.host and {text}");
        if !self.kind.is_original && self.source.changed_fields.contains("host")
            || self.state.unknown.contains("host")
        {
            return self.other(shown);
        }
        let lower = text.to_ascii_lowercase();
        let literals = match is_regex {
            false if !is_host(&lower) => {
                // Sites have names without ports.
                let bare = lower.split(':').next().unwrap_or_default();
                return match self.kind.host {
                    HostName::Exact(name) if name != bare => Known(false),
                    _ => self.other(shown),
                };
            }
            false => Some(vec![regex::PatternText::whole(&lower)]),
            true => host_literals(text),
        };
        let changed = self.state.host.clone().map(HostName::Exact);
        let host = changed.as_ref().unwrap_or(self.kind.host);
        match literals.and_then(|literals| host.matches(&literals, &self.source.hosts)) {
            Some(value) => Known(value),
            None => self.other(shown),
        }
    }

    fn field_is(&self, field: &str, text: &str, is_regex: bool) -> Truth {
        let shown = || format!("req.http.{field} ~ {text}");
        if self.is_unknown(field) {
            return self.other(shown());
        }
        if field == "cookie"
            && let Some(truth) = self.cookie_is(text, is_regex)
        {
            return truth;
        }
        let changed = self.state.fields.iter().rev().find(|change| change.name == field);
        if let Some(change) = changed {
            return match &change.value {
                None => Known(text.is_empty()),
                Some(value) if !is_regex && !value.contains('%') => Known(value == text),
                Some(_) => self.other(format!("req.http.{field}")),
            };
        }
        if text.is_empty() {
            return self.field(field).negated(true);
        }
        // Rules see the field without the address that Varnish adds.
        if field == "x-forwarded-for" {
            return self.other("req.http.x-forwarded-for".to_owned());
        }
        if !is_regex {
            return Depends(Cond::FieldIs(field.to_owned(), text.to_owned()), true);
        }
        if matches!(text, "." | ".+") {
            return self.field(field);
        }
        match regex::is_linear(text) && text.len() <= 2000 {
            true => Depends(Cond::FieldMatches(field.to_owned(), text.to_owned()), true),
            false => self.other(shown()),
        }
    }

    /// A comparison with a `Cookie` that the VCL has changed.
    fn cookie_is(&self, text: &str, is_regex: bool) -> Option<Truth> {
        let shown = "a filtered Cookie";
        let any = || Cond::Field("cookie".to_owned());
        let is_blank = match is_regex {
            true => BLANK.contains(&text),
            false => text.is_empty(),
        };
        Some(match &self.state.cookies {
            Cookies::All => return None,
            Cookies::None => Known(is_blank),
            Cookies::Only(names) if is_blank => Depends(cookies(names), false),
            Cookies::Only(names) => {
                let found = is_regex.then(|| regex::cookie_names(text)).flatten();
                if found.is_some_and(|found| found.iter().all(|one| names.contains(one))) {
                    return None;
                }
                self.guarded(cookies(names), shown)
            }
            Cookies::Fewer if is_blank => self.guarded(any(), shown).without_guard(true),
            Cookies::Fewer => self.guarded(any(), shown),
            Cookies::Other => self.other(shown.to_owned()),
        })
    }
}

/// The condition that one of these cookies is there.
fn cookies(names: &[String]) -> Cond {
    let each: Vec<_> = names
        .iter()
        .map(|name| match name.strip_suffix('*') {
            Some(start) => format!("{}[^=]*", regex::literal(start)),
            None => regex::literal(name),
        })
        .collect();
    Cond::FieldMatches("cookie".to_owned(), format!("(^|;\\s*)({})=", each.join("|")))
}

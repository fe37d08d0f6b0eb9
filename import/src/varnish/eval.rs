//! Conditions of `vcl_recv`: true, false, or a property of the request.

use super::lexer::VclPlace;
use super::outcome::{Cond, Cookies, RequestState};
use super::regex::{self, UrlTest};
use super::source::{HostName, PathTest, VclSource, host_literals, path_test};
use super::syntax::{Expr, field_of};

/// A kind of requests for which the VCL is followed.
#[derive(Clone, Copy)]
pub(super) struct RequestKind<'k> {
    pub(super) method: &'k str,
    pub(super) host: &'k HostName,
    /// The tests of the path that hold.
    pub(super) paths: &'k [PathTest],
}

/// The value of a condition.
pub(super) enum Truth {
    Known(bool),
    /// The condition, and whether it is not negated.
    Depends(Cond, bool),
}

use Truth::{Depends, Known};

impl Truth {
    fn negated(self, negate: bool) -> Truth {
        match self {
            Known(value) => Known(value != negate),
            Depends(cond, positive) => Depends(cond, positive != negate),
        }
    }
}

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

    /// Whether a field is there.
    fn field(&self, field: &str) -> Truth {
        // Varnish itself adds the client's address.
        if matches!(field, "host" | "x-forwarded-for") {
            return Known(true);
        }
        if field == "cookie" {
            return match &self.state.cookies {
                Cookies::None => Known(false),
                Cookies::Only(names) => Depends(cookies(names), true),
                Cookies::All | Cookies::Changed => Depends(Cond::Field(field.to_owned()), true),
            };
        }
        match self.state.fields.iter().rev().find(|change| change.name == field) {
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
        if !is_regex {
            return Known(self.kind.method == text);
        }
        match regex::expand(text, false) {
            Some((literals, no_case)) => Known(literals.iter().any(|literal| match no_case {
                true => literal.matches(&self.kind.method.to_ascii_lowercase()),
                false => literal.matches(self.kind.method),
            })),
            None => self.other(format!("req.method ~ {text}")),
        }
    }

    fn url(&self, text: &str, is_regex: bool) -> Truth {
        if let Some(path) = path_test(text, is_regex) {
            if self.source.paths.contains(&path) {
                return Known(self.kind.paths.contains(&path));
            }
        } else if is_regex && let UrlTest::Query(query) = regex::url_test(text) {
            return Depends(Cond::Query(query), true);
        }
        self.other(format!("req.url ~ {text}"))
    }

    fn host(&self, text: &str, is_regex: bool) -> Truth {
        let literals = match is_regex {
            false => return Known(self.kind.host.name() == text.to_ascii_lowercase()),
            true => host_literals(text),
        };
        match literals.and_then(|literals| self.kind.host.matches(&literals)) {
            Some(value) => Known(value),
            None => self.other(format!("req.http.host ~ {text}")),
        }
    }

    fn field_is(&self, field: &str, text: &str, is_regex: bool) -> Truth {
        let is_cookie = field == "cookie";
        let changed = self.state.fields.iter().rev().find(|change| change.name == field);
        if let Some(change) = changed {
            return match &change.value {
                None => Known(text.is_empty()),
                Some(value) if !is_regex && !value.contains('%') => Known(value == text),
                Some(_) => self.other(format!("req.http.{field}")),
            };
        }
        if is_cookie && self.state.cookies == Cookies::None {
            return Known(text.is_empty());
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
            false => self.other(format!("req.http.{field} ~ {text}")),
        }
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

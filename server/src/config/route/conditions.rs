//! The conditions of a route beside its paths: the method, fields, parameters and cookies that a
//! request must have.

use std::fmt;

use forebay_http::request::Method;
use http::HeaderName;

use super::super::setting::{RawValue, Setting, ValueProblem};
use super::super::table::METHODS;
use crate::limits::ROUTE_CONDITIONS_MAX;

/// The properties that a request must have to belong to a route, beside one of its paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RouteConditions {
    /// The methods, one of which the request must have; any if empty. GET includes HEAD.
    pub(in crate::config) methods: Vec<Box<str>>,
    pub(crate) fields: Vec<NamedValue>,
    pub(crate) query: Vec<NamedValue>,
    pub(crate) cookies: Vec<NamedValue>,
}

/// A name that a request must have, and its value; `None` for any value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedValue {
    pub(crate) name: Box<str>,
    pub(crate) value: Option<Box<str>>,
    /// Whether the value stands in a variable or a file, and so may be a secret.
    pub(super) is_hidden: bool,
}

impl RouteConditions {
    /// Whether there are no conditions.
    pub(super) fn are_empty(&self) -> bool {
        self.methods.is_empty() && !self.have_more_than_methods()
    }

    /// Whether all GET and HEAD requests for one URL meet the conditions. Only then may the
    /// responses be stored: the key does not tell them from responses of another route.
    pub(crate) fn permit_storing(&self) -> bool {
        !self.have_more_than_methods() && self.have_method(Method::Get)
    }

    /// Whether there are conditions that a client can meet or not meet as it likes, whatever it
    /// wants to do.
    pub(super) fn have_more_than_methods(&self) -> bool {
        !(self.fields.is_empty() && self.query.is_empty() && self.cookies.is_empty())
    }

    /// Whether every request that meets these conditions meets the others, too.
    pub(super) fn imply(&self, others: &RouteConditions) -> bool {
        // A list with HEAD has GET, too, which includes HEAD.
        let have =
            |method: &str| method == "HEAD" || others.methods.iter().any(|it| **it == *method);
        let imply_methods = others.methods.is_empty()
            || !self.methods.is_empty() && self.methods.iter().all(|it| have(it));
        imply_methods
            && imply(&self.fields, &others.fields, str::eq_ignore_ascii_case)
            && imply(&self.query, &others.query, str::eq)
            && imply(&self.cookies, &others.cookies, str::eq_ignore_ascii_case)
    }

    /// Returns a text that identifies the conditions: different lists of conditions have different
    /// texts. It has values that may be secrets, so it is not for people.
    pub(super) fn identity(&self) -> String {
        let mut whole = self.clone();
        let lists = [&mut whole.fields, &mut whole.query, &mut whole.cookies];
        lists.into_iter().flatten().for_each(|one| one.is_hidden = false);
        whole.to_string()
    }

    /// Whether a method is among the methods of the conditions.
    pub(crate) fn have_method(&self, method: Method<'_>) -> bool {
        let method = match method {
            Method::Head => Method::Get,
            method => method,
        };
        let mut methods = self.methods.iter();
        self.methods.is_empty() || methods.any(|one| one.as_bytes() == method.as_bytes())
    }
}

/// Whether requests with one method can meet the conditions of both routes, as far as these are
/// about the method.
pub(super) fn share_methods(one: &RouteConditions, other: &RouteConditions) -> bool {
    let have_all = one.methods.is_empty() || other.methods.is_empty();
    have_all || one.methods.iter().any(|method| other.methods.contains(method))
}

/// Whether a request with all of these names and values has the others, too.
fn imply(
    these: &[NamedValue],
    others: &[NamedValue],
    is_same: impl Fn(&str, &str) -> bool,
) -> bool {
    others.iter().all(|other| {
        these.iter().any(|one| {
            is_same(&one.name, &other.name) && (other.value.is_none() || one.value == other.value)
        })
    })
}

impl NamedValue {
    /// Whether a value is the one that the condition names.
    pub(crate) fn has_value(&self, value: &[u8]) -> bool {
        self.value.as_ref().is_none_or(|wanted| wanted.as_bytes() == value)
    }
}

impl fmt::Display for NamedValue {
    /// Writes the name, and the value unless it may be a secret. A value that could contain another
    /// condition is in quotes: see [`RouteConditions::identity`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(_) if self.is_hidden => write!(f, "{}=…", self.name),
            Some(value) if value.contains([',', '"']) => write!(f, "{}={value:?}", self.name),
            Some(value) => write!(f, "{}={value}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl fmt::Display for RouteConditions {
    /// Writes each condition after a comma.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.methods.is_empty() {
            write!(f, ", method {}", self.methods.join(" or "))?;
        }
        let lists =
            [("field", &self.fields), ("parameter", &self.query), ("cookie", &self.cookies)];
        let named = lists.iter().flat_map(|(kind, list)| list.iter().map(move |one| (kind, one)));
        for (kind, one) in named {
            write!(f, ", {kind} {one}")?;
        }
        Ok(())
    }
}

fn wrong_count(setting: &Setting, count: usize) -> ValueProblem {
    let hint = match count {
        0 => "leave it out".to_owned(),
        _ => format!("write at most {ROUTE_CONDITIONS_MAX}"),
    };
    setting.problem(format_args!("has {count} elements")).hint(hint)
}

/// Reads the `methods` of a route.
pub(super) fn read_methods(raw: RawValue<'_>) -> Result<Vec<Box<str>>, ValueProblem> {
    let texts = METHODS.texts(raw)?;
    if texts.is_empty() || texts.len() > ROUTE_CONDITIONS_MAX {
        return Err(wrong_count(&METHODS, texts.len()));
    }
    for (index, text) in texts.iter().enumerate() {
        let refused = METHODS.problem(format_args!("cannot contain {text:?}"));
        if HeaderName::try_from(*text).is_err() {
            return Err(refused.hint("write a method, such as POST"));
        }
        match text.to_ascii_uppercase().as_str() {
            upper if upper != *text => return Err(refused.hint(format!("write {upper:?}"))),
            "HEAD" if !texts.contains(&"GET") => {
                return Err(refused.hint("HEAD has the route of GET, so write \"GET\""));
            }
            "TRACE" | "CONNECT" => {
                return Err(refused
                    .hint("such a request is refused before it has a route (501); leave it out"));
            }
            _ if texts.get(..index).is_some_and(|earlier| earlier.contains(text)) => {
                return Err(refused.hint("it is already in the list, so leave it out"));
            }
            "PURGE" | "BAN" => {
                return Err(refused.hint(
                    "such a request has the route of GET, because it is about stored responses",
                ));
            }
            _ => {}
        }
    }
    Ok(texts.into_iter().map(Box::from).collect())
}

/// Reads names with or without values: `with_fields`, `with_query` or `with_cookies` of a route.
pub(super) fn read_named(
    raw: RawValue<'_>,
    setting: &Setting,
) -> Result<Vec<NamedValue>, ValueProblem> {
    let texts = setting.texts(raw)?;
    if texts.is_empty() || texts.len() > ROUTE_CONDITIONS_MAX {
        return Err(wrong_count(setting, texts.len()));
    }
    let mut named: Vec<NamedValue> = Vec::new();
    for text in texts {
        let refused = setting.problem(format_args!("cannot contain {text:?}"));
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let is_name = match setting.name {
            "with_query" => {
                !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'&')
            }
            _ => HeaderName::try_from(name).is_ok(),
        };
        if !is_name {
            return Err(refused.hint("write a name, or a name, = and a value"));
        }
        if !value.is_none_or(|value| is_possible(value, setting)) {
            return Err(refused.hint(
                "no request has such a value; write it as it is sent, in printable ASCII \
                 characters",
            ));
        }
        let is_same = |one: &NamedValue| match setting.name {
            "with_query" => *one.name == *name,
            _ => one.name.eq_ignore_ascii_case(name),
        };
        if named.iter().any(is_same) {
            return Err(refused.hint(
                "the name is already in the list, and a request must have all of them; write \
                 another route for another value",
            ));
        }
        named.push(NamedValue { name: name.into(), value: value.map(Box::from), is_hidden: false });
    }
    Ok(named)
}

/// Whether a field, a parameter or a cookie can have a value.
fn is_possible(value: &str, setting: &Setting) -> bool {
    let excluded: &[char] = match setting.name {
        "with_query" => &['&', '#', ' '],
        "with_cookies" => &[';'],
        _ => &[],
    };
    let is_text = value.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    is_text && value.trim() == value && !value.contains(excluded)
}

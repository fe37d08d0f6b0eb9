//! The conditions of routes: the method, fields, parameters and cookies that a request must have
//! beside the path.

use forebay_http::fields::Fields;
use forebay_http::policy::cookies::{cookie_pairs, may_be_named};
use forebay_http::request::Method;

use crate::config::Route;
use crate::config::route::{NamedValue, RouteConditions};
use crate::limits::{COOKIES_MAX, PARAMETERS_MAX};
use crate::parse::Request;

/// Whether a request meets the conditions of a route. PURGE and BAN are about the stored responses
/// of a URL, so they belong to the route that may store them.
#[inline]
pub(super) fn meets(route: &Route, request: &Request<'_>) -> bool {
    route.conditions.as_deref().is_none_or(|conditions| meets_all(conditions, request))
}

#[cold]
fn meets_all(conditions: &RouteConditions, request: &Request<'_>) -> bool {
    if matches!(request.head.method(), Method::Other(b"PURGE" | b"BAN")) {
        return conditions.permit_storing();
    }
    let fields = request.head.fields();
    conditions.have_method(request.head.method())
        && conditions.fields.iter().all(|one| has_field(fields, one))
        && conditions.query.iter().all(|one| has_parameter(request.target.path_query, one))
        && conditions.cookies.iter().all(|one| has_cookie(fields, one))
}

fn has_field(fields: Fields<'_>, wanted: &NamedValue) -> bool {
    fields.iter().any(|field| {
        field.name.eq_ignore_ascii_case(wanted.name.as_bytes()) && wanted.has_value(field.value)
    })
}

/// Whether the query has a parameter, or more parameters than are compared: a route with such a
/// condition stores nothing. As for the normal form of a query, nothing is decoded.
fn has_parameter(path_query: &[u8], wanted: &NamedValue) -> bool {
    let mut parts = path_query.splitn(2, |byte| *byte == b'?');
    let query = parts.nth(1).unwrap_or_default();
    query.split(|byte| *byte == b'&').enumerate().any(|(index, parameter)| {
        let mut parts = parameter.splitn(2, |byte| *byte == b'=');
        let is_named = parts.next() == Some(wanted.name.as_bytes());
        let has_value = wanted.has_value(parts.next().unwrap_or_default());
        index == PARAMETERS_MAX || is_named && has_value
    })
}

/// Whether the request has a cookie that some origin may read under the name, or more cookies than
/// are compared.
fn has_cookie(fields: Fields<'_>, wanted: &NamedValue) -> bool {
    cookie_pairs(fields).enumerate().any(|(index, (name, value))| {
        let is_named = may_be_named(name, wanted.name.as_bytes(), false);
        index == COOKIES_MAX || is_named && wanted.has_value(value)
    })
}

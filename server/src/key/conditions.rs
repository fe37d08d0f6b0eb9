//! The conditions of routes: the method, fields, parameters and cookies that a request must have
//! beside the path.

use forebay_http::fields::{FieldId, Fields};
use forebay_http::policy::cookies::may_be_named;
use forebay_http::request::Method;

use crate::config::Route;
use crate::config::route::{NamedValue, RouteConditions};
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

/// Whether the query has a parameter. As for the normal form of a query, nothing is decoded.
fn has_parameter(path_query: &[u8], wanted: &NamedValue) -> bool {
    let mut parts = path_query.splitn(2, |byte| *byte == b'?');
    let query = parts.nth(1).unwrap_or_default();
    query.split(|byte| *byte == b'&').any(|parameter| {
        let (name, value) = name_and_value(parameter);
        name == wanted.name.as_bytes() && wanted.has_value(value)
    })
}

/// Whether the request has a cookie that some origin may read under the name.
fn has_cookie(fields: Fields<'_>, wanted: &NamedValue) -> bool {
    let lines = fields.all(FieldId::Cookie);
    let mut cookies = lines.flat_map(|line| line.split(|byte| *byte == b';'));
    cookies.any(|cookie| {
        let (name, value) = name_and_value(cookie.trim_ascii());
        may_be_named(name, wanted.name.as_bytes(), false) && wanted.has_value(value)
    })
}

fn name_and_value(text: &[u8]) -> (&[u8], &[u8]) {
    let mut parts = text.splitn(2, |byte| *byte == b'=');
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}

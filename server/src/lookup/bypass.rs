//! Requests that no stored response can answer.

use forebay_http::error::RequestError;
use forebay_http::fields::{FieldId, Fields};
use forebay_http::framing::BodyFraming;
use forebay_http::hop::HopFields;
use forebay_http::policy::compression::forbids_transforming;
use forebay_http::policy::conditional::needs_origin;
use forebay_http::policy::cookies::cookie_pairs;
use forebay_http::policy::reason::Reason;
use forebay_http::policy::reuse::ForwardReason;
use forebay_http::request::Method;
use forebay_http::response::wanted_protocols;

use crate::config::{Route, RouteSettings};
use crate::fault::Fault;
use crate::limits::COOKIES_MAX;
use crate::parse::Request;

/// Returns the reason why no stored response can answer the request; `None` if a stored response
/// might answer it.
// RFC: 9111-4-2, 9111-4-7, 9110-13.2.1-3, 9110-13.2.1-4
pub(crate) fn bypass(request: &Request<'_>, route: &Route) -> Option<(ForwardReason, Reason)> {
    if !matches!(request.head.method(), Method::Get | Method::Head) {
        return Some((ForwardReason::Method, Reason::Method));
    }
    let (fields, settings) = (request.head.fields(), &route.settings);
    let names = &settings.bypass_fields;
    let reason = if !settings.cache {
        Reason::CacheOff
    } else if request.has_body() {
        Reason::RequestBody
    } else if needs_origin(fields) {
        Reason::Precondition
    } else if let Some(reason) = reason_in_connection(request, settings) {
        reason
    } else if settings.has_many_parameters(request.target.path_query) {
        Reason::ManyParameters
    } else if let Some(reason) = reason_in_cookies(fields, settings) {
        reason
    } else if settings.decompress && forbids_transforming(fields) {
        // A stored response may have been decompressed.
        Reason::NoTransform
    } else if !names.is_empty() && fields.iter().any(|field| names.has_field(field.name)) {
        Reason::BypassField
    } else {
        return None;
    };
    Some((ForwardReason::Bypass, reason))
}

/// Returns the reason for a bypass that follows from the request's cookies, if the settings depend
/// on cookies.
fn reason_in_cookies(fields: Fields<'_>, settings: &RouteSettings) -> Option<Reason> {
    let bypassing = &settings.bypass_cookies;
    let depends_on_names = !settings.keep_cookies.is_all() || !settings.key_cookies.is_empty();
    if bypassing.is_empty() && !depends_on_names {
        return None;
    }
    for (index, (name, _)) in cookie_pairs(fields).enumerate() {
        if index == COOKIES_MAX {
            return Some(Reason::ManyCookies);
        }
        if bypassing.may_have_cookie(name) {
            return Some(Reason::BypassCookie);
        }
    }
    None
}

/// Returns the protocols that the request asks for and that its route permits. There are none for a
/// HEAD request. There are also none for a request with content, even if the content is empty,
/// because the origin would have to read the content before it switches.
pub(crate) fn wanted_upgrade<'a>(
    request: &Request<'a>,
    settings: &RouteSettings,
) -> impl Iterator<Item = &'a [u8]> {
    let permitted = &settings.upgrade_protocols;
    let has_framing = request.framing != BodyFraming::None;
    let is_eligible = !permitted.is_empty() && !has_framing && !request.form.head_only;
    let wanted = wanted_protocols(request.form.version, request.head.fields());
    wanted.filter(move |protocol| is_eligible && permitted.permits(protocol))
}

/// RFC 8441 §4: checks that the route of an extended CONNECT permits its protocol. Of the requests
/// over HTTP/2, only this one has Upgrade, because clients cannot send that field.
///
/// # Errors
/// [`RequestError::MethodNotImplemented`]: the tunnel is not available here. Without it, the client
/// would take a stored response for the start of the tunnel.
pub(crate) fn check_extended_connect(
    request: &Request<'_>,
    settings: &RouteSettings,
) -> Result<(), Fault> {
    let is_refused = request.head.fields().contains(FieldId::Upgrade)
        && wanted_upgrade(request, settings).next().is_none();
    if is_refused { Err(RequestError::MethodNotImplemented.into()) } else { Ok(()) }
}

/// Returns the reason for a bypass that follows from the Connection field: the request asks for
/// another protocol, or the field names other fields. Fields that it names are not forwarded, so a
/// secondary key made from them would not match the origin's response.
fn reason_in_connection(request: &Request<'_>, settings: &RouteSettings) -> Option<Reason> {
    let fields = request.head.fields();
    if !fields.contains(FieldId::Connection) {
        return None;
    }
    if wanted_upgrade(request, settings).next().is_some() {
        return Some(Reason::Tunnel);
    }
    let names_any = HopFields::of(fields).is_ok_and(|hop| hop.names_any());
    names_any.then_some(Reason::ConnectionFields)
}

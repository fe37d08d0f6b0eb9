//! Decides whether a response may be stored and is worth storing (RFC 9111 §3).

use crate::fields::FieldId;
use crate::policy::etag;
use crate::policy::exchange::date_field;
use crate::policy::exchange::{CacheRules, ClientRequest, OriginResponse};
use crate::policy::freshness::freshness_lifetime;
use crate::policy::reason::Reason;
use crate::policy::update::is_renewable;
use crate::policy::vary::{Vary, vary_names};

/// The first reason why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotStorable {
    /// The method is not GET.
    Method,
    /// The request has a body, which the key does not cover.
    RequestBody,
    /// The request said `no-store`.
    RequestNoStore,
    /// The status is not final, belongs to a partial response, or concerns a precondition, a range
    /// or the moment of one request.
    Status,
    /// The response said `must-understand`, and Forebay does not understand the status.
    MustUnderstand,
    /// The response said `no-store`.
    NoStore,
    /// The response said `private`.
    Private,
    /// The request had Authorization, and the response does not allow sharing.
    Authorization,
    /// The response has `Vary: *`, or a Vary that is invalid or has too many names.
    Vary,
    /// The response has Set-Cookie, and its fields or the route's settings do not allow storing it.
    SetCookie,
    /// The response is not fresh and cannot be validated, so it could never be used.
    NoFreshness,
}

impl NotStorable {
    /// The word for the reason.
    pub const fn reason(self) -> Reason {
        match self {
            NotStorable::Method => Reason::Method,
            NotStorable::RequestBody => Reason::RequestBody,
            NotStorable::RequestNoStore => Reason::RequestNoStore,
            NotStorable::Status => Reason::Status,
            NotStorable::MustUnderstand => Reason::MustUnderstand,
            NotStorable::NoStore => Reason::NoStore,
            NotStorable::Private => Reason::Private,
            NotStorable::Authorization => Reason::Authorization,
            NotStorable::Vary => Reason::Vary,
            NotStorable::SetCookie => Reason::SetCookie,
            NotStorable::NoFreshness => Reason::NoFreshness,
        }
    }
}

/// RFC 9111 §3: whether a response may be stored. Only responses to GET that a later request could
/// use are stored. A 206 is checked as the 200 that it is a part of.
pub fn storable(
    request: &ClientRequest<'_>,
    response: &OriginResponse<'_>,
    rules: &CacheRules<'_>,
    response_time: u64,
) -> Result<(), NotStorable> {
    check_request(request)?;
    check_status(response)?;
    check_directives(request, response)?;
    if vary_names(response.fields) == Vary::Any {
        return Err(NotStorable::Vary);
    }
    check_use(response, rules, response_time)
}

// RFC: 9111-3-1, 9111-5.2.1.5-1, 9111-3.3-1
fn check_request(request: &ClientRequest<'_>) -> Result<(), NotStorable> {
    if !request.is_get {
        return Err(NotStorable::Method);
    }
    if request.has_body {
        return Err(NotStorable::RequestBody);
    }
    if request.directives.no_store {
        return Err(NotStorable::RequestNoStore);
    }
    Ok(())
}

// RFC: 9111-3-2, 9111-3-3, 9111-3.3-1
fn check_status(response: &OriginResponse<'_>) -> Result<(), NotStorable> {
    // 206, 304, 412 and 416 concern a range or a precondition of one request, and 425 its moment
    // (RFC 8470 §5.2), not the resource; codes from 600 on are invalid (RFC 9110 §15).
    let is_of_request = matches!(response.status, 206 | 304 | 412 | 416 | 425);
    if !matches!(response.status, 200..=599) || is_of_request {
        return Err(NotStorable::Status);
    }
    if response.directives.must_understand && !is_understood(response.status) {
        return Err(NotStorable::MustUnderstand);
    }
    Ok(())
}

/// Whether this is a status code of RFC 9110 §15 that a cache can handle with RFC 9111 alone.
// RFC: 9111-3-3
fn is_understood(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 300..=303 | 307 | 308 | 404 | 405 | 410 | 414 | 501)
}

// RFC: 9111-3-4, 9111-3-5, 9111-3-6, 9111-3.5-1, 9111-5.2.2.3-2, 9111-5.2.2.5-1, 9111-5.2.2.7-1
fn check_directives(
    request: &ClientRequest<'_>,
    response: &OriginResponse<'_>,
) -> Result<(), NotStorable> {
    let directives = &response.directives;
    // RFC 9111 §5.2.2.3: `no-store` next to `must-understand` is meant for caches that do not know
    // `must-understand`.
    if directives.no_store && !directives.must_understand {
        return Err(NotStorable::NoStore);
    }
    if directives.private {
        return Err(NotStorable::Private);
    }
    if request.directives.is_authorized && !directives.permits_authorized() {
        return Err(NotStorable::Authorization);
    }
    Ok(())
}

// RFC: 9111-3-7
fn check_use(
    response: &OriginResponse<'_>,
    rules: &CacheRules<'_>,
    response_time: u64,
) -> Result<(), NotStorable> {
    let lifetime = freshness_lifetime(response, rules, response_time);
    let is_for_all = rules.set_cookie_is_storable
        && (response.directives.public || lifetime.is_explicit() && lifetime.seconds > 0);
    // RFC 9111 §7.3 does not forbid storing a response with Set-Cookie. Forebay does not store it
    // by default: even with validation, it would pass one user's cookie to the next user. Most
    // origins that send a cookie with a bare ETag do not intend that.
    if response.fields.contains(FieldId::SetCookie) && !is_for_all {
        return Err(NotStorable::SetCookie);
    }
    let is_usable = lifetime.seconds > 0 && !response.directives.no_cache;
    if !is_usable && !can_validate(response) {
        return Err(NotStorable::NoFreshness);
    }
    Ok(())
}

/// Whether a 304 could confirm the response.
fn can_validate(response: &OriginResponse<'_>) -> bool {
    let has_validator = response.fields.only(FieldId::Etag).is_some_and(etag::can_validate)
        || date_field(response.fields, FieldId::LastModified).is_some();
    has_validator && is_renewable(response.status)
}

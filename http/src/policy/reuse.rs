//! Decides whether a stored response may answer a request without validation (RFC 9111 §4).

use crate::policy::directives::RequestDirectives;
use crate::policy::freshness::current_age;
use crate::policy::meta::StoredMeta;

/// Why a request goes to the origin (RFC 9211 §2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardReason {
    /// Caching is off for this request.
    Bypass,
    /// The cache does not answer this method.
    Method,
    /// Nothing is stored for this URI.
    UriMiss,
    /// A response for this URI is stored, but no variant matches the request's fields.
    VaryMiss,
    /// No matching response is stored; it is not known whether `UriMiss` or `VaryMiss` applies.
    Miss,
    /// The stored response is fresh, but the request does not accept it.
    Request,
    /// The stored response is stale, or must be validated in any case.
    Stale,
    /// The stored response has only a part of the body that the request asks for.
    Partial,
}

impl ForwardReason {
    /// The value of `fwd` in Cache-Status.
    pub const fn token(self) -> &'static str {
        match self {
            ForwardReason::Bypass => "bypass",
            ForwardReason::Method => "method",
            ForwardReason::UriMiss => "uri-miss",
            ForwardReason::VaryMiss => "vary-miss",
            ForwardReason::Miss => "miss",
            ForwardReason::Request => "request",
            ForwardReason::Stale => "stale",
            ForwardReason::Partial => "partial",
        }
    }
}

/// The decision about a stored response that matches the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReuseDecision {
    /// Serve the stored response.
    Serve {
        /// The value of the Age field, in seconds.
        age: u32,
        /// Remaining freshness in seconds; 0 or negative if the client accepts a stale response.
        ttl: i64,
    },
    /// Validate the stored response with the origin first.
    Validate(ForwardReason),
}

/// RFC 9111 §4, §5.2.1: decides whether a stored response may be served without validation.
///
/// `no-store` in the request has no effect here: it forbids storing the response to that request,
/// but a stored response may still be used (§5.2.1.5).
// RFC: 9111-3.5-1, 9111-4-4, 9111-4-5, 9111-5.2.2.4-1
pub fn judge(meta: &StoredMeta, request: &RequestDirectives, now: u64) -> ReuseDecision {
    let age = current_age(meta.initial_age_s, meta.response_time, now);
    let ttl = i64::from(meta.lifetime_s) - i64::from(age);
    let is_fresh = ttl > 0;
    if meta.no_cache || !is_fresh && !accepts_stale(meta, request, -ttl) {
        return ReuseDecision::Validate(ForwardReason::Stale);
    }
    if *request == RequestDirectives::EMPTY {
        return ReuseDecision::Serve { age, ttl };
    }
    let is_refused = request.no_cache
        || request.max_age.is_some_and(|max_age| is_older(age, max_age))
        || request.min_fresh.is_some_and(|least| ttl < i64::from(least))
        // §3.5: unless the response may be shared, the response for an authorized user may differ.
        || request.is_authorized && !meta.permits_authorized;
    if is_refused {
        return ReuseDecision::Validate(ForwardReason::Request);
    }
    ReuseDecision::Serve { age, ttl }
}

/// RFC 9111 §5.2.1.2, within §4.2.4: whether the request accepts a stale response. `staleness` is
/// the time since the response became stale, in seconds.
// RFC: 9111-4.2.4-1, 9111-4.2.4-2, 9111-5.2.2.2-2
fn accepts_stale(meta: &StoredMeta, request: &RequestDirectives, staleness: i64) -> bool {
    let limit = request.max_stale.filter(|_| !meta.forbids_stale);
    limit.is_some_and(|limit| staleness <= i64::from(limit))
}

/// RFC 9111 §5.2.1.1: whether a response of this age is too old for the request. `max-age=0`
/// accepts no age at all: browsers send it to ask for validation, and a response with age 0 may be
/// nearly a second old.
pub(crate) fn is_older(age: u32, max_age: u32) -> bool {
    max_age == 0 || age > max_age
}

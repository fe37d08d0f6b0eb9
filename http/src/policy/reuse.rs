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

/// Why a stored response that matches a request needs validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValidationCause {
    /// The response says `no-cache` (RFC 9111 §5.2.2.4).
    NoCache,
    /// The response is stale, and the request does not accept that (RFC 9111 §4.2).
    Stale,
    /// The request says `no-cache` (RFC 9111 §5.2.1.4).
    RequestNoCache,
    /// The response is older than the `max-age` of the request (RFC 9111 §5.2.1.1).
    RequestMaxAge,
    /// The response is fresh for less than the `min-fresh` of the request (RFC 9111 §5.2.1.3).
    RequestMinFresh,
    /// The request has Authorization, and the response does not allow sharing (RFC 9111 §3.5).
    Authorization,
}

impl ValidationCause {
    /// The reason for forwarding the request, as Cache-Status gives it.
    pub const fn forward_reason(self) -> ForwardReason {
        match self {
            ValidationCause::NoCache | ValidationCause::Stale => ForwardReason::Stale,
            ValidationCause::RequestNoCache
            | ValidationCause::RequestMaxAge
            | ValidationCause::RequestMinFresh
            | ValidationCause::Authorization => ForwardReason::Request,
        }
    }
}

impl std::fmt::Display for ValidationCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ValidationCause::NoCache => "the response says no-cache (RFC 9111 §5.2.2.4)",
            ValidationCause::Stale => "the response is stale (RFC 9111 §4.2)",
            ValidationCause::RequestNoCache => "the request says no-cache (RFC 9111 §5.2.1.4)",
            ValidationCause::RequestMaxAge => {
                "the response is older than the max-age of the request (RFC 9111 §5.2.1.1)"
            }
            ValidationCause::RequestMinFresh => {
                "the response is fresh for less than the min-fresh of the request \
                 (RFC 9111 §5.2.1.3)"
            }
            ValidationCause::Authorization => {
                "the request has Authorization, and the response does not allow sharing \
                 (RFC 9111 §3.5)"
            }
        })
    }
}

/// RFC 9111 §4, §5.2.1: decides whether a stored response may be served without validation.
///
/// `no-store` in the request has no effect here: it forbids storing the response to that request,
/// but a stored response may still be used (§5.2.1.5).
// RFC: 9111-3.5-1, 9111-4-4, 9111-4-5, 9111-5.2.2.4-1
pub fn judge(meta: &StoredMeta, request: &RequestDirectives, now: u64) -> ReuseDecision {
    let age = current_age(meta.initial_age_s, meta.response_time, now);
    let ttl = i64::from(meta.lifetime_s) - i64::from(age);
    match cause_at(meta, request, (age, ttl)) {
        Some(cause) => ReuseDecision::Validate(cause.forward_reason()),
        None => ReuseDecision::Serve { age, ttl },
    }
}

/// Returns why [`judge`] has a stored response validated; `None` if it may be served.
pub fn validation_cause(
    meta: &StoredMeta,
    request: &RequestDirectives,
    now: u64,
) -> Option<ValidationCause> {
    let age = current_age(meta.initial_age_s, meta.response_time, now);
    let ttl = i64::from(meta.lifetime_s) - i64::from(age);
    cause_at(meta, request, (age, ttl))
}

#[inline]
fn cause_at(
    meta: &StoredMeta,
    request: &RequestDirectives,
    (age, ttl): (u32, i64),
) -> Option<ValidationCause> {
    if meta.no_cache {
        return Some(ValidationCause::NoCache);
    }
    if ttl <= 0 && !accepts_stale(meta, request, -ttl) {
        return Some(ValidationCause::Stale);
    }
    if *request == RequestDirectives::EMPTY {
        return None;
    }
    if request.no_cache {
        Some(ValidationCause::RequestNoCache)
    } else if request.max_age.is_some_and(|max_age| is_older(age, max_age)) {
        Some(ValidationCause::RequestMaxAge)
    } else if request.min_fresh.is_some_and(|least| ttl < i64::from(least)) {
        Some(ValidationCause::RequestMinFresh)
    } else if request.is_authorized && !meta.permits_authorized {
        // §3.5: unless the response may be shared, the response for an authorized user may differ.
        Some(ValidationCause::Authorization)
    } else {
        None
    }
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

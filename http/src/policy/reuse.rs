//! May a stored response answer this request as it is (RFC 9111 §4)?

use crate::policy::directives::RequestDirectives;
use crate::policy::freshness::current_age;
use crate::policy::meta::StoredMeta;

/// Why a request goes to the origin (RFC 9211 §2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardReason {
    /// Caching is off for it.
    Bypass,
    /// Its method is not answered from a cache.
    Method,
    /// Nothing is stored for its URI.
    UriMiss,
    /// Something is stored, but no variant for its fields.
    VaryMiss,
    /// Nothing is stored; which of the two above is not known.
    Miss,
    /// What is stored is fresh, but the request does not accept it.
    Request,
    /// What is stored is stale, or must be validated anyway.
    Stale,
    /// What is stored does not cover it.
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

/// What to do with a stored response that matches the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReuseDecision {
    /// Answer with it.
    Serve {
        /// For the Age field, in seconds.
        age: u32,
        /// Freshness left, in seconds; negative or 0 if the client accepted it stale.
        ttl: i64,
    },
    /// Validate it with the origin first.
    Validate(ForwardReason),
}

/// RFC 9111 §4, §5.2.1.
///
/// `no-store` in the request does not matter here: it forbids storing the answer to that
/// request, and a stored response may still be used for it (§5.2.1.5).
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
        // §3.5: without leave to share, the answer to a known user may differ from this one.
        || request.is_authorized && !meta.permits_authorized;
    if is_refused {
        return ReuseDecision::Validate(ForwardReason::Request);
    }
    ReuseDecision::Serve { age, ttl }
}

/// RFC 9111 §5.2.1.2, within §4.2.4: `staleness` is how long it has been stale, in seconds.
fn accepts_stale(meta: &StoredMeta, request: &RequestDirectives, staleness: i64) -> bool {
    let limit = request.max_stale.filter(|_| !meta.forbids_stale);
    limit.is_some_and(|limit| staleness <= i64::from(limit))
}

/// RFC 9111 §5.2.1.1. In whole seconds an age of 0 may be nearly 1, so `max-age=0`, which is how
/// a browser asks for validation, accepts no age at all.
fn is_older(age: u32, max_age: u32) -> bool {
    max_age == 0 || age > max_age
}

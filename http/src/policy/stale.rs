//! Decides whether a stale response may be served without validation (RFC 9111 §4.2.4, RFC 5861).

use crate::policy::directives::RequestDirectives;
use crate::policy::freshness::current_age;
use crate::policy::meta::StoredMeta;
use crate::policy::reason::Reason;
use crate::policy::reuse::is_older;

/// The reason for serving a stale response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleCause {
    /// The response is validated in the background (`stale-while-revalidate`, RFC 5861 §3).
    Revalidating,
    /// The origin answered with an error, or its answer broke off (`stale-if-error`, RFC 5861 §4).
    Error,
    /// The origin cannot be reached: the cache is disconnected (RFC 9111 §4.2.4).
    Unreachable,
}

impl StaleCause {
    /// The word for the reason.
    pub const fn reason(self) -> Reason {
        match self {
            StaleCause::Revalidating => Reason::StaleWhileRevalidate,
            StaleCause::Error => Reason::StaleIfError,
            StaleCause::Unreachable => Reason::StaleIfUnreachable,
        }
    }
}

/// Settings of a route for serving stale responses: limits of their staleness in seconds. They
/// apply to responses whose origin has not said otherwise; 0 forbids it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaleRules {
    /// Limit while the response is validated in the background.
    pub stale_while_revalidate_s: u32,
    /// Limit if the origin answers with an error.
    pub stale_if_error_s: u32,
    /// Limit if the origin cannot be reached.
    pub stale_if_unreachable_s: u32,
}

/// RFC 9111 §4.2.4, RFC 5861: whether a stored response that is not fresh may be served without
/// validation.
///
/// The directives `must-revalidate`, `proxy-revalidate`, `s-maxage` and `no-cache` of the response
/// forbid it, and so does `no-cache` of the request. A directive of the origin that gives a limit
/// replaces the setting. The request may extend the limit for errors.
// RFC: 9111-4.2.4-1, 9111-4.2.4-2, 9111-5.2.2.2-1, 9111-5.2.2.2-2, 9111-5.2.2.8-1, 9111-5.2.2.10-1
// RFC: 5861-3-2, 5861-4-1
pub fn may_serve_stale(
    meta: &StoredMeta,
    request: &RequestDirectives,
    rules: &StaleRules,
    cause: StaleCause,
    now: u64,
) -> bool {
    let is_private = request.is_authorized && !meta.permits_authorized;
    // An old error is no better than a new one.
    if is_failure_status(meta.status) {
        return false;
    }
    if meta.no_cache || meta.forbids_stale || request.no_cache || is_private {
        return false;
    }
    let age = current_age(meta.initial_age_s, meta.response_time, now);
    let staleness = age.saturating_sub(meta.lifetime_s);
    let limit = match cause {
        // RFC 5861 §4 sets the request's freshness directives aside for errors only.
        StaleCause::Revalidating
            if request.min_fresh.is_some()
                || request.max_age.is_some_and(|max_age| is_older(age, max_age)) =>
        {
            0
        }
        StaleCause::Revalidating => {
            meta.stale_while_revalidate_s.unwrap_or(rules.stale_while_revalidate_s)
        }
        StaleCause::Error => error_limit(meta, request, rules.stale_if_error_s),
        StaleCause::Unreachable => {
            let setting = rules.stale_if_unreachable_s.max(rules.stale_if_error_s);
            error_limit(meta, request, setting)
        }
    };
    limit > 0 && staleness <= limit
}

/// RFC 5861 §4: whether a status says that the origin failed. Then it would probably fail for other
/// requests too.
pub fn is_failure_status(status: u16) -> bool {
    matches!(status, 500 | 502..=504)
}

fn error_limit(meta: &StoredMeta, request: &RequestDirectives, setting: u32) -> u32 {
    meta.stale_if_error_s.unwrap_or(setting).max(request.stale_if_error.unwrap_or(0))
}

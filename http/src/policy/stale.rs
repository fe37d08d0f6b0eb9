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

    /// The section that permits serving a stale response for this reason.
    pub const fn section(self) -> &'static str {
        match self {
            StaleCause::Revalidating => "RFC 5861 §3",
            StaleCause::Error => "RFC 5861 §4",
            StaleCause::Unreachable => "RFC 9111 §4.2.4",
        }
    }
}

/// Settings of a route for serving stale responses: limits of their staleness in seconds. They
/// apply to responses for which the origin gives no limit; 0 forbids serving stale responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaleRules {
    /// Limit while the response is validated in the background.
    pub stale_while_revalidate_s: u32,
    /// Limit if the origin answers with an error.
    pub stale_if_error_s: u32,
    /// Limit if the origin cannot be reached.
    pub stale_if_unreachable_s: u32,
}

/// Why a stored response must not be served stale, even if it has only just become stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleRefusal {
    /// The response is an error itself.
    Error,
    /// The response says `no-cache`.
    NoCache,
    /// The response says `must-revalidate`, `proxy-revalidate` or `s-maxage`.
    Forbidden,
    /// The request says `no-cache`.
    RequestNoCache,
    /// The request has Authorization, and the response does not allow sharing.
    Authorization,
    /// The `max-age` or `min-fresh` of the request asks for a newer response.
    RequestFreshness,
}

impl std::fmt::Display for StaleRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            StaleRefusal::Error => "the stored response is an error",
            StaleRefusal::NoCache => "the response says no-cache",
            StaleRefusal::Forbidden => {
                "the response says must-revalidate, proxy-revalidate or s-maxage"
            }
            StaleRefusal::RequestNoCache => "the request says no-cache",
            StaleRefusal::Authorization => {
                "the request has Authorization, and the response does not allow sharing"
            }
            StaleRefusal::RequestFreshness => "the min-fresh or max-age of the request forbids it",
        })
    }
}

/// RFC 9111 §4.2.4, RFC 5861: whether a stored response that is not fresh may be served without
/// validation, which requires that its staleness is within the limit.
pub fn may_serve_stale(
    meta: &StoredMeta,
    request: &RequestDirectives,
    rules: &StaleRules,
    cause: StaleCause,
    now: u64,
) -> bool {
    let staleness = age_at(meta, now).saturating_sub(meta.lifetime_s);
    let limit = stale_limit(meta, request, rules, cause, now);
    limit.is_ok_and(|limit| limit > 0 && staleness <= limit)
}

/// RFC 9111 §4.2.4, RFC 5861: returns the staleness in seconds up to which a stored response may be
/// served without validation; 0 if neither the origin nor a setting permits it.
///
/// The directives `must-revalidate`, `proxy-revalidate`, `s-maxage` and `no-cache` of the response
/// forbid it, and so does `no-cache` of the request. A directive of the origin that gives a limit
/// replaces the setting. The request may extend the limit for errors.
///
/// # Errors
/// [`StaleRefusal`]: no limit applies, because serving the response stale is forbidden.
// RFC: 9111-4.2.4-1, 9111-4.2.4-2, 9111-5.2.2.2-1, 9111-5.2.2.2-2, 9111-5.2.2.8-1, 9111-5.2.2.10-1
// RFC: 5861-3-2, 5861-4-1
pub fn stale_limit(
    meta: &StoredMeta,
    request: &RequestDirectives,
    rules: &StaleRules,
    cause: StaleCause,
    now: u64,
) -> Result<u32, StaleRefusal> {
    let is_private = request.is_authorized && !meta.permits_authorized;
    let refusals = [
        // An old error is no better than a new one.
        (is_failure_status(meta.status), StaleRefusal::Error),
        (meta.no_cache, StaleRefusal::NoCache),
        (meta.forbids_stale, StaleRefusal::Forbidden),
        (request.no_cache, StaleRefusal::RequestNoCache),
        (is_private, StaleRefusal::Authorization),
    ];
    if let Some((_, refusal)) = refusals.iter().find(|(applies, _)| *applies) {
        return Err(*refusal);
    }
    let is_too_old = |max_age| is_older(age_at(meta, now), max_age);
    match cause {
        // RFC 5861 §4 sets the request's freshness directives aside for errors only.
        StaleCause::Revalidating
            if request.min_fresh.is_some() || request.max_age.is_some_and(is_too_old) =>
        {
            Err(StaleRefusal::RequestFreshness)
        }
        StaleCause::Revalidating => {
            let limit = meta.stale_while_revalidate_s.unwrap_or(rules.stale_while_revalidate_s);
            match (request.max_stale, request.max_age) {
                (Some(max_stale), _) => Ok(limit.min(max_stale)),
                // A client with `max-age` accepts no stale response unless it says so.
                (None, Some(_)) => Err(StaleRefusal::RequestFreshness),
                (None, None) => Ok(limit),
            }
        }
        StaleCause::Error => Ok(error_limit(meta, request, rules.stale_if_error_s)),
        StaleCause::Unreachable => {
            let setting = rules.stale_if_unreachable_s.max(rules.stale_if_error_s);
            Ok(error_limit(meta, request, setting))
        }
    }
}

fn age_at(meta: &StoredMeta, now: u64) -> u32 {
    current_age(meta.initial_age_s, meta.response_time, now)
}

/// RFC 5861 §4: whether a status says that the origin failed. Then it would probably fail for other
/// requests too.
pub fn is_failure_status(status: u16) -> bool {
    matches!(status, 500 | 502..=504)
}

fn error_limit(meta: &StoredMeta, request: &RequestDirectives, setting: u32) -> u32 {
    meta.stale_if_error_s.unwrap_or(setting).max(request.stale_if_error.unwrap_or(0))
}

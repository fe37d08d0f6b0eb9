//! Freshness lifetime and age of a response (RFC 9111 §4.2).

use crate::fields::FieldId;
use crate::policy::directives::DELTA_S_MAX;
use crate::policy::exchange::date_field;
use crate::policy::exchange::{CacheRules, OriginResponse, ResponseTiming};

/// The source of a freshness lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifetimeSource {
    /// The directive `s-maxage`.
    SharedMaxAge,
    /// The directive `max-age`.
    MaxAge,
    /// The time from Date to Expires.
    Expires,
    /// A percentage of the time since Last-Modified.
    Heuristic,
    /// The route's setting.
    Setting,
    /// No source gives a lifetime: the response is stale from the start.
    Nothing,
}

/// The time for which a response is fresh, counted from its creation by the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreshnessLifetime {
    /// The lifetime in seconds; 0 means that the response is stale from the start.
    pub seconds: u32,
    /// The source of this value.
    pub source: LifetimeSource,
}

impl FreshnessLifetime {
    fn new(seconds: u64, source: LifetimeSource) -> FreshnessLifetime {
        let seconds = u32::try_from(seconds).map_or(DELTA_S_MAX, |seconds| seconds);
        FreshnessLifetime { seconds: seconds.min(DELTA_S_MAX), source }
    }

    /// Whether the origin gave the lifetime, rather than a heuristic or a setting.
    pub fn is_explicit(self) -> bool {
        use LifetimeSource::{Expires, MaxAge, SharedMaxAge};
        matches!(self.source, SharedMaxAge | MaxAge | Expires)
    }
}

/// RFC 9111 §4.2.1: returns the lifetime from the first of these sources that is present:
/// `s-maxage`, `max-age`, Expires, a heuristic, the route's default. A malformed value counts as a
/// lifetime of 0. A targeted field goes before Expires, too (RFC 9213 §2.2).
pub fn freshness_lifetime(
    response: &OriginResponse<'_>,
    rules: &CacheRules<'_>,
    response_time: u64,
) -> FreshnessLifetime {
    if let Some(seconds) = response.directives.s_maxage {
        return FreshnessLifetime::new(u64::from(seconds), LifetimeSource::SharedMaxAge);
    }
    if let Some(seconds) = response.directives.max_age {
        return FreshnessLifetime::new(u64::from(seconds), LifetimeSource::MaxAge);
    }
    // RFC 9110 §6.6.1: without a usable Date, the time of arrival is used.
    let date = date_field(response.fields, FieldId::Date).unwrap_or(response_time);
    if response.fields.contains(FieldId::Expires) && !response.is_targeted {
        let expires = date_field(response.fields, FieldId::Expires).unwrap_or(0);
        return FreshnessLifetime::new(expires.saturating_sub(date), LifetimeSource::Expires);
    }
    assumed_lifetime(response, rules, date)
}

/// RFC 9111 §4.2.2: returns the heuristic lifetime, or else the route's default. Either applies
/// only to a response for which a heuristic is allowed.
fn assumed_lifetime(
    response: &OriginResponse<'_>,
    rules: &CacheRules<'_>,
    date: u64,
) -> FreshnessLifetime {
    let is_allowed = is_heuristically_cacheable(response.status) || response.directives.public;
    // A response that sets a cookie concerns one user, unless the origin says otherwise.
    if !is_allowed || response.fields.contains(FieldId::SetCookie) {
        return FreshnessLifetime::new(0, LifetimeSource::Nothing);
    }
    let modified = date_field(response.fields, FieldId::LastModified).unwrap_or(date);
    let unchanged_s = date.saturating_sub(modified);
    let share = unchanged_s.saturating_mul(u64::from(rules.heuristic_percent)) / 100;
    if share > 0 {
        let seconds_max = match response.status {
            // The cause of an error may be repaired at any moment, and Last-Modified only says when
            // the error page was written.
            400.. => rules.heuristic_s_max.min(rules.heuristic_error_s_max),
            _ => rules.heuristic_s_max,
        };
        let seconds = share.min(u64::from(seconds_max));
        return FreshnessLifetime::new(seconds, LifetimeSource::Heuristic);
    }
    if rules.default_freshness_s > 0 {
        let seconds = u64::from(rules.default_freshness_s);
        return FreshnessLifetime::new(seconds, LifetimeSource::Setting);
    }
    FreshnessLifetime::new(0, LifetimeSource::Nothing)
}

/// RFC 9110 §15.1: whether a heuristic is allowed for this status. 206 is not in the list, because
/// Forebay does not store partial responses.
pub fn is_heuristically_cacheable(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// RFC 9111 §4.2.3, `corrected_initial_age`: returns the age in seconds on arrival, the larger of
/// the ages that Date and Age give.
pub fn initial_age(date: Option<u64>, arrival: &ResponseTiming) -> u32 {
    let response_time = arrival.response_time;
    let apparent_age = response_time.saturating_sub(date.unwrap_or(response_time));
    let response_delay = response_time.saturating_sub(arrival.request_time);
    let corrected_age = u64::from(arrival.age_value).saturating_add(response_delay);
    clamp_age(apparent_age.max(corrected_age))
}

/// RFC 9111 §4.2.3: returns the age in seconds at `now`. If the clock has stepped back, no time is
/// added.
pub fn current_age(initial_age: u32, response_time: u64, now: u64) -> u32 {
    let resident_time = now.saturating_sub(response_time);
    clamp_age(u64::from(initial_age).saturating_add(resident_time))
}

fn clamp_age(seconds: u64) -> u32 {
    u32::try_from(seconds).map_or(DELTA_S_MAX, |seconds| seconds.min(DELTA_S_MAX))
}

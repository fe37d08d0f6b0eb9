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
    /// The route's setting for responses without an explicit lifetime.
    Setting,
    /// The route's setting for all responses.
    Override,
    /// No source gives a lifetime: the response is stale from the start.
    Nothing,
}

impl LifetimeSource {
    /// The section that gives the source its meaning; for a setting, the section that leaves the
    /// lifetime to caches.
    pub const fn section(self) -> &'static str {
        match self {
            LifetimeSource::SharedMaxAge => "RFC 9111 §5.2.2.10",
            LifetimeSource::MaxAge => "RFC 9111 §5.2.2.1",
            LifetimeSource::Expires => "RFC 9111 §5.3",
            LifetimeSource::Heuristic | LifetimeSource::Setting => "RFC 9111 §4.2.2",
            LifetimeSource::Override => "against RFC 9111 §4.2.1",
            LifetimeSource::Nothing => "RFC 9111 §4.2.1",
        }
    }
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

/// Freshness lifetimes of a route by status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusFreshness(Vec<(u16, u32)>);

impl StatusFreshness {
    /// No lifetimes.
    pub const EMPTY: StatusFreshness = StatusFreshness(Vec::new());

    /// Creates the list from pairs of a status and its lifetime in seconds.
    pub fn new(lifetimes: Vec<(u16, u32)>) -> StatusFreshness {
        StatusFreshness(lifetimes)
    }

    /// Returns the lifetime of a status in seconds.
    pub fn of(&self, status: u16) -> Option<u32> {
        let mut lifetimes = self.0.iter();
        lifetimes.find(|(known, _)| *known == status).map(|(_, seconds)| *seconds)
    }
}

/// RFC 9111 §4.2.1: returns the lifetime from the first of these sources that is present: the
/// route's override, `s-maxage`, `max-age`, Expires, the route's lifetime for the status, the
/// route's default, a heuristic. A malformed value counts as a lifetime of 0. A targeted field also
/// takes precedence over Expires (RFC 9213 §2.2).
/// RFC: 9111-4.2.2-1
pub fn freshness_lifetime(
    response: &OriginResponse<'_>,
    rules: &CacheRules<'_>,
    response_time: u64,
) -> FreshnessLifetime {
    // RFC 9110 §6.6.1: without a usable Date, the time of arrival is used.
    let date = date_field(response.fields, FieldId::Date).unwrap_or(response_time);
    let explicit = explicit_lifetime(response, date);
    let is_overridden = rules.override_freshness_s > 0
        // An error may be over at any moment, and a cookie concerns one user.
        && response.status < 400
        && !response.fields.contains(FieldId::SetCookie)
        && (explicit.is_some() || allows_heuristic(response));
    if is_overridden {
        let seconds = u64::from(rules.override_freshness_s);
        return FreshnessLifetime::new(seconds, LifetimeSource::Override);
    }
    explicit.unwrap_or_else(|| assumed_lifetime(response, rules, date))
}

// RFC: 9111-5.3-1, 9111-5.3-2, 9111-5.3-3, 9213-2.2-2
fn explicit_lifetime(response: &OriginResponse<'_>, date: u64) -> Option<FreshnessLifetime> {
    if let Some(seconds) = response.directives.s_maxage {
        return Some(FreshnessLifetime::new(seconds.into(), LifetimeSource::SharedMaxAge));
    }
    if let Some(seconds) = response.directives.max_age {
        return Some(FreshnessLifetime::new(seconds.into(), LifetimeSource::MaxAge));
    }
    if response.fields.contains(FieldId::Expires) && !response.is_targeted {
        let expires = date_field(response.fields, FieldId::Expires).unwrap_or(0);
        let seconds = expires.saturating_sub(date);
        return Some(FreshnessLifetime::new(seconds, LifetimeSource::Expires));
    }
    None
}

/// RFC 9111 §4.2.2: whether a response without an explicit lifetime may get one from a heuristic or
/// a setting.
fn allows_heuristic(response: &OriginResponse<'_>) -> bool {
    is_heuristically_cacheable(response.status) || response.directives.public
}

/// RFC 9111 §4.2.2: returns the route's lifetime for the status, the route's default, or else the
/// heuristic lifetime. The default and the heuristic apply only to a response for which a heuristic
/// is allowed.
fn assumed_lifetime(
    response: &OriginResponse<'_>,
    rules: &CacheRules<'_>,
    date: u64,
) -> FreshnessLifetime {
    // A response that sets a cookie concerns one user, unless the origin says otherwise.
    if response.fields.contains(FieldId::SetCookie) {
        return FreshnessLifetime::new(0, LifetimeSource::Nothing);
    }
    if let Some(seconds) = rules.status_freshness.of(response.status) {
        return FreshnessLifetime::new(seconds.into(), LifetimeSource::Setting);
    }
    if !allows_heuristic(response) {
        return FreshnessLifetime::new(0, LifetimeSource::Nothing);
    }
    // The cause of an error may be repaired at any moment, and Last-Modified only says when the
    // error page was written.
    let error_s_max = if response.status < 400 { u32::MAX } else { rules.heuristic_error_s_max };
    if rules.default_freshness_s > 0 {
        let seconds = rules.default_freshness_s.min(error_s_max);
        return FreshnessLifetime::new(seconds.into(), LifetimeSource::Setting);
    }
    let modified = date_field(response.fields, FieldId::LastModified).unwrap_or(date);
    let unchanged_s = date.saturating_sub(modified);
    let share = unchanged_s.saturating_mul(u64::from(rules.heuristic_percent)) / 100;
    if share > 0 {
        let seconds = share.min(rules.heuristic_s_max.min(error_s_max).into());
        return FreshnessLifetime::new(seconds, LifetimeSource::Heuristic);
    }
    FreshnessLifetime::new(0, LifetimeSource::Nothing)
}

/// Returns the most seconds by which a jitter of `percent` shortens the time for which a response
/// with this lifetime and age on arrival stays fresh.
pub fn jitter_s_max(lifetime_s: u32, initial_age_s: u32, percent: u8) -> u32 {
    let left_s = u64::from(lifetime_s.saturating_sub(initial_age_s));
    u32::try_from(left_s * u64::from(percent.min(100)) / 100).unwrap_or(u32::MAX)
}

/// Returns a lifetime that a jitter of `percent` has shortened, so that responses which were stored
/// together do not become stale together. `random` is a random number. RFC 9111 §4.2 permits a
/// cache to use a response for a shorter time than its lifetime; it is never longer.
pub fn with_jitter(lifetime_s: u32, initial_age_s: u32, percent: u8, random: u64) -> u32 {
    let most = u64::from(jitter_s_max(lifetime_s, initial_age_s, percent));
    // The high bits of a random number may be better than the low ones. `most` fits in 32 bits, so
    // the product does not overflow.
    let shorter_s = ((random >> 32) * (most + 1)) >> 32;
    lifetime_s.saturating_sub(u32::try_from(shorter_s).unwrap_or(u32::MAX))
}

/// RFC 9110 §15.1: whether a heuristic is allowed for this status. 206 is not in the list, because
/// parts are stored with the head of the whole response, whose status is 200.
// RFC: 9111-3-7
pub fn is_heuristically_cacheable(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// RFC 9111 §4.2.3, `corrected_initial_age`: returns the age in seconds on arrival, the larger of
/// the ages that Date and Age give.
// RFC: 9111-4.2.3-1
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

//! The times at which certificates are ordered, as Unix times in seconds.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::limits::{ACME_ORDER_S_MIN, ACME_RETRY_AFTER_S_MAX, ACME_RETRY_S_MAX};

/// A range of times for a renewal, which a certificate authority suggests (RFC 9773 §4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RenewalWindow {
    pub(super) start: u64,
    pub(super) end: u64,
}

/// Returns the time at which a certificate is renewed: at a point of the authority's window, or
/// else after two thirds of its life. The point depends on `seed`, so that the certificates of many
/// servers are not renewed at the same time, and that a restart does not change it.
///
/// A window cannot put the renewal off until less than a tenth of the life is left.
pub(super) fn renewal_time(
    (from, until): (u64, u64),
    window: Option<RenewalWindow>,
    seed: &str,
) -> u64 {
    let life = until.saturating_sub(from);
    let window = window.unwrap_or(RenewalWindow {
        start: from + life / 3 * 2 - life / 30,
        end: from + life / 3 * 2,
    });
    let length = window.end.saturating_sub(window.start);
    let mut hasher = DefaultHasher::new();
    (from, until, seed).hash(&mut hasher);
    let at = window.start + hasher.finish() % (length + 1);
    at.min(until - life / 10)
}

/// Returns the time of the next order after `failures` failed ones, of which the last ends at
/// `now`. The delay doubles with each failure. `retry_after` is the time that the authority has
/// asked for (RFC 9110 §10.2.3).
pub(super) fn retry_time(now: u64, failures: u32, retry_ms: u64, retry_after: Option<u64>) -> u64 {
    let first = (retry_ms / 1000).max(1);
    let doubled = first.saturating_mul(1 << failures.saturating_sub(1).min(30));
    let own = now + doubled.min(ACME_RETRY_S_MAX.max(first));
    let asked = retry_after.unwrap_or(0).min(now + ACME_RETRY_AFTER_S_MAX);
    own.max(asked)
}

/// Returns the time before which a certificate is not ordered again, whatever the names of the next
/// order: processes that share the directory may have different ones. `issued` is the time of the
/// last order, and `life` that of its certificate.
pub(super) fn time_after_order(issued: u64, life: (u64, u64), retry_ms: u64) -> u64 {
    let third = life.1.saturating_sub(life.0) / 3;
    issued.saturating_add((retry_ms / 1000).max(ACME_ORDER_S_MIN).min(third))
}

/// Returns a time for the next step, as it was stored; 0 if the clock must have been wrong when it
/// was, because no step is put off for so long.
pub(super) fn credible(time: u64, now: u64) -> u64 {
    if time > now.saturating_add(ACME_RETRY_AFTER_S_MAX) { 0 } else { time }
}

/// Whether a certificate is so near its end that an operator should know: less than a week, and
/// less than a tenth of its life are left.
pub(crate) fn is_near_end((from, until): (u64, u64), now: u64) -> bool {
    const WEEK_S: u64 = 7 * 86_400;
    until.saturating_sub(now) < (until.saturating_sub(from) / 10).min(WEEK_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400;

    #[test]
    fn a_certificate_is_renewed_after_two_thirds_of_its_life_or_in_the_window() {
        let life = (1_000 * DAY, 1_090 * DAY);
        let window = |start, end| Some(RenewalWindow { start: start * DAY, end: end * DAY });
        let cases = [
            (None, 1_057, 1_060),
            (window(1_010, 1_012), 1_010, 1_012),
            // The authority wants the certificate to be replaced.
            (window(900, 901), 900, 901),
            // A window that comes too late does not count.
            (window(2_000, 2_001), 1_081, 1_081),
            (window(1_080, 3_000), 1_080, 1_081),
            (window(1_020, 1_010), 1_020, 1_020),
        ];
        for (window, earliest, latest) in cases {
            for seed in ["a", "b", "c", "d"] {
                let at = renewal_time(life, window, seed);
                assert_eq!(at, renewal_time(life, window, seed), "it stays the same");
                let range = earliest * DAY..=latest * DAY;
                assert!(range.contains(&at), "{window:?} {seed}: {}", at as f64 / DAY as f64);
            }
        }
        let times: std::collections::HashSet<_> =
            (0..100).map(|seed| renewal_time(life, None, &seed.to_string())).collect();
        assert!(times.len() > 90, "servers share few times: {}", times.len());
    }

    #[test]
    fn malformed_lives_cause_no_panic() {
        for life in [(0, 0), (10, 5), (u64::MAX, 0), (0, u64::MAX), (5, 6)] {
            for window in [None, Some(RenewalWindow { start: u64::MAX, end: 0 })] {
                let _ = renewal_time(life, window, "a");
            }
        }
    }

    #[test]
    fn the_delay_after_failures_doubles_up_to_a_limit() {
        let cases = [
            (1, None, 600),
            (2, None, 1_200),
            (3, None, 2_400),
            (6, None, 19_200),
            (7, None, 21_600),
            (u32::MAX, None, 21_600),
            (1, Some(700), 700),
            (3, Some(700), 2_400),
            // An authority cannot put orders off for years.
            (1, Some(1 << 40), 86_400),
        ];
        for (failures, asked, expected) in cases {
            let at = retry_time(1_000_000, failures, 600_000, asked.map(|s: u64| s + 1_000_000));
            assert_eq!(at - 1_000_000, expected, "{failures} {asked:?}");
        }
        assert_eq!(retry_time(0, 9, 1_000, None), 256);
    }

    #[test]
    fn a_certificate_is_not_ordered_again_soon_after_it_was_issued() {
        let cases = [
            (90 * DAY, 1_000, 3_600),
            (90 * DAY, 7_200_000, 7_200),
            (600, 1_000, 200),
            (600, 7_200_000, 200),
            (0, 1_000, 0),
        ];
        for (life, retry_ms, expected) in cases {
            let at = time_after_order(5_000, (1_000, 1_000 + life), retry_ms);
            assert_eq!(at - 5_000, expected, "{life} {retry_ms}");
        }
    }

    #[test]
    fn a_time_of_a_clock_that_was_ahead_does_not_count() {
        for (time, expected) in
            [(999, 999), (1_000 + DAY, 1_000 + DAY), (1_001 + DAY, 0), (u64::MAX, 0)]
        {
            assert_eq!(credible(time, 1_000), expected, "{time}");
        }
    }

    #[test]
    fn a_certificate_is_near_its_end_in_the_last_tenth_of_its_life() {
        for (life, left, expected) in
            [(90, 8, false), (90, 6, true), (6, 1, false), (1000, 8, false), (1000, 6, true)]
        {
            let until = 5_000 * DAY;
            let found = is_near_end((until - life * DAY, until), until - left * DAY);
            assert_eq!(found, expected, "{life} {left}");
        }
        assert!(is_near_end((0, 100), 101), "it has expired");
    }
}

//! The times to the first byte of an origin's recent answers, and the decision whether they are so
//! much longer than those of the other origins of its group that the origin is left out.
//!
//! Medians are compared, so that a few requests for slow resources do not count against an origin.

use std::cell::RefCell;
use std::collections::VecDeque;

use crate::config::OutlierLimits;

/// The number of recent answers of an origin that are kept.
const ANSWERS_MAX: usize = 32;

/// The number of recent answers without which an origin is not compared with others.
const ANSWERS_MIN: usize = 16;

/// The age from which an answer says nothing about the origin now.
const ANSWER_AGE_MS_MAX: u64 = 60_000;

/// The times to the first byte of an origin's recent answers.
#[derive(Debug, Default)]
pub(super) struct RecentLatency(RefCell<VecDeque<AnswerTime>>);

#[derive(Clone, Copy, Debug)]
struct AnswerTime {
    at_ms: u64,
    took_us: u64,
}

/// An origin of a group, as seen by the comparison.
#[derive(Clone, Copy, Debug)]
pub(super) struct ComparedOrigin {
    pub(super) is_ejected: bool,
    /// The median of its recent answers, if there are enough of them.
    pub(super) median_us: Option<u64>,
}

impl RecentLatency {
    /// Records an answer that took `took_us` microseconds.
    pub(super) fn note(&self, now_ms: u64, took_us: u64) {
        let mut answers = self.0.borrow_mut();
        if answers.len() >= ANSWERS_MAX {
            answers.pop_front();
        }
        answers.push_back(AnswerTime { at_ms: now_ms, took_us });
    }

    /// Returns the median of the recent answers; `None` if there are too few.
    pub(super) fn median_us(&self, now_ms: u64) -> Option<u64> {
        let answers = self.0.borrow();
        let is_recent = |one: &&AnswerTime| now_ms.saturating_sub(one.at_ms) <= ANSWER_AGE_MS_MAX;
        let recent: Vec<_> = answers.iter().filter(is_recent).map(|one| one.took_us).collect();
        if recent.len() >= ANSWERS_MIN { lower_median(recent) } else { None }
    }

    /// Forgets the answers.
    pub(super) fn clear(&self) {
        self.0.take();
    }
}

impl OutlierLimits {
    /// Whether an answer that took this long can make its origin an outlier.
    pub(super) fn is_slow(self, took_us: u64) -> bool {
        took_us >= self.ms_min.saturating_mul(1000)
    }

    /// Returns the typical time of the other origins if an origin whose answers take `own_us` is an
    /// outlier: if its answers take `factor` times as long, and the origins that are left are at
    /// least half of the group. They get the requests of the outlier too; if they were fewer, a
    /// group that is slow because of its load would break down. `others` has all origins of the
    /// group but the origin itself.
    pub(super) fn exceeded(self, own_us: u64, others: &[ComparedOrigin]) -> Option<u64> {
        let left = others.iter().filter(|other| !other.is_ejected);
        if !self.is_slow(own_us) || left.clone().count() * 2 < others.len() + 1 {
            return None;
        }
        let typical_us = lower_median(left.filter_map(|other| other.median_us).collect())?;
        (own_us >= typical_us.saturating_mul(self.factor)).then_some(typical_us)
    }
}

/// Returns the median; of an even number of values, the smaller one of the two in the middle.
fn lower_median(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    values.get(values.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: OutlierLimits = OutlierLimits { factor: 3, ms_min: 100 };

    #[test]
    fn an_origin_is_an_outlier_only_beside_enough_faster_ones() {
        let origin = |is_ejected, median_us| ComparedOrigin { is_ejected, median_us };
        let (fast, slow) = (origin(false, Some(40_000)), origin(false, Some(900_000)));
        let (ejected, unknown) = (origin(true, Some(1)), origin(false, None));
        let cases: &[(u64, &[ComparedOrigin], Option<u64>)] = &[
            (120_000, &[fast], Some(40_000)),
            (119_999, &[fast], None),
            (99_999, &[origin(false, Some(10))], None),
            (900_000, &[unknown], None),
            (900_000, &[ejected], None),
            (900_000, &[], None),
            (900_000, &[fast, slow], Some(40_000)),
            (900_000, &[fast, ejected], None),
            (900_000, &[slow, slow, fast], None),
            (900_000, &[fast, fast, ejected], Some(40_000)),
            (900_000, &[fast, ejected, ejected], None),
            (900_000, &[fast, unknown, ejected, ejected], None),
        ];
        for (own_us, others, expected) in cases {
            let exceeded = LIMITS.exceeded(*own_us, others);
            assert_eq!(exceeded, *expected, "{own_us} beside {others:?}");
        }
    }

    #[test]
    fn few_old_or_exceptional_answers_do_not_count() {
        let latency = RecentLatency::default();
        (1..ANSWERS_MIN as u64).for_each(|number| latency.note(number, 7));
        assert_eq!(latency.median_us(20), None);
        latency.note(20, 7);
        assert_eq!(latency.median_us(20), Some(7));
        assert_eq!(latency.median_us(1 + ANSWER_AGE_MS_MAX), Some(7));
        assert_eq!(latency.median_us(2 + ANSWER_AGE_MS_MAX), None);
        (0..ANSWERS_MIN - 1).for_each(|_| latency.note(20, 900));
        assert_eq!(latency.median_us(20), Some(7));
        (0..ANSWERS_MAX).for_each(|_| latency.note(20, 900));
        assert_eq!(latency.median_us(20), Some(900));
        assert_eq!(latency.0.borrow().len(), ANSWERS_MAX);
        latency.clear();
        assert_eq!(latency.median_us(20), None);
    }
}

//! The costs of segments other than misses.

use forebay_cache::policy::DrainCause;
use serde::Serialize;

/// The sums and maxima of a run.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Costs {
    /// The bytes of records that were fetched and stored.
    pub(crate) inserted_bytes: u64,
    /// The bytes that were copied from a drained segment to an open segment.
    pub(crate) copied_bytes: u64,
    /// The number of records that were copied in this way.
    pub(crate) copied_records: u64,
    /// The number of segments that were drained, by cause.
    pub(crate) drained_stale: u64,
    pub(crate) drained_dead: u64,
    pub(crate) drained_oldest: u64,
    /// The most segments that were drained before one more was free.
    pub(crate) drained_in_a_row_max: u32,
    /// Sums of shares of the budget, over all samples.
    pub(crate) fresh_percent_sum: f64,
    pub(crate) stale_percent_sum: f64,
    pub(crate) dead_percent_sum: f64,
    pub(crate) dead_percent_max: f64,
    pub(crate) counted: u32,
}

impl Costs {
    /// The copied bytes for each inserted byte.
    pub(crate) fn copied_ratio(&self) -> f64 {
        self.copied_bytes as f64 / self.inserted_bytes.max(1) as f64
    }

    /// The mean share of the budget that holds records that no key refers to any more.
    pub(crate) fn dead_percent(&self) -> f64 {
        self.dead_percent_sum / f64::from(self.counted.max(1))
    }

    /// Mean share of the budget that holds fresh records.
    pub(crate) fn fresh_percent(&self) -> f64 {
        self.fresh_percent_sum / f64::from(self.counted.max(1))
    }

    /// The mean share of the budget that holds stale records that were not requested since they
    /// became stale.
    pub(crate) fn stale_percent(&self) -> f64 {
        self.stale_percent_sum / f64::from(self.counted.max(1))
    }

    pub(super) fn note_drain(&mut self, cause: DrainCause) {
        match cause {
            DrainCause::Stale => self.drained_stale += 1,
            DrainCause::Dead => self.drained_dead += 1,
            DrainCause::Oldest => self.drained_oldest += 1,
        }
    }

    pub(super) fn note_shares(
        &mut self,
        fresh_percent: f64,
        stale_percent: f64,
        dead_percent: f64,
    ) {
        self.fresh_percent_sum += fresh_percent;
        self.stale_percent_sum += stale_percent;
        self.dead_percent_sum += dead_percent;
        self.dead_percent_max = self.dead_percent_max.max(dead_percent);
        self.counted += 1;
    }

    /// Returns the sums since `before`, with the maxima of the whole run.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            inserted_bytes: self.inserted_bytes - before.inserted_bytes,
            copied_bytes: self.copied_bytes - before.copied_bytes,
            copied_records: self.copied_records - before.copied_records,
            drained_stale: self.drained_stale - before.drained_stale,
            drained_dead: self.drained_dead - before.drained_dead,
            drained_oldest: self.drained_oldest - before.drained_oldest,
            fresh_percent_sum: self.fresh_percent_sum - before.fresh_percent_sum,
            stale_percent_sum: self.stale_percent_sum - before.stale_percent_sum,
            dead_percent_sum: self.dead_percent_sum - before.dead_percent_sum,
            counted: self.counted - before.counted,
            ..*self
        }
    }
}

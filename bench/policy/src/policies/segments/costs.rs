//! The costs of segments, apart from hits.

use forebay_cache::policy::DrainCause;
use serde::Serialize;

/// Sums over a run.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Costs {
    /// Bytes of records that were stored because they were fetched.
    pub(crate) inserted_bytes: u64,
    /// Bytes that were copied from a drained segment to an open one.
    pub(crate) copied_bytes: u64,
    /// Records that were.
    pub(crate) copied_records: u64,
    /// Segments that were drained, by cause.
    pub(crate) drained_stale: u64,
    pub(crate) drained_dead: u64,
    pub(crate) drained_oldest: u64,
    /// Most segments that were drained until one more was free.
    pub(crate) drained_in_a_row_max: u32,
    /// Sums of shares of the budget, over all times at which they were counted.
    pub(crate) fresh_percent_sum: f64,
    pub(crate) stale_percent_sum: f64,
    pub(crate) dead_percent_sum: f64,
    pub(crate) dead_percent_max: f64,
    pub(crate) counted: u32,
}

impl Costs {
    /// Bytes copied for each byte that was inserted.
    pub(crate) fn copied_ratio(&self) -> f64 {
        self.copied_bytes as f64 / self.inserted_bytes.max(1) as f64
    }

    /// Mean share of the budget that holds records to which no key leads any more.
    pub(crate) fn dead_percent(&self) -> f64 {
        self.dead_percent_sum / f64::from(self.counted.max(1))
    }

    /// Mean share of the budget that holds fresh records.
    pub(crate) fn fresh_percent(&self) -> f64 {
        self.fresh_percent_sum / f64::from(self.counted.max(1))
    }

    /// Mean share of the budget that holds stale records, not requested since they became stale.
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

    /// The sums since `before`; maxima are those of the whole run.
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

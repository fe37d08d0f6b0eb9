//! The fates of the records of a segment that is drained.

use super::{DrainCause, EvictionRules, Queue, USES_MAX, Victim};

/// The bytes of a segment's live and fresh records for each use count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UseCensus {
    bytes: [u64; USES_MAX as usize + 1],
}

impl UseCensus {
    /// Adds a record.
    pub fn count(&mut self, uses: u8, bytes: u64) {
        self.bytes[usize::from(uses.min(USES_MAX))] += bytes;
    }

    fn used(&self, uses: u8) -> u64 {
        self.bytes[usize::from(uses)]
    }
}

/// A live record of the segment that is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainRecord {
    /// The number of uses of the record since it was put into the segment, up to [`USES_MAX`].
    pub uses: u8,
    /// The length of the record.
    pub bytes: u64,
    /// Whether the record is stale. It was not requested since it became stale, because a request
    /// would have replaced it.
    pub is_stale: bool,
}

/// The fate of a record whose segment is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordFate {
    /// The record is copied to the open segment of this queue, with this use count.
    Move(Queue, u8),
    /// The record is evicted, and its key gets a ghost.
    Ghost,
    /// The record is evicted without a ghost.
    Leave,
}

/// The plan for draining one segment. [`fate`](DrainPlan::fate) is called once for each of its live
/// records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainPlan {
    pub(super) from: Queue,
    pub(super) is_compacted: bool,
    pub(super) keeps: KeepBudget,
}

/// The bytes of records that may stay; stale records never stay. There are two allowances instead
/// of one threshold, because records may be used between the census and the drain. With a threshold
/// alone, more bytes could then stay than the rules permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeepBudget {
    /// The lowest use count of the records for which `bytes` are reserved.
    pub(super) uses_min: u8,
    /// The bytes that records with at least `uses_min` uses may still take.
    pub(super) bytes: u64,
    /// The bytes that records with one use less than `uses_min` may still take. Unused records
    /// never stay.
    pub(super) spare_bytes: u64,
}

impl DrainPlan {
    /// Plans the drain of a segment of `segment_bytes` bytes with this census. The census may be
    /// empty unless the victim [needs](Victim::needs_census) one.
    pub fn new(
        choice: Victim,
        census: &UseCensus,
        segment_bytes: u64,
        rules: &EvictionRules,
    ) -> Self {
        let keeps = match choice.queue {
            Queue::Small => {
                KeepBudget { uses_min: rules.promote_uses, bytes: segment_bytes, spare_bytes: 0 }
            }
            Queue::Main => {
                KeepBudget::of(census, segment_bytes * u64::from(rules.keep_percent) / 100)
            }
        };
        Self { from: choice.queue, is_compacted: choice.cause == DrainCause::Dead, keeps }
    }

    /// Decides the fate of the next record.
    pub fn fate(&mut self, seen: DrainRecord) -> RecordFate {
        if seen.is_stale {
            return self.leaves();
        }
        if self.is_compacted {
            return RecordFate::Move(self.from, seen.uses);
        }
        if !self.keeps.take(seen) {
            return self.leaves();
        }
        match self.from {
            Queue::Small => RecordFate::Move(Queue::Main, 0),
            Queue::Main => RecordFate::Move(Queue::Main, seen.uses - 1),
        }
    }

    fn leaves(&self) -> RecordFate {
        match self.from {
            Queue::Small => RecordFate::Ghost,
            Queue::Main => RecordFate::Leave,
        }
    }
}

impl KeepBudget {
    /// Divides `bytes_max` so that the records with the most uses stay.
    fn of(census: &UseCensus, bytes_max: u64) -> Self {
        let mut bytes = 0;
        for uses in (1..=USES_MAX).rev() {
            let spare_bytes = bytes_max - bytes;
            if census.used(uses) > spare_bytes {
                return Self { uses_min: uses + 1, bytes, spare_bytes };
            }
            bytes += census.used(uses);
        }
        // All used records of the census fit. Records that were used only after the census may take
        // the rest.
        Self { uses_min: 1, bytes: bytes_max, spare_bytes: 0 }
    }

    fn take(&mut self, seen: DrainRecord) -> bool {
        let left = if seen.uses >= self.uses_min {
            &mut self.bytes
        } else if seen.uses > 0 && seen.uses + 1 == self.uses_min {
            &mut self.spare_bytes
        } else {
            return false;
        };
        let is_enough = seen.bytes <= *left;
        if is_enough {
            *left -= seen.bytes;
        }
        is_enough
    }
}

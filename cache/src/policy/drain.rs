//! What becomes of a record when its segment is drained.

use super::{DrainCause, EvictionRules, Queue, USES_MAX, Victim};

/// How many bytes of a segment's live, fresh records were used how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UseCensus {
    bytes: [u64; USES_MAX as usize + 1],
}

impl UseCensus {
    /// Counts a record.
    pub fn count(&mut self, uses: u8, bytes: u64) {
        self.bytes[usize::from(uses.min(USES_MAX))] += bytes;
    }

    fn used(&self, uses: u8) -> u64 {
        self.bytes[usize::from(uses)]
    }
}

/// A live record of the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainRecord {
    /// How often it was used since it was put there, up to [`USES_MAX`].
    pub uses: u8,
    /// Its length.
    pub bytes: u64,
    /// Nobody asked for it since it became stale: who asks replaces it.
    pub is_stale: bool,
}

/// What becomes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordFate {
    /// It is copied to the open segment of a queue, and its use count is now this.
    Move(Queue, u8),
    /// It leaves; its key is remembered.
    Ghost,
    /// It leaves.
    Leave,
}

/// The draining of one segment: asked for each live record, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainPlan {
    pub(super) from: Queue,
    pub(super) is_compacted: bool,
    pub(super) keeps: KeepBudget,
}

/// What is kept, but for what is stale. Two allowances rather than a mere threshold, since records
/// may be used between census and drain, and then more could be kept than is gained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeepBudget {
    /// Records that were used at least so often.
    pub(super) uses_min: u8,
    /// So many bytes of them.
    pub(super) bytes: u64,
    /// So many bytes of those that were used once less, but at all.
    pub(super) spare_bytes: u64,
}

impl DrainPlan {
    /// Begins to drain a segment of `segment_bytes`, which holds what `census` says. The census may
    /// be empty unless the choice [needs](Victim::needs_census) one.
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

    /// What becomes of this record.
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
    /// The most used, as far as `bytes_max` goes.
    fn of(census: &UseCensus, bytes_max: u64) -> Self {
        let mut bytes = 0;
        for uses in (1..=USES_MAX).rev() {
            let spare_bytes = bytes_max - bytes;
            if census.used(uses) > spare_bytes {
                return Self { uses_min: uses + 1, bytes, spare_bytes };
            }
            bytes += census.used(uses);
        }
        // What was not used at all when it was counted, but since, may have the rest.
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

//! What becomes of a record when its segment is drained.

use super::{Cause, Choice, Queue, Rules, USES_MAX};

/// How many bytes of a segment's live, fresh records were used how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    bytes: [u64; USES_MAX as usize + 1],
}

impl Census {
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
pub struct Seen {
    /// How often it was used since it was put there, up to [`USES_MAX`].
    pub uses: u8,
    /// Its length.
    pub bytes: u64,
    /// Nobody asked for it since it became stale: who asks replaces it.
    pub is_stale: bool,
}

/// What becomes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is copied to the open segment of a queue, and its use count is now this.
    Move(Queue, u8),
    /// It leaves; its key is remembered.
    Ghost,
    /// It leaves.
    Leave,
}

/// The draining of one segment: asked for each live record, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drain {
    from: Queue,
    is_compacted: bool,
    /// Records that were used at least so often are kept.
    uses_min: u8,
    /// So many bytes more are kept of those that were used once less.
    spare_bytes: u64,
}

impl Drain {
    /// Begins to drain a segment of `segment_bytes`, which holds what `census` says.
    pub fn new(choice: Choice, census: &Census, segment_bytes: u64, rules: &Rules) -> Self {
        let is_compacted = choice.cause == Cause::Dead;
        let (uses_min, spare_bytes) = match choice.queue {
            Queue::Small => (rules.promote_uses, 0),
            Queue::Main => kept(census, segment_bytes * u64::from(rules.keep_percent) / 100),
        };
        Self { from: choice.queue, is_compacted, uses_min, spare_bytes }
    }

    /// What becomes of this record.
    pub fn fate(&mut self, seen: Seen) -> Fate {
        if seen.is_stale {
            return self.leaves();
        }
        if self.is_compacted {
            return Fate::Move(self.from, seen.uses);
        }
        if seen.uses < self.uses_min && !self.is_spared(seen) {
            return self.leaves();
        }
        match self.from {
            Queue::Small => Fate::Move(Queue::Main, 0),
            Queue::Main => Fate::Move(Queue::Main, seen.uses - 1),
        }
    }

    fn is_spared(&mut self, seen: Seen) -> bool {
        let is_spared = seen.uses > 0
            && seen.uses + 1 == self.uses_min
            && seen.bytes <= self.spare_bytes
            && self.from == Queue::Main;
        if is_spared {
            self.spare_bytes -= seen.bytes;
        }
        is_spared
    }

    fn leaves(&self) -> Fate {
        match self.from {
            Queue::Small => Fate::Ghost,
            Queue::Main => Fate::Leave,
        }
    }
}

/// From how many uses on everything is kept, and how much of what was used once less, so that it
/// is at most `bytes_max`.
fn kept(census: &Census, bytes_max: u64) -> (u8, u64) {
    let mut left = bytes_max;
    for uses in (1..=USES_MAX).rev() {
        let bytes = census.used(uses);
        if bytes > left {
            return (uses + 1, left);
        }
        left -= bytes;
    }
    (1, 0)
}

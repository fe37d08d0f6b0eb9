//! Which segment is drained next.

use super::{EvictionRules, Queue};

/// A sealed segment that may be drained: nobody pins it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedSegment {
    /// Its number.
    pub segment: u32,
    /// Its queue.
    pub queue: Queue,
    /// When it was sealed: a number that only grows.
    pub order: u64,
    /// Bytes that were written into it.
    pub filled_bytes: u64,
    /// Bytes of its records that somebody may still be served; rather too many than too few.
    pub live_bytes: u64,
    /// When all its records are stale, in the unit of `now`.
    pub stale_from: u64,
}

/// How the segments are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentPool {
    /// All segments.
    pub segments: u32,
    /// Those of the small queue, with the open ones.
    pub small: u32,
    /// The time.
    pub now: u64,
}

/// Why a segment is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainCause {
    /// All its records are stale.
    Stale,
    /// Much of it is dead: what lives moves within its queue, whether it was used or not.
    Dead,
    /// It is the oldest of its queue.
    Oldest,
}

/// The segment to be drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Its number.
    pub segment: u32,
    /// Its queue.
    pub queue: Queue,
    /// Why this one.
    pub cause: DrainCause,
}

impl Victim {
    /// Whether [`DrainPlan::new`](super::DrainPlan::new) has to know how often its records were
    /// used; elsewhere an empty census will do.
    pub fn needs_census(&self) -> bool {
        self.queue == Queue::Main && self.cause != DrainCause::Dead
    }
}

/// The one of all offered that is first by some measure, so far.
#[derive(Clone, Copy, Default)]
struct BestVictim(Option<(u64, SealedSegment)>);

impl BestVictim {
    /// The lowest measure is first; of equals the one that was offered first.
    fn offer(&mut self, measure: u64, sealed: &SealedSegment) {
        if self.0.is_none_or(|(lowest, _)| measure < lowest) {
            self.0 = Some((measure, *sealed));
        }
    }

    fn choice(self, cause: DrainCause) -> Option<Victim> {
        self.0.map(|(_, SealedSegment { segment, queue, .. })| Victim { segment, queue, cause })
    }
}

/// The segment to be drained; none if none is offered.
///
/// Segments whose records are all stale go first, the oldest of them first. Then, of those of which
/// too much is dead, the one with the fewest live bytes: it gives back the most. Then the oldest of
/// small goes as long as that queue has more than its share, else the oldest of main; if the queue
/// whose turn it is has none to offer, the oldest of the other one.
pub fn choose_victim(
    offered: impl Iterator<Item = SealedSegment>,
    pool: SegmentPool,
    rules: &EvictionRules,
) -> Option<Victim> {
    let [mut stale, mut deadest, mut small, mut main] = [BestVictim::default(); 4];
    for sealed in offered {
        let dead = sealed.filled_bytes.saturating_sub(sealed.live_bytes);
        if sealed.stale_from <= pool.now {
            stale.offer(sealed.order, &sealed);
        }
        if dead * 100 > sealed.filled_bytes * u64::from(rules.dead_percent) {
            deadest.offer(sealed.live_bytes, &sealed);
        }
        match sealed.queue {
            Queue::Small => small.offer(sealed.order, &sealed),
            Queue::Main => main.offer(sealed.order, &sealed),
        }
    }
    let is_small_due =
        u64::from(pool.small) * 100 > u64::from(pool.segments) * u64::from(rules.small_percent);
    let (first, second) = if is_small_due { (small, main) } else { (main, small) };
    stale
        .choice(DrainCause::Stale)
        .or_else(|| deadest.choice(DrainCause::Dead))
        .or_else(|| first.choice(DrainCause::Oldest))
        .or_else(|| second.choice(DrainCause::Oldest))
}

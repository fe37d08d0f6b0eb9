//! The choice of the segment that is drained next.

use super::{EvictionRules, Queue};

/// A sealed segment without pins, which may be drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedSegment {
    /// The number of the segment.
    pub segment: u32,
    /// The queue of the segment.
    pub queue: Queue,
    /// The number with which it was sealed, which only grows.
    pub order: u64,
    /// The bytes that were written into it.
    pub filled_bytes: u64,
    /// The bytes of records that can still be served. A caller that is unsure counts too many
    /// rather than too few.
    pub live_bytes: u64,
    /// The time from which all its records are stale, in the unit of `now`.
    pub stale_from: u64,
}

/// The current division of the segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentPool {
    /// The number of all segments.
    pub segments: u32,
    /// The number of segments in the small queue, the open ones included.
    pub small: u32,
    /// The current time.
    pub now: u64,
}

/// Why a segment is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainCause {
    /// All records of the segment are stale.
    Stale,
    /// Much of the segment is dead: its live records move within their queue, used or not.
    Dead,
    /// The segment is the oldest of its queue.
    Oldest,
}

/// The segment to be drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// The number of the segment.
    pub segment: u32,
    /// The queue of the segment.
    pub queue: Queue,
    /// Why it is drained.
    pub cause: DrainCause,
}

impl Victim {
    /// Whether [`DrainPlan::new`](super::DrainPlan::new) needs the use counts of its records.
    /// Otherwise an empty census is enough.
    pub fn needs_census(&self) -> bool {
        self.queue == Queue::Main && self.cause != DrainCause::Dead
    }
}

/// The best segment offered so far: the one with the lowest measure.
#[derive(Clone, Copy, Default)]
struct BestVictim(Option<(u64, SealedSegment)>);

impl BestVictim {
    /// Keeps the lower measure; of equals the segment that was offered first.
    fn offer(&mut self, measure: u64, sealed: &SealedSegment) {
        if self.0.is_none_or(|(lowest, _)| measure < lowest) {
            self.0 = Some((measure, *sealed));
        }
    }

    fn choice(self, cause: DrainCause) -> Option<Victim> {
        self.0.map(|(_, SealedSegment { segment, queue, .. })| Victim { segment, queue, cause })
    }
}

/// The segment to drain; `None` if no segment is offered.
///
/// Segments whose records are all stale go first, the oldest of them first. Next is, among the
/// segments that are too dead, the one with the fewest live bytes, because it gains the most. Then
/// the oldest of small goes as long as that queue has more than its share, else the oldest of main.
/// If that queue offers none, the oldest of the other one goes.
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

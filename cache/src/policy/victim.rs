//! The choice of the segment to drain next.

use super::{EvictionRules, Queue};

/// A sealed segment that may be drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedSegment {
    /// The index of the segment.
    pub segment: u32,
    /// The queue of the segment.
    pub queue: Queue,
    /// The sealing number of the segment. Segments that are sealed later have higher numbers.
    pub order: u64,
    /// The bytes of the records that were written into the segment.
    pub filled_bytes: u64,
    /// The bytes of the segment's records that lookups can still find. A caller that is unsure
    /// counts too many rather than too few.
    pub live_bytes: u64,
    /// The time from which all records of the segment are stale, in the unit of `now`.
    pub stale_from: u64,
}

/// The current division of the segments between the queues. Segments that the caller passes over do
/// not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentPool {
    /// The number of all segments that count.
    pub segments: u32,
    /// The number of segments in the small queue, including open ones.
    pub small: u32,
    /// The current time.
    pub now: u64,
}

/// Why a segment is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainCause {
    /// All records of the segment are stale.
    Stale,
    /// Much of the segment is dead. Its fresh records move to another segment of their queue,
    /// whether they were used or not; its stale records are evicted.
    Dead,
    /// The segment is the oldest of its queue.
    Oldest,
}

/// The segment to be drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// The index of the segment.
    pub segment: u32,
    /// The queue of the segment.
    pub queue: Queue,
    /// Why the segment is drained.
    pub cause: DrainCause,
}

impl Victim {
    /// Whether [`DrainPlan::new`](super::DrainPlan::new) needs the use counts of the segment's
    /// records. If not, it can be given an empty census.
    pub fn needs_census(&self) -> bool {
        self.queue == Queue::Main && self.cause != DrainCause::Dead
    }
}

/// The best segment that was offered so far: that with the lowest measure.
#[derive(Clone, Copy, Default)]
struct BestVictim(Option<(u64, SealedSegment)>);

impl BestVictim {
    /// Keeps the segment with the lower measure, or, if the measures are equal, the one that was
    /// offered first.
    fn offer(&mut self, measure: u64, sealed: &SealedSegment) {
        if self.0.is_none_or(|(lowest, _)| measure < lowest) {
            self.0 = Some((measure, *sealed));
        }
    }

    fn choice(self, cause: DrainCause) -> Option<Victim> {
        self.0.map(|(_, SealedSegment { segment, queue, .. })| Victim { segment, queue, cause })
    }
}

/// Chooses the segment to drain; `None` if no segment is offered.
///
/// The choice is the first of these segments that exists:
///
/// - the oldest segment whose records are all stale;
/// - among the segments of which too much is dead, the one with the fewest live bytes, because it
///   is the cheapest to move;
/// - the oldest segment of the small queue if that queue has more than its share of the segments,
///   else of the main queue;
/// - the oldest segment of the other queue.
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

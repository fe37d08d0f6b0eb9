//! Which segment is drained next.

use super::{Queue, Rules};

/// A sealed segment that may be drained: nobody pins it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Its number.
    pub place: u32,
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
pub struct Pool {
    /// All segments.
    pub segments: u32,
    /// Those of the small queue, with the open ones.
    pub small: u32,
    /// The time.
    pub now: u64,
}

/// Why a segment is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// All its records are stale.
    Stale,
    /// Much of it is dead: what lives moves within its queue, whether it was used or not.
    Dead,
    /// It is the oldest of its queue.
    Oldest,
}

/// The segment to be drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its number.
    pub place: u32,
    /// Its queue.
    pub queue: Queue,
    /// Why this one.
    pub cause: Cause,
}

impl Choice {
    /// Whether [`Drain::new`](super::Drain::new) has to know how often its records were used;
    /// elsewhere an empty census will do.
    pub fn needs_census(&self) -> bool {
        self.queue == Queue::Main && self.cause != Cause::Dead
    }
}

/// The one of all offered that is first by some measure, so far.
#[derive(Clone, Copy, Default)]
struct First(Option<(u64, Sealed)>);

impl First {
    /// The lowest measure is first; of equals the one that was offered first.
    fn offer(&mut self, measure: u64, sealed: &Sealed) {
        if self.0.is_none_or(|(lowest, _)| measure < lowest) {
            self.0 = Some((measure, *sealed));
        }
    }

    fn choice(self, cause: Cause) -> Option<Choice> {
        self.0.map(|(_, Sealed { place, queue, .. })| Choice { place, queue, cause })
    }
}

/// The segment to be drained; none if none is offered.
///
/// Segments whose records are all stale go first, the oldest of them first. Then, of those of which
/// too much is dead, the one with the fewest live bytes: it gives back the most. Then the oldest of
/// small goes as long as that queue has more than its share, else the oldest of main; if the queue
/// whose turn it is has none to offer, the oldest of the other one.
pub fn next(offered: impl Iterator<Item = Sealed>, pool: Pool, rules: &Rules) -> Option<Choice> {
    let [mut stale, mut deadest, mut small, mut main] = [First::default(); 4];
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
        .choice(Cause::Stale)
        .or_else(|| deadest.choice(Cause::Dead))
        .or_else(|| first.choice(Cause::Oldest))
        .or_else(|| second.choice(Cause::Oldest))
}

//! The monotonic clock of revocations. A change of the time of day must not move this clock: the
//! inhibition would last too long or end early.

use std::cell::Cell;
use std::time::Instant;

/// A thread that reads by the underlying lock looks at the clock once in this many reads; a power
/// of two.
const TURN_READS: u32 = 8;

/// The present moment.
#[expect(clippy::disallowed_methods, reason = "how long a lock waits is no decision of a request")]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// Nanoseconds since some moment in the past. A plain number fits into an atomic; an [`Instant`]
/// becomes a number only relative to another one, which all threads would have to share.
#[cfg(not(loom))]
pub(super) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (now.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as u64)
}

/// Time stands still in a model: nothing is inhibited.
#[cfg(loom)]
pub(super) fn now_ns() -> u64 {
    0
}

/// Whether it is this thread's turn to read the clock. Random, once in [`TURN_READS`], so that a
/// lock that is read in step with others gets its turn too.
pub(super) fn is_turn() -> bool {
    thread_local! {
        static CHANCE: Cell<u32> = const { Cell::new(0) };
    }
    // The generator of Numerical Recipes (2nd edition, section 7.1); its upper bits are good.
    let chance = CHANCE.get().wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    CHANCE.set(chance);
    chance >> (u32::BITS - TURN_READS.ilog2()) == 0
}

//! The clock by which revocations are measured. It is monotonic: if a change of the time of day
//! moved it, the inhibition of the bias would last too long or end early.

use std::cell::Cell;
use std::time::Instant;

/// While the bias may be inhibited, a reader that took the underlying lock looks at the clock in
/// one of this many reads on average. A power of two.
const TURN_READS: u32 = 8;

/// The current time.
#[expect(clippy::disallowed_methods, reason = "how long a lock waits is no decision of a request")]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// The current time in nanoseconds, from an arbitrary origin. An [`Instant`] does not fit into an
/// atomic: it becomes a number only relative to another `Instant`, which all threads would have to
/// share.
#[cfg(not(loom))]
pub(super) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (now.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as u64)
}

/// Returns 0: no time passes in a model, so nothing is inhibited.
#[cfg(loom)]
pub(super) fn now_ns() -> u64 {
    0
}

/// Whether this call should read the clock. The answer is random, and true in one of [`TURN_READS`]
/// calls. If a thread read several locks in a fixed rotation, a plain counter could choose the same
/// of these locks each time.
pub(super) fn is_turn() -> bool {
    thread_local! {
        static CHANCE: Cell<u32> = const { Cell::new(0) };
    }
    // The generator of Numerical Recipes (2nd edition, section 7.1); its upper bits are good.
    let chance = CHANCE.get().wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    CHANCE.set(chance);
    chance >> (u32::BITS - TURN_READS.ilog2()) == 0
}

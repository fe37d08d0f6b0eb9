//! The monotonic clock of revocations. It must not step when somebody sets the time of day, which
//! would freeze the inhibition or end it early.

use std::cell::Cell;
use std::time::Instant;

/// A thread looks at the clock in one of so many reads by the underlying lock.
const TURN_READS: u32 = 8;

/// Now.
#[expect(clippy::disallowed_methods, reason = "how long a lock waits is no decision of a request")]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// Nanoseconds since this was first called.
#[cfg(not(loom))]
pub(super) fn now_ns() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    now().duration_since(*START.get_or_init(now)).as_nanos().try_into().unwrap_or(u64::MAX)
}

/// Time stands still in a model: nothing is inhibited.
#[cfg(loom)]
pub(super) fn now_ns() -> u64 {
    0
}

/// Is it this thread's turn to look at the clock?
pub(super) fn is_turn() -> bool {
    thread_local! {
        static READS: Cell<u32> = const { Cell::new(0) };
    }
    let reads = READS.get().wrapping_add(1);
    READS.set(reads);
    reads.is_multiple_of(TURN_READS)
}

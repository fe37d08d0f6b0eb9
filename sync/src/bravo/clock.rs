//! The monotonic clock of revocations. It must not step when somebody sets the time of day, which
//! would freeze the inhibition or end it early.

use std::time::Instant;

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

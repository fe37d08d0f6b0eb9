//! The clock of the measurements.

use std::time::Instant;

/// Returns the present time.
#[inline]
#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

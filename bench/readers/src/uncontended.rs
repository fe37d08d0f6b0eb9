//! Measures an operation while no other thread uses the lock.

use std::hint::black_box;

use crate::clock::now;
use crate::locks::Protected;

/// The number of operations in one measurement.
const OPERATIONS: u32 = 100_000;

/// The nanoseconds of a read.
pub(crate) fn read_ns<P: Protected>() -> f64 {
    let protected = P::new();
    mean_ns(|| {
        black_box(protected.read());
    })
}

/// The nanoseconds of a write that follows other writes. No reader comes between them, so a biased
/// lock revokes its bias only once.
pub(crate) fn write_ns<P: Protected>() -> f64 {
    let protected = P::new();
    mean_ns(|| protected.write())
}

fn mean_ns(operation: impl Fn()) -> f64 {
    for _ in 0..OPERATIONS / 10 {
        operation();
    }
    let begin = now();
    for _ in 0..OPERATIONS {
        operation();
    }
    now().duration_since(begin).as_secs_f64() * 1e9 / f64::from(OPERATIONS)
}

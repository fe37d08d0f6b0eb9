//! Atomics, cells and threads in two forms: std's, and loom's under `--cfg loom`.
//!
//! Under `--cfg tsan` fences become read-modify-writes of one word, since ThreadSanitizer does not
//! follow fences.

mod cell;
#[cfg(all(test, loom))]
mod loom_tests;
pub mod order;

pub use cell::UnsafeCell;
pub use order::{acquire, acquire_fence, fence, release, release_fence};

#[cfg(not(loom))]
pub use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, Ordering::Relaxed,
};

#[cfg(loom)]
pub use loom::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, Ordering::Relaxed,
};

/// Tells the processor, or loom, that this thread waits for another one.
#[inline]
pub fn spin_loop() {
    #[cfg(not(loom))]
    std::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
}

/// Lets another thread run.
#[inline]
pub fn yield_now() {
    #[cfg(not(loom))]
    std::thread::yield_now();
    #[cfg(loom)]
    loom::thread::yield_now();
}

//! Processes that share a store are killed, at every crash point and at random times. The others
//! continue and find nothing wrong, and in the end nothing is left behind.
//!
//! The processes are this program again. They run the test `role`, and the environment names their
//! work. `FOREBAY_KILLS=10000` makes a longer run, `FOREBAY_SEED` repeats one.

#![cfg(not(tsan))] // ThreadSanitizer sees no other process.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod points;
mod random;
mod roles;
mod scene;
#[path = "../store_common/mod.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod store_common;

#[test]
fn role() {
    roles::run();
}

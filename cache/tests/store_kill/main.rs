//! Processes that share a store are killed, at every crash point and at random times. The other
//! processes continue and find no wrong record, and in the end the dead have left nothing behind.
//!
//! Each process runs the same program with the test `role`, and environment variables name its
//! work. `FOREBAY_KILLS=10000` makes a longer run, `FOREBAY_SEED` repeats one.

#![cfg(not(tsan))] // ThreadSanitizer does not see other processes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod points;
mod random;
mod roles;
mod scene;
#[path = "../store_common/mod.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod store_common;
mod variants;
mod walks;

#[test]
fn role() {
    roles::run();
}

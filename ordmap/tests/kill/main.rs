//! Processes that share a map are killed, at every crash point and at random times. The other
//! processes continue, every key has the value of its last change, and in the end nothing is
//! leaked.
//!
//! The processes are this program again. They run the test `role`, and the environment names their
//! work. `FOREBAY_KILLS=10000` makes a longer run, `FOREBAY_SEED` repeats one.

#![cfg(not(tsan))] // ThreadSanitizer sees nothing between processes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod forked;
mod moved;
mod points;
mod random;
mod roles;
mod scene;
mod stopped;
mod worker;

#[test]
fn role() {
    roles::run();
}

//! Processes that share a map are killed, at every crash point and at random instants; the others
//! go on, every key is what its last writer made it, and in the end nothing is lost.
//!
//! The processes are this program again, which runs the test `role` and finds in its environment
//! what it has to do. `FOREBAY_KILLS=10000` for a longer run, `FOREBAY_SEED` for the same one.

#![cfg(not(tsan))] // It sees nothing between processes.
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

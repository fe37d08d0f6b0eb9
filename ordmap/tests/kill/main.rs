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
#[path = "../../../shm/tests/kill/process.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod process;
mod random;
#[path = "../../../sync/tests/rng/mod.rs"]
mod rng;
mod roles;
mod scene;
mod stopped;
mod worker;
#[path = "../../../shm/tests/kill/workers.rs"]
mod workers;

#[test]
fn role() {
    roles::run();
}

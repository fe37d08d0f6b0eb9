//! Processes that share a region are killed, at every crash point and at random times. The others
//! continue, and in the end nothing is left behind.
//!
//! The processes are this program again. They run the test `role`, and the environment names their
//! work.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod create;
mod fork;
mod points;
mod random;
mod roles;
mod shared;

#[test]
fn role() {
    roles::run();
}

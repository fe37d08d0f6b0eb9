//! Processes that share a region are killed, at every crash point and at random instants; the
//! others go on, and in the end nothing is left over.
//!
//! The processes are this program again, which runs the test `role` and finds in its environment
//! what it has to do.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod create;
mod fork;
mod points;
mod process;
mod random;
mod roles;
mod shared;

#[test]
fn role() {
    roles::run();
}

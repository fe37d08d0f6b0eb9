//! Processes that share a region are killed, at every crash point and at random times. The other
//! processes continue, and in the end the dead have left nothing behind.
//!
//! Each process runs the same program with the test `role`, and environment variables name its
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

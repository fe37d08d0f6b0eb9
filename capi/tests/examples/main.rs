//! The examples in C and Python share a map, each in its own process. Without a C compiler or
//! Python the tests leave out that language, and the output says so.
//!
//! `FOREBAY_KILLS=1000` makes a longer run, and `FOREBAY_SEED` repeats a run.

#![cfg(not(tsan))] // ThreadSanitizer does not see other processes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod build;
mod kills;
mod page;
mod program;
mod races;
#[path = "../abi/scene.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod scene;
mod sharing;
mod stopped;

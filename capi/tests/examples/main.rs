//! The examples in C and Python share a map, each in processes of its own. Without a C compiler or
//! Python the part is left out, and the output says so.
//!
//! `FOREBAY_KILLS=1000` for a longer run, `FOREBAY_SEED` to repeat one.

#![cfg(not(tsan))] // It sees nothing between processes.
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

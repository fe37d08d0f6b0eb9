//! Calls the functions as C does: refused arguments, ownership, and forks.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::multiple_unsafe_ops_per_block, reason = "calls of one contract stand together")]

mod forks;
mod growth;
mod lifetimes;
mod nulls;
mod scene;
mod values;

//! Programs of C and C++ with the library preloaded: their profiles say what they did to locks.
//!
//! `programs/` has them; they say themselves what they did.

#![cfg(not(tsan))] // It does not go with a library that stands in for its own functions.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod counts;
mod filters;
mod hostile;
mod lives;
mod places;
mod same;
mod scene;
mod stacks;

//! Programs in C and C++ with the library preloaded. Their profiles must agree with the counts of
//! lock operations that the programs report themselves. `programs/` has their sources.

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

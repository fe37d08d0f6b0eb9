//! Tests with programs in C and C++ into which the library is preloaded. Their profiles must agree
//! with the counts of lock operations that the programs report themselves. `programs/` has the
//! sources of the programs.

#![cfg(not(tsan))] // ThreadSanitizer and the library both replace the same functions.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod counts;
mod filters;
mod hostile;
mod lives;
mod places;
mod same;
mod scene;
mod stacks;

//! Counts the accesses of an operation to cache lines that several threads touch.
//!
//! A line is *in conflict* if more than one thread touches it and at least one of them writes. With
//! enough processors, each access to such a line costs a transfer between processors. An operation
//! without such accesses scales on any machine. Counting on two processors thus finds costs that
//! timing shows only on many.
//!
//! The program is compiled for ThreadSanitizer, but linked with our own runtime (`runtime/`), which
//! counts accesses and finds no races. `bench/conflict/run` builds it.
//!
//! Invariants:
//! - A thread's accesses count only between [`runtime::enter`] and [`runtime::leave`]. The accesses
//!   of named threads count between [`runtime::enter_named`] and [`runtime::leave_named`].
//! - Nothing is silently left out. Too many threads or lines are an error, and so are threads that
//!   did nothing. A program that is not instrumented is refused.

mod count;
mod runtime;
#[cfg(test)]
mod tests;

pub use count::{Counts, Plan, Refused, count, count_named, require_instrumented};
pub use runtime::{Line, THREADS_MAX};

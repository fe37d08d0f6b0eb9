//! Counts what an operation does to cache lines that several threads touch.
//!
//! A line is *in conflict* if more than one thread touches it and at least one of them writes. An
//! access to such a line costs a transfer between processors as soon as there are enough of them;
//! an operation without such accesses scales, whatever the machine. So counting on two processors
//! finds costs that timing shows only on many.
//!
//! The program is compiled for ThreadSanitizer, and linked with a runtime of our own (`runtime/`)
//! in place of ThreadSanitizer's: it finds no races, it counts. `bench/conflict/run` builds it so.
//!
//! Invariants:
//! - A thread's accesses count only between [`runtime::enter`] and [`runtime::leave`]; those of
//!   threads with a certain name between [`runtime::enter_named`] and [`runtime::leave_named`].
//! - Nothing is left out in silence: too many threads or lines are an error, and so are threads
//!   that did nothing; a program that is not instrumented is refused.

mod count;
mod runtime;
#[cfg(test)]
mod tests;

pub use count::{Counts, Plan, Refused, count, count_named, require_instrumented};
pub use runtime::{Line, THREADS_MAX};

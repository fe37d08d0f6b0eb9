//! Runs an operation on many threads and counts its accesses.

use std::ffi::CStr;
use std::fmt;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use forebay_sync::{LockClass, Mutex};
use serde::Serialize;

use crate::runtime::{self, Line, THREADS_MAX};

/// The number of threads and operations of a count.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Threads, at most [`THREADS_MAX`].
    pub threads: usize,
    /// Counted operations of each thread.
    pub operations: u32,
}

/// The average counts of one operation, except for `lines`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Counts {
    /// The number of lines that more than one thread touched and at least one wrote, in all
    /// operations together.
    pub lines: u64,
    /// Atomic read-modify-writes on such lines, including failed ones.
    pub rmws: f64,
    /// Stores on such lines, atomic or not.
    pub stores: f64,
    /// Loads on such lines, atomic or not.
    pub loads: f64,
    /// Read-modify-writes on all other lines.
    pub own_rmws: f64,
    /// Fences between threads.
    pub fences: f64,
    /// Writes on lines in conflict by all threads except number 0.
    pub others_writes: f64,
    /// The lines in conflict with the most writes.
    #[serde(skip)]
    pub busiest: Vec<Line>,
}

/// The reason why there is no count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There are more threads than the runtime can distinguish, or none.
    Threads(usize),
    /// More lines were touched than the runtime has room for, or a named thread's number is too
    /// high.
    Lines,
    /// Fewer threads than planned had a counted name and did something.
    Unseen {
        /// The number of threads that did something.
        seen: usize,
        /// The number of threads in the plan.
        wanted: usize,
    },
    /// The program was not compiled for counting.
    NotInstrumented,
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Threads(count) => {
                write!(out, "cannot count {count} threads; --threads must be 1 to {THREADS_MAX}")
            }
            Refused::Lines => {
                out.write_str("more cache lines or threads were seen than can be counted")
            }
            Refused::Unseen { seen, wanted } => {
                write!(out, "only {seen} of {wanted} threads did anything that was counted")
            }
            Refused::NotInstrumented => out.write_str(
                "this program is not instrumented and cannot count: use bench/conflict/run",
            ),
        }
    }
}

impl std::error::Error for Refused {}

/// The number of uncounted operations of each thread before the count, so that one-time costs are
/// not counted.
const WARM_UP: u32 = 100;

/// The number of lines in conflict that are listed.
const BUSIEST_MAX: usize = 8;

/// A lock for the runtime's single table, so that one count runs at a time.
pub(crate) static ONE_AT_A_TIME: Mutex<()> = Mutex::new(LockClass::Test, ());

/// Runs `operation` on all threads at once, each with its number, and counts its accesses.
///
/// # Errors
/// The plan has too many threads, too many lines were touched, or the program is not instrumented.
pub fn count(plan: Plan, operation: &(dyn Fn(usize) + Sync)) -> Result<Counts, Refused> {
    if !(1..=THREADS_MAX).contains(&plan.threads) {
        return Err(Refused::Threads(plan.threads));
    }
    let _one = ONE_AT_A_TIME.lock();
    // SAFETY: threads enter only below, while `ONE_AT_A_TIME` is held, and have left before it is
    // released.
    unsafe { runtime::clear() };
    let gate = Barrier::new(plan.threads);
    thread::scope(|scope| {
        for thread in 0..plan.threads {
            let gate = &gate;
            scope.spawn(move || run(thread, plan.operations, gate, operation));
        }
    });
    counts(plan)
}

/// Counts the accesses of the threads whose names are `prefix` and a number below the plan's
/// threads.
///
/// `start` creates the threads and prepares them. `work` makes them run the plan's operations; only
/// that part is counted. The threads end when the value from `start` is dropped.
///
/// # Errors
/// The plan has too many threads, too many lines were touched, or not all threads did something.
pub fn count_named<S>(
    plan: Plan,
    prefix: &CStr,
    start: impl FnOnce() -> S,
    work: impl FnOnce(&mut S),
) -> Result<Counts, Refused> {
    if !(1..=THREADS_MAX).contains(&plan.threads) {
        return Err(Refused::Threads(plan.threads));
    }
    let _one = ONE_AT_A_TIME.lock();
    // SAFETY: threads enter only below and in `count`, while `ONE_AT_A_TIME` is held, and have left
    // before it is released.
    unsafe { runtime::clear() };
    let mut subject = start();
    assert!(runtime::enter_named(prefix), "two counts use different prefixes of thread names");
    work(&mut subject);
    runtime::leave_named();
    drop(subject);
    let seen = runtime::named_count();
    if seen != plan.threads {
        return Err(Refused::Unseen { seen, wanted: plan.threads });
    }
    counts(plan)
}

/// Returns the counts of one operation of the plan.
fn counts(plan: Plan) -> Result<Counts, Refused> {
    let sum = runtime::sum().ok_or(Refused::Lines)?;
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let per_operation =
        |count: u64| count as f64 / (plan.threads as f64 * f64::from(plan.operations));
    Ok(Counts {
        lines: sum.lines,
        rmws: per_operation(sum.rmws),
        stores: per_operation(sum.stores),
        loads: per_operation(sum.loads),
        own_rmws: per_operation(sum.own_rmws),
        fences: per_operation(sum.fences),
        others_writes: per_operation(sum.others_writes),
        busiest: runtime::lines(BUSIEST_MAX),
    })
}

fn run(thread: usize, operations: u32, gate: &Barrier, operation: &(dyn Fn(usize) + Sync)) {
    let _loud = AbortOnPanic;
    for _ in 0..WARM_UP {
        operation(thread);
    }
    gate.wait();
    assert!(runtime::enter(thread), "a thread number of a checked plan is too high");
    for _ in 0..operations {
        operation(thread);
    }
    runtime::leave();
    // All threads live until all have counted, so that no thread reuses the memory of another.
    gate.wait();
}

/// Ends the process when a thread panics, because the other threads would wait at the gate for
/// ever.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::abort();
        }
    }
}

/// Counts an operation with a known count, to check that the program is instrumented.
///
/// # Errors
/// The counts are wrong, because the program is not instrumented.
pub fn require_instrumented() -> Result<(), Refused> {
    let word = AtomicU64::new(0);
    let counts = count(Plan { threads: 2, operations: 10 }, &|_| {
        word.fetch_add(1, Ordering::Relaxed);
    })?;
    if (counts.lines, counts.rmws) != (1, 1.0) {
        return Err(Refused::NotInstrumented);
    }
    Ok(())
}

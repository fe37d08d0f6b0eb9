//! The operations that are counted, and what each must come to.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use forebay_conflict::{Counts, THREADS_MAX};
use forebay_sync::bravo::{Bravo, ByStore, BySwap, Shared};

/// An operation; its argument is the number of the thread.
pub(crate) type Operation = Box<dyn Fn(usize) + Sync>;

/// One row of the table.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) expected: Expected,
    /// What the operation works on is made anew for each count.
    pub(crate) operation: fn() -> Operation,
}

/// What a count on many threads must come to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expected {
    /// No line is in conflict: the operation scales.
    NoConflict,
    /// So many read-modify-writes on lines in conflict, or more where compare-and-swaps fail.
    Rmws(u32),
}

impl Expected {
    pub(crate) fn is_met_by(self, counts: &Counts) -> bool {
        match self {
            Expected::NoConflict => counts.lines == 0,
            Expected::Rmws(count) => counts.lines > 0 && counts.rmws >= f64::from(count),
        }
    }
}

/// All of them. The counters show that the counting is right, the rest is what it is for.
pub(crate) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "counter that all add to",
        expected: Expected::Rmws(1),
        operation: || {
            let counter = AtomicU64::new(0);
            Box::new(move |_| add(&counter))
        },
    },
    Workload {
        name: "counter for each thread, many on a line",
        expected: Expected::Rmws(1),
        operation: || {
            let counters: [AtomicU64; THREADS_MAX] = [const { AtomicU64::new(0) }; _];
            Box::new(move |thread| add(&counters[thread]))
        },
    },
    Workload {
        name: "counter for each thread, one on a line",
        expected: Expected::NoConflict,
        operation: || {
            let counters: Vec<_> = (0..THREADS_MAX).map(|_| Apart(AtomicU64::new(0))).collect();
            Box::new(move |thread| add(&counters[thread].0))
        },
    },
    Workload {
        name: "std RwLock, read",
        expected: Expected::Rmws(2),
        #[expect(clippy::allow_attributes, reason = "the lint is new, and not yet everywhere")]
        #[allow(clippy::disallowed_types, reason = "it is what is counted")]
        operation: || {
            let lock = std::sync::RwLock::new(7u64);
            Box::new(move |_| {
                black_box(lock.read().is_ok_and(|value| *value == 7));
            })
        },
    },
    Workload {
        name: "parking_lot RwLock, read",
        expected: Expected::Rmws(2),
        operation: read::<parking_lot::RawRwLock>,
    },
    Workload {
        name: "Arc, clone and drop",
        expected: Expected::Rmws(2),
        operation: || {
            let value = Arc::new(7u64);
            Box::new(move |_| drop(black_box(Arc::clone(&value))))
        },
    },
    Workload {
        name: "arc-swap, load",
        expected: Expected::NoConflict,
        operation: || {
            let value = ArcSwap::from_pointee(7u64);
            Box::new(move |_| {
                black_box(**value.load());
            })
        },
    },
    Workload {
        name: "Bravo, read",
        expected: Expected::NoConflict,
        operation: read::<Bravo<parking_lot::RawRwLock, Shared<BySwap>>>,
    },
    Workload {
        name: "Bravo with membarrier, read",
        expected: Expected::NoConflict,
        operation: read::<Bravo<parking_lot::RawRwLock, Shared<ByStore>>>,
    },
];

/// Two lines each, since processors fetch lines in pairs.
#[repr(align(128))]
struct Apart<T>(T);

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Reads what a raw lock protects; the lock shares its lines with nothing else.
fn read<R: lock_api::RawRwLock + Send + Sync + 'static>() -> Operation {
    let lock = Apart(lock_api::RwLock::<R, u64>::new(7));
    Box::new(move |_| {
        black_box(*lock.0.read());
    })
}

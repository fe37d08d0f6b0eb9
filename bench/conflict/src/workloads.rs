//! The operations that are counted, and the counts that each must have.

use std::cell::OnceCell;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use forebay_conflict::{Counts, THREADS_MAX};
use forebay_sync::bravo::{Bravo, ByStore, BySwap, SharedTable};
use forebay_sync::pins::{PinRow, Pins};
use forebay_sync::{Barrier, LineWords};

use crate::{caches, ordered};

/// An operation. Its argument is the number of the thread.
pub(crate) type Operation = Box<dyn Fn(usize) + Sync>;

/// One row of the table.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) expected: Expected,
    /// Makes the operation with new data. Each count calls it again.
    pub(crate) operation: fn() -> Operation,
}

/// The counts on many threads that an operation must have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expected {
    /// No line is in conflict: the operation scales.
    NoConflict,
    /// This many read-modify-writes on lines in conflict, or more if compare-and-swaps fail.
    Rmws(u32),
    /// At most this many writes on lines in conflict.
    AtMost(u32),
    /// Thread 0 writes on lines in conflict, and the other threads write at most this often.
    OthersAtMost(u32),
}

impl Expected {
    pub(crate) fn is_met_by(self, counts: &Counts) -> bool {
        match self {
            Expected::NoConflict => counts.lines == 0,
            Expected::AtMost(count) => counts.rmws + counts.stores <= f64::from(count),
            Expected::Rmws(count) => counts.lines > 0 && counts.rmws >= f64::from(count),
            Expected::OthersAtMost(count) => {
                counts.lines > 0 && counts.others_writes <= f64::from(count)
            }
        }
    }
}

/// The operations of counters, locks and pins. The counters check the counting itself.
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
        #[expect(clippy::allow_attributes, reason = "not every version of clippy has this lint")]
        #[allow(clippy::disallowed_types, reason = "this lock is counted")]
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
        operation: read::<Bravo<parking_lot::RawRwLock, SharedTable<BySwap>>>,
    },
    Workload {
        name: "Bravo with membarrier, read",
        expected: Expected::NoConflict,
        operation: read::<Bravo<parking_lot::RawRwLock, SharedTable<ByStore>>>,
    },
    Workload {
        name: "pin and unpin",
        expected: Expected::NoConflict,
        operation: || pin(Barrier::fence()),
    },
    Workload {
        name: "pin and unpin, membarrier",
        expected: Expected::NoConflict,
        operation: || pin(Barrier::process().unwrap_or(Barrier::fence())),
    },
];

/// Cache operations on one hot key and on 10,000 keys.
pub(crate) const CACHES: &[Workload] = &[
    Workload {
        name: "store, hit, 1 key",
        expected: Expected::NoConflict,
        operation: || caches::store_hit(1, 4),
    },
    Workload {
        name: "store, hit, 10,000 keys",
        expected: Expected::NoConflict,
        operation: || caches::store_hit(10_000, 4),
    },
    Workload {
        name: "store, hit, 10,000 keys that were never used",
        expected: Expected::AtMost(1),
        operation: || caches::store_hit(10_000, 0),
    },
    Workload {
        name: "store, miss that is stored",
        // About 30 of these writes are for the record and the index; the other writes update the
        // key index.
        expected: Expected::AtMost(256),
        operation: caches::store_insert,
    },
    Workload {
        name: "moka, hit, 1 key",
        expected: Expected::Rmws(1),
        operation: || caches::moka_hit(1),
    },
    Workload {
        name: "quick_cache, hit, 1 key",
        expected: Expected::Rmws(1),
        operation: || caches::quick_cache_hit(1),
    },
    Workload {
        name: "TinyUFO, hit, 1 key",
        expected: Expected::Rmws(1),
        operation: || caches::tiny_ufo_hit(1),
    },
    Workload {
        name: "papaya, hit without Arc, 1 key",
        expected: Expected::NoConflict,
        operation: || caches::papaya_hit(1),
    },
];

/// Lookups and steps of the ordered map, alone and with a writer. A lease is a word of the thread
/// that holds an entry; writers read that word when they free replaced memory.
pub(crate) const ORDERED: &[Workload] = &[
    Workload {
        name: "ordmap, get",
        expected: Expected::NoConflict,
        operation: || ordered::gets(false),
    },
    Workload {
        name: "ordmap, entry held and released",
        expected: Expected::NoConflict,
        operation: || ordered::holds(false),
    },
    Workload {
        name: "ordmap, next of a range",
        expected: Expected::NoConflict,
        operation: || ordered::ranges(false),
    },
    Workload {
        name: "ordmap, next of a scan",
        expected: Expected::NoConflict,
        operation: || ordered::scans(false),
    },
    Workload {
        name: "ordmap, get, number 0 writes",
        expected: Expected::OthersAtMost(0),
        operation: || ordered::gets(true),
    },
    Workload {
        name: "ordmap, entry held and released, number 0 writes",
        expected: Expected::OthersAtMost(2),
        operation: || ordered::holds(true),
    },
    Workload {
        name: "ordmap, next of a range, number 0 writes",
        expected: Expected::OthersAtMost(2),
        operation: || ordered::ranges(true),
    },
    Workload {
        name: "ordmap, next of a scan, number 0 writes",
        expected: Expected::OthersAtMost(0),
        operation: || ordered::scans(true),
    },
];

/// A value on two cache lines of its own, since processors fetch lines in pairs.
#[repr(align(128))]
struct Apart<T>(T);

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Reads the value that a raw lock protects. The lock shares its lines with no other data.
fn read<R: lock_api::RawRwLock + Send + Sync + 'static>() -> Operation {
    let lock = Apart(lock_api::RwLock::<R, u64>::new(7));
    Box::new(move |_| {
        black_box(*lock.0.read());
    })
}

/// Pins a segment that a word names. All threads pin the same segment.
fn pin(barrier: Barrier) -> Operation {
    const SEGMENT_COUNT: usize = 64;
    thread_local! {
        static ROW: OnceCell<PinRow<Arc<LineWords>>> = const { OnceCell::new() };
    }
    let words_needed = Pins::<Arc<LineWords>>::words_needed(THREADS_MAX, SEGMENT_COUNT);
    let words = Arc::new(LineWords::new(words_needed.expect("a small table")));
    let pins =
        Pins::new(words, THREADS_MAX, SEGMENT_COUNT, barrier).expect("the table has enough words");
    let named = Apart(AtomicU64::new(7));
    Box::new(move |thread| {
        ROW.with(|row| {
            let row = row.get_or_init(|| {
                // SAFETY: `count` gives each number to one thread, which lives until all threads
                // are done. The next count has its own threads and table.
                unsafe { pins.row(thread) }.expect("a row for each thread")
            });
            // ORDER: pairs with the release of the publication; no thread publishes here.
            let pin = row.pin(7, || named.0.load(Ordering::Acquire) == 7);
            assert!(pin.is_ok(), "a pin failed although the word did not change");
        });
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_held_against_what_must_come_out() {
        let counts = |lines, rmws| Counts { lines, rmws, ..Counts::default() };
        let others = |others_writes| Counts { others_writes, ..counts(1, 9.0) };
        for (case, expected, counts, want) in [
            ("nothing in conflict", Expected::NoConflict, counts(0, 0.0), true),
            ("a line, if only stored to", Expected::NoConflict, counts(1, 0.0), false),
            ("as many as must be", Expected::Rmws(2), counts(1, 2.0), true),
            ("more, by failed swaps", Expected::Rmws(2), counts(1, 2.5), true),
            ("fewer: something is not counted", Expected::Rmws(2), counts(1, 1.9), false),
            ("number 0 alone writes", Expected::OthersAtMost(0), others(0.0), true),
            ("another one does", Expected::OthersAtMost(0), others(0.1), false),
            ("no writer: nothing is shown", Expected::OthersAtMost(0), counts(0, 0.0), false),
        ] {
            assert_eq!(expected.is_met_by(&counts), want, "{case}");
        }
    }
}

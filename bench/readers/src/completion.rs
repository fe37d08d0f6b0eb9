//! Measures how long threads need for their operations on one lock, which is the usual measure in
//! the literature.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use crate::clock::now;
use crate::locks::Protected;

/// The load on a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) threads: usize,
    /// Operations of each thread.
    pub(crate) operations: u32,
    /// One in this many operations is a write; 0 if there are no writes.
    pub(crate) write_interval: u32,
}

/// Returns the nanoseconds from the moment when all threads are ready until the last one is done.
///
/// # Panics
/// If a reader saw a partial write, or if a write was lost.
pub(crate) fn measure<P: Protected>(load: Load) -> f64 {
    let protected = Box::new(Apart(P::new()));
    let gate = Gate::new(load.threads);
    let spans: Vec<Span> = thread::scope(|scope| {
        let (protected, gate) = (&protected.0, &gate);
        let start = |thread| scope.spawn(move || run(protected, load, thread, gate));
        let threads: Vec<_> = (0..load.threads).map(start).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended.collect::<Result<_, _>>().expect("no thread of the benchmark panics")
    });
    let writes: u64 = spans.iter().map(|span| span.writes).sum();
    assert_eq!(protected.0.read().count(), Some(writes), "writes were lost");
    let begin = spans.iter().map(|span| span.begin).min();
    let end = spans.iter().map(|span| span.end).max();
    let (begin, end) = begin.zip(end).expect("the load has a thread");
    end.duration_since(begin).as_secs_f64() * 1e9
}

/// The time in which a thread worked, and the number of its writes.
struct Span {
    begin: Instant,
    end: Instant,
    writes: u64,
}

/// A value that shares neither its cache lines nor the lines that are fetched with them.
#[repr(align(128))]
struct Apart<T>(T);

fn run<P: Protected>(protected: &P, load: Load, thread: usize, gate: &Gate) -> Span {
    for _ in 0..WARM_UP {
        black_box(protected.read());
    }
    // The threads write at different times: their first writes are spread over the interval.
    let (mut until_write, mut writes) = (offset(load, thread), 0);
    let mut is_whole = true;
    gate.pass();
    let begin = now();
    for _ in 0..load.operations {
        if until_write == 0 {
            protected.write();
            until_write = load.write_interval;
            writes += 1;
        } else {
            is_whole &= black_box(protected.read()).count().is_some();
        }
        until_write -= 1;
    }
    let end = now();
    assert!(is_whole, "a reader saw a partial write");
    Span { begin, end, writes }
}

/// The number of operations before the thread's first write.
fn offset(load: Load, thread: usize) -> u32 {
    if load.write_interval == 0 {
        return u32::MAX;
    }
    let share = u64::from(load.write_interval) * thread as u64 / load.threads as u64;
    u32::try_from(share).unwrap_or(0)
}

/// The number of reads of each thread before the start, after which its thread-locals exist and the
/// bias is on.
const WARM_UP: u32 = 100;

/// A gate at which threads wait, so that they start together.
struct Gate {
    arrived: AtomicUsize,
    threads: usize,
    is_crowded: bool,
}

impl Gate {
    fn new(threads: usize) -> Gate {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Gate { arrived: AtomicUsize::new(0), threads, is_crowded: threads > processors }
    }

    /// Spins, because waking a thread takes longer than its reads.
    fn pass(&self) {
        // ORDER: pairs with the acquire below: a thread that passes sees all warm-ups.
        self.arrived.fetch_add(1, Ordering::Release);
        // ORDER: pairs with the release above.
        while self.arrived.load(Ordering::Acquire) < self.threads {
            match self.is_crowded {
                true => thread::yield_now(),
                false => std::hint::spin_loop(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_spread_over_threads_and_time() {
        let load = |threads, write_interval| Load { threads, operations: 100, write_interval };
        for (case, load, thread, want) in [
            ("never", load(4, 0), 3, u32::MAX),
            ("the first thread at once", load(4, 100), 0, 0),
            ("the third in the middle", load(4, 100), 2, 50),
            ("more threads than operations between writes", load(64, 10), 63, 9),
        ] {
            assert_eq!(offset(load, thread), want, "{case}");
        }
    }

    #[test]
    fn every_lock_protects_its_row() {
        for lock in crate::locks::LOCKS {
            let load = Load { threads: 4, operations: 2000, write_interval: 7 };
            assert!((lock.completion_ns)(load) > 0.0, "{}", lock.name);
        }
    }
}

//! Detects workers whose event loop no longer turns.
//!
//! Each worker counts its turns in a [`TurnMark`], also while it is idle, because its maintenance
//! runs every [`SWEEP_MS`](crate::limits::SWEEP_MS). The control thread compares the marks at
//! intervals. It counts intervals instead of reading a clock, so that a process which was stopped
//! as a whole has no stuck worker when it continues.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::limits::WORKER_STILL_TICKS_MAX;

/// The number of turns of a worker's event loop, on cache lines of its own. Only the worker writes
/// it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct TurnMark(AtomicU64);

/// The mark of a worker that has ended as intended.
const ENDED: u64 = u64::MAX;

impl TurnMark {
    /// Counts one turn.
    pub(super) fn turn(&self) {
        self.0.store(self.0.load(Relaxed) + 1, Relaxed);
    }

    /// Marks that the worker ends.
    pub(super) fn end(&self) {
        self.0.store(ENDED, Relaxed);
    }
}

/// The control thread's view of all workers.
#[derive(Debug, Default)]
pub(super) struct Watchdog {
    workers: Vec<WatchedWorker>,
}

#[derive(Debug)]
struct WatchedWorker {
    mark: Arc<TurnMark>,
    last: u64,
    /// The number of intervals since the worker's last turn.
    still_ticks: u32,
}

/// A change that the watchdog has noticed; contains the number of the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkerChange {
    Stuck(usize),
    Recovered(usize),
}

impl Watchdog {
    /// Creates a watchdog for these workers, in the order of their numbers.
    pub(super) fn new(marks: impl Iterator<Item = Arc<TurnMark>>) -> Watchdog {
        let watched = |mark| WatchedWorker { mark, last: 0, still_ticks: 0 };
        Watchdog { workers: marks.map(watched).collect() }
    }

    /// Compares the marks with the marks at the last call, one interval ago. Returns the changes.
    pub(super) fn check(&mut self) -> Vec<WorkerChange> {
        let mut changes = Vec::new();
        for (number, worker) in self.workers.iter_mut().enumerate() {
            let was_stuck = worker.is_stuck();
            let now = worker.mark.0.load(Relaxed);
            worker.still_ticks = match now == worker.last && now != ENDED {
                true => worker.still_ticks.saturating_add(1),
                false => 0,
            };
            worker.last = now;
            match (was_stuck, worker.is_stuck()) {
                (false, true) => changes.push(WorkerChange::Stuck(number)),
                (true, false) => changes.push(WorkerChange::Recovered(number)),
                _ => {}
            }
        }
        changes
    }

    /// Returns the numbers of the workers that are stuck.
    pub(super) fn stuck(&self) -> Vec<usize> {
        let numbered = self.workers.iter().enumerate();
        numbered.filter(|(_, worker)| worker.is_stuck()).map(|(number, _)| number).collect()
    }
}

impl WatchedWorker {
    fn is_stuck(&self) -> bool {
        self.still_ticks >= WORKER_STILL_TICKS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_stuck_after_some_intervals_and_until_its_next_turn() {
        let marks: Vec<Arc<TurnMark>> = (0..3).map(|_| Arc::default()).collect();
        let mut watchdog = Watchdog::new(marks.iter().map(Arc::clone));
        marks.iter().for_each(|mark| mark.turn());
        assert_eq!(watchdog.check(), []);
        // Worker 0 turns, worker 1 is stuck, worker 2 has ended.
        marks[2].end();
        for tick in 1..=WORKER_STILL_TICKS_MAX + 2 {
            marks[0].turn();
            let expected = match tick == WORKER_STILL_TICKS_MAX {
                true => vec![WorkerChange::Stuck(1)],
                false => vec![],
            };
            assert_eq!(watchdog.check(), expected, "tick {tick}");
            let stuck = if tick < WORKER_STILL_TICKS_MAX { vec![] } else { vec![1] };
            assert_eq!(watchdog.stuck(), stuck, "tick {tick}");
        }
        marks[1].turn();
        assert_eq!(watchdog.check(), [WorkerChange::Recovered(1)]);
        assert!(watchdog.stuck().is_empty());
    }
}

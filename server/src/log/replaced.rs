//! Logs to which workers no longer write. Their threads write the rest of their queues, then end.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use super::writer::{LogLosses, LogWriters};
use crate::clock;
use crate::limits::{LOG_FINISH_POLL_MS, REPLACED_LOGS_MAX};

/// The state of a log's queue, which its senders, its thread and the control thread share.
#[derive(Debug)]
pub(super) struct LogQueue {
    /// The number of lines in the queue and in the batch that is being written.
    queued: AtomicU64,
    /// The number of bytes of these lines.
    bytes: AtomicU64,
    /// The number of bytes from which on the queue takes no further batch.
    bytes_max: u64,
    /// Whether the thread should end without writing the rest of the queue.
    is_given_up: AtomicBool,
}

/// The size of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchSize {
    pub(super) lines: u64,
    pub(super) bytes: u64,
}

impl BatchSize {
    pub(super) fn of(batch: &[u8]) -> BatchSize {
        BatchSize { lines: count_lines(batch), bytes: batch.len() as u64 }
    }
}

pub(super) fn count_lines(lines: &[u8]) -> u64 {
    lines.iter().filter(|byte| **byte == b'\n').count() as u64
}

impl LogQueue {
    pub(super) fn new(bytes_max: u64) -> LogQueue {
        LogQueue {
            queued: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            bytes_max,
            is_given_up: AtomicBool::new(false),
        }
    }

    /// Adds a batch, unless the queue is full. The batch may exceed the limit, so that no line is
    /// too long for the log.
    pub(super) fn add(&self, size: BatchSize) -> bool {
        if self.bytes.load(Relaxed) >= self.bytes_max {
            return false;
        }
        self.bytes.fetch_add(size.bytes, Relaxed);
        self.queued.fetch_add(size.lines, Relaxed);
        true
    }

    /// Removes a batch from the queue. Returns false if the log was given up, because then its
    /// lines have already been removed and counted as dropped.
    pub(super) fn remove(&self, size: BatchSize) -> bool {
        self.bytes.fetch_sub(size.bytes, Relaxed);
        self.queued.try_update(Relaxed, Relaxed, |queued| queued.checked_sub(size.lines)).is_ok()
    }

    /// Removes all lines from the queue; returns their number.
    pub(super) fn take(&self) -> u64 {
        self.queued.swap(0, Relaxed)
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.is_given_up.load(Relaxed)
    }
}

/// The rest of a log's queue, and the thread that writes it. The thread ends once all senders are
/// dropped.
pub(super) struct LogRest {
    pub(super) queue: Arc<LogQueue>,
    pub(super) losses: Arc<LogLosses>,
    pub(super) thread: JoinHandle<()>,
}

impl LogRest {
    fn is_written(&self) -> bool {
        self.thread.is_finished() || self.queue.queued.load(Relaxed) == 0
    }

    /// Gives up the log, and counts the lines that are still queued as dropped. The thread soon
    /// ends, which closes the file and frees the queue, unless a write to a regular file hangs.
    fn give_up(self) {
        self.queue.is_given_up.store(true, Relaxed);
        if !self.thread.is_finished() {
            self.losses.drop_lines(self.queue.take());
        }
    }
}

/// The logs that were replaced, those of the oldest replacement first. Some of their threads may
/// still be writing.
#[derive(Default)]
pub(crate) struct ReplacedLogs(RefCell<Vec<Vec<LogRest>>>);

impl ReplacedLogs {
    /// Adds the logs that new ones have replaced. Gives up those of the oldest replacement if
    /// threads of more than [`REPLACED_LOGS_MAX`] replacements, or of more than twice as many logs
    /// as were just replaced, are still writing: the readers of these logs have probably stopped.
    pub(crate) fn add(&self, writers: LogWriters) {
        self.add_rests(writers.close().collect());
    }

    fn add_rests(&self, rests: Vec<LogRest>) {
        let mut replaced = self.0.borrow_mut();
        replaced.iter_mut().for_each(|rests| rests.retain(|rest| !rest.thread.is_finished()));
        replaced.retain(|rests| !rests.is_empty());
        if rests.is_empty() {
            return;
        }
        let count_max = REPLACED_LOGS_MAX.max(2 * rests.len());
        replaced.push(rests);
        while replaced.len() > REPLACED_LOGS_MAX
            || replaced.iter().map(Vec::len).sum::<usize>() > count_max
        {
            replaced.remove(0).into_iter().for_each(LogRest::give_up);
        }
    }

    /// Waits until all queues are written, but at most `limit_ms` milliseconds, because the reader
    /// of a FIFO may have stopped. Lines that are still queued then count as dropped. Before the
    /// call, the caller must have dropped all senders, except those of stuck workers.
    pub(crate) async fn finish(&self, limit_ms: u64) {
        let deadline_ms = clock::monotonic_ms() + limit_ms;
        for rest in self.0.take().into_iter().flatten() {
            while !rest.is_written() && clock::monotonic_ms() < deadline_ms {
                tokio::time::sleep(Duration::from_millis(LOG_FINISH_POLL_MS)).await;
            }
            rest.give_up();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::sync::mpsc::channel;

    use forebay_testkit::eventually;
    use forebay_testkit::pipe::full_pipe;

    use super::super::writer::{LogTarget, write_batches};
    use super::*;

    #[test]
    fn a_log_that_is_given_up_frees_its_queue_though_its_reader_stalls() {
        let (_reader, writer) = full_pipe();
        let target = LogTarget::Stdout(OwnedFd::from(writer).into());
        let (batches, received) = channel();
        let (queue, losses) = (Arc::new(LogQueue::new(1 << 20)), Arc::<LogLosses>::default());
        let (own, of_thread) = (Arc::clone(&losses), Arc::clone(&queue));
        let thread = std::thread::spawn(move || write_batches(received, target, &own, &of_thread));
        for _ in 0..2 {
            assert!(queue.add(BatchSize::of(b"a\nb\n")));
            batches.send(b"a\nb\n".to_vec()).expect("the thread runs");
        }
        LogRest { queue: Arc::clone(&queue), losses: Arc::clone(&losses), thread }.give_up();
        // The sender of a stuck worker still exists.
        eventually("the thread has dropped the queue", || batches.send(Vec::new()).is_err());
        assert_eq!(losses.take(), (4, 0));
        assert_eq!(queue.take(), 0);
    }

    #[test]
    fn only_the_logs_of_the_oldest_of_many_replacements_are_given_up() {
        let losses = Arc::<LogLosses>::default();
        let ends = RefCell::new(Vec::new());
        let stalled = |_| {
            let queue = Arc::new(LogQueue::new(1 << 20));
            assert!(queue.add(BatchSize::of(b"a\n")));
            let (end, ended) = channel::<()>();
            ends.borrow_mut().push(end);
            let thread = std::thread::spawn(move || {
                // The result is an error once the test ends.
                let _ = ended.recv();
            });
            LogRest { queue, losses: Arc::clone(&losses), thread }
        };
        // Columns: the logs of each replacement; the replacements of which none is given up.
        for (logs, kept) in [(1, REPLACED_LOGS_MAX), (4, 2), (3 * REPLACED_LOGS_MAX, 2)] {
            let replaced = ReplacedLogs::default();
            for _ in 0..kept {
                replaced.add_rests((0..logs).map(stalled).collect());
            }
            assert_eq!(losses.take(), (0, 0), "{logs}");
            replaced.add_rests(Vec::new());
            assert_eq!(losses.take(), (0, 0), "{logs}");
            replaced.add_rests((0..logs).map(stalled).collect());
            assert_eq!(losses.take(), (logs as u64, 0), "{logs}");
        }
    }

    #[test]
    fn a_full_queue_takes_nothing_until_a_batch_is_written() {
        let queue = LogQueue::new(10);
        let size = BatchSize { lines: 1, bytes: 8 };
        assert!(queue.add(size) && queue.add(size), "a batch may exceed the limit");
        assert!(!queue.add(size), "the queue is full");
        assert!(queue.remove(size));
        assert!(queue.add(size));
        assert_eq!(queue.take(), 2);
    }
}

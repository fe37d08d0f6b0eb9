//! Logs that workers no longer write to. Their threads write the rest of the queue, and end.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use super::writer::{LogLosses, LogWriter};
use crate::clock;
use crate::limits::{LOG_FINISH_POLL_MS, REPLACED_LOGS_MAX};

/// The rest of a log's queue, and the thread that writes it. The thread ends when all senders are
/// dropped.
pub(super) struct LogRest {
    /// Lines in the queue, and in the batch that is being written.
    pub(super) queued: Arc<AtomicU64>,
    pub(super) losses: Arc<LogLosses>,
    pub(super) thread: JoinHandle<()>,
}

impl LogRest {
    fn is_written(&self) -> bool {
        self.thread.is_finished() || self.queued.load(Relaxed) == 0
    }

    /// Counts the lines that are not written as dropped.
    fn give_up(self) {
        if !self.thread.is_finished() {
            self.losses.drop_lines(self.queued.swap(0, Relaxed));
        }
    }
}

/// The logs that were replaced, of which some may still be written: oldest first.
#[derive(Default)]
pub(crate) struct ReplacedLogs(RefCell<Vec<LogRest>>);

impl ReplacedLogs {
    /// Adds the log that workers wrote to before. Gives up the oldest one if readers of several
    /// logs stall.
    pub(crate) fn add(&self, writer: Option<LogWriter>) {
        let mut rests = self.0.borrow_mut();
        rests.retain(|rest| !rest.thread.is_finished());
        rests.extend(writer.map(LogWriter::close));
        if rests.len() > REPLACED_LOGS_MAX {
            rests.remove(0).give_up();
        }
    }

    /// Waits until all queues are written, but at most `limit_ms`, because the reader of a FIFO may
    /// have stopped. Counts the lines that are left then. The caller has dropped all senders
    /// before, except those of workers that are stuck.
    pub(crate) async fn finish(&self, limit_ms: u64) {
        let deadline_ms = clock::monotonic_ms() + limit_ms;
        for rest in self.0.take() {
            while !rest.is_written() && clock::monotonic_ms() < deadline_ms {
                tokio::time::sleep(Duration::from_millis(LOG_FINISH_POLL_MS)).await;
            }
            rest.give_up();
        }
    }
}

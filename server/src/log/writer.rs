//! The thread that writes the access log, and the senders of the workers.

use std::cell::{Cell, RefCell};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::line::{AccessEntry, LineFormat};
use super::replaced::LogRest;
use crate::config::{AccessLog, AccessLogFormat, ServerSettings};
use crate::counters::Counter;
use crate::events::Event;
use crate::limits::{LOG_BATCH_BYTES, LOG_BATCHES_MAX, LOG_FLUSH_MS};
use crate::worker::Worker;

/// Complete lines of the log, which are written together.
type LogBatch = Vec<u8>;

/// Counts of lines that are not in the log, which the control thread collects.
#[derive(Debug, Default)]
pub(crate) struct LogLosses {
    /// Lines of senders that have ended, and of logs that were given up.
    dropped: AtomicU64,
    /// Lines that could not be written.
    failed: AtomicU64,
}

impl LogLosses {
    /// Returns the numbers of dropped and of failed lines since the last call.
    pub(crate) fn take(&self) -> (u64, u64) {
        (self.dropped.swap(0, Relaxed), self.failed.swap(0, Relaxed))
    }

    /// Counts lines that are dropped.
    pub(super) fn drop_lines(&self, count: u64) {
        self.dropped.fetch_add(count, Relaxed);
    }
}

/// A worker's handle on the access log.
pub(crate) struct LogSender {
    batches: SyncSender<LogBatch>,
    queued: Arc<AtomicU64>,
    losses: Arc<LogLosses>,
    lines: RefCell<LogBatch>,
    format: LineFormat,
    /// One in this many requests is logged.
    sample: u32,
    countdown: Cell<u32>,
    dropped: Cell<u64>,
}

/// The control thread's handle on the thread that writes the log. The thread ends when this handle
/// and all senders are dropped.
pub(crate) struct LogWriter {
    batches: SyncSender<LogBatch>,
    format: LineFormat,
    sample: u32,
    rest: LogRest,
}

impl LogWriter {
    /// Opens the access log and starts its thread; `None` if the settings want no log. Lines that
    /// are lost are counted in `losses`.
    ///
    /// # Errors
    /// The file cannot be opened for appending, or the thread cannot be created.
    pub(crate) fn open(
        settings: &ServerSettings,
        losses: &Arc<LogLosses>,
    ) -> io::Result<Option<LogWriter>> {
        let target = match &settings.access_log {
            AccessLog::Off => return Ok(None),
            // The lock of `io::stdout` would be held for as long as a reader stalls.
            AccessLog::Stdout => {
                LogTarget::Stdout(io::stdout().as_fd().try_clone_to_owned()?.into())
            }
            AccessLog::File(path) => {
                let named = |error| io::Error::other(format!("{}: {error}", path.display()));
                LogTarget::File(open(path).map_err(named)?)
            }
        };
        let (batches, received) = sync_channel(LOG_BATCHES_MAX);
        let (losses, own) = (Arc::clone(losses), Arc::clone(losses));
        let queued = Arc::<AtomicU64>::default();
        let left = Arc::clone(&queued);
        let thread = std::thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || write_batches(&received, target, (&own, &left)))?;
        let format = match settings.access_log_format {
            AccessLogFormat::Json => LineFormat::Json,
            AccessLogFormat::Combined => LineFormat::Combined,
        };
        let sample = settings.access_log_sample.max(1);
        let rest = LogRest { queued, losses, thread };
        Ok(Some(LogWriter { batches, format, sample, rest }))
    }

    /// Creates a worker's handle on this log.
    pub(crate) fn sender(&self) -> LogSender {
        LogSender {
            batches: self.batches.clone(),
            queued: Arc::clone(&self.rest.queued),
            losses: Arc::clone(&self.rest.losses),
            lines: RefCell::default(),
            format: self.format,
            sample: self.sample,
            countdown: Cell::new(0),
            dropped: Cell::new(0),
        }
    }

    /// Makes no more senders; the thread writes the rest of the queue.
    pub(super) fn close(self) -> LogRest {
        self.rest
    }
}

/// Opens a file for appending. A FIFO without a reader is an error, not a wait.
fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o640)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path)?;
    // Opening must not wait for a reader, but the log's thread may wait for a slow reader.
    let flags = fcntl_getfl(&file)?;
    fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file)
}

/// The destination of the log.
enum LogTarget {
    Stdout(File),
    File(File),
}

fn write_batches(
    batches: &Receiver<LogBatch>,
    mut target: LogTarget,
    (losses, queued): (&LogLosses, &AtomicU64),
) {
    let mut failing = false;
    while let Ok(batch) = batches.recv() {
        let written = target.write(&batch);
        // The server may have given this log up, and counted these lines.
        let count = count_lines(&batch);
        let is_counted = queued.try_update(Relaxed, Relaxed, |left| left.checked_sub(count));
        let Err(failure) = written else {
            failing = false;
            continue;
        };
        let lost = batch.get(failure.kept_bytes..).unwrap_or_default();
        if is_counted.is_ok() {
            losses.failed.fetch_add(count_lines(lost), Relaxed);
        }
        // The error is logged once until a write succeeds again, so that a full disk does not fill
        // another log.
        if !failing {
            failing = true;
            Event::LogFailed.log(&failure.error);
        }
    }
}

fn count_lines(lines: &[u8]) -> u64 {
    lines.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// A batch that could not be written whole.
struct BatchFailure {
    /// Bytes of the batch that are in the log, as far as is known.
    kept_bytes: usize,
    error: io::Error,
}

impl From<io::Error> for BatchFailure {
    fn from(error: io::Error) -> BatchFailure {
        BatchFailure { kept_bytes: 0, error }
    }
}

impl LogTarget {
    /// Writes a batch. If the write to a regular file fails, the part already written is removed,
    /// unless another process has appended since.
    fn write(&mut self, batch: &[u8]) -> Result<(), BatchFailure> {
        match self {
            LogTarget::Stdout(out) => write_whole(out, batch),
            LogTarget::File(file) => write_or_remove(file, batch),
        }
    }
}

/// Writes a batch to a file. If the disk becomes full after a part of the batch, that part is
/// removed again, so that the next line does not continue half a line. The part stays if another
/// process has appended to the file since.
fn write_or_remove(file: &mut File, batch: &[u8]) -> Result<(), BatchFailure> {
    let before_bytes = file.metadata()?.len();
    write_whole(file, batch).or_else(|failure| {
        let now = file.metadata()?;
        if now.is_file() && now.len() == before_bytes + failure.kept_bytes as u64 {
            file.set_len(before_bytes)?;
            return Err(BatchFailure { kept_bytes: 0, ..failure });
        }
        Err(failure)
    })
}

fn write_whole(file: &mut File, batch: &[u8]) -> Result<(), BatchFailure> {
    let mut written = 0;
    while let Some(rest) = batch.get(written..).filter(|rest| !rest.is_empty()) {
        match file.write(rest) {
            Ok(count) if count > 0 => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            failed => {
                let error = failed.err().unwrap_or_else(|| io::ErrorKind::WriteZero.into());
                return Err(BatchFailure { kept_bytes: written, error });
            }
        }
    }
    Ok(())
}

impl LogSender {
    /// Whether the request that begins now is logged. Each call counts one request.
    pub(crate) fn samples(&self) -> bool {
        let left = self.countdown.get();
        self.countdown.set(if left == 0 { self.sample - 1 } else { left - 1 });
        left == 0
    }

    /// Adds a line to the batch, and sends the batch to the thread if it is full.
    pub(crate) fn log(&self, entry: &AccessEntry) {
        let mut lines = self.lines.borrow_mut();
        entry.write(self.format, &mut lines);
        if lines.len() >= LOG_BATCH_BYTES {
            self.hand_over(&mut lines);
        }
    }

    /// Sends the batch to the thread; returns the number of lines dropped since the last call.
    pub(crate) fn flush(&self) -> u64 {
        self.hand_over(&mut self.lines.borrow_mut());
        self.dropped.replace(0)
    }

    fn hand_over(&self, lines: &mut LogBatch) {
        if lines.is_empty() {
            return;
        }
        let batch = std::mem::replace(lines, Vec::with_capacity(LOG_BATCH_BYTES + 1024));
        let count = count_lines(&batch);
        // The thread subtracts the lines after this, even if it takes the batch at once.
        self.queued.fetch_add(count, Relaxed);
        if self.batches.try_send(batch).is_err() {
            self.queued.fetch_sub(count, Relaxed);
            self.dropped.set(self.dropped.get() + count);
        }
    }
}

impl Drop for LogSender {
    fn drop(&mut self) {
        let dropped = self.flush();
        self.losses.dropped.fetch_add(dropped, Relaxed);
    }
}

/// Flushes a worker's lines periodically, so that a quiet server's log is current.
pub(crate) async fn flush_periodically(worker: Rc<Worker>) {
    let mut ticks = tokio::time::interval(Duration::from_millis(LOG_FLUSH_MS));
    loop {
        ticks.tick().await;
        worker.with_access_log(|log| {
            let dropped = log.flush();
            worker.count_many(Counter::LogLinesDropped, dropped);
        });
    }
}

//! The threads that write the access logs, and the senders of the workers.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::line::{AccessEntry, LineFormat};
use super::replaced::{BatchSize, LogQueue, LogRest, count_lines};
use crate::config::{
    AccessLog, AccessLogFormat, Config, LogDestination, LogNumber, ServerSettings,
};
use crate::counters::Counter;
use crate::events::Event;
use crate::limits::{
    LOG_BATCH_BYTES, LOG_FLUSH_MS, LOG_GIVEN_UP_POLL_MS, LOG_QUEUE_BYTES_MAX, LOG_QUEUES_BYTES_MAX,
};
use crate::worker::Worker;

/// Complete lines of the log, which are written together.
type LogBatch = Vec<u8>;

/// Counts of lines that are missing from the log. The control thread collects them.
#[derive(Debug, Default)]
pub(crate) struct LogLosses {
    /// Lines dropped by senders that have ended, and lines of logs that were given up.
    dropped: AtomicU64,
    /// Lines that could not be written.
    failed: AtomicU64,
}

impl LogLosses {
    /// Returns the number of lines that were dropped and the number that could not be written, both
    /// since the last call.
    pub(crate) fn take(&self) -> (u64, u64) {
        (self.dropped.swap(0, Relaxed), self.failed.swap(0, Relaxed))
    }

    /// Adds `count` lines to the dropped lines.
    pub(super) fn drop_lines(&self, count: u64) {
        self.dropped.fetch_add(count, Relaxed);
    }
}

/// A worker's handle to an access log.
pub(crate) struct LogSender {
    batches: Sender<LogBatch>,
    queue: Arc<LogQueue>,
    losses: Arc<LogLosses>,
    lines: RefCell<LogBatch>,
    format: LineFormat,
    /// One request in this many is logged.
    sample: u32,
    countdown: Cell<u32>,
    dropped: Cell<u64>,
}

/// A worker's handles to the access logs of its configuration, by their numbers.
#[derive(Default)]
pub(crate) struct LogSenders(Box<[LogSender]>);

/// The control thread's handle to the thread that writes a log. The thread ends when this handle
/// and all senders are dropped.
struct LogWriter {
    batches: Sender<LogBatch>,
    format: LineFormat,
    sample: u32,
    rest: LogRest,
}

/// The control thread's handles to the access logs of its configuration, by their numbers.
#[derive(Default)]
pub(crate) struct LogWriters(Vec<LogWriter>);

impl LogWriters {
    /// Opens the access logs and starts their threads. Lost lines are counted in `losses`.
    ///
    /// # Errors
    /// A file cannot be opened for appending, or a thread cannot be created. Then no log is open.
    pub(crate) fn open(config: &Config, losses: &Arc<LogLosses>) -> io::Result<LogWriters> {
        let queues = config.access_logs.iter().len().max(1) as u64;
        let queue_bytes = LOG_QUEUE_BYTES_MAX.min(LOG_QUEUES_BYTES_MAX / queues);
        let open = |destination: &LogDestination| {
            LogWriter::open(&destination.log, &config.server, (losses, queue_bytes)).map_err(
                |error| match &destination.at[..] {
                    "" => error,
                    at => io::Error::other(format!("{at}: {error}")),
                },
            )
        };
        config.access_logs.iter().map(open).collect::<io::Result<_>>().map(LogWriters)
    }

    /// Creates a worker's handles to these logs.
    pub(crate) fn senders(&self) -> LogSenders {
        LogSenders(self.0.iter().map(LogWriter::sender).collect())
    }

    /// Closes the handles, so that no further senders can be created. The threads still write the
    /// rest of their queues.
    pub(super) fn close(self) -> impl Iterator<Item = LogRest> {
        self.0.into_iter().map(|writer| writer.rest)
    }
}

impl LogWriter {
    fn open(
        log: &AccessLog,
        settings: &ServerSettings,
        (losses, queue_bytes): (&Arc<LogLosses>, u64),
    ) -> io::Result<LogWriter> {
        let target = match log {
            AccessLog::File(path) => {
                let named = |error| io::Error::other(format!("{}: {error}", path.display()));
                LogTarget::File { file: open(path).map_err(named)?, path: path.clone() }
            }
            // A log that is off is no destination. `io::stdout` is not used, because its lock would
            // be held for as long as a reader stalls.
            AccessLog::Stdout | AccessLog::Off => {
                LogTarget::Stdout(io::stdout().as_fd().try_clone_to_owned()?.into())
            }
        };
        let (batches, received) = channel();
        let (losses, own) = (Arc::clone(losses), Arc::clone(losses));
        let queue = Arc::new(LogQueue::new(queue_bytes));
        let of_thread = Arc::clone(&queue);
        let thread = std::thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || write_batches(received, target, &own, &of_thread))?;
        let format = match settings.access_log_format {
            AccessLogFormat::Json => LineFormat::Json,
            AccessLogFormat::Combined => LineFormat::Combined,
        };
        let sample = settings.access_log_sample.max(1);
        let rest = LogRest { queue, losses, thread };
        Ok(LogWriter { batches, format, sample, rest })
    }

    fn sender(&self) -> LogSender {
        LogSender {
            batches: self.batches.clone(),
            queue: Arc::clone(&self.rest.queue),
            losses: Arc::clone(&self.rest.losses),
            lines: RefCell::default(),
            format: self.format,
            sample: self.sample,
            countdown: Cell::new(0),
            dropped: Cell::new(0),
        }
    }
}

impl LogSenders {
    /// Whether every request is unlogged.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the log with this number.
    #[inline]
    pub(crate) fn log(&self, number: LogNumber) -> Option<&LogSender> {
        self.0.get(number.index())
    }

    /// Sends all batches; returns the number of lines that were dropped since the last call.
    fn flush(&self) -> u64 {
        self.0.iter().map(LogSender::flush).sum()
    }
}

/// Opens a file for appending. A FIFO without a reader causes an error instead of a wait.
fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o640)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path)?;
    // Opening must not wait for a reader, but later the log's thread may wait for a slow reader.
    let flags = fcntl_getfl(&file)?;
    fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file)
}

/// The destination of a log.
pub(super) enum LogTarget {
    Stdout(File),
    File { file: File, path: PathBuf },
}

impl fmt::Display for LogTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogTarget::Stdout(_) => f.write_str("standard output"),
            LogTarget::File { path, .. } => path.display().fmt(f),
        }
    }
}

/// Writes the batches of a queue until all senders are dropped, or the log is given up.
pub(super) fn write_batches(
    batches: Receiver<LogBatch>,
    mut target: LogTarget,
    losses: &LogLosses,
    queue: &LogQueue,
) {
    let mut failing = false;
    while let Ok(batch) = batches.recv() {
        let written = target.write(&batch, queue);
        let failed = match &written {
            // After the log is given up, most writes fail for that reason alone. Their lines have
            // already been counted as dropped.
            Err(failure) if !queue.is_given_up() => {
                count_lines(batch.get(failure.kept_bytes..).unwrap_or_default())
            }
            _ => 0,
        };
        // Lines are counted before they leave the queue: once the queue is empty, the control
        // thread collects the counts of the log for the last time.
        losses.failed.fetch_add(failed, Relaxed);
        if !queue.remove(BatchSize::of(&batch)) {
            // The log has just been given up, and these lines have been counted as dropped. So they
            // must not count as failed too.
            let _ = losses.failed.try_update(Relaxed, Relaxed, |all| all.checked_sub(failed));
        }
        if queue.is_given_up() {
            break;
        }
        let Err(failure) = written else {
            failing = false;
            continue;
        };
        // After an error is reported, no further error is reported until a write succeeds, so that
        // a full disk does not fill another log.
        if !failing {
            failing = true;
            Event::LogFailed.log(&format_args!("{target}: {}", failure.error));
        }
    }
    drop(batches);
    // These batches were sent after the log was given up.
    losses.drop_lines(queue.take());
}

/// A batch that could not be written whole.
struct BatchFailure {
    /// The number of bytes of the batch that are in the log, as far as is known.
    kept_bytes: usize,
    error: io::Error,
}

impl From<io::Error> for BatchFailure {
    fn from(error: io::Error) -> BatchFailure {
        BatchFailure { kept_bytes: 0, error }
    }
}

impl LogTarget {
    /// Writes a batch. If a write to a regular file fails, removes the part of the batch that was
    /// written, unless another process has appended to the file in the meantime.
    fn write(&mut self, batch: &[u8], queue: &LogQueue) -> Result<(), BatchFailure> {
        match self {
            LogTarget::Stdout(out) => write_whole(out, batch, queue),
            LogTarget::File { file, .. } => write_or_remove(file, batch, queue),
        }
    }
}

/// Writes a batch to a file. If the disk fills up in the middle of the batch, removes the part that
/// was written, so that the next line does not continue half a line. The part stays if another
/// process has appended to the file in the meantime.
fn write_or_remove(file: &mut File, batch: &[u8], queue: &LogQueue) -> Result<(), BatchFailure> {
    let before_bytes = file.metadata()?.len();
    write_whole(file, batch, queue).or_else(|failure| {
        let now = file.metadata()?;
        if now.is_file() && now.len() == before_bytes + failure.kept_bytes as u64 {
            file.set_len(before_bytes)?;
            return Err(BatchFailure { kept_bytes: 0, ..failure });
        }
        Err(failure)
    })
}

/// Writes all bytes. Stops if the log is given up while the reader of a pipe stalls.
fn write_whole(file: &mut File, batch: &[u8], queue: &LogQueue) -> Result<(), BatchFailure> {
    let is_regular = file.metadata()?.is_file();
    let mut written = 0;
    while let Some(rest) = batch.get(written..).filter(|rest| !rest.is_empty()) {
        let piece = if is_regular { rest } else { pipe_piece(rest) };
        let ready = if is_regular { Ok(()) } else { wait_for_room(file, queue) };
        match ready.and_then(|()| file.write(piece)) {
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

/// Returns the first of these lines: as many as a pipe that is ready accepts without blocking. The
/// pipe does not mix them with the writes of another process.
fn pipe_piece(lines: &[u8]) -> &[u8] {
    let piece = &lines[..lines.len().min(PIPE_PIECE_BYTES)];
    let end = piece.iter().rposition(|byte| *byte == b'\n').map_or(piece.len(), |end| end + 1);
    &piece[..end]
}

/// The number of bytes that a pipe accepts without blocking if `poll` reports it as ready
/// (`PIPE_BUF` in Linux).
const PIPE_PIECE_BYTES: usize = 4096;

/// Waits until the file accepts bytes.
///
/// # Errors
/// The log was given up, or the wait failed.
fn wait_for_room(file: &File, queue: &LogQueue) -> io::Result<()> {
    let interval = Timespec { tv_sec: 0, tv_nsec: i64::from(LOG_GIVEN_UP_POLL_MS) * 1_000_000 };
    while poll(&mut [PollFd::new(file, PollFlags::OUT)], Some(&interval))? == 0 {
        if queue.is_given_up() {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    Ok(())
}

impl LogSender {
    /// Whether the log's sample includes the request that begins now. Each call counts one request.
    pub(crate) fn samples(&self) -> bool {
        let left = self.countdown.get();
        self.countdown.set(if left == 0 { self.sample - 1 } else { left - 1 });
        left == 0
    }

    /// Adds a line to the batch. If the batch is full, sends it to the log's thread.
    pub(crate) fn log(&self, entry: &AccessEntry) {
        let mut lines = self.lines.borrow_mut();
        entry.write(self.format, &mut lines);
        if lines.len() >= LOG_BATCH_BYTES {
            self.hand_over(&mut lines);
        }
    }

    /// Sends the batch to the log's thread; returns the number of lines that were dropped since the
    /// last call.
    fn flush(&self) -> u64 {
        self.hand_over(&mut self.lines.borrow_mut());
        self.dropped.replace(0)
    }

    fn hand_over(&self, lines: &mut LogBatch) {
        if lines.is_empty() {
            return;
        }
        // The copy is as long as its lines, so that the batches of a quiet server, which are short,
        // do not fill the queue. The buffer is used again.
        let batch = lines.as_slice().to_vec();
        lines.clear();
        lines.shrink_to(LOG_BATCH_BYTES + 1024);
        let size = BatchSize::of(&batch);
        // The lines are counted before the batch is sent, because the thread may immediately take
        // the batch and subtract its lines.
        let is_dropped = match self.queue.add(size) {
            true => self.batches.send(batch).is_err() && self.queue.remove(size),
            false => true,
        };
        if is_dropped {
            self.dropped.set(self.dropped.get() + size.lines);
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
        let dropped = worker.access_logs().flush();
        worker.count_many(Counter::LogLinesDropped, dropped);
    }
}

//! The lines of events on their way to standard error, and the thread that writes them.
//!
//! If the reader of a pipe stalls, a write to the pipe blocks. So threads that serve clients never
//! write to standard error: they put lines into a bounded queue, and drop and count the lines that
//! do not fit. Before the writer thread starts and after the server ends, lines are written
//! directly, each for a limited time.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::clock;
use crate::limits::{EVENT_LINES_MAX, EVENTS_FINISH_MS_MAX, EVENTS_FINISH_POLL_MS};

/// The queue of the process. There is only one queue, because the process has only one standard
/// error.
static QUEUE: OnceLock<EventQueue> = OnceLock::new();

/// A stream for the lines of events. It writes to the queue once the writer thread runs, and
/// directly to standard error before that. Writing never fails, and each call of `write` is one
/// line.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventOutput;

impl Write for EventOutput {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match QUEUE.get() {
            Some(queue) => queue.add(line),
            // If a line cannot be written, there is no other place to report it.
            None => drop(write_directly(line)),
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Starts the thread that writes the lines, unless it is already running.
///
/// # Errors
/// The thread cannot be created.
pub(crate) fn start_writer() -> io::Result<()> {
    if QUEUE.get().is_none() {
        let (queue, received) = EventQueue::new();
        let counts = Arc::clone(&queue.counts);
        std::thread::Builder::new()
            .name("event-log".to_owned())
            .spawn(move || write_lines(&received, &counts, io::stderr()))?;
        // If another thread set the queue first, this queue is dropped and its thread ends.
        let _ = QUEUE.set(queue);
    }
    Ok(())
}

/// Waits for a limited time until all lines in the queue are written. Returns the number of lines
/// that are left in the queue.
pub fn finish() -> usize {
    QUEUE.get().map_or(0, |queue| queue.finish(clock::monotonic_ms() + EVENTS_FINISH_MS_MAX))
}

/// Writes the last message of the process to standard error, after the lines in the queue. Gives up
/// after a limited time if standard error is a pipe whose reader does not read.
pub fn write_last(message: &str) {
    // If another process writes to the same pipe, a direct write may block in spite of the time
    // limit. It does no harm if the writer thread blocks.
    match QUEUE.get() {
        Some(queue) => queue.add(message.as_bytes()),
        // If a message cannot be written, there is no other place to report it.
        None => drop(write_directly(message.as_bytes())),
    }
    let _ = finish();
}

/// Returns the numbers of lost lines, and resets these numbers.
pub(crate) fn take_losses() -> EventLosses {
    QUEUE.get().map_or(EventLosses::default(), EventQueue::take_losses)
}

/// Numbers of lost lines. A lost line can be counted immediately, but a report about it would be
/// lost too until the queue has room again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventLosses {
    /// Lines that were lost since the last call of [`take_losses`].
    pub(crate) new: u64,
    /// Lines that were lost since the last report; 0 while a report would be lost too.
    pub(crate) to_report: u64,
}

/// Lines on their way to the thread that writes them.
#[derive(Debug)]
struct EventQueue {
    lines: SyncSender<Vec<u8>>,
    counts: Arc<LineCounts>,
}

/// Counts that threads share. Each is a plain number on which no other data depends, so all
/// accesses are relaxed.
#[derive(Debug, Default)]
struct LineCounts {
    /// Lines in the queue, and the line that is being written.
    queued: AtomicUsize,
    /// Lines that did not fit into the queue or could not be written since the last call of
    /// [`take_losses`].
    lost: AtomicU64,
    /// Lost lines that [`take_losses`] has returned as new, but not yet for a report.
    unreported: AtomicU64,
    /// Whether the last write failed.
    is_failing: AtomicBool,
    /// Whether a wait for an empty queue has timed out. If so, later calls do not wait.
    is_stalled: AtomicBool,
}

impl EventQueue {
    fn new() -> (EventQueue, Receiver<Vec<u8>>) {
        let (lines, received) = sync_channel(EVENT_LINES_MAX);
        (EventQueue { lines, counts: Arc::default() }, received)
    }

    fn add(&self, line: &[u8]) {
        self.counts.queued.fetch_add(1, Relaxed);
        if self.lines.try_send(line.to_vec()).is_err() {
            self.counts.queued.fetch_sub(1, Relaxed);
            self.counts.lost.fetch_add(1, Relaxed);
        }
    }

    fn take_losses(&self) -> EventLosses {
        let LineCounts { queued, lost, unreported, is_failing, .. } = &*self.counts;
        let new = lost.swap(0, Relaxed);
        unreported.fetch_add(new, Relaxed);
        let is_full = queued.load(Relaxed) > EVENT_LINES_MAX / 2;
        let to_report = match is_full || is_failing.load(Relaxed) {
            true => 0,
            false => unreported.swap(0, Relaxed),
        };
        EventLosses { new, to_report }
    }

    fn finish(&self, deadline_ms: u64) -> usize {
        let LineCounts { queued, is_stalled, .. } = &*self.counts;
        while queued.load(Relaxed) > 0 && !is_stalled.load(Relaxed) {
            if clock::monotonic_ms() >= deadline_ms {
                is_stalled.store(true, Relaxed);
            }
            std::thread::park_timeout(Duration::from_millis(EVENTS_FINISH_POLL_MS));
        }
        queued.load(Relaxed)
    }
}

fn write_lines(lines: &Receiver<Vec<u8>>, counts: &LineCounts, out: impl AsFd) {
    while let Ok(line) = lines.recv() {
        let written = write_whole(&out, &line, None);
        counts.is_failing.store(written.is_err(), Relaxed);
        counts.lost.fetch_add(u64::from(written.is_err()), Relaxed);
        counts.queued.fetch_sub(1, Relaxed);
    }
}

fn write_directly(line: &[u8]) -> io::Result<()> {
    write_whole(io::stderr(), line, Some(clock::monotonic_ms() + EVENTS_FINISH_MS_MAX))
}

/// Writes all bytes; waits for room until the deadline.
fn write_whole(out: impl AsFd, mut bytes: &[u8], deadline_ms: Option<u64>) -> io::Result<()> {
    while !bytes.is_empty() {
        let left_ms = deadline_ms.map(|deadline| deadline.saturating_sub(clock::monotonic_ms()));
        let limit = left_ms.map(|ms| Timespec {
            tv_sec: (ms / 1000).cast_signed(),
            tv_nsec: (ms % 1000 * 1_000_000).cast_signed(),
        });
        match poll(&mut [PollFd::new(&out, PollFlags::OUT)], limit.as_ref()) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        // A pipe that is ready has room for at least one page, so this does not block.
        match rustix::io::write(&out, &bytes[..bytes.len().min(PIPE_PAGE_BYTES)]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Bytes that a pipe accepts without blocking if `poll` reports it as ready (Linux's `PIPE_BUF`).
const PIPE_PAGE_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_reader_that_stalls_blocks_no_thread_and_lost_lines_are_counted() {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let (queue, received) = EventQueue::new();
        let counts = Arc::clone(&queue.counts);
        let thread = std::thread::spawn(move || write_lines(&received, &counts, writer));
        // The pipe holds 16 lines, and the thread holds one more.
        let line = [vec![b'x'; PIPE_PAGE_BYTES - 1], vec![b'\n']].concat();
        let added = 2 * EVENT_LINES_MAX;
        for _ in 0..added {
            queue.add(&line);
        }
        let left = queue.finish(clock::monotonic_ms());
        assert!(left > EVENT_LINES_MAX / 2, "{left}: the reader stalls");
        let EventLosses { new: lost, to_report } = queue.take_losses();
        assert_eq!(to_report, 0, "the report would be lost");
        assert!((EVENT_LINES_MAX as u64 - 32..=EVENT_LINES_MAX as u64).contains(&lost), "{lost}");
        let written = (added as u64 - lost) * PIPE_PAGE_BYTES as u64;
        let read = io::copy(&mut Read::take(&mut reader, written), &mut io::sink());
        assert_eq!(read.expect("the pipe is open"), written);
        while queue.counts.queued.load(Relaxed) > 0 {
            std::thread::yield_now();
        }
        assert_eq!(queue.take_losses(), EventLosses { new: 0, to_report: lost });
        assert_eq!(queue.take_losses(), EventLosses::default());
        drop(queue);
        thread.join().expect("the thread ends");
    }

    #[test]
    fn a_stream_that_fails_loses_lines_without_a_report() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let (queue, received) = EventQueue::new();
        queue.add(b"line\n");
        let EventQueue { lines, counts } = queue;
        drop(lines);
        write_lines(&received, &counts, writer);
        assert!(counts.is_failing.load(Relaxed));
        let losses = EventQueue { lines: sync_channel(1).0, counts }.take_losses();
        assert_eq!(losses, EventLosses { new: 1, to_report: 0 });
    }

    #[test]
    fn a_direct_write_to_a_full_pipe_ends_at_its_deadline() {
        let (_reader, writer) = std::io::pipe().expect("a pipe");
        let page = [b'x'; PIPE_PAGE_BYTES];
        let deadline_ms = clock::monotonic_ms() + 20;
        let failed = std::iter::repeat_with(|| write_whole(&writer, &page, Some(deadline_ms)))
            .find_map(Result::err);
        assert_eq!(failed.map(|error| error.kind()), Some(io::ErrorKind::TimedOut));
    }
}

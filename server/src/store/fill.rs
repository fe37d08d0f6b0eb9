//! Writes the body of a response into its growing record.

use std::future::poll_fn;
use std::time::Duration;

use forebay_cache::{Fill, NoReaders};
use tokio::time::{sleep, timeout};

use crate::clock;
use crate::limits::{STORE_TRIES_MAX, STORE_TRY_MS, WINDOW_ASK_MS};

/// Writes the body of one record.
pub(crate) struct BodyWriter {
    fill: Fill,
    bytes_max: u64,
}

impl BodyWriter {
    /// Creates a writer of a record's body. A body of more than `bytes_max` bytes is not stored.
    pub(crate) fn new(fill: Fill, bytes_max: u64) -> BodyWriter {
        BodyWriter { fill, bytes_max }
    }

    /// Announces the next `more_bytes` of the body. If they make the body too long, it will not be
    /// stored, but its readers still get it.
    pub(crate) fn announce(&mut self, more_bytes: usize) {
        if self.fill.bytes() + more_bytes as u64 > self.bytes_max {
            self.fill.give_up_storing(clock::monotonic_ms());
        }
    }

    /// Whether the body is still to be stored.
    pub(crate) fn is_storing(&self) -> bool {
        self.fill.is_storing()
    }

    /// Stops storing the body, for instance because it arrives too slowly. Its readers still get
    /// the body.
    pub(crate) fn stop_storing(&mut self) {
        self.fill.stop_storing();
    }

    /// Waits until the growing record has room for more bytes.
    ///
    /// # Errors
    /// The record will not be stored, and it has no readers.
    pub(crate) async fn room(&mut self) -> Result<(), NoReaders> {
        loop {
            // The store has no clock, so it cannot notice a slow reader by itself. Therefore it is
            // polled at intervals.
            let room = poll_fn(|cx| self.fill.poll_room(cx, clock::monotonic_ms()));
            if let Ok(room) = timeout(Duration::from_millis(WINDOW_ASK_MS), room).await {
                return room;
            }
        }
    }

    /// Cuts off the slowest reader.
    pub(crate) fn cut_slowest(&mut self) {
        self.fill.cut_slowest();
    }

    /// Appends a piece and publishes it to readers. Call [`BodyWriter::room`] first, which waits
    /// for room.
    ///
    /// # Errors
    /// See [`BodyWriter::room`].
    pub(crate) fn append(&mut self, piece: &[u8]) -> Result<(), NoReaders> {
        self.fill.append(piece)
    }

    /// Ends the body; returns whether the body was stored. Waits briefly for memory that other
    /// workers are about to release.
    pub(crate) async fn finish(self) -> bool {
        let mut fill = self.fill;
        for _ in 0..STORE_TRIES_MAX {
            match fill.try_finish() {
                Ok(is_stored) => return is_stored,
                Err(same) => fill = *same,
            }
            sleep(Duration::from_millis(STORE_TRY_MS)).await;
        }
        fill.finish()
    }
}

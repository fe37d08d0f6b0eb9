//! Writing the body of a response into its growing record.

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
    /// A writer of the record's body; a body of more than `bytes_max` bytes is not stored.
    pub(crate) fn new(fill: Fill, bytes_max: u64) -> BodyWriter {
        BodyWriter { fill, bytes_max }
    }

    /// Gives up storing the body if `more_bytes` make it too long. Its readers still get it.
    pub(crate) fn announce(&mut self, more_bytes: usize) {
        if self.fill.bytes() + more_bytes as u64 > self.bytes_max {
            self.fill.give_up_storing(clock::monotonic_ms());
        }
    }

    /// Waits for room.
    ///
    /// # Errors
    /// The record is not going to be stored, and it has no readers.
    pub(crate) async fn room(&mut self) -> Result<(), NoReaders> {
        loop {
            // The store has no clock to see which reader is too slow, so it is asked again at
            // intervals.
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

    /// Appends a piece, for which there is room, and publishes it to readers.
    ///
    /// # Errors
    /// See [`BodyWriter::room`].
    pub(crate) fn append(&mut self, piece: &[u8]) -> Result<(), NoReaders> {
        self.fill.append(piece)
    }

    /// Ends the body; returns whether it was stored. Waits a little for room that other workers are
    /// about to release.
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

//! The queue without a lock.

use forebay_studies::publish::{Limits, Read, Receiver, Sender, queue as publish_queue};

use crate::work::{Incoming, Outgoing};

/// The size of a chunk. A message occupies at least one chunk, so a chunk is about as long as a
/// message.
const CHUNK_BYTES: usize = 4 * 1024;

/// Makes the two sides of a queue whose chunks have at most `bytes_max` bytes together.
pub(crate) fn queue(bytes_max: usize) -> (Sender, Receiver) {
    publish_queue(Limits { chunk_bytes: CHUNK_BYTES, bytes_max })
}

impl Outgoing for Sender {
    fn append(&mut self, part: &[u8]) {
        let mut rest = part;
        // The transmitter lives until the sender is dropped, so the queue is never closed here.
        while let Ok(taken_bytes) = Sender::append(self, rest)
            && taken_bytes < rest.len()
            && self.wait_for_room().is_ok()
        {
            rest = &rest[taken_bytes..];
        }
    }

    fn end(&mut self, is_whole: bool) {
        if is_whole {
            self.end_message();
        } else {
            self.abort_message();
        }
    }
}

impl Incoming for Receiver {
    fn fill<'a>(&mut self, packet: &'a mut [u8]) -> Read<'a> {
        self.wait_fill(packet)
    }
}

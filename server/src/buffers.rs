//! Buffers of a connection, lent by its worker while there is something in them.
//!
//! An idle connection holds none: it takes a set when bytes arrive and gives it back when all of
//! them are answered. So a worker with many connections has as many sets as are busy at once.

use std::cell::RefCell;

use forebay_http::request::RequestParts;
use forebay_rules::apply::RequestText;

use crate::limits::{BUFFER_BYTES_KEPT_MAX, BUFFERS_POOLED_MAX, INPUT_BYTES};
use crate::send_queue::SendQueue;

/// All buffers that one connection needs while a request is under way.
#[derive(Default)]
pub(crate) struct Buffers {
    pub(crate) input: Input,
    /// Where the fields of the present head lie in `input`.
    pub(crate) parts: RequestParts,
    /// The key of the present request.
    pub(crate) key: Vec<u8>,
    /// The secondary key of the present request, if the resource has variants.
    pub(crate) variant: Vec<u8>,
    pub(crate) out: SendQueue,
    /// The present request as rules left it before its site was known.
    pub(crate) pre_remap: RequestText,
    /// The same before its key was known.
    pub(crate) post_remap: RequestText,
}

impl Buffers {
    /// Nothing read that is not answered, nothing to send?
    pub(crate) fn is_idle(&self) -> bool {
        self.input.is_empty() && self.out.is_empty()
    }

    fn reset(&mut self) {
        self.input.reset();
        // Or the next connection's head would be read on from where this one's broke off.
        self.parts.clear();
        self.out.reset();
        self.key.clear();
        self.key.shrink_to(BUFFER_BYTES_KEPT_MAX);
        self.variant.clear();
        self.variant.shrink_to(BUFFER_BYTES_KEPT_MAX);
        self.pre_remap.reset(BUFFER_BYTES_KEPT_MAX);
        self.post_remap.reset(BUFFER_BYTES_KEPT_MAX);
    }
}

/// Bytes read and not yet used: `bytes[start..end]`.
#[derive(Default)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    /// No unused byte?
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// The unused bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// Space for the next read, at least one byte; unused bytes move to the front or the buffer
    /// grows to `bytes_max` if there is none left. Empty if `bytes_max` unused bytes are held.
    pub(crate) fn space(&mut self, bytes_max: usize) -> &mut [u8] {
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
        }
        if self.bytes.is_empty() {
            self.bytes.resize(INPUT_BYTES, 0);
        }
        if self.end == self.bytes.len() {
            self.make_space(bytes_max);
        }
        self.bytes.get_mut(self.end..).unwrap_or_default()
    }

    fn make_space(&mut self, bytes_max: usize) {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        } else {
            let grown = (self.bytes.len() * 2).min(bytes_max.max(self.bytes.len()));
            self.bytes.resize(grown, 0);
        }
    }

    /// `count` bytes were read into [`Input::space`].
    pub(crate) fn filled(&mut self, count: usize) {
        self.end = (self.end + count).min(self.bytes.len());
    }

    /// The first `count` unused bytes are used.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
    }

    fn reset(&mut self) {
        (self.start, self.end) = (0, 0);
        if self.bytes.len() > BUFFER_BYTES_KEPT_MAX {
            self.bytes = Vec::new();
        }
    }
}

/// Buffers that no connection holds just now.
#[derive(Default)]
pub(crate) struct BufferPool {
    #[expect(clippy::vec_box, reason = "a set is lent to a connection as one pointer")]
    free: RefCell<Vec<Box<Buffers>>>,
}

impl BufferPool {
    /// Takes a set from the pool, or makes one.
    pub(crate) fn take(&self) -> Box<Buffers> {
        self.free.borrow_mut().pop().unwrap_or_default()
    }

    /// Gives a set back.
    pub(crate) fn give(&self, mut buffers: Box<Buffers>) {
        buffers.reset();
        let mut free = self.free.borrow_mut();
        if free.len() < BUFFERS_POOLED_MAX {
            free.push(buffers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_bytes_stay_in_order_while_the_buffer_moves_and_grows() {
        let mut input = Input::default();
        let (mut written, mut read) = (0u32, 0u32);
        for round in 0..2000u32 {
            let space = input.space(3 * INPUT_BYTES);
            let count = space.len().min(1 + (round as usize * 37) % 5000);
            for byte in &mut space[..count] {
                *byte = (written % 251) as u8;
                written += 1;
            }
            input.filled(count);
            let used = input.bytes().len().min((round as usize * 53) % 5100);
            for byte in &input.bytes()[..used] {
                assert_eq!(u32::from(*byte), read % 251, "byte {read}");
                read += 1;
            }
            input.consume(used);
        }
        assert!(read > 1_000_000 && input.bytes().len() == (written - read) as usize);
    }

    #[test]
    fn a_full_buffer_gives_no_space_beyond_its_limit() {
        let mut input = Input::default();
        for _ in 0..100 {
            let count = input.space(2 * INPUT_BYTES).len();
            input.filled(count);
        }
        assert_eq!(input.bytes().len(), 2 * INPUT_BYTES);
        assert!(input.space(2 * INPUT_BYTES).is_empty());
    }
}

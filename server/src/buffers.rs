//! Buffers of connections. A worker lends a set of buffers to each busy connection.
//!
//! An idle connection has no buffers: it takes a set when bytes arrive, and returns it when all
//! requests are answered. So a worker needs only as many sets as it has busy connections.

use std::cell::RefCell;

use forebay_http::request::RequestParts;
use forebay_rules::apply::RequestText;

use crate::key::NormalText;
use crate::limits::{BODY_INPUT_BYTES_MIN, BUFFER_BYTES_KEPT_MAX, BUFFERS_POOLED_MAX, INPUT_BYTES};
use crate::send_queue::SendQueue;

/// The set of buffers that one connection needs while it is busy.
#[derive(Default)]
pub(crate) struct Buffers {
    pub(crate) input: Input,
    /// The positions in `input` of the fields of the current request head.
    pub(crate) parts: RequestParts,
    pub(crate) queue: SendQueue,
    pub(crate) transaction: TransactionBuffers,
}

/// Memory that the steps of a transaction write to.
#[derive(Default)]
pub(crate) struct TransactionBuffers {
    /// The key of the request.
    pub(crate) key: Vec<u8>,
    /// The request's selectors, if the resource has variants.
    pub(crate) variant: Vec<u8>,
    /// The strong entity tag of a response whose body is sent in fragments.
    pub(crate) tag: Vec<u8>,
    /// The text of the request as changed by rules of the hook `ReadRequest`; empty if these rules
    /// change nothing.
    pub(crate) pre_remap: RequestText,
    /// The text of the request without its credentials; empty if the server does not use them.
    pub(crate) plain: RequestText,
    /// The text of the request as changed by rules of the hook `Remap`; empty if these rules change
    /// nothing.
    pub(crate) post_remap: RequestText,
    /// The parts of the request that were put into their normal form.
    pub(crate) normal: NormalText,
}

impl Buffers {
    /// Whether all requests in the bytes that were read are answered, and all responses are sent.
    pub(crate) fn is_idle(&self) -> bool {
        self.input.is_empty() && self.queue.is_empty()
    }

    fn reset(&mut self) {
        self.input.reset();
        // Otherwise the parser would take the next connection's input for the rest of the
        // incomplete head of this connection.
        self.parts.clear();
        self.queue.reset();
        self.transaction.reset();
    }
}

impl TransactionBuffers {
    fn reset(&mut self) {
        for text in [&mut self.key, &mut self.variant, &mut self.tag] {
            text.clear();
            text.shrink_to(BUFFER_BYTES_KEPT_MAX);
        }
        self.pre_remap.reset(BUFFER_BYTES_KEPT_MAX);
        self.plain.reset(BUFFER_BYTES_KEPT_MAX);
        self.post_remap.reset(BUFFER_BYTES_KEPT_MAX);
        self.normal.reset(BUFFER_BYTES_KEPT_MAX);
    }
}

/// Bytes that were read from the client. The bytes in `bytes[start..end]` are not used yet.
#[derive(Default)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    /// Whether all bytes are used.
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Returns the unused bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// Returns space for the next read. If the end of the buffer is reached, this moves the unused
    /// bytes to the front, or lets the buffer grow to at most `bytes_max`. The space is empty only
    /// if `bytes_max` or more bytes are unused.
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

    /// Records that `count` bytes were read into [`Input::space`].
    pub(crate) fn filled(&mut self, count: usize) {
        self.end = (self.end + count).min(self.bytes.len());
    }

    /// Makes the buffer at least this large.
    pub(crate) fn grow(&mut self, bytes: usize) {
        if self.bytes.len() < bytes {
            self.bytes.resize(bytes, 0);
        }
    }

    /// Appends a copy of `bytes`.
    pub(crate) fn append(&mut self, mut bytes: &[u8]) {
        let bytes_max = self.bytes().len() + bytes.len();
        while !bytes.is_empty() {
            let space = self.space(bytes_max);
            let count = space.len().min(bytes.len());
            let (now, later) = bytes.split_at(count);
            if let Some(space) = space.get_mut(..count) {
                space.copy_from_slice(now);
            }
            self.filled(count);
            bytes = later;
        }
    }

    /// Marks all bytes as used.
    pub(crate) fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// Marks the first `count` unused bytes as used.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
    }

    /// Splits the input into a request head of `head_bytes`, which then counts as used, and the
    /// input after the head. The head's bytes stay in place while the head is borrowed. With
    /// `has_body`, the input has space for reading the body after the head.
    pub(crate) fn split_head(
        &mut self,
        head_bytes: usize,
        has_body: bool,
    ) -> (&[u8], BodyInput<'_>) {
        if has_body {
            self.reserve_behind(head_bytes);
        }
        let head_start = self.start;
        self.consume(head_bytes);
        let body_start = self.start;
        let (head, bytes) = self.bytes.split_at_mut(body_start);
        let head = head.get(head_start..).unwrap_or_default();
        let body = BodyInput { bytes, body_start, start: &mut self.start, end: &mut self.end };
        (head, body)
    }

    fn reserve_behind(&mut self, head_bytes: usize) {
        if self.bytes.len() - self.start >= head_bytes + BODY_INPUT_BYTES_MIN {
            return;
        }
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let least_bytes = head_bytes + BODY_INPUT_BYTES_MIN;
        self.bytes.resize(self.bytes.len().max(least_bytes), 0);
    }

    fn reset(&mut self) {
        (self.start, self.end) = (0, 0);
        if self.bytes.len() > BUFFER_BYTES_KEPT_MAX {
            self.bytes = Vec::new();
        }
    }
}

/// The input after a request head that is still borrowed: the request's body, and the bytes of the
/// next requests. Its space does not grow.
pub(crate) struct BodyInput<'i> {
    /// The input's bytes from `body_start` on.
    bytes: &'i mut [u8],
    body_start: usize,
    start: &'i mut usize,
    end: &'i mut usize,
}

impl BodyInput<'_> {
    /// Returns the unused bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        let (start, end) = (*self.start - self.body_start, *self.end - self.body_start);
        self.bytes.get(start..end).unwrap_or_default()
    }

    /// Returns space for the next read. The space is never empty if all bytes are used and
    /// [`Input::split_head`] was called with `has_body`.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (*self.start, *self.end) = (self.body_start, self.body_start);
        }
        self.bytes.get_mut(*self.end - self.body_start..).unwrap_or_default()
    }

    /// Records that `count` bytes were read into [`BodyInput::space`].
    pub(crate) fn filled(&mut self, count: usize) {
        *self.end = (*self.end + count).min(self.body_start + self.bytes.len());
    }

    /// Marks the first `count` unused bytes as used.
    pub(crate) fn consume(&mut self, count: usize) {
        *self.start = (*self.start + count).min(*self.end);
    }
}

/// The worker's spare sets of buffers, which no connection holds.
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

    /// Returns a set to the pool, or frees it if the pool is full.
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
    fn a_body_is_read_behind_a_head_that_stays_where_it_is() {
        for head_bytes in [1, 100, INPUT_BYTES - 1, INPUT_BYTES, INPUT_BYTES + 1] {
            for used_before in [0, 10] {
                let mut input = Input::default();
                let head = vec![b'h'; head_bytes];
                let mut text = [&vec![b'u'; used_before][..], &head, b"first"].concat();
                while !text.is_empty() {
                    let space = input.space(4 * INPUT_BYTES);
                    let count = space.len().min(text.len());
                    space[..count].copy_from_slice(&text[..count]);
                    input.filled(count);
                    text.drain(..count);
                }
                input.consume(used_before);
                let case = format!("a head of {head_bytes} bytes after {used_before} used bytes");
                let (lent, mut body) = input.split_head(head_bytes, true);
                assert_eq!(body.bytes(), b"first", "{case}");
                body.consume(5);
                for round in 0..10 {
                    let space = body.space();
                    assert!(space.len() >= BODY_INPUT_BYTES_MIN, "{case}");
                    space.fill(round);
                    let count = space.len();
                    body.filled(count);
                    assert!(body.bytes().iter().all(|byte| *byte == round), "{case}");
                    body.consume(body.bytes().len() - usize::from(round == 9));
                }
                assert!(lent == head, "{case}");
                assert_eq!(input.bytes(), [9], "{case}");
            }
        }
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

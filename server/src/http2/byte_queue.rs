//! A queue of bytes, which takes memory only for the bytes that it holds.

/// Bytes are appended at the end, and taken from the start.
#[derive(Debug, Default)]
pub(super) struct ByteQueue {
    bytes: Vec<u8>,
    start: usize,
}

impl ByteQueue {
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a buffer to which up to `more` new bytes are appended. The memory of the bytes that
    /// were taken is used first, and the rest is allocated exactly: thousands of streams may wait
    /// with a few bytes each.
    pub(super) fn end(&mut self, more: usize) -> &mut Vec<u8> {
        if self.start > 0 && self.bytes.len() + more > self.bytes.capacity() {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.reserve_exact(more);
        &mut self.bytes
    }

    /// Removes the first `count` bytes. An empty queue has no memory.
    pub(super) fn consume(&mut self, count: usize) {
        self.start = self.bytes.len().min(self.start + count);
        if self.is_empty() {
            *self = ByteQueue::default();
        }
    }
}

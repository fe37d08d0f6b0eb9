//! The header blocks that an origin sends, measured by the heads of their frames.
//!
//! The crate `h2` leaves out the fields of trailers that exceed its limit, and does not report it.
//! A block whose encoded form is short cannot hide a field from the limits of this server; see
//! [`HTTP2_BLOCK_BYTES_MAX`].

use crate::limits::{HTTP2_BLOCK_BYTES_MAX, HTTP2_STREAMS_MAX};

const HEAD_BYTES: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;

/// The progress of the frames on a connection.
#[derive(Debug, Default)]
pub(super) struct HeaderBlocks {
    /// The bytes of the next frame's head that have arrived.
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    /// The number of bytes of the current frame that have not arrived.
    payload_left: usize,
    /// The number of bytes of the current header block.
    block_bytes: usize,
    /// The last streams that had a long header block.
    long: Vec<u32>,
}

impl HeaderBlocks {
    /// Takes bytes that have arrived.
    pub(super) fn note(&mut self, mut bytes: &[u8]) {
        while let Some(byte) = bytes.first() {
            if self.payload_left > 0 {
                let count = self.payload_left.min(bytes.len());
                self.payload_left -= count;
                bytes = bytes.get(count..).unwrap_or_default();
                continue;
            }
            if let Some(place) = self.head.get_mut(self.head_bytes) {
                *place = *byte;
            }
            self.head_bytes += 1;
            bytes = bytes.get(1..).unwrap_or_default();
            if self.head_bytes == HEAD_BYTES {
                self.begin_frame();
            }
        }
    }

    fn begin_frame(&mut self) {
        self.head_bytes = 0;
        let [high, middle, low, kind, _flags, stream @ ..] = self.head;
        self.payload_left = number(&[high, middle, low]) as usize;
        match kind {
            HEADERS => self.block_bytes = self.payload_left,
            CONTINUATION => self.block_bytes += self.payload_left,
            _ => return,
        }
        // RFC 9113 §4.1: the first bit is reserved, and ignored.
        let stream = number(&stream) & 0x7fff_ffff;
        if self.block_bytes > HTTP2_BLOCK_BYTES_MAX && !self.is_long(stream) {
            if self.long.len() == HTTP2_STREAMS_MAX as usize {
                self.long.remove(0);
            }
            self.long.push(stream);
        }
    }

    /// Whether a header block of this stream is too long.
    pub(super) fn is_long(&self, stream: u32) -> bool {
        self.long.contains(&stream)
    }
}

/// Returns the number that these bytes have in network byte order.
fn number(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, stream: u8, length: usize) -> Vec<u8> {
        let [high, middle, low] = [16, 8, 0].map(|shift| (length >> shift) as u8);
        let head = [high, middle, low, kind, 0, 0, 0, 0, stream];
        [&head[..], &vec![HEADERS; length]].concat()
    }

    #[test]
    fn a_block_is_long_if_its_frames_together_are() {
        const MOST: usize = HTTP2_BLOCK_BYTES_MAX;
        let text = [
            frame(HEADERS, 1, MOST),
            frame(HEADERS, 3, MOST - 10),
            frame(CONTINUATION, 3, 0),
            frame(CONTINUATION, 3, 10),
            frame(0, 5, 2 * MOST),
            frame(HEADERS, 7, MOST - 10),
            frame(CONTINUATION, 7, 11),
            [&[0, 0x80, 1, HEADERS, 0, 0x80, 0, 0, 9][..], &[0; 0x8001]].concat(),
            frame(CONTINUATION, 9, MOST),
        ]
        .concat();
        for step in [1, 2, 8, 9, 10, 4096, usize::MAX] {
            let mut blocks = HeaderBlocks::default();
            text.chunks(step.min(text.len())).for_each(|piece| blocks.note(piece));
            let long: Vec<_> = (1..11).filter(|stream| blocks.is_long(*stream)).collect();
            assert_eq!(long, [7, 9], "step {step}");
        }
    }

    #[test]
    fn only_the_last_long_blocks_are_known() {
        let mut blocks = HeaderBlocks::default();
        for stream in 0..=u8::MAX {
            blocks.note(&frame(HEADERS, stream, HTTP2_BLOCK_BYTES_MAX + 1));
        }
        assert!(blocks.is_long(255) && !blocks.is_long(155));
        assert_eq!(blocks.long.len(), HTTP2_STREAMS_MAX as usize);
    }
}

//! Responses with several parts of a body: multipart/byteranges (RFC 9110 §14.6, §15.3.7.2).

use std::ops::Range;

use crate::fields::FieldId;
use crate::policy::conditional::block_lines;
use crate::policy::range::{RangeDecision, write_content_range};

/// Longest Content-Type that is repeated in each part. Longer ones, which only unusual origins
/// send, would make the heads of the parts longer than the parts.
const CONTENT_TYPE_BYTES_MAX: usize = 256;

/// Length of a boundary: a random number of 128 bits in hexadecimal digits.
const BOUNDARY_BYTES: usize = 32;

/// The form of a response with several parts of one body.
#[derive(Debug)]
pub struct Multipart {
    ranges: Vec<Range<u64>>,
    /// Length in bytes of the body to which the parts belong.
    body_bytes: u64,
    boundary: [u8; BOUNDARY_BYTES],
    /// The Content-Type of the body; empty if the parts are sent without a Content-Type.
    content_type: Box<[u8]>,
}

impl Multipart {
    /// Returns the form of a response with these parts of a body; no part is empty. `block` is the
    /// stored field block of the body. Authors of bodies must not be able to guess `random`.
    pub fn new(ranges: Vec<Range<u64>>, body_bytes: u64, block: &[u8], random: u128) -> Multipart {
        let mut boundary = [0; BOUNDARY_BYTES];
        for (index, digit) in boundary.iter_mut().enumerate() {
            let value = (random >> (4 * index)) as u8 & 0xf;
            *digit = if value < 10 { b'0' + value } else { b'a' - 10 + value };
        }
        let content_type = block_lines(block).find(|(name, _)| is_content_type(name));
        let value = content_type.and_then(|(name, line)| line.get(name.len() + 1..));
        let value = value.unwrap_or_default().trim_ascii();
        let content_type = if value.len() > CONTENT_TYPE_BYTES_MAX { b"" } else { value };
        Multipart { ranges, body_bytes, boundary, content_type: content_type.into() }
    }

    /// Returns the part with this index; the first part has the index 0.
    pub fn range(&self, number: usize) -> Option<Range<u64>> {
        self.ranges.get(number).cloned()
    }

    /// Returns the length of the whole content: heads, parts and end.
    pub fn content_bytes(&self) -> u64 {
        let mut text = Vec::new();
        for number in 0..self.ranges.len() {
            self.write_part_head(number, &mut text);
        }
        self.write_end(&mut text);
        let parts = self.ranges.iter().map(|range| range.end - range.start);
        text.len() as u64 + parts.sum::<u64>()
    }

    /// Appends the lines of a stored field block, with the Content-Type of the whole content.
    // RFC: 9110-15.3.7.2-1
    pub fn write_block(&self, block: &[u8], out: &mut Vec<u8>) {
        for (name, line) in block_lines(block) {
            if !is_content_type(name) {
                out.extend_from_slice(line);
            }
        }
        out.extend_from_slice(b"content-type: multipart/byteranges; boundary=");
        out.extend_from_slice(&self.boundary);
        out.extend_from_slice(b"\r\n");
    }

    /// Appends the delimiter and the head of the part with this index.
    // RFC: 9110-15.3.7.2-3, 9110-15.3.7.2-4
    pub fn write_part_head(&self, number: usize, out: &mut Vec<u8>) {
        let Some(range) = self.ranges.get(number) else { return };
        out.extend_from_slice(if number == 0 { b"--" } else { b"\r\n--" });
        out.extend_from_slice(&self.boundary);
        out.extend_from_slice(b"\r\n");
        if !self.content_type.is_empty() {
            out.extend_from_slice(b"content-type: ");
            out.extend_from_slice(&self.content_type);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"content-range: ");
        let part = RangeDecision::Part { first: range.start, last: range.end - 1 };
        write_content_range(part, self.body_bytes, out);
        out.extend_from_slice(b"\r\n\r\n");
    }

    /// Appends the delimiter after the last part.
    pub fn write_end(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\r\n--");
        out.extend_from_slice(&self.boundary);
        out.extend_from_slice(b"--\r\n");
    }
}

fn is_content_type(name: &[u8]) -> bool {
    FieldId::of(name) == FieldId::ContentType
}

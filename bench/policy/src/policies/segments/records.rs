//! The records of an object: a single one, or a head and fragments.

use std::ops::Range;

use super::Division;

/// The length of a fragment's header and key.
const HEADER_BYTES: u32 = 40 + 13;
const ALIGN_BYTES: u32 = 64;
/// The length of the head record of a long body.
const HEAD_BYTES: u32 = 384;

/// The records of all objects, one after another.
pub(super) struct Records {
    /// The first record of each object, and the number of all records at the end.
    first: Vec<u32>,
    /// The number of the object's bytes that each record holds.
    body_bytes: Vec<u32>,
    /// Whether each record is part of an object, with its own header in addition to the object's
    /// bytes.
    is_part: Vec<bool>,
}

impl Records {
    /// Divides objects of these lengths into records.
    pub(super) fn new(object_bytes: &[u32], division: &Division) -> Self {
        let fragment_bytes = division.fragment_bytes / ALIGN_BYTES * ALIGN_BYTES - HEADER_BYTES;
        let mut records = Self { first: vec![0], body_bytes: Vec::new(), is_part: Vec::new() };
        for bytes in object_bytes {
            if *bytes <= division.whole_bytes_max {
                records.push(*bytes, false);
            } else {
                records.push(HEAD_BYTES, true);
                let fragments = (0..*bytes).step_by(fragment_bytes as usize);
                fragments.for_each(|from| records.push(fragment_bytes.min(bytes - from), true));
            }
            records.first.push(records.body_bytes.len() as u32);
        }
        records
    }

    fn push(&mut self, body_bytes: u32, is_part: bool) {
        self.body_bytes.push(body_bytes);
        self.is_part.push(is_part);
    }

    pub(super) fn count(&self) -> usize {
        self.body_bytes.len()
    }

    /// The records of an object.
    pub(super) fn of(&self, key: u32) -> Range<u32> {
        self.first[key as usize]..self.first[key as usize + 1]
    }

    pub(super) fn body_bytes(&self, record: u32) -> u32 {
        self.body_bytes[record as usize]
    }

    /// The bytes that the record takes in a segment.
    pub(super) fn bytes(&self, record: u32) -> u64 {
        let header = if self.is_part[record as usize] { HEADER_BYTES } else { 0 };
        u64::from((header + self.body_bytes(record)).next_multiple_of(ALIGN_BYTES))
    }
}

//! Which records an object is: one, or a head and fragments.

use std::ops::Range;

use super::Division;

/// Header and key of a fragment.
const HEADER_BYTES: u32 = 40 + 13;
const ALIGN_BYTES: u32 = 64;
/// Head record of a long body.
const HEAD_BYTES: u32 = 384;

/// The records of all objects, one after another.
pub(super) struct Records {
    /// The first record of each object, and one more.
    first: Vec<u32>,
    /// Bytes of the object that each record holds.
    body_bytes: Vec<u32>,
    /// Whether it is one of several, which have headers of their own on top of the object's bytes.
    is_part: Vec<bool>,
}

impl Records {
    /// Of objects with these bytes.
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

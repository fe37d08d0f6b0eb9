//! The field lines of one header block, decoded into one buffer.
//!
//! The list counts each line as RFC 9113 §10.5.1 does: name, value and 32 bytes. It counts lines
//! beyond its limits but does not keep them.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use std::ops::Range;

use crate::hpack::LINE_OVERHEAD_BYTES;
use crate::line::{DecodedLine, LineFacts};

/// A list whose size exceeds the permitted size by this factor ends the connection. Below that, the
/// block is decoded to its end, so that only the request is refused and the connection goes on.
const FAR_TOO_LARGE: usize = 4;

/// The limits of a list of field lines.
#[derive(Clone, Copy, Debug)]
pub struct ListLimits {
    /// Largest size of the list in bytes, with 32 bytes for each line.
    pub list_bytes_max: u32,
    /// Largest number of lines. Each crumb of a cookie counts as a line, before the crumbs are
    /// joined.
    pub line_count_max: u16,
}

/// Field lines in the order received, in one buffer that is reused for each block.
#[derive(Debug)]
pub struct FieldList {
    limits: ListLimits,
    text: Vec<u8>,
    lines: Vec<ListLine>,
    /// Size and number of all lines of the block, including lines that are not kept.
    list_bytes: usize,
    line_count: usize,
}

#[derive(Clone, Copy, Debug)]
struct ListLine {
    start: u32,
    name_len: u32,
    value_len: u32,
    facts: LineFacts,
}

impl FieldList {
    /// Creates an empty list.
    pub fn new(limits: ListLimits) -> FieldList {
        FieldList { limits, text: Vec::new(), lines: Vec::new(), list_bytes: 0, line_count: 0 }
    }

    /// Empties the list and keeps its memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.lines.clear();
        self.list_bytes = 0;
        self.line_count = 0;
    }

    /// Empties the list and frees its memory.
    pub fn shrink(&mut self) {
        *self = FieldList::new(self.limits);
    }

    /// Appends a line, or only counts it if the list is too large.
    pub(crate) fn push(&mut self, line: DecodedLine<'_>) {
        debug_assert_eq!(line, DecodedLine::of(line.name, line.value), "the facts fit the text");
        let DecodedLine { name, value, facts } = line;
        self.list_bytes += name.len() + value.len() + LINE_OVERHEAD_BYTES;
        self.line_count += 1;
        if self.is_too_large() {
            return;
        }
        let start = self.text.len() as u32;
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(value);
        let (name_len, value_len) = (name.len() as u32, value.len() as u32);
        self.lines.push(ListLine { start, name_len, value_len, facts });
    }

    /// Whether the list exceeds its limits. Such a list lacks lines and must not be used.
    pub fn is_too_large(&self) -> bool {
        self.list_bytes > self.limits.list_bytes_max as usize
            || self.line_count > usize::from(self.limits.line_count_max)
    }

    pub(crate) fn is_far_too_large(&self) -> bool {
        self.list_bytes > FAR_TOO_LARGE * self.limits.list_bytes_max as usize
            || self.line_count > FAR_TOO_LARGE * usize::from(self.limits.line_count_max)
    }

    /// Returns the number of lines that the list holds.
    pub fn count(&self) -> usize {
        self.lines.len()
    }

    /// Iterates over names and values in the order received.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        self.lines(0..self.lines.len()).map(|line| (line.name, line.value))
    }

    /// Iterates over the lines in a range of positions.
    pub(crate) fn lines(
        &self,
        range: Range<usize>,
    ) -> impl Iterator<Item = DecodedLine<'_>> + Clone {
        let lines = self.lines.get(range).unwrap_or_default();
        lines.iter().map(|line| {
            let start = line.start as usize;
            let end = start + (line.name_len + line.value_len) as usize;
            let text = self.text.get(start..end).unwrap_or_default();
            let (name, value) = text.split_at_checked(line.name_len as usize).unwrap_or_default();
            DecodedLine { name, value, facts: line.facts }
        })
    }
}

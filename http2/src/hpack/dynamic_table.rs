//! The dynamic table of the decoder (RFC 7541 §2.3.2, §4).
//!
//! Texts lie one after another in a buffer of at most twice [`TABLE_BYTES_MAX`]. When the buffer is
//! full, the texts in use move to its start. At least [`TABLE_BYTES_MAX`] bytes of new text arrive
//! between two such moves. After the buffer has grown to its full size, no insertion allocates.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use std::collections::VecDeque;

use super::{LINE_OVERHEAD_BYTES, TABLE_BYTES_MAX};
use crate::line::{DecodedLine, LineFacts};

/// The texts of a table, oldest first.
#[derive(Debug)]
pub(super) struct DynamicTable {
    text: Vec<u8>,
    lines: VecDeque<TableLine>,
    /// The size of all lines as RFC 7541 §4.1 counts it.
    size_bytes: usize,
    /// The size that the client's encoder has chosen.
    bytes_max: usize,
}

/// The position of a line in the text: the name, followed by the value.
#[derive(Clone, Copy, Debug)]
struct TableLine {
    start: u32,
    name_len: u32,
    value_len: u32,
    facts: LineFacts,
}

impl TableLine {
    fn text_bytes(self) -> usize {
        self.name_len as usize + self.value_len as usize
    }
}

impl Default for DynamicTable {
    fn default() -> DynamicTable {
        DynamicTable {
            text: Vec::new(),
            lines: VecDeque::new(),
            size_bytes: 0,
            bytes_max: TABLE_BYTES_MAX,
        }
    }
}

impl DynamicTable {
    /// Returns a line. Index 0 is the newest line.
    pub(super) fn line(&self, index: usize) -> Option<DecodedLine<'_>> {
        let at = self.lines.len().checked_sub(index + 1)?;
        let line = self.lines.get(at)?;
        let start = line.start as usize;
        let text = self.text.get(start..start + line.text_bytes())?;
        let (name, value) = text.split_at_checked(line.name_len as usize)?;
        Some(DecodedLine { name, value, facts: line.facts })
    }

    /// RFC 7541 §4.3: changes the size. The caller has checked it against [`TABLE_BYTES_MAX`].
    pub(super) fn resize(&mut self, bytes_max: usize) {
        debug_assert!(bytes_max <= TABLE_BYTES_MAX);
        self.bytes_max = bytes_max;
        self.evict_to(bytes_max);
    }

    /// RFC 7541 §4.4: inserts a line; a line that is larger than the table empties the table.
    pub(super) fn insert(&mut self, line: DecodedLine<'_>) {
        let DecodedLine { name, value, facts } = line;
        let text_bytes = name.len() + value.len();
        let line_bytes = text_bytes + LINE_OVERHEAD_BYTES;
        self.evict_to(self.bytes_max.saturating_sub(line_bytes));
        if line_bytes > self.bytes_max {
            return;
        }
        if self.text.len() + text_bytes > 2 * TABLE_BYTES_MAX {
            self.compact();
        }
        let start = self.text.len() as u32;
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(value);
        let (name_len, value_len) = (name.len() as u32, value.len() as u32);
        self.lines.push_back(TableLine { start, name_len, value_len, facts });
        self.size_bytes += line_bytes;
    }

    fn evict_to(&mut self, bytes_max: usize) {
        while self.size_bytes > bytes_max {
            let Some(oldest) = self.lines.pop_front() else {
                return;
            };
            self.size_bytes -= oldest.text_bytes() + LINE_OVERHEAD_BYTES;
        }
        if self.lines.is_empty() {
            self.text.clear();
        }
    }

    fn compact(&mut self) {
        let first = self.lines.front().map_or(self.text.len() as u32, |line| line.start);
        self.text.drain(..first as usize);
        for line in &mut self.lines {
            line.start -= first;
        }
    }
}

//! The decoder of header blocks (RFC 7541 §3, §6).
//!
//! A block is decoded to its end even if its list is too large, because its insertions change the
//! table for later blocks. The list counts lines and bytes while they are decoded and keeps none
//! beyond its limits, so a small block cannot become a large list.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use super::dynamic_table::DynamicTable;
use super::static_table::{STATIC_COUNT, static_line};
use super::{TABLE_BYTES_MAX, huffman, integer};
use crate::field_list::FieldList;
use crate::line::{DecodedLine, LineFacts, NameFacts, is_value_valid};

/// Largest number of table size updates at the start of a block. RFC 7541 §4.2: an encoder sends at
/// most two, the smallest size and the last one.
const SIZE_UPDATES_MAX: usize = 2;

/// The reason why a header block cannot be decoded. Each except `ListTooLarge` is a connection
/// error of type COMPRESSION_ERROR (RFC 9113 §4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HpackError {
    /// The block ends within a line.
    Truncated,
    /// An integer is too large or too long.
    Integer,
    /// An index names no line of the tables.
    Index,
    /// A text has an invalid Huffman code or invalid padding.
    Huffman,
    /// A table size update is too large, follows a line, or exceeds the permitted number of
    /// updates.
    SizeUpdate,
    /// The list is several times as large as permitted. The caller ends the connection.
    ListTooLarge,
}

/// The decoder of one connection.
#[derive(Debug, Default)]
pub struct Decoder {
    table: DynamicTable,
    /// Name and value of the line that is being decoded.
    line: Vec<u8>,
}

/// The position of a string literal.
struct Literal<'b> {
    is_huffman: bool,
    text: &'b [u8],
}

impl Decoder {
    /// Creates a decoder with an empty table.
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// Frees memory that is needed only while a block is decoded.
    pub(crate) fn shrink(&mut self) {
        self.line = Vec::new();
    }

    /// Decodes a whole block, and appends its lines to `list` within the limits of `list`.
    ///
    /// # Errors
    /// The connection cannot go on: the table no longer equals the client's table.
    pub fn decode(&mut self, block: &[u8], list: &mut FieldList) -> Result<(), HpackError> {
        let mut rest = block;
        let (mut update_count, mut line_count) = (0, 0);
        while let Some(first) = rest.first().copied() {
            match first {
                0x80.. => self.indexed(&mut rest, list)?,
                0x40..=0x7f => self.literal(&mut rest, 6, list)?,
                0x20..=0x3f => {
                    update_count += 1;
                    if line_count > 0 || update_count > SIZE_UPDATES_MAX {
                        return Err(HpackError::SizeUpdate);
                    }
                    let bytes_max = integer::take(&mut rest, 5)?;
                    if bytes_max > TABLE_BYTES_MAX {
                        return Err(HpackError::SizeUpdate);
                    }
                    self.table.resize(bytes_max);
                    continue;
                }
                0x00..=0x1f => self.literal(&mut rest, 4, list)?,
            }
            line_count += 1;
            if list.is_far_too_large() {
                return Err(HpackError::ListTooLarge);
            }
        }
        Ok(())
    }

    /// RFC 7541 §6.1: decodes a reference to a line of the tables.
    fn indexed(&mut self, rest: &mut &[u8], list: &mut FieldList) -> Result<(), HpackError> {
        let index = integer::take(rest, 7)?;
        list.push(self.line_at(index)?);
        Ok(())
    }

    /// RFC 7541 §6.2: decodes a literal, whose name comes from the tables or is given in the block.
    /// A literal with a prefix of 6 bits is also inserted into the table.
    fn literal(
        &mut self,
        rest: &mut &[u8],
        prefix_bits: u32,
        list: &mut FieldList,
    ) -> Result<(), HpackError> {
        let index = integer::take(rest, prefix_bits)?;
        let mut text = std::mem::take(&mut self.line);
        text.clear();
        let facts = if index == 0 {
            literal_text(rest)?.append_to(&mut text)?;
            NameFacts::of(&text)
        } else {
            let named = self.line_at(index)?;
            text.extend_from_slice(named.name);
            named.facts.name
        };
        let name_len = text.len();
        literal_text(rest)?.append_to(&mut text)?;
        let (name, value) = text.split_at_checked(name_len).unwrap_or_default();
        let facts = LineFacts { name: facts, is_value_valid: is_value_valid(value) };
        let line = DecodedLine { name, value, facts };
        list.push(line);
        if prefix_bits == 6 {
            self.table.insert(line);
        }
        self.line = text;
        Ok(())
    }

    fn line_at(&self, index: usize) -> Result<DecodedLine<'_>, HpackError> {
        let line = match index.checked_sub(STATIC_COUNT + 1) {
            Some(index) => self.table.line(index),
            None => static_line(index),
        };
        line.ok_or(HpackError::Index)
    }
}

/// RFC 7541 §5.2: takes a string literal.
fn literal_text<'b>(rest: &mut &'b [u8]) -> Result<Literal<'b>, HpackError> {
    let is_huffman = rest.first().is_some_and(|first| first & 0x80 != 0);
    let length = integer::take(rest, 7)?;
    let (text, after) = rest.split_at_checked(length).ok_or(HpackError::Truncated)?;
    *rest = after;
    Ok(Literal { is_huffman, text })
}

impl Literal<'_> {
    fn append_to(self, out: &mut Vec<u8>) -> Result<(), HpackError> {
        if self.is_huffman {
            return huffman::decode(self.text, out);
        }
        out.extend_from_slice(self.text);
        Ok(())
    }
}

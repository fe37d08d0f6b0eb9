//! A table of words in which each row has one writer: the layout of pins and leases.
//!
//! Invariants:
//! - Every row begins on a line of its own (see [`LINE_WORDS`]), so that a store into one row slows
//!   down no access to another row.
//! - The table begins at the first of the words that it is given, and nothing else uses the words
//!   of the table.

use std::fmt;

use crate::atomic::{AtomicU64, Relaxed};
use crate::words::{LINE_WORDS, Words};

/// The reason why a table does not fit the words that it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableError {
    /// The rows and columns need more words than the table was given, or than `usize` can count.
    TooFewWords,
    /// The words do not begin on a line, so rows of different writers would share a line.
    NotOnALine,
}

impl fmt::Display for TableError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            TableError::TooFewWords => "the table needs more words than it was given",
            TableError::NotOnALine => {
                "the words of the table do not begin at a multiple of 128 bytes"
            }
        })
    }
}

impl std::error::Error for TableError {}

/// A row that pins a column, as reported to tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinHolder {
    /// The index of the row.
    pub row: usize,
    /// The number of pins that the row has on the column.
    pub count: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Rows<W> {
    words: W,
    row_count: usize,
    column_count: usize,
    /// The number of words from the beginning of one row to the beginning of the next.
    row_words: usize,
}

/// The number of words that a table needs; `None` if the number overflows.
pub(crate) const fn words_needed(rows: usize, columns: usize) -> Option<usize> {
    match columns.checked_next_multiple_of(LINE_WORDS) {
        Some(row_words) => rows.checked_mul(row_words),
        None => None,
    }
}

impl<W: Words> Rows<W> {
    pub(crate) fn new(words: W, rows: usize, columns: usize) -> Result<Rows<W>, TableError> {
        let needed = words_needed(rows, columns).ok_or(TableError::TooFewWords)?;
        if words.word_count() < needed {
            return Err(TableError::TooFewWords);
        }
        let line_bytes = LINE_WORDS * size_of::<u64>();
        if !cfg!(loom)
            && needed > 0
            && !(&raw const *words.word(0)).addr().is_multiple_of(line_bytes)
        {
            return Err(TableError::NotOnALine);
        }
        let row_words = columns.next_multiple_of(LINE_WORDS);
        Ok(Rows { words, row_count: rows, column_count: columns, row_words })
    }

    pub(crate) fn row_count(&self) -> usize {
        self.row_count
    }

    pub(crate) fn column_count(&self) -> usize {
        self.column_count
    }

    /// The word of a row and a column, if the table has it.
    #[inline]
    pub(crate) fn cell(&self, row: usize, column: usize) -> Option<&AtomicU64> {
        if row >= self.row_count || column >= self.column_count {
            return None;
        }
        Some(self.words.word(row * self.row_words + column))
    }

    /// The words of one row; empty if the table has no such row.
    pub(crate) fn row_words(&self, row: usize) -> &[AtomicU64] {
        let start = row.saturating_mul(self.row_words);
        let words = if row < self.row_count { self.words.all().get(start..) } else { None };
        words.and_then(|words| words.get(..self.column_count)).unwrap_or_default()
    }

    /// The words of one column in all rows, including rows that are not in use: a list of the rows
    /// in use would miss a row that is taken after the list was made. Yields nothing if the table
    /// has no such column.
    pub(crate) fn column(&self, column: usize) -> impl Iterator<Item = &AtomicU64> {
        (0..self.row_count).map_while(move |row| self.cell(row, column))
    }

    /// The number of words that are not zero, for tools. Other threads can change them.
    pub(crate) fn used_count(&self) -> usize {
        let rows = (0..self.row_count).flat_map(|row| self.row_words(row));
        rows.filter(|word| word.load(Relaxed) != 0).count()
    }
}

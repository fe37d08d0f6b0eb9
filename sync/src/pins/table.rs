//! The whole table: its layout and the reclaimer's side.

use super::row::PinRow;
use crate::atomic::{Relaxed, acquire, release};
use crate::barrier::Barrier;
use crate::rows::{PinHolder, Rows, TableError, words_needed};
use crate::words::Words;

/// A table of pins in shared words.
///
/// A table is a view of its words. For use in several threads, make it over an `Arc` and clone it.
#[derive(Clone, Debug)]
pub struct Pins<W> {
    rows: Rows<W>,
    barrier: Barrier,
}

impl<W: Words> Pins<W> {
    /// The number of words that a table of this size needs; `None` if the number overflows. The
    /// words must begin on a line (see [`LINE_WORDS`](crate::LINE_WORDS)), and all be zero
    /// initially.
    #[must_use]
    pub const fn words_needed(rows: usize, columns: usize) -> Option<usize> {
        words_needed(rows, columns)
    }

    /// Makes the table that begins at the first of `words`.
    ///
    /// Fails with a [`TableError`] if the words are too few or do not begin on a line.
    pub fn new(
        words: W,
        rows: usize,
        columns: usize,
        barrier: Barrier,
    ) -> Result<Pins<W>, TableError> {
        Ok(Pins { rows: Rows::new(words, rows, columns)?, barrier })
    }

    /// The row with this index, for its only owner; `None` if the table has no such row.
    ///
    /// # Safety
    /// - As long as the returned row lives, there is no other [`PinRow`] with this index, in any
    ///   process.
    /// - All tables over these words have the same rows, columns and barrier, and nothing else
    ///   writes the words.
    pub unsafe fn row(&self, row: usize) -> Option<PinRow<W>>
    where
        W: Clone,
    {
        (row < self.rows.row_count()).then(|| PinRow::new(self.clone(), row))
    }

    /// The number of rows.
    pub fn row_count(&self) -> usize {
        self.rows.row_count()
    }

    /// The number of columns.
    pub fn column_count(&self) -> usize {
        self.rows.column_count()
    }

    /// The reclaimer's barrier, between removing the words and looking at the pins. One call serves
    /// all columns whose words were removed before it.
    ///
    /// The call serves every table with the same [`Barrier`]: a reclaimer that also looks at leases
    /// needs no second barrier.
    pub fn barrier(&self) {
        // ORDER: pairs with the light barrier in `PinRow::pin`. The words are removed, now we look
        // at the pins; a reader raises its pin, then looks at the word. One of us sees the other.
        self.barrier.heavy("pins.reclaim");
    }

    /// Whether any row pins this column. Call this only after [`Pins::barrier`]: before, a false
    /// answer does not mean that the memory may be reused.
    ///
    /// # Panics
    /// If the table has no such column.
    #[must_use]
    pub fn is_pinned(&self, column: usize) -> bool {
        let count = self.column_count();
        assert!(column < count, "the pins have {count} columns, so there is no column {column}");
        // ORDER: pairs with the release in `unpin` and in `clear_row`: all reads of the memory come
        // before its reuse.
        self.rows.column(column).any(|count| count.load(acquire("pins.look")) != 0)
    }

    /// Ends all pins of a row whose owner has ended.
    ///
    /// # Safety
    /// - The owner has ended, and this thread has seen that (it joined the owner, or found its lock
    ///   released), so that the owner reads nothing any more; or the owner gave its pins up.
    /// - The row has not been taken since.
    pub unsafe fn clear_row(&self, row: usize) {
        for count in self.rows.row_words(row) {
            // ORDER: pairs with the acquire in `is_pinned`: the owner's reads are over.
            count.store(0, release("pins.clear"));
        }
    }

    /// The number of pairs of a row and a column that the row pins. This is a snapshot for tools.
    /// It does not show whether memory may be reused.
    #[must_use]
    pub fn pinned_count(&self) -> usize {
        self.rows.used_count()
    }

    /// The columns that a row pins; a snapshot for tools. Yields nothing if the table has no such
    /// row.
    pub fn pinned_by(&self, row: usize) -> impl Iterator<Item = usize> {
        let counts = self.rows.row_words(row).iter().enumerate();
        counts.filter(|(_, count)| count.load(Relaxed) != 0).map(|(column, _)| column)
    }

    /// The indexes of the rows that pin a column, each with its number of pins; a snapshot for
    /// tools.
    pub fn holders(&self, column: usize) -> impl Iterator<Item = PinHolder> {
        let counts = self.rows.column(column).map(|count| count.load(Relaxed)).enumerate();
        counts.filter(|&(_, count)| count != 0).map(|(row, count)| PinHolder { row, count })
    }

    pub(super) fn rows(&self) -> &Rows<W> {
        &self.rows
    }

    #[inline(always)]
    pub(super) fn light_barrier(&self) {
        // ORDER: pairs with the heavy barrier in `Pins::barrier`. We raised our pin, now we look at
        // the word; the reclaimer removes the word, then looks at the pins.
        self.barrier.light("pins.raise");
    }
}

//! The whole table: its layout and the reclaimer's side.

use super::row::LeaseRow;
use crate::atomic::{Relaxed, acquire, release};
use crate::barrier::Barrier;
use crate::rows::{Rows, TableError, words_needed};
use crate::words::Words;

/// A table of leases in shared words.
///
/// A table is a view of its words. For use in several threads, make it over an `Arc` and clone it.
#[derive(Clone, Debug)]
pub struct Leases<W> {
    rows: Rows<W>,
    barrier: Barrier,
}

impl<W: Words> Leases<W> {
    /// The number of words that a table of this size needs; `None` if the number overflows. The
    /// words must begin on a line (see [`LINE_WORDS`](crate::LINE_WORDS)), and all be zero
    /// initially.
    #[must_use]
    pub const fn words_needed(rows: usize, slots: usize) -> Option<usize> {
        words_needed(rows, slots)
    }

    /// Makes the table that begins at the first of `words`.
    ///
    /// Fails with a [`TableError`] if the words are too few or do not begin on a line, or if a row
    /// has more slots than 32 bits can number.
    pub fn new(
        words: W,
        rows: usize,
        slots: usize,
        barrier: Barrier,
    ) -> Result<Leases<W>, TableError> {
        // A `LeaseId` has 32 bits for the index of the slot.
        if u32::try_from(slots).is_err() {
            return Err(TableError::TooFewWords);
        }
        Ok(Leases { rows: Rows::new(words, rows, slots)?, barrier })
    }

    /// The row with this index, for its only owner; `None` if the table has no such row.
    ///
    /// # Safety
    /// - As long as the returned row lives, there is no other [`LeaseRow`] with this index, in any
    ///   process.
    /// - All tables over these words have the same rows, slots and barrier, and nothing else
    ///   writes the words.
    pub unsafe fn row(&self, row: usize) -> Option<LeaseRow<W>>
    where
        W: Clone,
    {
        (row < self.rows.row_count()).then(|| LeaseRow::new(self.clone(), row))
    }

    /// The number of rows.
    pub fn row_count(&self) -> usize {
        self.rows.row_count()
    }

    /// The number of slots of a row.
    pub fn slot_count(&self) -> usize {
        self.rows.column_count()
    }

    /// The reclaimer's barrier, between unlinking values and looking at the leases. One call serves
    /// all values that were unlinked before it.
    ///
    /// The call serves every table with the same [`Barrier`]: a reclaimer that also looks at pins
    /// needs no second barrier.
    pub fn barrier(&self) {
        // ORDER: pairs with the light barrier in `LeaseRow::take`. The value is unlinked, now we
        // look at the leases; a holder stores its lease, then checks that the value is linked. One
        // of us sees the other.
        self.barrier.heavy("leases.reclaim");
    }

    /// Whether any row leases this place. Call this only after [`Leases::barrier`]: before, a false
    /// answer does not mean that the value may be freed.
    #[must_use]
    pub fn is_leased(&self, place: u64) -> bool {
        self.places().any(|leased| leased == place)
    }

    /// Replaces the contents of `places` by all leased places, sorted and without repetitions. So
    /// one pass over the table serves many unlinked values. Call this only after
    /// [`Leases::barrier`].
    pub fn leased_places(&self, places: &mut Vec<u64>) {
        places.clear();
        places.extend(self.places());
        places.sort_unstable();
        places.dedup();
    }

    /// Ends all leases of a row whose owner has ended.
    ///
    /// # Safety
    /// - The owner has ended, and this thread has seen that (it joined the owner, or found its lock
    ///   released), so that the owner reads nothing any more; or the owner gave its leases up.
    /// - The row has not been taken since.
    pub unsafe fn clear_row(&self, row: usize) {
        for slot in self.rows.row_words(row) {
            // ORDER: pairs with the acquire in `places`: the owner's reads are over.
            slot.store(0, release("leases.clear"));
        }
    }

    /// The number of leases of all rows; a snapshot for tools.
    #[must_use]
    pub fn held_count(&self) -> usize {
        self.rows.used_count()
    }

    /// The places that a row leases, one for each lease; a snapshot for tools.
    pub fn places_of(&self, row: usize) -> impl Iterator<Item = u64> {
        self.rows.row_words(row).iter().map(|slot| slot.load(Relaxed)).filter(|&place| place != 0)
    }

    fn places(&self) -> impl Iterator<Item = u64> {
        let slots = (0..self.row_count()).flat_map(|row| self.rows.row_words(row));
        // ORDER: pairs with the releases in `take`, `end` and `clear_row`: if the slot held another
        // place before, its holder has finished reading that value.
        slots.map(|slot| slot.load(acquire("leases.look"))).filter(|&place| place != 0)
    }

    pub(super) fn rows(&self) -> &Rows<W> {
        &self.rows
    }

    #[inline(always)]
    pub(super) fn light_barrier(&self) {
        // ORDER: pairs with the heavy barrier in `Leases::barrier`. We stored our lease, now we
        // check that the value is linked; the reclaimer unlinks it, then looks at the leases.
        self.barrier.light("leases.take");
    }
}

//! One reader's row: how it pins.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::mem;

use super::table::Pins;
use crate::atomic::{AtomicU64, Relaxed, release};
use crate::words::Words;

/// How many pins one row may have on one column; far from where the count would wrap.
pub const PIN_COUNT_MAX: u64 = u32::MAX as u64;

/// Why a column is not pinned now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotPinned {
    /// The word that named the memory has gone meanwhile: look it up again.
    Gone,
    /// The row has [`PIN_COUNT_MAX`] pins on this column.
    TooMany,
    /// The table has no such column: the word that named it is damaged.
    NoSuchColumn,
}

impl fmt::Display for NotPinned {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            NotPinned::Gone => "what was to be pinned has gone",
            NotPinned::TooMany => "this row pins this column too often",
            NotPinned::NoSuchColumn => "there is no such column",
        })
    }
}

impl std::error::Error for NotPinned {}

/// A row of [`Pins`] in the hands of its owner, who may move to another thread but not be shared.
#[derive(Debug)]
pub struct PinRow<W> {
    pins: Pins<W>,
    row: usize,
    /// Not `Sync`: loads and stores of a count are two steps.
    one_owner: PhantomData<Cell<()>>,
}

/// A column stays pinned until this is dropped.
#[derive(Debug)]
pub struct Pin<'row> {
    count: &'row AtomicU64,
    /// Not `Send`: to lower the count is the owner's.
    one_owner: PhantomData<*const ()>,
}

impl<W: Words> PinRow<W> {
    pub(super) fn new(pins: Pins<W>, row: usize) -> PinRow<W> {
        PinRow { pins, row, one_owner: PhantomData }
    }

    /// The number of this row.
    pub fn row(&self) -> usize {
        self.row
    }

    /// Pins a column, if what the caller wants to read `is_there` still.
    ///
    /// The closure runs with the pin raised; it loads the word that names the memory once more,
    /// with acquire, and says if it is the one that the caller has. Pins of one column add up.
    ///
    /// # Errors
    /// [`NotPinned`]; then nothing is pinned.
    #[inline]
    pub fn pin(
        &self,
        column: usize,
        is_there: impl FnOnce() -> bool,
    ) -> Result<Pin<'_>, NotPinned> {
        let count = self.pins.rows().cell(self.row, column).ok_or(NotPinned::NoSuchColumn)?;
        let old = count.load(Relaxed);
        if old >= PIN_COUNT_MAX {
            return Err(NotPinned::TooMany);
        }
        count.store(old + 1, Relaxed);
        self.pins.light_barrier();
        let pin = Pin { count, one_owner: PhantomData };
        if is_there() { Ok(pin) } else { Err(NotPinned::Gone) }
    }

    /// Lowers a pin that was [kept](Pin::keep).
    ///
    /// # Safety
    /// - A pin of this row and this column was kept, and not lowered since.
    /// - Nobody reads under it any more.
    pub unsafe fn unpin(&self, column: usize) {
        if let Some(count) = self.pins.rows().cell(self.row, column) {
            lower(count);
        }
    }
}

impl Pin<'_> {
    /// Leaves the column pinned, for an owner whose reading outlives this borrow of the row: it
    /// calls [`PinRow::unpin`] at the end.
    pub fn keep(self) {
        mem::forget(self);
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        lower(self.count);
    }
}

fn lower(count: &AtomicU64) {
    // Zero means that the row was cleared under its owner, against the contract: never wrap.
    let lowered = count.load(Relaxed).saturating_sub(1);
    // ORDER: pairs with the acquire in `Pins::is_pinned`: we have read what will be reused. A pin
    // that failed needs it too, as its zero may be the one that the reclaimer sees.
    count.store(lowered, release("pins.unpin"));
}

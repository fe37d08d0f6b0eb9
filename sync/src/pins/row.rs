//! One reader's row, and its pins.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::mem;

use super::table::Pins;
use crate::atomic::{AtomicU64, Relaxed, release};
use crate::words::Words;

/// The most pins of one row on one column; far below where the count would wrap.
pub const PIN_COUNT_MAX: u64 = u32::MAX as u64;

/// The reason why a column is not pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotPinned {
    /// The word that named the memory has changed: look it up again.
    Gone,
    /// The row has [`PIN_COUNT_MAX`] pins on this column.
    TooMany,
    /// The table has no such column: the word that named it is damaged.
    NoSuchColumn,
}

impl fmt::Display for NotPinned {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            NotPinned::Gone => "the memory is not named any more",
            NotPinned::TooMany => "this row pins this column too often",
            NotPinned::NoSuchColumn => "there is no such column",
        })
    }
}

impl std::error::Error for NotPinned {}

/// A row of [`Pins`], held by its owner. It may move to another thread but not be shared.
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
    /// Not `Send`: only the owner may lower the count.
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

    /// Pins a column, if `is_there` says that the memory is still named.
    ///
    /// The closure runs with the pin raised. It loads the word that names the memory again, with
    /// acquire, and returns whether the word is unchanged. Pins of one column add up.
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

    /// Ends a pin that was [kept](Pin::keep).
    ///
    /// # Safety
    /// - A pin of this row and this column was kept, and not lowered since.
    /// - No thread reads under it any more.
    pub unsafe fn unpin(&self, column: usize) {
        if let Some(count) = self.pins.rows().cell(self.row, column) {
            lower(count);
        }
    }
}

impl Pin<'_> {
    /// Leaves the column pinned, for an owner that reads longer than this borrow of the row lasts:
    /// it calls [`PinRow::unpin`] at the end.
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
    // Zero means that the row was cleared under its owner, a broken contract: never wrap.
    let lowered = count.load(Relaxed).saturating_sub(1);
    // ORDER: pairs with the acquire in `Pins::is_pinned`: our reads of the memory come before its
    // reuse. A failed pin needs it too, as its zero may be the one that the reclaimer sees.
    count.store(lowered, release("pins.unpin"));
}

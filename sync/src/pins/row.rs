//! One reader's row, and its pins.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::mem;

use super::table::Pins;
use crate::atomic::{AtomicU64, Relaxed, release};
use crate::words::Words;

/// The largest number of pins of one row on one column, far below the number at which the count
/// would wrap.
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
        let text = match self {
            NotPinned::Gone => {
                "the word that named the memory has changed; look the memory up again"
            }
            NotPinned::TooMany => {
                return write!(
                    out,
                    "the column was not pinned: the row already has {PIN_COUNT_MAX} pins on it"
                );
            }
            NotPinned::NoSuchColumn => {
                "the table of pins does not have this column: the word that named it is damaged"
            }
        };
        out.write_str(text)
    }
}

impl std::error::Error for NotPinned {}

/// A row of [`Pins`], held by its owner. It may move to another thread but not be shared.
#[derive(Debug)]
pub struct PinRow<W> {
    pins: Pins<W>,
    row: usize,
    /// Makes the row not `Sync`: a count is raised by a load and a separate store.
    one_owner: PhantomData<Cell<()>>,
}

/// A pin on a column; dropping it ends the pin.
#[derive(Debug)]
pub struct Pin<'row> {
    count: &'row AtomicU64,
    /// Makes the pin not `Send`: only the row's owner may lower the count.
    one_owner: PhantomData<*const ()>,
}

impl<W: Words> PinRow<W> {
    pub(super) fn new(pins: Pins<W>, row: usize) -> PinRow<W> {
        PinRow { pins, row, one_owner: PhantomData }
    }

    /// The index of this row.
    pub fn row(&self) -> usize {
        self.row
    }

    /// Pins a column, if `is_there` says that the memory is still named.
    ///
    /// The closure runs after the count was raised. It loads the word that names the memory again,
    /// with acquire, and returns whether the word is unchanged. A row may pin a column several
    /// times; each pin ends on its own.
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
    /// - No thread reads under that pin any more.
    pub unsafe fn unpin(&self, column: usize) {
        if let Some(count) = self.pins.rows().cell(self.row, column) {
            lower(count);
        }
    }
}

impl Pin<'_> {
    /// Leaves the column pinned, for an owner that reads longer than this borrow of the row lasts.
    /// The owner calls [`PinRow::unpin`] at the end.
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
    // The count is zero only if the row was cleared while its owner still used it, against the
    // contract of `clear_row`. Even then the count must not wrap.
    let lowered = count.load(Relaxed).saturating_sub(1);
    // ORDER: pairs with the acquire in `Pins::is_pinned`: our reads of the memory come before its
    // reuse. A failed pin needs the release too, since the reclaimer may see the zero of the failed
    // pin and not that of the successful pin before it.
    count.store(lowered, release("pins.unpin"));
}

//! No lock: readers take a snapshot, and writers replace it.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::Protected;
use crate::row::Row;

/// A row that is replaced but never changed.
pub(crate) struct Snapshot(ArcSwap<Row>);

impl Protected for Snapshot {
    fn new() -> Self {
        Snapshot(ArcSwap::from_pointee(Row::default()))
    }

    #[inline]
    fn read(&self) -> Row {
        **self.0.load()
    }

    /// Copies the row again if another writer has replaced it in between.
    #[inline]
    fn write(&self) {
        self.0.rcu(|row| {
            let mut next = **row;
            next.advance();
            Arc::new(next)
        });
    }
}

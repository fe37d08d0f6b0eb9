//! The standard library's lock.
#![allow(clippy::disallowed_types, reason = "this lock is measured")]

use std::sync::{PoisonError, RwLock};

use super::Protected;
use crate::row::Row;

/// A row behind the standard library's lock.
pub(crate) struct Standard(RwLock<Row>);

impl Protected for Standard {
    fn new() -> Self {
        Standard(RwLock::new(Row::default()))
    }

    #[inline]
    fn read(&self) -> Row {
        *self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn write(&self) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).advance();
    }
}

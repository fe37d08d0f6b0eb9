//! Adapts every lock that has the interface of lock_api.

use lock_api::{RawRwLock, RwLock};

use super::Protected;
use crate::row::Row;

/// A row behind a raw lock.
pub(crate) struct Api<R>(RwLock<R, Row>);

impl<R: RawRwLock + Sync> Protected for Api<R> {
    fn new() -> Self {
        Api(RwLock::new(Row::default()))
    }

    #[inline]
    fn read(&self) -> Row {
        *self.0.read()
    }

    #[inline]
    fn write(&self) {
        self.0.write().advance();
    }
}

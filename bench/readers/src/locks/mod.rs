//! The measured locks, behind one trait.

mod api;
mod c;
mod snapshot;
mod standard;

use forebay_sync::bravo::{Bravo, ByStore, BySwap, SharedTable};
use parking_lot::RawRwLock;

use crate::completion::{self, Load};
use crate::row::Row;
use crate::uncontended;

use api::Api;
use snapshot::Snapshot;
use standard::Standard;

/// A row that many threads read and some write.
pub(crate) trait Protected: Sync {
    fn new() -> Self;

    /// Returns a copy of the row.
    fn read(&self) -> Row;

    /// Advances the row.
    fn write(&self);
}

/// A lock, and the functions that measure it.
pub(crate) struct Lock {
    pub(crate) name: &'static str,
    /// Nanoseconds until all threads of the load are done.
    pub(crate) completion_ns: fn(Load) -> f64,
    /// Nanoseconds of a read by one thread alone.
    pub(crate) read_ns: fn() -> f64,
    /// Nanoseconds of a write by one thread alone.
    pub(crate) write_ns: fn() -> f64,
}

pub(crate) const LOCKS: &[Lock] = &[
    lock::<Standard>("std RwLock"),
    lock::<Api<RawRwLock>>("parking_lot"),
    lock::<Api<c::Pthread>>("pthread rwlock"),
    #[cfg(feature = "ck")]
    lock::<Api<c::Ck>>("ck_rwlock"),
    lock::<Snapshot>("arc-swap"),
    lock::<Api<Bravo<RawRwLock, SharedTable<BySwap>>>>("Bravo"),
    lock::<Api<Bravo<RawRwLock, SharedTable<ByStore>>>>("Bravo, membarrier"),
];

const fn lock<P: Protected>(name: &'static str) -> Lock {
    Lock {
        name,
        completion_ns: completion::measure::<P>,
        read_ns: uncontended::read_ns::<P>,
        write_ns: uncontended::write_ns::<P>,
    }
}

//! A process's handle on a store. It opens the store, and lets threads join it.

use std::sync::Arc;

use forebay_shm::{JoinError, Opened, UnnamedRegion};

use super::config::{OpenError, StoreConfig};
use super::shared::Shared;
use super::worker::StoreWorker;

/// A process's handle on a store. Threads and processes share the store's records. A clone is
/// another handle on the same store.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) shared: Arc<Shared>,
}

impl Store {
    /// Opens the store in its region, or creates the region. Cleans up after participants that
    /// died.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(config: StoreConfig) -> Result<Store, OpenError> {
        let store = Store { shared: Shared::open(config)? };
        store.sweep().map_err(OpenError::Sweep)?;
        Ok(store)
    }

    /// Like [`open`](Store::open), but a region that is created gets its file name only when the
    /// caller names it through the returned [`UnnamedRegion`]. A process uses this if it may still
    /// have to leave the name, and the old region, to another process. Returns `None` for the name
    /// if the region is anonymous.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn prepare(config: StoreConfig) -> Result<(Store, Option<UnnamedRegion>), OpenError> {
        let (shared, unnamed) = Shared::prepare(config)?;
        let store = Store { shared };
        store.sweep().map_err(OpenError::Sweep)?;
        Ok((store, unnamed))
    }

    /// How this process got the region: it created the region, attached to an existing one, or
    /// replaced an unusable one.
    pub fn opened(&self) -> &Opened {
        self.shared.opened()
    }

    /// Makes the calling thread a participant of the store.
    ///
    /// # Errors
    /// All rows for participants are taken, or the system refuses.
    pub fn join(&self) -> Result<StoreWorker, JoinError> {
        StoreWorker::join(&self.shared)
    }
}

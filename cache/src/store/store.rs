//! A process's view of a store: open, take part, look at it as a whole.

use std::sync::Arc;

use forebay_shm::{JoinError, Opened, UnnamedRegion};

use super::config::{OpenError, StoreConfig};
use super::shared::Shared;
use super::worker::StoreWorker;

/// All records, shared by the threads of a process and by processes.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) shared: Arc<Shared>,
}

impl Store {
    /// Opens the store in a region, or makes one; cleans up after participants that died.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(config: StoreConfig) -> Result<Store, OpenError> {
        let store = Store { shared: Shared::open(config)? };
        store.sweep().map_err(OpenError::Sweep)?;
        Ok(store)
    }

    /// As [`open`](Store::open), but what is under the region's name stays there until a region
    /// that is made in its place is named: for who may still have to leave it to another process.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn prepare(config: StoreConfig) -> Result<(Store, Option<UnnamedRegion>), OpenError> {
        let (shared, unnamed) = Shared::prepare(config)?;
        let store = Store { shared };
        store.sweep().map_err(OpenError::Sweep)?;
        Ok((store, unnamed))
    }

    /// How the region came to be there: made, attached to, or made in place of another one.
    pub fn opened(&self) -> &Opened {
        self.shared.opened()
    }

    /// Takes part, for one thread.
    ///
    /// # Errors
    /// There is no place for another participant, or the system refuses.
    pub fn join(&self) -> Result<StoreWorker, JoinError> {
        StoreWorker::join(&self.shared)
    }
}

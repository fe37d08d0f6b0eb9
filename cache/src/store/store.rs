//! A process's handle on a store: opening it, and joining it with a thread.

use std::sync::Arc;

use forebay_shm::{JoinError, Opened, UnnamedRegion};

use super::config::{OpenError, StoreConfig};
use super::shared::Shared;
use super::worker::StoreWorker;

/// A store: all records, shared by the threads of a process and by processes.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) shared: Arc<Shared>,
}

impl Store {
    /// Opens the store in a region, or creates the region. Cleans up after participants that died.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(config: StoreConfig) -> Result<Store, OpenError> {
        let store = Store { shared: Shared::open(config)? };
        store.sweep().map_err(OpenError::Sweep)?;
        Ok(store)
    }

    /// Like [`open`](Store::open), but a region that replaces another one gets its name later: for
    /// a process that may still have to leave the old region to another one.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn prepare(config: StoreConfig) -> Result<(Store, Option<UnnamedRegion>), OpenError> {
        let (shared, unnamed) = Shared::prepare(config)?;
        let store = Store { shared };
        store.sweep().map_err(OpenError::Sweep)?;
        Ok((store, unnamed))
    }

    /// How the region came to be: created, attached to, or created in place of another one.
    pub fn opened(&self) -> &Opened {
        self.shared.opened()
    }

    /// Joins the store with the calling thread.
    ///
    /// # Errors
    /// All rows of participants are taken, or the system refuses.
    pub fn join(&self) -> Result<StoreWorker, JoinError> {
        StoreWorker::join(&self.shared)
    }
}

//! Taking part in the store: there are places for two processes, and one that was taken over from
//! may still be finishing its requests when the next one comes.

use std::time::Duration;

use forebay_cache::{Store, StoreWorker};
use forebay_shm::JoinError;

use super::start::StartError;
use crate::clock;
use crate::limits::{STORE_JOIN_MS_MAX, STORE_JOIN_RETRY_MS};

/// Takes part for the calling thread, as soon as there is a place.
///
/// # Errors
/// There is none for too long, or the system refuses.
pub(super) async fn attach_store(store: &Store) -> Result<StoreWorker, StartError> {
    let until_ms = clock::monotonic_ms() + STORE_JOIN_MS_MAX;
    loop {
        match store.join() {
            Err(JoinError::Full { .. }) if clock::monotonic_ms() < until_ms => {}
            joined => return joined.map_err(StartError::Join),
        }
        // If the system does not tell who has died, there may still be one who leaves.
        let _ = store.sweep();
        tokio::time::sleep(Duration::from_millis(STORE_JOIN_RETRY_MS)).await;
    }
}

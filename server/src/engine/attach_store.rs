//! Attaching a thread to the store. The store has room for two processes, and a process that has
//! handed over may still be finishing its requests when the next successor starts.

use std::time::Duration;

use forebay_cache::{Store, StoreWorker};
use forebay_shm::JoinError;

use super::start::StartError;
use crate::clock;
use crate::limits::{STORE_JOIN_MS_MAX, STORE_JOIN_RETRY_MS};

/// Attaches the calling thread to the store as soon as there is room.
///
/// # Errors
/// There is no room for `STORE_JOIN_MS_MAX`, or the system refuses.
pub(super) async fn attach_store(store: &Store) -> Result<StoreWorker, StartError> {
    let until_ms = clock::monotonic_ms() + STORE_JOIN_MS_MAX;
    loop {
        match store.join() {
            Err(JoinError::Full { .. }) if clock::monotonic_ms() < until_ms => {}
            joined => return joined.map_err(StartError::Join),
        }
        // If dead processes cannot be detected, a live one may still detach and make room.
        let _ = store.sweep();
        tokio::time::sleep(Duration::from_millis(STORE_JOIN_RETRY_MS)).await;
    }
}

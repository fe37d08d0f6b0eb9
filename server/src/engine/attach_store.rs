//! Attaches threads to the store. Each thread needs a row in the store's table of participants,
//! which has room for two processes. After a second upgrade there may be three processes, because
//! the first may still be finishing its requests; the threads of the third then wait for free rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use forebay_cache::{Store, StoreWorker};
use forebay_shm::JoinError;

use super::start_error::StartError;
use crate::clock;
use crate::events::Event;
use crate::limits::{STORE_JOIN_MS_MAX, STORE_JOIN_RETRY_MS};

/// The time by which all threads of a server must have attached to the store. They share one
/// deadline, because the running server waits for all of them together.
#[derive(Clone)]
pub(super) struct AttachDeadline {
    until_ms: u64,
    /// Whether a thread has already reported that it waits.
    is_reported: Arc<AtomicBool>,
}

impl AttachDeadline {
    /// Sets the deadline, counted from now.
    pub(super) fn begin() -> AttachDeadline {
        let until_ms = clock::monotonic_ms() + STORE_JOIN_MS_MAX;
        AttachDeadline { until_ms, is_reported: Arc::default() }
    }

    /// Attaches the calling thread to the store; waits for a free participant row if necessary.
    ///
    /// # Errors
    /// No row became free in time, or the system refuses to attach the thread.
    pub(super) async fn attach(&self, store: &Store) -> Result<StoreWorker, StartError> {
        loop {
            match store.join() {
                Err(JoinError::Full { .. }) if clock::monotonic_ms() < self.until_ms => {}
                joined => return joined.map_err(StartError::Join),
            }
            if !self.is_reported.swap(true, Relaxed) {
                let limit_s = STORE_JOIN_MS_MAX / 1000;
                Event::UpgradeWaits.log(&format_args!("the wait ends after at most {limit_s} s"));
            }
            // Even if dead processes cannot be detected, a live process may detach and free a row.
            let _ = store.sweep();
            tokio::time::sleep(Duration::from_millis(STORE_JOIN_RETRY_MS)).await;
        }
    }
}

//! A record of the store, read as HTTP.

use std::sync::Arc;

use forebay_cache::Record;
use forebay_http::policy::freshness::current_age;
use forebay_http::policy::meta::{STORED_META_BYTES, StoredMeta};

/// A record of the store, read as a stored response.
#[derive(Clone)]
pub(crate) struct StoredResponse {
    pub(crate) record: Arc<Record>,
    pub(crate) meta: StoredMeta,
}

impl StoredResponse {
    /// `None` for a head that this version did not write.
    pub(crate) fn new(record: Arc<Record>) -> Option<StoredResponse> {
        let meta = StoredMeta::decode(record.head().get(..STORED_META_BYTES)?)?;
        Some(StoredResponse { record, meta })
    }

    /// How old it is, in seconds.
    pub(crate) fn age(&self, now: u64) -> u32 {
        current_age(self.meta.initial_age_s, self.meta.response_time, now)
    }

    /// The stored field lines, as they go on the wire.
    pub(crate) fn block(&self) -> &[u8] {
        stored_block(self.record.head())
    }
}

/// The field lines of a stored head.
pub(crate) fn stored_block(head: &[u8]) -> &[u8] {
    head.get(STORED_META_BYTES..).unwrap_or_default()
}

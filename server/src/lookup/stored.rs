//! A record of the store, read as HTTP.

use forebay_cache::{RecordTags, RecordVersion, StoredRecord};
use forebay_http::policy::freshness::current_age;
use forebay_http::policy::meta::{STORED_META_BYTES, StoredMeta};
use forebay_http::write::status_line;

/// A record of the store, read as a stored response. It is borrowed from the store: it is used
/// and let go without waiting for anything.
pub(crate) struct StoredResponse<'w> {
    pub(crate) found: StoredRecord<'w>,
    pub(crate) meta: StoredMeta,
}

/// A copy of a stored response's head, to ask the origin with: whether it is still good.
pub(crate) struct Stale {
    pub(crate) meta: StoredMeta,
    /// What the origin's answer is about.
    pub(crate) known: RecordVersion,
    pub(crate) tags: RecordTags,
    head: Box<[u8]>,
}

impl<'w> StoredResponse<'w> {
    /// `None` for a head that this version did not write.
    pub(crate) fn new(found: StoredRecord<'w>) -> Option<StoredResponse<'w>> {
        let meta = stored_meta(found.head())?;
        Some(StoredResponse { found, meta })
    }

    /// How old it is, in seconds.
    pub(crate) fn age(&self, now: u64) -> u32 {
        current_age(self.meta.initial_age_s, self.meta.response_time, now)
    }

    /// The stored field lines, as they go on the wire.
    pub(crate) fn block(&self) -> &[u8] {
        stored_block(self.found.head())
    }

    /// What is needed of it to validate it.
    pub(super) fn to_stale(&self) -> Stale {
        Stale {
            meta: self.meta,
            known: self.found.version(),
            // What was stored could be stored.
            tags: RecordTags::new(self.found.tags()).unwrap_or_default(),
            head: self.found.head().into(),
        }
    }
}

impl Stale {
    /// The stored field lines.
    pub(crate) fn block(&self) -> &[u8] {
        stored_block(&self.head)
    }
}

/// Writes the strong entity tag of a response, by which the origin knows this version again, if it
/// has one.
pub(crate) fn write_strong_tag(meta: &StoredMeta, block: &[u8], out: &mut Vec<u8>) {
    out.clear();
    if meta.etag(block).is_some_and(|tag| !tag.is_weak) {
        out.extend_from_slice(meta.etag_value(block).unwrap_or_default());
    }
}

/// What a stored head begins with; `None` if this version did not write it.
pub(crate) fn stored_meta(head: &[u8]) -> Option<StoredMeta> {
    StoredMeta::decode(head.get(..STORED_META_BYTES)?)
}

/// The field lines of a stored head.
pub(crate) fn stored_block(head: &[u8]) -> &[u8] {
    head.get(STORED_META_BYTES..).unwrap_or_default()
}

/// Writes a stored head as it would be sent, without what the server adds to an answer: status
/// line, field lines, empty line. `false` if this version did not write it.
pub fn write_stored_head(head: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(meta) = stored_meta(head) else {
        return false;
    };
    status_line(out, meta.status);
    out.extend_from_slice(stored_block(head));
    out.extend_from_slice(b"\r\n");
    true
}

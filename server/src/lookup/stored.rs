//! A record of the store, interpreted as an HTTP response.

use forebay_cache::{RecordTags, RecordVersion, StoredBody, StoredRecord};
use forebay_http::policy::freshness::current_age;
use forebay_http::policy::meta::{STORED_META_BYTES, StoredMeta};
use forebay_http::write::status_line;

/// A record of the store, interpreted as a stored response. It borrows from the store, so a task
/// must drop it before it waits.
pub(crate) struct StoredResponse<'w> {
    pub(crate) found: StoredRecord<'w>,
    pub(crate) meta: StoredMeta,
}

/// A copy of a stored response's head, for validating the response with the origin.
pub(crate) struct Stale {
    pub(crate) meta: StoredMeta,
    /// The version of the record that is validated.
    pub(crate) known: RecordVersion,
    pub(crate) tags: RecordTags,
    /// Whether a soft purge has made the response stale.
    is_soft: bool,
    head: Box<[u8]>,
}

impl<'w> StoredResponse<'w> {
    /// Reads a record; `None` if this version of the server did not write its head.
    pub(crate) fn new(found: StoredRecord<'w>) -> Option<StoredResponse<'w>> {
        let meta = stored_meta(found.head())?;
        Some(StoredResponse { found, meta })
    }

    /// Returns the response's age in seconds.
    pub(crate) fn age(&self, now: u64) -> u32 {
        current_age(self.meta.initial_age_s, self.meta.response_time, now)
    }

    /// Returns the stored field lines that clients get, in the form in which they are sent.
    pub(crate) fn block(&self) -> &[u8] {
        stored_block(self.found.head(), &self.meta)
    }

    /// Whether the body is stored in one piece.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.found.body(), StoredBody::Whole(_))
    }

    /// Returns all stored field lines: first those that clients do not get, then those that are
    /// sent.
    pub(crate) fn lines(&self) -> &[u8] {
        self.found.head().get(STORED_META_BYTES..).unwrap_or_default()
    }

    /// Copies the parts that validation needs.
    pub(crate) fn to_stale(&self) -> Stale {
        Stale {
            meta: self.meta,
            known: self.found.version(),
            // The tags have been stored in a record before, so they fit.
            tags: RecordTags::new(self.found.tags()).unwrap_or_default(),
            is_soft: self.found.is_soft(),
            head: self.found.head().into(),
        }
    }
}

impl Stale {
    /// Returns the copied field lines that clients get, in the form in which they are sent.
    pub(crate) fn block(&self) -> &[u8] {
        stored_block(&self.head, &self.meta)
    }

    /// Whether the response is stale. It may be validated even if it is fresh.
    pub(crate) fn is_stale(&self, now: u64) -> bool {
        self.is_soft || self.meta.stale_from() <= now
    }

    /// Returns all copied field lines: first those that clients do not get, then those that are
    /// sent.
    pub(crate) fn lines(&self) -> &[u8] {
        self.head.get(STORED_META_BYTES..).unwrap_or_default()
    }
}

/// Writes the response's strong entity tag, which identifies this version at the origin, to `out`.
/// If the response has no strong tag, `out` becomes empty.
// RFC: 9110-13.1.5-3, 9110-15.3.7.3-1
pub(crate) fn write_strong_tag(meta: &StoredMeta, block: &[u8], out: &mut Vec<u8>) {
    out.clear();
    if meta.etag(block).is_some_and(|tag| !tag.is_weak) {
        out.extend_from_slice(meta.etag_value(block).unwrap_or_default());
    }
}

/// Reads the metadata at the start of a stored head; `None` if this version of the server did not
/// write it.
pub(crate) fn stored_meta(head: &[u8]) -> Option<StoredMeta> {
    StoredMeta::decode(head.get(..STORED_META_BYTES)?)
}

/// Returns the field lines of a stored head that are sent to clients.
pub(crate) fn stored_block<'a>(head: &'a [u8], meta: &StoredMeta) -> &'a [u8] {
    head.get(STORED_META_BYTES + meta.hidden_bytes as usize..).unwrap_or_default()
}

/// Writes the status line, the field lines and the empty line of a stored head, without the fields
/// that the server adds to a response. Returns false if this version of the server did not write
/// the head.
pub fn write_stored_head(head: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(meta) = stored_meta(head) else {
        return false;
    };
    status_line(out, meta.status);
    out.extend_from_slice(stored_block(head, &meta));
    out.extend_from_slice(b"\r\n");
    true
}

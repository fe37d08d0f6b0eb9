//! Conditional requests: the client's, answered from a stored response, and ours to the origin
//! (RFC 9110 §13, RFC 9111 §4.3).

use crate::fields::{FieldId, FieldSet, Fields};
use crate::policy::etag::{EntityTag, tags};
use crate::policy::exchange::date_field;
use crate::policy::meta::StoredMeta;

/// How a stored response answers a request that may be conditional.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionalResult {
    /// With the stored response itself.
    Send,
    /// With 304: the client has it.
    NotModified,
}

/// RFC 9110 §13.2.2 and RFC 9111 §4.3.2, for GET and HEAD on a response that [`judge`] lets
/// serve; `block` is its stored field block.
///
/// Only a stored 200 is compared: with another status an origin ignores preconditions.
///
/// [`judge`]: crate::policy::reuse::judge
pub fn conditional(request: Fields<'_>, meta: &StoredMeta, block: &[u8]) -> ConditionalResult {
    use FieldId::{IfModifiedSince, IfNoneMatch};
    const BEARING: FieldSet = FieldSet::of(&[IfNoneMatch, IfModifiedSince]);
    if !request.seen().intersects(BEARING) || meta.status != 200 {
        return ConditionalResult::Send;
    }
    let is_known = if request.contains(IfNoneMatch) {
        names_stored_tag(request, meta.etag(block))
    } else {
        // A malformed date is as good as none. Without Last-Modified, RFC 9111 §4.3.2 takes Date.
        let since = date_field(request, IfModifiedSince);
        since.is_some_and(|since| meta.last_modified.unwrap_or(meta.date) <= since)
    };
    if is_known {
        return ConditionalResult::NotModified;
    }
    ConditionalResult::Send
}

/// RFC 9110 §13.1.2: `*`, or any listed tag that matches weakly.
fn names_stored_tag(request: Fields<'_>, stored: Option<EntityTag<'_>>) -> bool {
    if request.only(FieldId::IfNoneMatch) == Some(b"*") {
        return true;
    }
    let mut listed = request.all(FieldId::IfNoneMatch).flat_map(tags);
    stored.is_some_and(|stored| listed.any(|tag| tag.matches_weakly(stored)))
}

/// Must the origin see this request, because its precondition is for the origin alone?
/// RFC 9110 §13.1.1 and §13.1.4, RFC 9111 §4.3.2.
pub fn needs_origin(request: Fields<'_>) -> bool {
    const ORIGIN_ONLY: FieldSet = FieldSet::of(&[FieldId::IfMatch, FieldId::IfUnmodifiedSince]);
    request.seen().intersects(ORIGIN_ONLY)
}

/// What a request that validates a stored response says (RFC 9111 §4.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValidatorFields<'a> {
    /// Value of If-None-Match.
    pub if_none_match: Option<&'a [u8]>,
    /// Date of If-Modified-Since, Unix seconds.
    pub if_modified_since: Option<u64>,
}

/// The preconditions that validate a stored response; none if it has no validator. They replace
/// those of the client, which were about what the client has.
pub fn validator_fields<'a>(meta: &StoredMeta, block: &'a [u8]) -> ValidatorFields<'a> {
    ValidatorFields { if_none_match: meta.etag_value(block), if_modified_since: meta.last_modified }
}

/// Appends the lines of a stored block that a generated 304 carries (RFC 9110 §15.4.5):
/// everything else the client has. Age, Cache-Status and connection fields are the caller's.
pub fn write_fields_of_304(block: &[u8], meta: &StoredMeta, out: &mut Vec<u8>) {
    use FieldId::{CacheControl, ContentLocation, Date, Etag, Expires, LastModified, Vary};
    const KEPT: FieldSet =
        FieldSet::of(&[CacheControl, ContentLocation, Date, Etag, Expires, Vary]);
    // Last-Modified is for guiding caches where there is no better validator.
    let has_etag = meta.etag_value(block).is_some();
    for (name, line) in block_lines(block) {
        let id = FieldId::of(name);
        if KEPT.contains(id) || id == LastModified && !has_etag {
            out.extend_from_slice(line);
        }
    }
}

/// Name and whole line, CRLF included, of each line in a block's bytes.
fn block_lines(block: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = block;
    std::iter::from_fn(move || {
        let end = memchr::memmem::find(rest, b"\r\n")? + 2;
        let (line, tail) = rest.split_at_checked(end)?;
        rest = tail;
        let colon = memchr::memchr(b':', line)?;
        Some((line.get(..colon)?, line))
    })
}

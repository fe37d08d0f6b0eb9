//! Conditional requests: those from clients, which a stored response may answer, and those to the
//! origin (RFC 9110 §13, RFC 9111 §4.3).

use crate::fields::{FieldBlock, FieldId, FieldSet, Fields};
use crate::policy::accept_encoding::accepts_coding;
use crate::policy::etag::{EntityTag, tags};
use crate::policy::exchange::date_field;
use crate::policy::lists::members;
use crate::policy::meta::StoredMeta;

/// The answer to a request, conditional or not, for which there is a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionalResult {
    /// Send the stored response.
    Send,
    /// Send 304: the client's copy is current.
    NotModified,
}

/// RFC 9110 §13.2.2 and RFC 9111 §4.3.2: evaluates the preconditions of a GET or HEAD request when
/// [`judge`] allows the stored response to be served. `block` is the stored field block.
///
/// Preconditions are evaluated only for a stored 200. RFC 9110 §13.2.1 has a server ignore them
/// unless the response without them would be a 2xx or a 412.
///
/// [`judge`]: crate::policy::reuse::judge
// RFC: 9111-4.3.2-1, 9111-4.3.2-3, 9110-13.2.1-2
pub fn conditional(request: Fields<'_>, meta: &StoredMeta, block: &[u8]) -> ConditionalResult {
    if !request.seen().intersects(EVALUATED) || meta.status != 200 {
        return ConditionalResult::Send;
    }
    // Without Last-Modified, RFC 9111 §4.3.2 uses Date.
    evaluate(request, meta.etag(block), Some(meta.last_modified.unwrap_or(meta.date)))
}

/// RFC 9110 §13.2.2: evaluates the preconditions of a GET or HEAD request on a response with these
/// fields that is passed through. The origin was not sent the preconditions, or ignored them.
///
/// The caller must be able to act as a cache for the request: other intermediaries must not
/// evaluate preconditions (§13.2.1).
// RFC: 9110-13.2.1-1, 9110-13.2.1-2
pub fn conditional_on_response(
    request: Fields<'_>,
    status: u16,
    response: Fields<'_>,
) -> ConditionalResult {
    if !request.seen().intersects(EVALUATED) || status != 200 {
        return ConditionalResult::Send;
    }
    let etag = response.only(FieldId::Etag).and_then(EntityTag::parse);
    evaluate(request, etag, date_field(response, FieldId::LastModified))
}

/// The preconditions that a cache evaluates.
const EVALUATED: FieldSet = FieldSet::of(&[FieldId::IfNoneMatch, FieldId::IfModifiedSince]);

/// RFC 9110 §13.2.2: evaluates If-None-Match or, without it, If-Modified-Since on a representation
/// with this tag and this time of its last modification. A malformed date counts as an absent one.
// RFC: 9110-13.1.3-1, 9110-13.1.3-3, 9110-13.1.3-4, 9110-13.2.2-1
pub(super) fn evaluate(
    request: Fields<'_>,
    etag: Option<EntityTag<'_>>,
    modified: Option<u64>,
) -> ConditionalResult {
    let is_known = if request.contains(FieldId::IfNoneMatch) {
        names_tag(request, etag)
    } else {
        let since = date_field(request, FieldId::IfModifiedSince);
        modified.zip(since).is_some_and(|(modified, since)| modified <= since)
    };
    match is_known {
        true => ConditionalResult::NotModified,
        false => ConditionalResult::Send,
    }
}

/// RFC 9110 §13.1.2: whether If-None-Match is `*`, or lists a tag that matches weakly.
// RFC: 9110-13.1.2-1
fn names_tag(request: Fields<'_>, current: Option<EntityTag<'_>>) -> bool {
    if request.only(FieldId::IfNoneMatch) == Some(b"*") {
        return true;
    }
    let mut listed = request.all(FieldId::IfNoneMatch).flat_map(tags);
    current.is_some_and(|current| listed.any(|tag| tag.matches_weakly(current)))
}

/// RFC 9110 §13.1.1 and §13.1.4, RFC 9111 §4.3.2: whether the request has a precondition that only
/// the origin can evaluate.
// RFC: 9111-4.3.2-2
pub fn needs_origin(request: Fields<'_>) -> bool {
    const ORIGIN_ONLY: FieldSet = FieldSet::of(&[FieldId::IfMatch, FieldId::IfUnmodifiedSince]);
    request.seen().intersects(ORIGIN_ONLY)
}

/// The preconditions of a request that validates a stored response (RFC 9111 §4.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValidatorFields<'a> {
    /// Value of If-None-Match.
    pub if_none_match: Option<&'a [u8]>,
    /// Date of If-Modified-Since, Unix seconds.
    pub if_modified_since: Option<u64>,
}

/// Returns the preconditions that validate a stored response for which
/// [`can_validate`](StoredMeta::can_validate) is true. They replace the client's preconditions,
/// which concern the client's own copy.
// RFC: 9111-4.3.1-1, 9111-4.3.1-2, 9110-13.1.2-2
pub fn validator_fields<'a>(meta: &StoredMeta, block: &'a [u8]) -> ValidatorFields<'a> {
    ValidatorFields {
        if_none_match: meta.origin_etag_value(block),
        if_modified_since: meta.last_modified,
    }
}

/// Whether a stored response that the request does not select may answer the request if the origin
/// names its tag (RFC 9111 §4.1, §4.3.1).
///
/// The tag of the stored response has to be strong, so that it names one response of the resource.
/// Some origins give one strong tag to all codings of a body, so the client has to accept the
/// coding, too. If this server chose the coding, the origin has one tag for all codings, so a 304
/// does not say which coding it means.
pub fn may_be_named(request: Fields<'_>, meta: &StoredMeta, block: &[u8]) -> bool {
    let is_accepted = |(name, line): (&[u8], &[u8])| {
        if FieldId::of(name) != FieldId::ContentEncoding {
            return true;
        }
        let value = line.get(name.len() + 1..).unwrap_or_default();
        members(value.trim_ascii()).all(|coding| accepts_coding(request, coding))
    };
    let has_strong_tag = meta.etag(block).is_some_and(|tag| !tag.is_weak);
    meta.can_validate()
        && !meta.is_negotiated
        && has_strong_tag
        && block_lines(block).all(is_accepted)
}

/// Appends the lines of a stored block that a generated 304 carries (RFC 9110 §15.4.5), and
/// CDN-Cache-Control, which is the Cache-Control of some caches (RFC 9213 §3.1). The client already
/// has the other fields. The caller adds Age, Cache-Status and connection fields.
// RFC: 9110-15.4.5-1, 9110-15.4.5-2
pub fn write_fields_of_304(block: &[u8], meta: &StoredMeta, out: &mut Vec<u8>) {
    // Last-Modified helps caches only if there is no better validator.
    let has_etag = meta.etag_value(block).is_some();
    for (name, line) in block_lines(block) {
        let id = FieldId::of(name);
        if FIELDS_OF_304.contains(id) || id == FieldId::LastModified && !has_etag {
            out.extend_from_slice(line);
        }
    }
}

/// Returns the fields of the 304 that takes the place of a response that is passed through (RFC
/// 9110 §15.4.5): those that guide caches, and those that describe this message.
// RFC: 9110-15.4.5-1, 9110-15.4.5-2
pub fn fields_of_304(response: Fields<'_>) -> FieldBlock {
    use FieldId::{Age, CacheStatus, LastModified, SetCookie, Via};
    const OF_MESSAGE: FieldSet = FieldSet::of(&[Age, CacheStatus, SetCookie, Via]);
    let has_etag = response.contains(FieldId::Etag);
    let mut block = FieldBlock::new();
    for field in response.iter() {
        let is_kept = FIELDS_OF_304.contains(field.id) || OF_MESSAGE.contains(field.id);
        if is_kept || field.id == LastModified && !has_etag {
            block.push_field(field);
        }
    }
    block
}

/// The fields of a 304 that guide caches.
const FIELDS_OF_304: FieldSet = FieldSet::of(&[
    FieldId::CacheControl,
    FieldId::CdnCacheControl,
    FieldId::ContentLocation,
    FieldId::Date,
    FieldId::Etag,
    FieldId::Expires,
    FieldId::Vary,
]);

/// Iterates over the lines of a block: each name with its whole line, including CRLF.
pub fn block_lines(block: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = block;
    std::iter::from_fn(move || {
        let end = memchr::memmem::find(rest, b"\r\n")? + 2;
        let (line, tail) = rest.split_at_checked(end)?;
        rest = tail;
        let colon = memchr::memchr(b':', line)?;
        Some((line.get(..colon)?, line))
    })
}

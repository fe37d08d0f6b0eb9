//! Updates a stored response with a 304 from the origin (RFC 9111 §3.2, §4.3.4).

use std::collections::BTreeSet;

use crate::fields::{FieldBlock, FieldId, FieldSet, Fields};
use crate::hop::HopFields;
use crate::policy::etag::EntityTag;
use crate::policy::exchange::date_field;
use crate::policy::meta::StoredMeta;

/// Whether a 304 can confirm a stored response with this status. RFC 9110 §15.4.5: a 304 stands for
/// a 200. 203 and 206 are forms of a 200; a 304 confirms no response with another status.
pub(crate) fn is_renewable(status: u16) -> bool {
    matches!(status, 200 | 203 | 206)
}

/// Whether this 304, the response to our [`validator_fields`], refers to the stored response.
///
/// RFC 9111 §4.3.4. We sent the tag of one stored response, and the origin compared it weakly (RFC
/// 9110 §13.1.2). So a tag in the 304 that differs from our tag only in weakness refers to the same
/// response: an origin that compresses on the fly weakens the tag of a 200, but not that of a 304.
/// A 304 without a validator refers to the validators that we sent. If the result is false, the
/// caller fetches again without a precondition.
///
/// [`validator_fields`]: crate::policy::conditional::validator_fields
// RFC: 9111-4.3.4-1
pub fn may_update(meta: &StoredMeta, block: &[u8], not_modified: Fields<'_>) -> bool {
    if !is_renewable(meta.status) {
        return false;
    }
    if not_modified.contains(FieldId::Etag) {
        return tag_matches(meta.etag_value(block), not_modified);
    }
    match date_field(not_modified, FieldId::LastModified) {
        Some(date) => meta.last_modified == Some(date),
        None => meta.has_validator(),
    }
}

/// Whether this 304 names a stored response that the request does not select, and whose tag was
/// among the tags in the request to the origin.
///
/// RFC 9111 §4.3.4: a strong validator identifies the response. A weak tag does not suffice: nginx
/// gives the plain and the compressed form of a file tags that differ only in weakness.
// RFC: 9111-4.3.4-1
pub fn names_variant(meta: &StoredMeta, block: &[u8], not_modified: Fields<'_>) -> bool {
    let sent = not_modified.only(FieldId::Etag).and_then(EntityTag::parse);
    let tags = meta.etag(block).zip(sent);
    is_renewable(meta.status) && tags.is_some_and(|(stored, sent)| stored.matches_strongly(sent))
}

/// RFC 9111 §4.3.5: whether the 200 to a HEAD shows that a stored response with a body of
/// `body_bytes` is outdated: the two differ in a validator or in the length. Tags are compared
/// weakly, as in [`may_update`].
// RFC: 9111-4.3.5-1, 9111-4.3.5-3
pub fn is_outdated_by_head(
    meta: &StoredMeta,
    block: &[u8],
    body_bytes: u64,
    head: (Fields<'_>, Option<u64>),
) -> bool {
    let (fields, content_length) = head;
    if !is_renewable(meta.status) {
        return false;
    }
    let etag = meta.etag_value(block);
    let other_tag = etag.is_some() && fields.contains(FieldId::Etag) && !tag_matches(etag, fields);
    let date = date_field(fields, FieldId::LastModified);
    let other_date = date.zip(meta.last_modified).is_some_and(|(sent, stored)| sent != stored);
    // The length of a body that this server compressed or decompressed is not the origin's.
    let length = content_length.filter(|_| meta.has_original_body());
    other_tag || other_date || length.is_some_and(|length| length != body_bytes)
}

fn tag_matches(stored: Option<&[u8]>, not_modified: Fields<'_>) -> bool {
    let (Some(stored), Some(tag)) = (stored, not_modified.only(FieldId::Etag)) else {
        return false;
    };
    match (EntityTag::parse(stored), EntityTag::parse(tag)) {
        (Some(stored), Some(tag)) => tag.matches_weakly(stored),
        // A malformed tag has no weak form.
        _ => stored == tag,
    }
}

/// Fields that a 304 never changes, besides the connection-specific fields.
///
/// RFC 9111 §3.2 excludes Content-Length and the fields that describe the coding and range of the
/// stored bytes. Set-Cookie is excluded against the letter of §3.2: the cookie is meant for the
/// client whose request was validated, not for all later clients. Age describes a message and is
/// never stored.
const UNCHANGED: FieldSet = FieldSet::of(&[
    FieldId::Age,
    FieldId::ContentEncoding,
    FieldId::ContentLength,
    FieldId::ContentRange,
    FieldId::SetCookie,
    FieldId::Trailer,
]);

/// Returns the stored fields as a 304 updates them: each field of the 304 replaces all stored lines
/// of its name, except the fields that a 304 never changes. A strong tag does not replace a weak
/// one: the 304 does not show that the stored bytes are those that the strong tag names, and a
/// strong tag would permit combining the two (RFC 9110 §8.8.1).
///
/// RFC 9111 §3.2. The stored Age and Date are dropped even if the 304 has none: they describe the
/// old message, and would age the response that was just validated. (A recipient adds Date to a
/// message without one, RFC 9110 §6.6.1, so the 304 normally has it.)
// RFC: 9111-3.2-1, 9111-4.3.4-2
pub fn merge_304(stored: &FieldBlock, not_modified: Fields<'_>) -> FieldBlock {
    // `origin_head` has already refused a 304 whose Connection field names too many fields.
    let hop = HopFields::of(not_modified).unwrap_or_default();
    let has_weak_tag = has_weak_tag(stored.fields());
    let updates = not_modified.iter().filter(|field| {
        let strengthens = field.id == FieldId::Etag && has_weak_tag;
        !UNCHANGED.contains(field.id) && !hop.contains(*field) && !strengthens
    });
    let lower = |name: &[u8]| name.to_ascii_lowercase();
    let replaced: BTreeSet<_> = updates.clone().map(|field| lower(field.name)).collect();
    let mut merged = FieldBlock::new();
    for field in stored.fields().iter() {
        let is_of_message = matches!(field.id, FieldId::Age | FieldId::Date);
        if !is_of_message && !replaced.contains(&lower(field.name)) {
            merged.push(field.name, field.value);
        }
    }
    for field in updates {
        merged.push(field.name, field.value);
    }
    merged
}

fn has_weak_tag(stored: Fields<'_>) -> bool {
    stored.only(FieldId::Etag).and_then(EntityTag::parse).is_some_and(|tag| tag.is_weak)
}

//! Updates a stored response with a 304 from the origin (RFC 9111 §3.2, §4.3.4).

use std::collections::BTreeSet;

use crate::fields::{FieldBlock, FieldId, FieldSet, Fields};
use crate::hop::HopFields;
use crate::policy::etag::EntityTag;
use crate::policy::exchange::date_field;
use crate::policy::meta::StoredMeta;

/// Whether a 304 can confirm a stored response with this status. RFC 9110 §15.4.5: a 304 stands for
/// a 200. 203 and 206 are forms of a 200; no other status is meant.
pub(crate) fn is_renewable(status: u16) -> bool {
    matches!(status, 200 | 203 | 206)
}

/// Whether this 304, the response to our [`validator_fields`], refers to the stored response.
///
/// RFC 9111 §4.3.4. We sent the tag of one stored response, and the origin compared it weakly (RFC
/// 9110 §13.1.2). So a tag in the 304 that differs from it only in weakness refers to the same
/// response: an origin that compresses on the fly weakens the tag of a 200, but not that of a 304.
/// A 304 without a validator refers to the validators that we sent. If the result is false, the
/// caller fetches again without a precondition.
///
/// [`validator_fields`]: crate::policy::conditional::validator_fields
pub fn may_update(meta: &StoredMeta, block: &[u8], not_modified: Fields<'_>) -> bool {
    if !is_renewable(meta.status) {
        return false;
    }
    if not_modified.contains(FieldId::Etag) {
        return tag_matches(meta.etag_value(block), not_modified);
    }
    if not_modified.contains(FieldId::LastModified) {
        return date_field(not_modified, FieldId::LastModified) == meta.last_modified;
    }
    meta.has_validator()
}

/// The effect of a 200 to HEAD on a stored response to GET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadEffect {
    /// The stored response is current: update it, as by a 304.
    Update,
    /// The stored response is not current: it is stale.
    MakeStale,
    /// The response to HEAD says nothing about it.
    None,
}

/// RFC 9111 §4.3.5: decides the effect of a 200 to HEAD with these fields and this Content-Length.
/// The stored body has `body_bytes` bytes.
///
/// The stored response is updated if each validator and the length match that the response to HEAD
/// has. Without a validator it is not: equal lengths do not make equal bodies.
pub fn head_effect(
    (meta, block): (&StoredMeta, &[u8]),
    body_bytes: u64,
    head: Fields<'_>,
    content_length: Option<u64>,
) -> HeadEffect {
    let has_tag = head.contains(FieldId::Etag);
    let has_date = head.contains(FieldId::LastModified);
    let matches = is_renewable(meta.status)
        && (!has_tag || tag_matches(meta.etag_value(block), head))
        && (!has_date || date_field(head, FieldId::LastModified) == meta.last_modified)
        && content_length.is_none_or(|length| length == body_bytes);
    match matches {
        true if has_tag || has_date => HeadEffect::Update,
        true => HeadEffect::None,
        false => HeadEffect::MakeStale,
    }
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

/// Fields that a 304 never changes, besides those of the connection.
///
/// RFC 9111 §3.2 excludes Content-Length and the fields that describe the coding and range of the
/// stored bytes. Set-Cookie is excluded against the letter of §3.2: the cookie is meant for the
/// client whose request was validated, not for all later ones. Age describes a message and is never
/// stored.
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
/// one: the 304 does not show that the stored bytes are those that the strong tag names, and only
/// then may parts of both be combined (RFC 9110 §8.8.1).
///
/// RFC 9111 §3.2. The stored Age and Date are dropped even if the 304 has none: they describe the
/// old message, and would age the response that was just validated. (A recipient adds Date to a
/// message without one, RFC 9110 §6.6.1, so the 304 normally has it.)
pub fn merge_304(stored: &FieldBlock, not_modified: Fields<'_>) -> FieldBlock {
    // `origin_head` has already refused a 304 whose Connection field names too many fields.
    let hop = HopFields::of(not_modified).unwrap_or_default();
    let has_weak_tag = has_weak_tag(stored.fields());
    let updates = not_modified.iter().filter(|field| {
        let is_proxys_own = field.name.eq_ignore_ascii_case(b"proxy-authentication-info");
        let strengthens = field.id == FieldId::Etag && has_weak_tag;
        !UNCHANGED.contains(field.id) && !hop.contains(*field) && !is_proxys_own && !strengthens
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

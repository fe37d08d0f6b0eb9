//! Updates a stored response with a 304 from the origin (RFC 9111 §3.2, §4.3.4).

use std::collections::BTreeSet;

use crate::fields::{FieldBlock, FieldId, FieldSet, Fields};
use crate::hop::HopFields;
use crate::policy::etag::EntityTag;
use crate::policy::exchange::date_field;
use crate::policy::meta::StoredMeta;

/// Whether this 304, the response to our [`validator_fields`], refers to the stored response.
///
/// RFC 9111 §4.3.4: a strong validator must be equal to the stored validator, a weak validator must
/// match it. A 304 without a validator refers to the validators that we sent. If the result is
/// false, the caller fetches again without a precondition.
///
/// [`validator_fields`]: crate::policy::conditional::validator_fields
pub fn may_update(meta: &StoredMeta, block: &[u8], not_modified: Fields<'_>) -> bool {
    if not_modified.contains(FieldId::Etag) {
        return tag_matches(meta.etag(block), not_modified);
    }
    if not_modified.contains(FieldId::LastModified) {
        return date_field(not_modified, FieldId::LastModified) == meta.last_modified;
    }
    meta.has_validator()
}

fn tag_matches(stored: Option<EntityTag<'_>>, not_modified: Fields<'_>) -> bool {
    let tag = not_modified.only(FieldId::Etag).and_then(EntityTag::parse);
    let (Some(tag), Some(stored)) = (tag, stored) else {
        return false;
    };
    // A weak tag in the 304 needs only a weak match; a strong tag needs a strong match.
    tag.matches_strongly(stored) || tag.is_weak && tag.matches_weakly(stored)
}

/// Fields that a 304 never changes, besides those of the connection.
///
/// RFC 9111 §3.2 excludes Content-Length and the fields that describe the coding and range of the
/// stored bytes. Set-Cookie is excluded against the letter of §3.2: the cookie is meant for the
/// client whose request was validated, not for all later ones. Age and Cache-Status describe a
/// message and are never stored.
const UNCHANGED: FieldSet = FieldSet::of(&[
    FieldId::Age,
    FieldId::CacheStatus,
    FieldId::ContentEncoding,
    FieldId::ContentLength,
    FieldId::ContentRange,
    FieldId::SetCookie,
    FieldId::Trailer,
]);

/// Returns the stored fields as a 304 updates them: each field of the 304 replaces all stored lines
/// of its name, except the fields that a 304 never changes.
///
/// RFC 9111 §3.2. The stored Age and Date are dropped even if the 304 has none: they describe the
/// old message, and would age the response that was just validated. (A recipient adds Date to a
/// message without one, RFC 9110 §6.6.1, so the 304 normally has it.)
pub fn merge_304(stored: &FieldBlock, not_modified: Fields<'_>) -> FieldBlock {
    // `origin_head` has already refused a 304 whose Connection field names too many fields.
    let hop = HopFields::of(not_modified).unwrap_or_default();
    let updates = not_modified.iter().filter(|field| {
        let is_proxys_own = field.name.eq_ignore_ascii_case(b"proxy-authentication-info");
        !UNCHANGED.contains(field.id) && !hop.contains(*field) && !is_proxys_own
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

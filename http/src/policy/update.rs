//! A 304 from the origin updates a stored response (RFC 9111 §3.2, §4.3.4).

use std::collections::BTreeSet;

use crate::fields::{FieldBlock, FieldId, FieldSet, Fields};
use crate::hop::HopFields;
use crate::policy::etag::EntityTag;
use crate::policy::exchange::date_field;
use crate::policy::meta::StoredMeta;

/// Does this 304, which answers our [`validator_fields`], speak of the stored response?
///
/// RFC 9111 §4.3.4: a strong validator must be the stored one, a weak one must correspond to it.
/// A 304 without any validator answers the only validators that we sent. If false the caller
/// fetches again without a precondition.
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
    // A weak tag in the 304 asks for no more than weak comparison; a strong one asks for both.
    tag.matches_strongly(stored) || tag.is_weak && tag.matches_weakly(stored)
}

/// Fields that a 304 never changes, beside those that end at this hop.
///
/// RFC 9111 §3.2 leaves out Content-Length and what the stored bytes depend on: they stay in
/// their coding and range. Set-Cookie is left out against the letter of §3.2: the cookie is for
/// the client whose request was validated, not for all later ones. Age and Cache-Status belong to
/// the message and are never stored.
const UNCHANGED: FieldSet = FieldSet::of(&[
    FieldId::Age,
    FieldId::CacheStatus,
    FieldId::ContentEncoding,
    FieldId::ContentLength,
    FieldId::ContentRange,
    FieldId::SetCookie,
    FieldId::Trailer,
]);

/// The stored fields after a 304: each name in it replaces all stored lines of that name.
///
/// RFC 9111 §3.2. Stored Age and Date go even if the 304 has none: they told of the old message,
/// and would age the response that was just confirmed. (A recipient gives a message without Date
/// one, RFC 9110 §6.6.1, so that the 304 normally brings it.)
pub fn merge_304(stored: &FieldBlock, not_modified: Fields<'_>) -> FieldBlock {
    // Whoever read the 304's head has refused one that names too many.
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

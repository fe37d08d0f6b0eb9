//! The stored variants that a request does not select, but that the origin may name for it.

use forebay_cache::{Lookup, RecordVersion};
use forebay_http::fields::Fields;
use forebay_http::policy::conditional::may_be_named;
use forebay_http::policy::etag::EntityTag;

use super::{LookupQuery, Stale, StoredResponse};
use crate::limits::OTHER_TAGS_MAX;

/// The longest bodies that are compared, in bytes. If two variants with the same tag have longer
/// bodies, their tag is not sent.
const COMPARED_BYTES_MAX: usize = 64 << 10;

/// The longest selector, in bytes, of another variant whose tag is sent. Before the variants are
/// chosen, all selectors up to this length are copied.
const OTHER_SELECTOR_BYTES_MAX: usize = 1 << 10;

/// The most bytes of the heads of other variants whose tags are sent with one request.
const OTHER_HEADS_BYTES_MAX: usize = 64 << 10;

/// A stored variant that answers a request if the origin names its tag.
pub(crate) struct OtherVariant {
    pub(crate) selector: Vec<u8>,
    pub(crate) stale: Stale,
}

/// Returns the variants that the request does not select, most recently stored first. No two of
/// these variants have the same entity tag, and none has the tag of the selected response. If
/// stored responses with different bodies have the same tag, none of them is returned.
pub(super) fn other_variants(
    query: &LookupQuery<'_>,
    request: Fields<'_>,
    selected: Option<&StoredResponse<'_>>,
) -> Vec<OtherVariant> {
    let mut others = Vec::new();
    // If the tags of other variants were sent without the tag of the selected response, the origin
    // could not confirm the selected response.
    if selected.is_some_and(|selected| !has_tag(selected)) {
        return others;
    }
    let Lookup::Base(base) = query.store.inspect(query.key) else { return others };
    let mut selectors = Vec::new();
    base.each_variant(&mut |selector| {
        if selector.len() <= OTHER_SELECTOR_BYTES_MAX {
            selectors.push(selector.to_vec());
        }
    });
    let found = selectors.into_iter().filter_map(|selector| {
        let stored = StoredResponse::new(base.candidate(&selector)?)?;
        Some((selector, stored))
    });
    let found: Vec<_> = found.collect();
    let mut head_bytes_left = OTHER_HEADS_BYTES_MAX;
    for (selector, stored) in found.iter().rev() {
        let Some(tag) = tag_of(stored) else { continue };
        let own = selected.and_then(tag_of);
        let mut listed = others.iter().filter_map(OtherVariant::tag).chain(own);
        // An empty selector belongs to the response that does not vary, which every request
        // selects. A body that is stored in fragments cannot be stored a second time.
        let is_candidate = !selector.is_empty()
            && !listed.any(|listed| listed.matches_weakly(tag))
            && may_be_named(request, &stored.meta, stored.block())
            && stored.is_whole()
            && found.iter().all(|(_, other)| is_named_apart(stored, other));
        if !is_candidate {
            continue;
        }
        let Some(left) = head_bytes_left.checked_sub(stored.found.head().len()) else { continue };
        head_bytes_left = left;
        others.push(OtherVariant { selector: selector.clone(), stale: stored.to_stale() });
        if others.len() == OTHER_TAGS_MAX {
            break;
        }
    }
    others
}

fn tag_of<'a>(stored: &'a StoredResponse<'_>) -> Option<EntityTag<'a>> {
    stored.meta.etag(stored.block())
}

/// Whether two stored responses have different tags, or the same body. Tags are compared weakly,
/// because an origin may weaken the tag of a body when it compresses it.
fn is_named_apart(one: &StoredResponse<'_>, other: &StoredResponse<'_>) -> bool {
    let tags = tag_of(one).zip(tag_of(other));
    if !tags.is_some_and(|(one, other)| one.matches_weakly(other)) {
        return true;
    }
    if !one.is_whole() || !other.is_whole() {
        return false;
    }
    // A response has the same body as itself, however long the body is.
    if std::ptr::eq(one, other) {
        return true;
    }
    let (one, other) = (one.found.whole_body(), other.found.whole_body());
    one.len() <= COMPARED_BYTES_MAX && one == other
}

/// Whether the response has an entity tag, or cannot be validated at all.
fn has_tag(stored: &StoredResponse<'_>) -> bool {
    stored.meta.etag(stored.block()).is_some() || !stored.meta.can_validate()
}

impl OtherVariant {
    /// The version of the stored record.
    pub(crate) fn known(&self) -> RecordVersion {
        self.stale.known
    }

    /// The value of the variant's ETag.
    pub(crate) fn tag_value(&self) -> Option<&[u8]> {
        self.stale.meta.etag_value(self.stale.block())
    }

    /// The variant's entity tag.
    fn tag(&self) -> Option<EntityTag<'_>> {
        self.stale.meta.etag(self.stale.block())
    }
}

//! The stored variants that a request does not select, but that the origin may name for it.

use forebay_cache::{Lookup, RecordVersion};
use forebay_http::fields::Fields;
use forebay_http::policy::conditional::may_be_named;
use forebay_http::policy::etag::EntityTag;

use super::{LookupQuery, Stale, StoredResponse};
use crate::limits::OTHER_TAGS_MAX;

/// A stored variant that answers a request if the origin names its tag.
pub(crate) struct OtherVariant {
    pub(crate) selector: Vec<u8>,
    pub(crate) stale: Stale,
}

/// Returns the variants that the request does not select, most recently stored first. No two of
/// these variants have the same entity tag, and none has the tag of the selected response.
pub(super) fn other_variants(
    query: &LookupQuery<'_>,
    request: Fields<'_>,
    selected: Option<&StoredResponse<'_>>,
) -> Vec<OtherVariant> {
    let mut others = Vec::new();
    // If the tag of the selected response cannot be sent, the origin cannot confirm that response.
    if selected.is_some_and(|selected| !has_tag(selected)) {
        return others;
    }
    let Lookup::Base(base) = query.store.inspect(query.key) else { return others };
    let mut selectors = Vec::new();
    base.each_variant(&mut |selector| selectors.push(selector.to_vec()));
    for selector in selectors.into_iter().rev() {
        // An empty selector belongs to the response that does not vary, which every request
        // selects.
        let found = (!selector.is_empty()).then(|| base.candidate(&selector)).flatten();
        let Some(stored) = found.and_then(StoredResponse::new) else { continue };
        let is_new = |tag: EntityTag<'_>| {
            let own = selected.and_then(|selected| selected.meta.etag(selected.block()));
            let mut listed = others.iter().filter_map(OtherVariant::tag).chain(own);
            !listed.any(|listed| listed.matches_weakly(tag))
        };
        // A body that is stored in fragments cannot be stored a second time.
        let is_candidate = stored.meta.etag(stored.block()).is_some_and(is_new)
            && may_be_named(request, &stored.meta, stored.block())
            && stored.is_whole();
        if is_candidate {
            others.push(OtherVariant { selector, stale: stored.to_stale() });
        }
        if others.len() == OTHER_TAGS_MAX {
            break;
        }
    }
    others
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

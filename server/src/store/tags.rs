//! Under which tags a response is stored.

use std::borrow::Cow;

use forebay_cache::{RecordTags, TagsError};
use forebay_http::fields::Fields;
use forebay_http::policy::tags::tags;

use crate::config::RouteSettings;

/// The tags of a response as rules left it.
///
/// # Errors
/// It has others than can be kept: stored, it would be missed by who purges them.
pub(super) fn record_tags(
    fields: Fields<'_>,
    settings: &RouteSettings,
) -> Result<RecordTags, TagsError> {
    made(&tags(fields, settings.tag_fields.set()))
}

/// What a 304 makes of them; `None` if they stay as they are.
///
/// `merged` has the fields of the 304, and of what is stored those that it does not replace:
/// tags in these were not read if `tag_fields` did not name them yet, and a field that is hidden
/// since then is stored no longer.
///
/// The stored tags stay beside the new ones: a purge by one of them may be on its way to what
/// is stored, whose body is the same.
///
/// # Errors
/// See [`record_tags`].
pub(super) fn renewed_tags(
    stale: &RecordTags,
    merged: Fields<'_>,
    settings: &RouteSettings,
) -> Result<Option<RecordTags>, TagsError> {
    let mut tags = tags(merged, settings.tag_fields.set());
    tags.extend(stale.iter().map(Cow::Borrowed));
    let renewed = made(&tags)?;
    Ok((renewed != *stale).then_some(renewed))
}

fn made(tags: &[Cow<'_, [u8]>]) -> Result<RecordTags, TagsError> {
    RecordTags::new(tags.iter().map(|tag| &**tag))
}

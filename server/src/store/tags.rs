//! The tags of a stored response.

use std::borrow::Cow;

use forebay_cache::{RecordTags, TagsError};
use forebay_http::fields::Fields;
use forebay_http::policy::tags::tags;

use crate::config::RouteSettings;

/// Returns the tags of a response, after header rules have changed the response.
///
/// # Errors
/// The tags are too many or too long for a record. Then the caller must not store the response,
/// because a purge by a missing tag would not remove it.
pub(super) fn record_tags(
    fields: Fields<'_>,
    settings: &RouteSettings,
) -> Result<RecordTags, TagsError> {
    made(&tags(fields, settings.tag_fields.set()))
}

/// Returns the tags of a stored response after a 304; `None` if the tags do not change.
///
/// `merged` has the fields of the 304, and those stored fields that the 304 does not replace. If
/// the setting `tag_fields` has changed, a stored field may contain tags that have not been read
/// before. They must be read now, because a field that clients no longer get is not stored in the
/// new head.
///
/// The earlier tags are kept in addition to the new tags: the body is the same, and a purge by one
/// of the earlier tags may be in progress.
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

//! The tags of a stored response.

use std::borrow::Cow;

use forebay_cache::{RecordTags, TagsError};
use forebay_http::fields::Fields;
use forebay_http::policy::tags::tags;

use crate::config::RouteSettings;

/// The tags of a response as rules left it.
///
/// # Errors
/// The response has tags that a record cannot hold: a purge by such a tag would miss it.
pub(super) fn record_tags(
    fields: Fields<'_>,
    settings: &RouteSettings,
) -> Result<RecordTags, TagsError> {
    made(&tags(fields, settings.tag_fields.set()))
}

/// The tags of a stored response after a 304; `None` if they stay as they are.
///
/// `merged` has the fields of the 304, and the stored fields that it does not replace. Tags in the
/// stored fields may not have been read before, if `tag_fields` did not name their field then; a
/// field that has been hidden since is no longer stored.
///
/// The stored tags are kept with the new ones: a purge by one of them may be in progress, and the
/// body is the same.
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

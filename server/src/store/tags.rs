//! Under which tags a response is stored.

use std::borrow::Cow;

use forebay_cache::{RecordTags, TagsError};
use forebay_http::fields::{FieldSet, Fields};
use forebay_http::policy::tags::tags;

use crate::config::RouteSettings;
use crate::lookup::Stale;

/// Tags, and the fields that have brought them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tagged {
    pub(super) tags: RecordTags,
    pub(super) fields: FieldSet,
}

impl Tagged {
    /// Those of a response as rules left it.
    ///
    /// # Errors
    /// It has others than can be kept: stored, it would be missed by who purges them.
    pub(super) fn of(fields: Fields<'_>, settings: &RouteSettings) -> Result<Tagged, TagsError> {
        let read = settings.tag_fields.set();
        Tagged::made(&tags(fields, read), fields.seen().intersection(read))
    }

    /// What a 304 makes of them; `None` if it says nothing about tags.
    ///
    /// The stored tags stay beside the new ones: a purge by one of them may be on its way to what
    /// is stored, whose body is the same.
    ///
    /// # Errors
    /// See [`Tagged::of`].
    pub(super) fn renewed(
        stale: &Stale,
        update: Fields<'_>,
        settings: &RouteSettings,
    ) -> Result<Option<Tagged>, TagsError> {
        let read = settings.tag_fields.set();
        let brought = update.seen().intersection(read);
        if brought == FieldSet::EMPTY {
            return Ok(None);
        }
        let mut tags = tags(update, read);
        tags.extend(stale.tags.iter().map(Cow::Borrowed));
        Tagged::made(&tags, stale.meta.tag_fields().union(brought)).map(Some)
    }

    fn made(tags: &[Cow<'_, [u8]>], fields: FieldSet) -> Result<Tagged, TagsError> {
        Ok(Tagged { tags: RecordTags::new(tags.iter().map(|tag| &**tag))?, fields })
    }
}

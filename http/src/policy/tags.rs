//! Tags: words under which an origin has responses kept, to have them dropped together later.
//!
//! Four fields bring them. Two are words between blanks (`Surrogate-Key`, `xkey`), one is words
//! between commas (`Cache-Tag`), and one is a standard (`Cache-Groups`, RFC 9875). A tag is bytes
//! that are compared as they are, case included, whichever field brought it.

use std::borrow::Cow;

use crate::bytes::trim_space;
use crate::fields::{FieldId, FieldSet, Fields};
use crate::policy::strings::string_list;

/// Fields that tags can be read from.
pub const TAG_FIELDS: [FieldId; 4] =
    [FieldId::SurrogateKey, FieldId::CacheTag, FieldId::Xkey, FieldId::CacheGroups];

/// Those of them that are for caches on the way and no client's affair.
pub const SURROGATE_FIELDS: FieldSet =
    FieldSet::of(&[FieldId::SurrogateKey, FieldId::CacheTag, FieldId::Xkey]);

/// The tags of a response, of those fields that are `read`, in no order and perhaps doubled; none
/// of them is empty. (A request to purge by tags has them in the same fields.)
///
/// RFC 9875 §2: a `Cache-Groups` that is no list of strings counts as absent.
pub fn tags<'a>(fields: Fields<'a>, read: FieldSet) -> Vec<Cow<'a, [u8]>> {
    let mut tags = Vec::new();
    if !fields.seen().intersects(read) {
        return tags;
    }
    let lines = |id: FieldId| fields.all(id).filter(move |_| read.contains(id));
    for line in lines(FieldId::SurrogateKey) {
        tags.extend(words(line, is_blank));
    }
    // Its authors split at commas too, since version 0.16 of varnish-modules.
    for line in lines(FieldId::Xkey) {
        tags.extend(words(line, |byte| is_blank(byte) || byte == b','));
    }
    for line in lines(FieldId::CacheTag) {
        tags.extend(words(line, |byte| byte == b','));
    }
    let groups = string_list(lines(FieldId::CacheGroups)).unwrap_or_default();
    tags.extend(groups.into_iter().filter(|group| !group.is_empty()).map(Cow::Owned));
    tags
}

/// The groups of its origin that a response to an unsafe request drops, for a request that
/// [invalidates](crate::policy::invalidate::invalidates).
///
/// RFC 9875 §3: what is no list of strings counts as absent; what a group drops drops no further
/// groups.
pub fn invalidated_groups(response: Fields<'_>) -> Vec<Vec<u8>> {
    let mut groups = string_list(response.all(FieldId::CacheGroupInvalidation)).unwrap_or_default();
    groups.retain(|group| !group.is_empty());
    groups
}

fn words(line: &[u8], is_between: impl Fn(u8) -> bool) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let words = line.split(move |byte| is_between(*byte)).map(trim_space);
    words.filter(|word| !word.is_empty()).map(Cow::Borrowed)
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

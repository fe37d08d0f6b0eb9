//! Tags: labels that an origin gives to responses, so that these can later be purged or invalidated
//! together.
//!
//! Seven fields carry tags. White space separates the tags in `Surrogate-Key`; white space and
//! commas separate those in `xkey`, and commas those in `Cache-Tag` and in Magento's
//! `X-Magento-Tags`. White space and vertical bars separate those in `Cache-Tags` and
//! `Purge-Cache-Tags`, of modules for Drupal. `Cache-Groups` is a list of strings (RFC 9875). Tags
//! are compared byte by byte, with case, whichever field carries them.

use std::borrow::Cow;

use crate::bytes::trim_space;
use crate::fields::{FieldId, FieldSet, Fields};
use crate::policy::structured::string_list;

/// The fields that can carry tags; the last is the standard one, which clients get too.
pub const TAG_FIELDS: [FieldId; 7] = [
    FieldId::SurrogateKey,
    FieldId::CacheTag,
    FieldId::Xkey,
    FieldId::CacheTags,
    FieldId::PurgeCacheTags,
    FieldId::XMagentoTags,
    FieldId::CacheGroups,
];

/// The tag fields that are meant for caches and are not forwarded to clients.
pub const SURROGATE_FIELDS: FieldSet = match TAG_FIELDS.split_last() {
    Some((FieldId::CacheGroups, others)) => FieldSet::of(others),
    _ => panic!("the standard field is the last of the tag fields"),
};

/// Returns the tags of a response from those tag fields that are in `read`, in no particular order
/// and possibly repeated. No tag is empty. (A request to purge by tags carries its tags in the same
/// fields.)
///
/// RFC 9875 §2: a `Cache-Groups` that is not a list of strings is ignored.
// RFC: 9875-2-1
pub fn tags<'a>(fields: Fields<'a>, read: FieldSet) -> Vec<Cow<'a, [u8]>> {
    let mut tags = Vec::new();
    if !fields.seen().intersects(read) {
        return tags;
    }
    let lines = |id: FieldId| fields.all(id).filter(move |_| read.contains(id));
    for line in lines(FieldId::SurrogateKey) {
        tags.extend(words(line, is_blank));
    }
    // Since version 0.16, varnish-modules splits this field at commas too.
    for line in lines(FieldId::Xkey) {
        tags.extend(words(line, |byte| is_blank(byte) || byte == b','));
    }
    for line in lines(FieldId::CacheTag).chain(lines(FieldId::XMagentoTags)) {
        tags.extend(words(line, |byte| byte == b','));
    }
    for line in lines(FieldId::CacheTags).chain(lines(FieldId::PurgeCacheTags)) {
        tags.extend(words(line, |byte| is_blank(byte) || byte == b'|'));
    }
    let groups = string_list(lines(FieldId::CacheGroups)).unwrap_or_default();
    tags.extend(groups.into_iter().filter(|group| !group.is_empty()).map(Cow::Owned));
    tags
}

/// Returns the groups of the origin that the response to an unsafe request invalidates. The caller
/// has checked that the response [invalidates](crate::policy::invalidate::invalidates).
///
/// RFC 9875 §3: a field that is not a list of strings is ignored; invalidating a group does not
/// invalidate further groups.
// RFC: 9875-3-2
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

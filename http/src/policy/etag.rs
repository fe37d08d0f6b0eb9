//! Entity tags and their comparison (RFC 9110 §8.8.3).

use crate::bytes::trim_space;

/// The beginning of a weak tag.
pub(crate) const WEAK: &[u8] = b"W/";

/// An entity tag, borrowed from a field value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntityTag<'a> {
    /// Whether the tag has the prefix `W/`.
    pub is_weak: bool,
    /// The text between the quotes.
    pub opaque: &'a [u8],
}

impl<'a> EntityTag<'a> {
    /// Parses a value that is exactly one entity tag. A tag without quotes is invalid.
    pub fn parse(value: &'a [u8]) -> Option<EntityTag<'a>> {
        let (tag, rest) = EntityTag::parse_prefix(value)?;
        rest.is_empty().then_some(tag)
    }

    fn parse_prefix(value: &'a [u8]) -> Option<(EntityTag<'a>, &'a [u8])> {
        let (is_weak, quoted) = match value.strip_prefix(WEAK) {
            Some(quoted) => (true, quoted),
            None => (false, value),
        };
        let inner = quoted.strip_prefix(b"\"")?;
        let (opaque, rest) = inner.split_at_checked(memchr::memchr(b'"', inner)?)?;
        // etagc: no control character, space or quote; a backslash does not escape.
        let is_valid = opaque.iter().all(|byte| *byte > b' ' && *byte != 0x7f);
        let tag = EntityTag { is_weak, opaque };
        is_valid.then_some((tag, rest.get(1..)?))
    }

    /// RFC 9110 §8.8.3.2: whether the opaque texts are equal; either tag may be weak.
    // RFC: 9110-13.1.2-1
    pub fn matches_weakly(self, other: EntityTag<'_>) -> bool {
        self.opaque == other.opaque
    }

    /// RFC 9110 §8.8.3.2: whether the opaque texts are equal and neither tag is weak.
    pub fn matches_strongly(self, other: EntityTag<'_>) -> bool {
        !self.is_weak && !other.is_weak && self.opaque == other.opaque
    }
}

/// Whether a value of ETag can be the only member of If-None-Match. A malformed tag, such as a tag
/// without quotes, can be sent too: the origin that made the tag compares it by its own rules. But
/// a value that reads as a list or as `*` would match other responses too.
pub(crate) fn can_validate(value: &[u8]) -> bool {
    let is_single = |byte: &u8| *byte > b' ' && !matches!(byte, 0x7f | b',');
    EntityTag::parse(value).is_some()
        || !value.is_empty() && value != b"*" && value.iter().all(is_single)
}

/// Iterates over the entity tags of a line of If-None-Match, up to the first malformed tag.
pub(crate) fn tags(value: &[u8]) -> impl Iterator<Item = EntityTag<'_>> {
    let mut rest = value;
    std::iter::from_fn(move || {
        // Empty members are allowed (RFC 9110 §5.6.1.2).
        while let Some(after) = trim_space(rest).strip_prefix(b",") {
            rest = after;
        }
        let (tag, after) = EntityTag::parse_prefix(trim_space(rest))?;
        rest = trim_space(after);
        // Two tags must be separated by a comma.
        (rest.is_empty() || rest.starts_with(b",")).then_some(tag)
    })
}

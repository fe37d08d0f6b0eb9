//! Entity tags and how they compare (RFC 9110 §8.8.3).

use crate::bytes::trim_space;

/// An entity tag, lent from a field value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntityTag<'a> {
    /// Written with `W/`.
    pub is_weak: bool,
    /// What stands between the quotes.
    pub opaque: &'a [u8],
}

impl<'a> EntityTag<'a> {
    /// Reads a value that is one entity tag and nothing else. A tag without quotes is none.
    pub fn parse(value: &'a [u8]) -> Option<EntityTag<'a>> {
        let (tag, rest) = EntityTag::parse_prefix(value)?;
        rest.is_empty().then_some(tag)
    }

    fn parse_prefix(value: &'a [u8]) -> Option<(EntityTag<'a>, &'a [u8])> {
        let (is_weak, quoted) = match value.strip_prefix(b"W/") {
            Some(quoted) => (true, quoted),
            None => (false, value),
        };
        let inner = quoted.strip_prefix(b"\"")?;
        let (opaque, rest) = inner.split_at_checked(memchr::memchr(b'"', inner)?)?;
        // etagc: no control character, no space, no quote; a backslash escapes nothing.
        let is_valid = opaque.iter().all(|byte| *byte > b' ' && *byte != 0x7f);
        let tag = EntityTag { is_weak, opaque };
        is_valid.then_some((tag, rest.get(1..)?))
    }

    /// RFC 9110 §8.8.3.2: same opaque text, whether weak or not.
    pub fn matches_weakly(self, other: EntityTag<'_>) -> bool {
        self.opaque == other.opaque
    }

    /// RFC 9110 §8.8.3.2: same opaque text and neither is weak.
    pub fn matches_strongly(self, other: EntityTag<'_>) -> bool {
        !self.is_weak && !other.is_weak && self.opaque == other.opaque
    }
}

/// The entity tags of one line of If-None-Match, up to the first that is malformed.
pub(crate) fn tags(value: &[u8]) -> impl Iterator<Item = EntityTag<'_>> {
    let mut rest = value;
    std::iter::from_fn(move || {
        // Empty members are allowed (RFC 9110 §5.6.1.2).
        while let Some(after) = trim_space(rest).strip_prefix(b",") {
            rest = after;
        }
        let (tag, after) = EntityTag::parse_prefix(trim_space(rest))?;
        rest = trim_space(after);
        // Two tags need a comma between them.
        (rest.is_empty() || rest.starts_with(b",")).then_some(tag)
    })
}

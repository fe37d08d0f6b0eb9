//! Expressions over tags, as bytes: each tag with its length before it, each operator behind what
//! it is about.

use std::fmt;

use super::record::{check, has_tag};
use super::{TERMS_MAX, TagsError};

/// Above any length of a tag.
const NOT: u8 = 253;
const AND: u8 = 254;
const OR: u8 = 255;

/// Which responses are meant, by their tags: `a and not (b or c)`.
///
/// In text, tags are words, or stand in double quotes, within which a backslash precedes a quote
/// or a backslash. `not` binds most, then `and`, then `or`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagExpr {
    bytes: Vec<u8>,
}

/// The bytes of an expression, which are sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Encoded<'a>(&'a [u8]);

/// Where to look for what an expression matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bound<'a> {
    /// It has one of these tags at least.
    Tags(Vec<&'a [u8]>),
    /// It may have none.
    Nothing,
}

/// A piece of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    Tag(&'a [u8]),
    Not,
    And,
    Or,
}

impl TagExpr {
    /// Whatever has one of these tags at least.
    ///
    /// # Errors
    /// There are none, or too many, or one cannot be a tag.
    pub fn any_of<'a>(tags: impl IntoIterator<Item = &'a [u8]>) -> Result<TagExpr, TagsError> {
        let mut bytes = Vec::new();
        for (count, tag) in tags.into_iter().enumerate() {
            check(tag)?;
            if count == TERMS_MAX {
                return Err(TagsError::TooMany { max: TERMS_MAX });
            }
            push(&mut bytes, Piece::Tag(tag));
            if count > 0 {
                push(&mut bytes, Piece::Or);
            }
        }
        if bytes.is_empty() { Err(TagsError::Malformed) } else { Ok(TagExpr { bytes }) }
    }

    /// Of pieces that are known to be sound.
    pub(super) fn of_bytes(bytes: Vec<u8>) -> TagExpr {
        debug_assert!(Encoded::of(&bytes).is_some());
        TagExpr { bytes }
    }

    pub(crate) fn encoded(&self) -> Encoded<'_> {
        Encoded(&self.bytes)
    }
}

/// Appends a piece.
pub(super) fn push(bytes: &mut Vec<u8>, piece: Piece<'_>) {
    match piece {
        Piece::Tag(tag) => {
            bytes.push(tag.len() as u8);
            bytes.extend_from_slice(tag);
        }
        Piece::Not => bytes.push(NOT),
        Piece::And => bytes.push(AND),
        Piece::Or => bytes.push(OR),
    }
}

impl<'a> Encoded<'a> {
    /// Bytes that anybody may have written; `None` if they are no expression.
    pub(crate) fn of(bytes: &'a [u8]) -> Option<Encoded<'a>> {
        let encoded = Encoded(bytes);
        let (mut depth, mut whole_bytes, mut terms) = (0usize, 0, 0);
        for piece in encoded.pieces() {
            whole_bytes += 1;
            match piece {
                Piece::Tag(tag) => {
                    check(tag).ok()?;
                    (depth, whole_bytes, terms) = (depth + 1, whole_bytes + tag.len(), terms + 1);
                }
                Piece::Not => depth = (depth > 0).then_some(depth)?,
                Piece::And | Piece::Or => depth = (depth > 1).then(|| depth - 1)?,
            }
        }
        (depth == 1 && whole_bytes == bytes.len() && terms <= TERMS_MAX).then_some(encoded)
    }

    pub(crate) fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Does a record with these tags match?
    pub(crate) fn matches(self, tags: &[u8]) -> bool {
        // What is open, the last one lowest: no more than there are terms.
        let mut open = 0u64;
        for piece in self.pieces() {
            match piece {
                Piece::Tag(tag) => open = open << 1 | u64::from(has_tag(tags, tag)),
                Piece::Not => open ^= 1,
                Piece::And => open = open >> 1 & (open | !1),
                Piece::Or => open = open >> 1 | open & 1,
            }
        }
        open & 1 == 1
    }

    /// Where to look for what matches.
    pub(crate) fn bound(self) -> Bound<'a> {
        let mut open: Vec<Bound<'a>> = Vec::new();
        for piece in self.pieces() {
            let bound = match piece {
                Piece::Tag(tag) => Bound::Tags(vec![tag]),
                Piece::Not => {
                    open.pop();
                    Bound::Nothing
                }
                Piece::And => joined(&mut open, Bound::narrower),
                Piece::Or => joined(&mut open, Bound::either),
            };
            open.push(bound);
        }
        open.pop().unwrap_or(Bound::Nothing)
    }

    pub(super) fn pieces(self) -> impl Iterator<Item = Piece<'a>> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let (first, behind) = rest.split_first()?;
            rest = behind;
            Some(match *first {
                NOT => Piece::Not,
                AND => Piece::And,
                OR => Piece::Or,
                length => {
                    let (tag, behind) = rest.split_at_checked(usize::from(length))?;
                    rest = behind;
                    Piece::Tag(tag)
                }
            })
        })
    }
}

/// The last two, as one.
fn joined<'a>(
    open: &mut Vec<Bound<'a>>,
    join: impl FnOnce(Bound<'a>, Bound<'a>) -> Bound<'a>,
) -> Bound<'a> {
    match (open.pop(), open.pop()) {
        (Some(second), Some(first)) => join(first, second),
        _ => Bound::Nothing,
    }
}

impl<'a> Bound<'a> {
    fn narrower(self, other: Bound<'a>) -> Bound<'a> {
        match (self, other) {
            (Bound::Tags(first), Bound::Tags(second)) if second.len() < first.len() => {
                Bound::Tags(second)
            }
            (Bound::Tags(tags), _) | (_, Bound::Tags(tags)) => Bound::Tags(tags),
            _ => Bound::Nothing,
        }
    }

    fn either(self, other: Bound<'a>) -> Bound<'a> {
        match (self, other) {
            (Bound::Tags(mut first), Bound::Tags(second)) => {
                first.extend(second);
                first.sort_unstable();
                first.dedup();
                Bound::Tags(first)
            }
            _ => Bound::Nothing,
        }
    }
}

impl fmt::Display for TagExpr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut open: Vec<String> = Vec::new();
        for piece in self.encoded().pieces() {
            let text = match piece {
                Piece::Tag(tag) => quoted(tag),
                Piece::Not => format!("not {}", open.pop().unwrap_or_default()),
                Piece::And | Piece::Or => {
                    let word = if piece == Piece::And { "and" } else { "or" };
                    let (second, first) = (open.pop(), open.pop());
                    let (first, second) = (first.unwrap_or_default(), second.unwrap_or_default());
                    format!("({first} {word} {second})")
                }
            };
            open.push(text);
        }
        let text = open.pop().unwrap_or_default();
        let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
        out.write_str(inner.unwrap_or(&text))
    }
}

fn quoted(tag: &[u8]) -> String {
    let escaped = String::from_utf8_lossy(tag).replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{escaped}\"")
}

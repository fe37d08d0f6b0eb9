//! Expressions over tags, as bytes in postfix order. Each tag comes after a byte with its length,
//! and each operator after its operands.

use std::fmt;

use super::record::{check, has_tag};
use super::{TERMS_MAX, TagsError};

/// The byte of `not`. The bytes of operators are larger than the length of any tag.
const NOT: u8 = 253;
const AND: u8 = 254;
const OR: u8 = 255;

/// An expression that selects responses by their tags: `a and not (b or c)`.
///
/// In the text form, a tag is a word, or a string in double quotes, in which a backslash escapes a
/// quote or a backslash. `not` binds strongest, then `and`, then `or`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagExpr {
    bytes: Vec<u8>,
}

/// A valid encoded expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EncodedTagExpr<'a>(&'a [u8]);

/// The records among which an evaluation has to look for matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TagCandidates<'a> {
    /// The records with at least one of these tags: every match has one.
    Tagged(Vec<&'a [u8]>),
    /// All records: a match may have none of the expression's tags.
    All,
}

/// A part of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExprPart<'a> {
    Tag(&'a [u8]),
    Not,
    And,
    Or,
}

impl TagExpr {
    /// Most tags in an expression.
    pub const TAGS_MAX: usize = TERMS_MAX;

    /// Makes an expression that matches responses with at least one of these tags.
    ///
    /// # Errors
    /// There are no tags, there are too many, or one is invalid.
    pub fn any_of<'a>(tags: impl IntoIterator<Item = &'a [u8]>) -> Result<TagExpr, TagsError> {
        let mut bytes = Vec::new();
        for (count, tag) in tags.into_iter().enumerate() {
            check(tag)?;
            if count == TERMS_MAX {
                return Err(TagsError::TooMany { max: TERMS_MAX });
            }
            push(&mut bytes, ExprPart::Tag(tag));
            if count > 0 {
                push(&mut bytes, ExprPart::Or);
            }
        }
        if bytes.is_empty() { Err(TagsError::Malformed) } else { Ok(TagExpr { bytes }) }
    }

    /// Makes an expression from bytes that encode a valid one.
    pub(super) fn of_bytes(bytes: Vec<u8>) -> TagExpr {
        debug_assert!(EncodedTagExpr::of(&bytes).is_some());
        TagExpr { bytes }
    }

    pub(crate) fn encoded(&self) -> EncodedTagExpr<'_> {
        EncodedTagExpr(&self.bytes)
    }
}

/// Appends the encoding of a part.
pub(super) fn push(bytes: &mut Vec<u8>, piece: ExprPart<'_>) {
    match piece {
        ExprPart::Tag(tag) => {
            bytes.push(tag.len() as u8);
            bytes.extend_from_slice(tag);
        }
        ExprPart::Not => bytes.push(NOT),
        ExprPart::And => bytes.push(AND),
        ExprPart::Or => bytes.push(OR),
    }
}

impl<'a> EncodedTagExpr<'a> {
    /// Checks bytes from any source; `None` if they do not encode a valid expression.
    pub(crate) fn of(bytes: &'a [u8]) -> Option<EncodedTagExpr<'a>> {
        let encoded = EncodedTagExpr(bytes);
        let (mut depth, mut whole_bytes, mut terms) = (0usize, 0, 0);
        for piece in encoded.pieces() {
            whole_bytes += 1;
            match piece {
                ExprPart::Tag(tag) => {
                    check(tag).ok()?;
                    (depth, whole_bytes, terms) = (depth + 1, whole_bytes + tag.len(), terms + 1);
                }
                ExprPart::Not => depth = (depth > 0).then_some(depth)?,
                ExprPart::And | ExprPart::Or => depth = (depth > 1).then(|| depth - 1)?,
            }
        }
        (depth == 1 && whole_bytes == bytes.len() && terms <= TERMS_MAX).then_some(encoded)
    }

    pub(crate) fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Whether a record with these tags matches.
    pub(crate) fn matches(self, tags: &[u8]) -> bool {
        // The operand stack as bits, with its top in the lowest bit. It is never deeper than the
        // number of tags.
        let mut open = 0u64;
        for piece in self.pieces() {
            match piece {
                ExprPart::Tag(tag) => open = open << 1 | u64::from(has_tag(tags, tag)),
                ExprPart::Not => open ^= 1,
                ExprPart::And => open = open >> 1 & (open | !1),
                ExprPart::Or => open = open >> 1 | open & 1,
            }
        }
        open & 1 == 1
    }

    /// Returns the records among which matches have to be looked for.
    pub(crate) fn candidates(self) -> TagCandidates<'a> {
        let mut open: Vec<TagCandidates<'a>> = Vec::new();
        for piece in self.pieces() {
            let candidates = match piece {
                ExprPart::Tag(tag) => TagCandidates::Tagged(vec![tag]),
                ExprPart::Not => {
                    open.pop();
                    TagCandidates::All
                }
                ExprPart::And => joined(&mut open, TagCandidates::fewer),
                ExprPart::Or => joined(&mut open, TagCandidates::either),
            };
            open.push(candidates);
        }
        open.pop().unwrap_or(TagCandidates::All)
    }

    pub(super) fn pieces(self) -> impl Iterator<Item = ExprPart<'a>> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let (first, behind) = rest.split_first()?;
            rest = behind;
            Some(match *first {
                NOT => ExprPart::Not,
                AND => ExprPart::And,
                OR => ExprPart::Or,
                length => {
                    let (tag, behind) = rest.split_at_checked(usize::from(length))?;
                    rest = behind;
                    ExprPart::Tag(tag)
                }
            })
        })
    }
}

/// Removes the two topmost operands, and returns their combination.
fn joined<'a>(
    open: &mut Vec<TagCandidates<'a>>,
    join: impl FnOnce(TagCandidates<'a>, TagCandidates<'a>) -> TagCandidates<'a>,
) -> TagCandidates<'a> {
    match (open.pop(), open.pop()) {
        (Some(second), Some(first)) => join(first, second),
        _ => TagCandidates::All,
    }
}

impl<'a> TagCandidates<'a> {
    fn fewer(self, other: TagCandidates<'a>) -> TagCandidates<'a> {
        match (self, other) {
            (TagCandidates::Tagged(first), TagCandidates::Tagged(second))
                if second.len() < first.len() =>
            {
                TagCandidates::Tagged(second)
            }
            (TagCandidates::Tagged(tags), _) | (_, TagCandidates::Tagged(tags)) => {
                TagCandidates::Tagged(tags)
            }
            _ => TagCandidates::All,
        }
    }

    fn either(self, other: TagCandidates<'a>) -> TagCandidates<'a> {
        match (self, other) {
            (TagCandidates::Tagged(mut first), TagCandidates::Tagged(second)) => {
                first.extend(second);
                first.sort_unstable();
                first.dedup();
                TagCandidates::Tagged(first)
            }
            _ => TagCandidates::All,
        }
    }
}

impl fmt::Display for TagExpr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut open: Vec<String> = Vec::new();
        for piece in self.encoded().pieces() {
            let text = match piece {
                ExprPart::Tag(tag) => quoted(tag),
                ExprPart::Not => format!("not {}", open.pop().unwrap_or_default()),
                ExprPart::And | ExprPart::Or => {
                    let word = if piece == ExprPart::And { "and" } else { "or" };
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

//! The predicates of purges, and their encoding in words.

use super::ring::SLOT_WORDS;
use crate::tags::EncodedTagExpr;

const WORD_BYTES: usize = 8;

/// The most bytes that a predicate in a slot can have. One word of the slot holds the number of the
/// purge, and one the predicate's kind and length.
pub(crate) const PREDICATE_BYTES_MAX: usize = (SLOT_WORDS - 2) * WORD_BYTES;

/// A buffer that is large enough for the bytes of any predicate.
pub(super) type PredicateBuffer = [u8; PREDICATE_BYTES_MAX];

/// Selects the records that a purge removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Predicate<'a> {
    /// The resource with this primary key, with all its variants.
    Key(&'a [u8]),
    /// All resources whose primary key starts with this prefix.
    Prefix(&'a [u8]),
    /// The records whose primary key starts with this prefix and whose tags match this expression.
    Tags(&'a [u8], EncodedTagExpr<'a>),
    /// All records. A predicate of a kind that this version does not know is read as `All`.
    All,
}

/// The codes of the kinds of predicates in a slot.
pub(super) mod kind {
    pub(crate) const KEY: u64 = 1;
    pub(crate) const PREFIX: u64 = 2;
    pub(crate) const ALL: u64 = 3;
    /// The bytes are: the length of the prefix (two bytes), the prefix, the expression.
    pub(crate) const TAGS: u64 = 4;
}

/// The kind is in the low half of the word, and the length in the high half.
const LENGTH_SHIFT: u32 = 32;

impl<'a> Predicate<'a> {
    /// Whether the predicate matches a record with these tags: the record of this primary key, or
    /// one of its variants.
    pub(crate) fn matches(&self, primary: &[u8], tags: &[u8]) -> bool {
        match self {
            Predicate::Tags(_, expr) => self.may_match(primary) && expr.matches(tags),
            _ => self.may_match(primary),
        }
    }

    /// Whether the predicate may match a record of this primary key, whatever the record's tags
    /// are.
    pub(crate) fn may_match(&self, primary: &[u8]) -> bool {
        match self {
            Predicate::Key(key) => *key == primary,
            Predicate::Prefix(prefix) | Predicate::Tags(prefix, _) => primary.starts_with(prefix),
            Predicate::All => true,
        }
    }

    /// Returns the predicate if it fits into a slot, else one that fits and matches at least as
    /// much.
    pub(crate) fn fitted(self) -> Predicate<'a> {
        let bytes = match self {
            Predicate::Key(bytes) | Predicate::Prefix(bytes) => bytes,
            Predicate::Tags(within, expr) if !fits(within, expr) => {
                return Predicate::Prefix(within).fitted();
            }
            Predicate::Tags(..) | Predicate::All => return self,
        };
        match bytes.get(..PREDICATE_BYTES_MAX) {
            Some(first) if first.len() < bytes.len() => Predicate::Prefix(first),
            _ => self,
        }
    }

    /// Encodes the predicate as words: kind and length, then the bytes. The predicate must fit into
    /// a slot.
    pub(super) fn encode(self) -> impl Iterator<Item = u64> {
        let (kind, bytes) = match self {
            Predicate::Key(key) => (kind::KEY, key.to_vec()),
            Predicate::Prefix(prefix) => (kind::PREFIX, prefix.to_vec()),
            Predicate::Tags(within, expr) => {
                let length = (within.len() as u16).to_le_bytes();
                (kind::TAGS, [&length[..], within, expr.as_bytes()].concat())
            }
            Predicate::All => (kind::ALL, Vec::new()),
        };
        let first = kind | (bytes.len() as u64) << LENGTH_SHIFT;
        let mut words = vec![first];
        words.extend(bytes.chunks(WORD_BYTES).map(|piece| {
            let mut word = [0; WORD_BYTES];
            word[..piece.len()].copy_from_slice(piece);
            u64::from_le_bytes(word)
        }));
        words.into_iter()
    }

    /// Decodes the words of a slot. Damaged words cause no panic: bytes that cannot be decoded
    /// become [`Predicate::All`].
    pub(super) fn decode(
        mut words: impl Iterator<Item = u64>,
        buffer: &'a mut PredicateBuffer,
    ) -> Predicate<'a> {
        let first = words.next().unwrap_or_default();
        let byte_count = (first >> LENGTH_SHIFT) as usize;
        let Some(bytes) = buffer.get_mut(..byte_count) else {
            return Predicate::All;
        };
        let (whole, rest) = bytes.as_chunks_mut();
        for (piece, word) in whole.iter_mut().zip(&mut words) {
            *piece = word.to_le_bytes();
        }
        let last: [u8; WORD_BYTES] = words.next().unwrap_or_default().to_le_bytes();
        rest.copy_from_slice(&last[..rest.len()]);
        match first & u64::from(u32::MAX) {
            kind::KEY => Predicate::Key(bytes),
            kind::PREFIX => Predicate::Prefix(bytes),
            kind::TAGS => Predicate::decode_tags(bytes).unwrap_or(Predicate::All),
            _ => Predicate::All,
        }
    }

    fn decode_tags(bytes: &'a [u8]) -> Option<Predicate<'a>> {
        let (length, rest) = bytes.split_first_chunk()?;
        let length = usize::from(u16::from_le_bytes(*length));
        let (within, expr) = rest.split_at_checked(length)?;
        Some(Predicate::Tags(within, EncodedTagExpr::of(expr)?))
    }
}

/// Whether a predicate with this prefix and this expression fits into a slot.
fn fits(within: &[u8], expr: EncodedTagExpr<'_>) -> bool {
    size_of::<u16>() + within.len() + expr.as_bytes().len() <= PREDICATE_BYTES_MAX
}

/// A predicate that owns its bytes, as [`PurgeRing::last`](super::PurgeRing::last) returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OwnedPredicate {
    /// See [`Predicate::Key`].
    Key(Box<[u8]>),
    /// See [`Predicate::Prefix`].
    Prefix(Box<[u8]>),
    /// See [`Predicate::Tags`].
    Tags(Box<[u8]>, Box<[u8]>),
    /// See [`Predicate::All`].
    All,
}

impl OwnedPredicate {
    /// Borrows the predicate.
    pub(crate) fn borrowed(&self) -> Predicate<'_> {
        match self {
            OwnedPredicate::Key(key) => Predicate::Key(key),
            OwnedPredicate::Prefix(prefix) => Predicate::Prefix(prefix),
            OwnedPredicate::Tags(within, expr) => match EncodedTagExpr::of(expr) {
                Some(expr) => Predicate::Tags(within, expr),
                None => Predicate::Prefix(within),
            },
            OwnedPredicate::All => Predicate::All,
        }
    }
}

impl From<Predicate<'_>> for OwnedPredicate {
    fn from(predicate: Predicate<'_>) -> OwnedPredicate {
        match predicate {
            Predicate::Key(key) => OwnedPredicate::Key(key.into()),
            Predicate::Prefix(prefix) => OwnedPredicate::Prefix(prefix.into()),
            Predicate::Tags(within, expr) => {
                OwnedPredicate::Tags(within.into(), expr.as_bytes().into())
            }
            Predicate::All => OwnedPredicate::All,
        }
    }
}

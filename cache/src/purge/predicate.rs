//! What a purge is about, and the words that say it.

use super::ring::SLOT_WORDS;

const WORD_BYTES: usize = 8;

/// The longest predicate that a slot holds whole: one word is the purge's number, one is kind and
/// length.
pub(crate) const PREDICATE_BYTES_MAX: usize = (SLOT_WORDS - 2) * WORD_BYTES;

/// Room for the bytes of any predicate.
pub(super) type Buffer = [u8; PREDICATE_BYTES_MAX];

/// What is purged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Predicate<'a> {
    /// The resource with this primary key, all of its variants.
    Key(&'a [u8]),
    /// All whose primary key begins so.
    Prefix(&'a [u8]),
    /// Everything; also what this version does not understand.
    All,
}

/// The numbers of the kinds. 4 is kept for an expression over tags: who finds one takes it for
/// everything.
pub(super) mod kind {
    pub(crate) const KEY: u64 = 1;
    pub(crate) const PREFIX: u64 = 2;
    pub(crate) const ALL: u64 = 3;
}

/// Kind in the low half of a word, length in the high one.
const LENGTH_SHIFT: u32 = 32;

impl<'a> Predicate<'a> {
    /// Does it match what is stored under this primary key?
    pub(crate) fn matches_key(&self, primary: &[u8]) -> bool {
        match self {
            Predicate::Key(key) => *key == primary,
            Predicate::Prefix(prefix) => primary.starts_with(prefix),
            Predicate::All => true,
        }
    }

    /// The predicate that a slot holds in its place: matches all that it matches.
    pub(crate) fn fitted(self) -> Predicate<'a> {
        let (Predicate::Key(bytes) | Predicate::Prefix(bytes)) = self else {
            return self;
        };
        match bytes.get(..PREDICATE_BYTES_MAX) {
            Some(first) if first.len() < bytes.len() => Predicate::Prefix(first),
            _ => self,
        }
    }

    /// As words: kind and length, then the bytes; for one that fits.
    pub(super) fn encode(self) -> impl Iterator<Item = u64> + use<'a> {
        let (kind, bytes) = match self {
            Predicate::Key(key) => (kind::KEY, key),
            Predicate::Prefix(prefix) => (kind::PREFIX, prefix),
            Predicate::All => (kind::ALL, &[][..]),
        };
        let word = |piece: &[u8]| {
            let mut bytes = [0; WORD_BYTES];
            bytes[..piece.len()].copy_from_slice(piece);
            u64::from_le_bytes(bytes)
        };
        let first = kind | (bytes.len() as u64) << LENGTH_SHIFT;
        std::iter::once(first).chain(bytes.chunks(WORD_BYTES).map(word))
    }

    /// From words. Whatever they say, what comes of it matches no less than what was meant.
    pub(super) fn decode(
        mut words: impl Iterator<Item = u64>,
        buffer: &'a mut Buffer,
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
            _ => Predicate::All,
        }
    }
}

/// A predicate with bytes of its own, for who walks in slices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OwnedPredicate {
    /// As [`Predicate::Key`].
    Key(Box<[u8]>),
    /// As [`Predicate::Prefix`].
    Prefix(Box<[u8]>),
    /// As [`Predicate::All`].
    All,
}

impl OwnedPredicate {
    /// The same, borrowed.
    pub(crate) fn borrowed(&self) -> Predicate<'_> {
        match self {
            OwnedPredicate::Key(key) => Predicate::Key(key),
            OwnedPredicate::Prefix(prefix) => Predicate::Prefix(prefix),
            OwnedPredicate::All => Predicate::All,
        }
    }
}

impl From<Predicate<'_>> for OwnedPredicate {
    fn from(predicate: Predicate<'_>) -> OwnedPredicate {
        match predicate {
            Predicate::Key(key) => OwnedPredicate::Key(key.into()),
            Predicate::Prefix(prefix) => OwnedPredicate::Prefix(prefix.into()),
            Predicate::All => OwnedPredicate::All,
        }
    }
}

//! The first word of every object.
//!
//! | bits | meaning |
//! |---|---|
//! | 0–27 | generation |
//! | 28 | in an entry: set if it was used since the eviction hand passed it |
//! | 29–31 | kind |
//! | 32–63 | long entry: bytes of its value; otherwise: bytes of key (14 bits), value (18 bits) |

use super::reference::{GENERATION_BITS, Generation};

const USED: u64 = 1 << GENERATION_BITS;
const KIND_SHIFT: u32 = 29;
const KIND_MASK: u64 = 7;

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    /// Free memory; its other words are left over from the last object.
    Free = 0,
    /// A node whose slots name entries.
    Leaf = 1,
    /// A node whose slots name nodes.
    Inner = 2,
    /// A key with a value that is too long for a short entry.
    LongEntry = 3,
    /// A key between two leaves.
    Separator = 4,
    /// A key with its value; the header has both lengths.
    ShortEntry = 5,
}

impl ObjectKind {
    pub(crate) fn is_entry(self) -> bool {
        matches!(self, ObjectKind::LongEntry | ObjectKind::ShortEntry)
    }
}

/// The first word of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ObjectHeader(u64);

impl ObjectHeader {
    /// Makes a header; `lengths` is its upper half.
    pub(crate) fn new(generation: Generation, kind: ObjectKind, lengths: u32) -> ObjectHeader {
        let kind = (kind as u64) << KIND_SHIFT;
        ObjectHeader(generation.bits() | kind | u64::from(lengths) << 32)
    }

    #[inline]
    pub(crate) fn of_word(word: u64) -> ObjectHeader {
        ObjectHeader(word)
    }

    pub(crate) fn word(self) -> u64 {
        self.0
    }

    #[inline]
    pub(crate) fn generation(self) -> Generation {
        Generation::of(self.0)
    }

    /// The kind of the object; `None` if no kind has this number.
    #[inline]
    pub(crate) fn kind(self) -> Option<ObjectKind> {
        match self.0 >> KIND_SHIFT & KIND_MASK {
            0 => Some(ObjectKind::Free),
            1 => Some(ObjectKind::Leaf),
            2 => Some(ObjectKind::Inner),
            3 => Some(ObjectKind::LongEntry),
            4 => Some(ObjectKind::Separator),
            5 => Some(ObjectKind::ShortEntry),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn lengths(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline]
    pub(crate) fn is_used(self) -> bool {
        self.0 & USED != 0
    }

    pub(crate) fn with_used(self, is_used: bool) -> ObjectHeader {
        ObjectHeader(if is_used { self.0 | USED } else { self.0 & !USED })
    }

    /// The header of the object after it is freed. The lengths stay the same, for readers that hold
    /// a lease.
    pub(crate) fn freed(self) -> ObjectHeader {
        ObjectHeader::new(self.generation().next(), ObjectKind::Free, self.lengths())
    }
}

//! A word of the index: it names the record of a key, in 64 bits.
//!
//! | bits | name | changed by |
//! |---|---|---|
//! | 0–31 | location | mover or replacer of the record |
//! | 32–33 | use | readers |
//! | 34–35 | state | publisher of the word, once |
//! | 36–41 | size class | – |
//! | 42–63 | fingerprint | – |
//!
//! A word of zeros is empty; no other word has the fingerprint zero.

use std::fmt;

const USE_SHIFT: u32 = 32;
const STATE_SHIFT: u32 = 34;
const CLASS_SHIFT: u32 = 36;
pub(super) const FINGERPRINT_SHIFT: u32 = 42;

const USE_MASK: u64 = 0b11 << USE_SHIFT;
const STATE_MASK: u64 = 0b11 << STATE_SHIFT;
const FINGERPRINT_MASK: u64 = !0 << FINGERPRINT_SHIFT;

/// The highest use count of a record.
pub const USE_MAX: u8 = 3;

/// The highest size class.
pub const SIZE_CLASS_MAX: u8 = 63;

/// The state of the record that a word names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum WordState {
    /// Published, but not yet checked against newer purges: lookups miss it.
    Unchecked = 0,
    /// The record is in memory and may be read.
    Live = 1,
    /// The record is on a disk. This layout version neither writes nor reads this state.
    Disk = 2,
    /// Never written.
    Reserved = 3,
}

/// The value of a word when it was loaded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct IndexWord(u64);

impl IndexWord {
    /// A word that names no record.
    pub const EMPTY: IndexWord = IndexWord(0);

    pub(crate) const fn from_bits(bits: u64) -> IndexWord {
        IndexWord(bits)
    }

    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// Makes a word. `fingerprint` has 22 bits and is not zero. A `size_class` above
    /// [`SIZE_CLASS_MAX`] is reduced to that maximum.
    pub(super) fn new(
        fingerprint: u32,
        state: WordState,
        location: u32,
        size_class: u8,
    ) -> IndexWord {
        let class = u64::from(size_class.min(SIZE_CLASS_MAX)) << CLASS_SHIFT;
        let state = (state as u64) << STATE_SHIFT;
        IndexWord(u64::from(fingerprint) << FINGERPRINT_SHIFT | class | state | u64::from(location))
    }

    /// The same word with another state.
    pub(super) const fn with_state(self, state: WordState) -> IndexWord {
        IndexWord(self.0 & !STATE_MASK | (state as u64) << STATE_SHIFT)
    }

    /// The same word with another use count, limited to [`USE_MAX`].
    pub(super) fn with_uses(self, uses: u8) -> IndexWord {
        IndexWord(self.0 & !USE_MASK | u64::from(uses.min(USE_MAX)) << USE_SHIFT)
    }

    /// The same word with another location.
    pub(super) const fn with_location(self, location: u32) -> IndexWord {
        IndexWord(self.0 & !(u32::MAX as u64) | location as u64)
    }

    /// The location of the record, in units of 64 bytes from the start of the data.
    pub const fn location(self) -> u32 {
        self.0 as u32
    }

    /// The number of recent uses of the record, up to [`USE_MAX`].
    pub const fn uses(self) -> u8 {
        ((self.0 & USE_MASK) >> USE_SHIFT) as u8
    }

    /// The state of the record.
    pub const fn state(self) -> WordState {
        match (self.0 & STATE_MASK) >> STATE_SHIFT {
            0 => WordState::Unchecked,
            1 => WordState::Live,
            2 => WordState::Disk,
            _ => WordState::Reserved,
        }
    }

    /// The size class of the record: see [`size_class`].
    pub const fn size_class(self) -> u8 {
        (self.0 >> CLASS_SHIFT) as u8 & SIZE_CLASS_MAX
    }

    /// The fingerprint: 22 bits of the hash of the record's key.
    pub const fn fingerprint(self) -> u32 {
        (self.0 >> FINGERPRINT_SHIFT) as u32
    }

    /// Whether the word is empty and names no record.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the word names a record in memory, of any key.
    pub const fn is_in_memory(self) -> bool {
        !self.is_empty() && self.0 & STATE_MASK <= (WordState::Live as u64) << STATE_SHIFT
    }

    /// Whether the word is live and has this fingerprint, so that a lookup has to compare its
    /// record's key.
    #[inline]
    pub(crate) const fn is_live_of(self, fingerprint: u32) -> bool {
        let wanted =
            (fingerprint as u64) << FINGERPRINT_SHIFT | (WordState::Live as u64) << STATE_SHIFT;
        (self.0 ^ wanted) & (FINGERPRINT_MASK | STATE_MASK) == 0
    }

    /// Whether the word names a record in memory whose key has this fingerprint.
    #[inline]
    pub(super) const fn is_of(self, fingerprint: u32) -> bool {
        self.fingerprint() == fingerprint && self.is_in_memory()
    }

    /// Whether both words are equal, apart from the use count.
    #[inline]
    pub(crate) const fn is_same_record(self, other: IndexWord) -> bool {
        (self.0 ^ other.0) & !USE_MASK == 0
    }
}

impl fmt::Debug for IndexWord {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return out.write_str("IndexWord(empty)");
        }
        out.debug_struct("IndexWord")
            .field("location", &self.location())
            .field("uses", &self.uses())
            .field("state", &self.state())
            .field("size_class", &self.size_class())
            .field("fingerprint", &self.fingerprint())
            .finish()
    }
}

/// The size class of a record: twice the binary logarithm of its bytes, plus one if the size is in
/// the upper half between two powers of two. So the largest record of a class is less than 1.5
/// times as large as the smallest.
pub const fn size_class(record_bytes: u32) -> u8 {
    let Some(log2) = record_bytes.checked_ilog2() else {
        return 0;
    };
    let half = if log2 == 0 { 0 } else { record_bytes >> (log2 - 1) & 1 };
    (2 * log2 + half) as u8
}

/// The smallest record of a size class, in bytes.
pub const fn size_class_bytes_min(class: u8) -> u32 {
    let class = if class > SIZE_CLASS_MAX { SIZE_CLASS_MAX } else { class };
    let whole = 1_u32 << (class / 2);
    if class % 2 == 1 { whole + whole / 2 } else { whole }
}

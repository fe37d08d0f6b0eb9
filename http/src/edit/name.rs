//! Validated names and values.

use std::{
    hash::{BuildHasher, RandomState},
    sync::LazyLock,
};

use crate::{
    bytes::{find_control, is_token, trim_space},
    fields::FieldId,
};

/// Length of the longest accepted name. A line's `name_len`, a `u16`, can represent it.
const NAME_BYTES_MAX: usize = 1_024;

/// A validated field name, with its hash.
#[derive(Clone, Debug)]
pub struct FieldName {
    bytes: Box<[u8]>,
    id: FieldId,
    hash: u32,
}

impl FieldName {
    /// Parses a field name; `None` if it is not a token (RFC 9110 §5.1) or is longer than 1,024
    /// bytes.
    pub fn parse(name: &[u8]) -> Option<FieldName> {
        let fits = name.len() <= NAME_BYTES_MAX && is_token(name);
        fits.then(|| FieldName::seeded(name, HashSeed::default()))
    }

    pub(super) fn seeded(name: &[u8], seed: HashSeed) -> FieldName {
        FieldName { bytes: name.into(), id: FieldId::of(name), hash: seed.hash(name) }
    }

    /// Returns the name as written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The well-known field with this name, or [`FieldId::Other`].
    pub fn id(&self) -> FieldId {
        self.id
    }

    /// The hash of the name. Names that differ only in case have the same hash.
    pub(super) fn hash(&self) -> u32 {
        self.hash
    }
}

impl PartialEq for FieldName {
    fn eq(&self, other: &FieldName) -> bool {
        self.hash == other.hash && self.bytes.eq_ignore_ascii_case(&other.bytes)
    }
}

impl Eq for FieldName {}

/// A validated field value: no control bytes, and no surrounding white space (RFC 9110 §5.5). It
/// can be written into a head without further checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldValue<'a>(&'a [u8]);

impl<'a> FieldValue<'a> {
    /// Trims white space; `None` if the value contains a control byte other than HTAB.
    pub fn parse(value: &'a [u8]) -> Option<FieldValue<'a>> {
        let value = trim_space(value);
        find_control(value, 0).is_none().then_some(FieldValue(value))
    }

    /// Wraps bytes that were validated before.
    pub(super) fn checked(value: &'a [u8]) -> FieldValue<'a> {
        FieldValue(value)
    }

    /// Returns the bytes of the value.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

/// The secret seed of name hashes, the same for all names in this process.
///
/// The seed is secret because clients choose field names, and a head may have thousands of them.
/// With a known seed, a client could choose names whose hashes collide; building and searching the
/// index would then take quadratic time.
#[derive(Clone, Copy, Debug)]
pub(super) struct HashSeed(u64);

static SEED: LazyLock<HashSeed> = LazyLock::new(|| HashSeed(RandomState::new().hash_one(0)));

impl Default for HashSeed {
    /// Returns the seed of this process. Code that hashes many names keeps a copy of the seed.
    fn default() -> HashSeed {
        *SEED
    }
}

impl HashSeed {
    #[cfg(test)]
    pub(super) fn new(seed: u64) -> HashSeed {
        HashSeed(seed)
    }

    /// Hashes a name, ignoring case.
    pub(super) fn hash(self, name: &[u8]) -> u32 {
        let (words, tail) = name.as_chunks::<8>();
        let mut hash = self.0 ^ name.len() as u64;
        for word in words {
            hash = mix(hash.rotate_left(29) ^ lower_case(u64::from_le_bytes(*word)));
        }
        if !tail.is_empty() {
            hash = mix(hash.rotate_left(29) ^ lower_case(tail_word(name, tail)));
        }
        hash as u32
    }
}

/// Multiplies a word and folds both halves of the product, so that every bit of the word affects
/// the low bits, which choose the slot.
fn mix(word: u64) -> u64 {
    let product = u128::from(word) * 0x9e37_79b9_7f4a_7c15;
    product as u64 ^ (product >> 64) as u64
}

/// Converts the letters of eight token bytes to lower case. Two different bytes of a token become
/// equal only if they are the same letter. In particular `^` and `~` stay different, although they
/// differ in the same bit as `Z` and `z`: otherwise a client could build any number of names with
/// one hash, whatever the seed.
fn lower_case(word: u64) -> u64 {
    const EACH: u64 = u64::MAX / 0xff;
    // Bit 5 separates lower from upper case; the five bits below it number the letters from 1 to
    // 26.
    let beyond_z = (word & (EACH * 0x1f)) + EACH * (0x20 - 27);
    word | ((EACH * 0x20) & !beyond_z)
}

/// Returns `tail`, the bytes after the last whole word of `name`, as one word. If the name has at
/// least eight bytes, the word is its last eight bytes, which include bytes before `tail`.
fn tail_word(name: &[u8], tail: &[u8]) -> u64 {
    if let Some(last) = name.last_chunk::<8>() {
        return u64::from_le_bytes(*last);
    }
    match (tail.first_chunk::<4>(), tail.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32
        }
        _ => tail.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

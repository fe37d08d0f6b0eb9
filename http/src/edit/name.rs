//! Names and values that were checked once.

use std::{
    hash::{BuildHasher, RandomState},
    sync::LazyLock,
};

use crate::{
    bytes::{find_control, is_token, trim_space},
    fields::FieldId,
};

/// Longest name: what every peer takes, and a line's place can say.
const NAME_BYTES_MAX: usize = 1_024;

/// A field name that was checked once, with what finding it needs.
#[derive(Clone, Debug)]
pub struct FieldName {
    bytes: Box<[u8]>,
    id: FieldId,
    hash: u32,
}

impl FieldName {
    /// `None` if it is no token (RFC 9110 §5.1), or longer than 1,024 bytes.
    pub fn parse(name: &[u8]) -> Option<FieldName> {
        let fits = name.len() <= NAME_BYTES_MAX && is_token(name);
        fits.then(|| FieldName::seeded(name, HashSeed::default()))
    }

    pub(super) fn seeded(name: &[u8], seed: HashSeed) -> FieldName {
        FieldName { bytes: name.into(), id: FieldId::of(name), hash: seed.hash(name) }
    }

    /// As it was written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Which well-known field it is.
    pub fn id(&self) -> FieldId {
        self.id
    }

    /// The same for all names that differ in case only.
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

/// A field value that was checked: no control byte is in it, no white space around it (RFC 9110
/// §5.5). What holds one may write it into a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldValue<'a>(&'a [u8]);

impl<'a> FieldValue<'a> {
    /// Cuts white space off both ends; `None` if a control byte other than HTAB is in it.
    pub fn parse(value: &'a [u8]) -> Option<FieldValue<'a>> {
        let value = trim_space(value);
        find_control(value, 0).is_none().then_some(FieldValue(value))
    }

    /// Of bytes that were a value before.
    pub(super) fn checked(value: &'a [u8]) -> FieldValue<'a> {
        FieldValue(value)
    }

    /// Its bytes.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

/// What the hash of a name begins with.
///
/// Clients choose names, and one head may have up to 10,000 of them: names that were made to
/// collide would cost the square of their number, when the index is built as when they are found.
/// So nobody outside knows the seed. It is one for all names of a process, of rules as of messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct HashSeed(u64);

static SEED: LazyLock<HashSeed> = LazyLock::new(|| HashSeed(RandomState::new().hash_one(0)));

impl Default for HashSeed {
    /// The one of this process. Who hashes many names keeps a copy.
    fn default() -> HashSeed {
        *SEED
    }
}

impl HashSeed {
    #[cfg(test)]
    pub(super) fn new(seed: u64) -> HashSeed {
        HashSeed(seed)
    }

    /// Hash of a name in any case.
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

/// Both halves of the product, so that every bit reaches the low ones, which choose the slot.
fn mix(word: u64) -> u64 {
    let product = u128::from(word) * 0x9e37_79b9_7f4a_7c15;
    product as u64 ^ (product >> 64) as u64
}

/// Eight bytes of a token with their letters in lower case. No other two bytes of tokens become
/// one: if `^` and `~` did, which differ as `Z` and `z` do, any number of names with one hash could
/// be made of them, whatever the seed.
fn lower_case(word: u64) -> u64 {
    const EACH: u64 = u64::MAX / 0xff;
    // Bit 5 tells lower from upper case; the five bits below it count the letters from 1 to 26.
    let beyond_z = (word & (EACH * 0x1f)) + EACH * (0x20 - 27);
    word | ((EACH * 0x20) & !beyond_z)
}

/// The last bytes as one word; where the name is long enough, together with some before them.
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

//! Names and values that were checked once.

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
        fits.then(|| FieldName { bytes: name.into(), id: FieldId::of(name), hash: name_hash(name) })
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

/// Hash of a name in any case.
///
/// Setting bit 5 folds a few more bytes together than letters; who compares the names afterwards
/// does not mind. There is no seed: a head has few lines by its limit, so names that were made to
/// collide cost no more than a walk.
pub(super) fn name_hash(name: &[u8]) -> u32 {
    const CASE: u64 = u64::MAX / 0xff * 0x20;
    let (words, tail) = name.as_chunks::<8>();
    let mut hash = name.len() as u64;
    for word in words {
        hash = mix(hash.rotate_left(29) ^ (u64::from_le_bytes(*word) | CASE));
    }
    if !tail.is_empty() {
        hash = mix(hash.rotate_left(29) ^ (tail_word(name, tail) | CASE));
    }
    hash as u32
}

/// Both halves of the product, so that every bit reaches the low ones, which choose the slot.
fn mix(word: u64) -> u64 {
    let product = u128::from(word) * 0x9e37_79b9_7f4a_7c15;
    product as u64 ^ (product >> 64) as u64
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

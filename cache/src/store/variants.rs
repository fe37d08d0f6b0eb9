//! Resources with variants. A base is stored under the primary key, and a record for each variant.
//!
//! ```text
//! primary key ──► base: head = names, body = epoch (8) and the hashes of its variants (16 each)
//! primary key, NUL, epoch, hash of the values ──► variant: head = length of the values (2),
//!                                                          the values, the response's head
//! ```
//!
//! A base that does not replace another base has a new epoch. So a purge has to remove only the
//! base: no lookup finds the variants that the removed base named.

use crate::segment::SEQUENCE_MAX;

const EPOCH_BYTES: usize = 8;
const HASH_BYTES: usize = 16;
const LENGTH_BYTES: usize = 2;

/// The decoded body of a base: its epoch, and the hashes of its variants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BaseBody<'a> {
    pub(crate) epoch: u64,
    /// The hashes of the variants, the oldest first.
    hashes: &'a [[u8; HASH_BYTES]],
}

/// An owned copy of the names of a base's variants, for use after the base is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedVariants {
    primary: Vec<u8>,
    pub(crate) epoch: u64,
    hashes: Vec<[u8; HASH_BYTES]>,
}

impl NamedVariants {
    /// The keys of the variants.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Vec<u8>> {
        self.hashes.iter().map(|hash| {
            let mut key = Vec::new();
            write_key_of(&mut key, &self.primary, self.epoch, hash);
            key
        })
    }
}

impl<'a> BaseBody<'a> {
    /// Decodes the body of a base; `None` if the bytes are not such a body.
    pub(crate) fn decode(body: &'a [u8]) -> Option<BaseBody<'a>> {
        let (epoch, hashes) = body.split_first_chunk()?;
        let (hashes, rest) = hashes.as_chunks();
        rest.is_empty().then_some(BaseBody { epoch: u64::from_le_bytes(*epoch), hashes })
    }

    /// Makes an owned copy. `primary` is the key of the base.
    pub(crate) fn named(&self, primary: &[u8]) -> NamedVariants {
        let (primary, hashes) = (primary.to_vec(), self.hashes.to_vec());
        NamedVariants { primary, epoch: self.epoch, hashes }
    }

    /// The hashes of the base's variants, the oldest first.
    pub(crate) fn hashes(&self) -> &'a [[u8; HASH_BYTES]] {
        self.hashes
    }

    /// Returns the body with one more variant, and the hashes of the oldest variants, which the new
    /// body drops to stay within `variants_max`.
    pub(crate) fn with(
        &self,
        hash: [u8; HASH_BYTES],
        variants_max: usize,
    ) -> (Vec<u8>, &'a [[u8; HASH_BYTES]]) {
        let too_many = (self.hashes.len() + 1).saturating_sub(variants_max.max(1));
        let (oldest, kept) = self.hashes.split_at(too_many);
        let mut body = self.epoch.to_le_bytes().to_vec();
        kept.iter().for_each(|kept| body.extend_from_slice(kept));
        body.extend_from_slice(&hash);
        (body, oldest)
    }
}

/// The body of the first base of an epoch. It names one variant.
pub(crate) fn first_body(epoch: u64, hash: [u8; HASH_BYTES]) -> [u8; EPOCH_BYTES + HASH_BYTES] {
    let mut body = [0; EPOCH_BYTES + HASH_BYTES];
    body[..EPOCH_BYTES].copy_from_slice(&epoch.to_le_bytes());
    body[EPOCH_BYTES..].copy_from_slice(&hash);
    body
}

/// Writes the key of the variant whose values have this hash into `key`.
pub(crate) fn write_key_of(key: &mut Vec<u8>, primary: &[u8], epoch: u64, hash: &[u8; HASH_BYTES]) {
    key.clear();
    key.extend_from_slice(primary);
    key.push(0);
    key.extend_from_slice(&epoch.to_le_bytes());
    key.extend_from_slice(hash);
}

/// The parts of a variant's key: primary key, epoch, hash. `None` for keys of other records.
///
/// A primary key can have a NUL at the position at which a variant's key has one. But then the
/// eight bytes behind it are text, and read as a number they exceed every epoch of a store.
pub(crate) fn split_variant_key(key: &[u8]) -> Option<(&[u8], u64, &[u8; HASH_BYTES])> {
    let (rest, hash) = key.split_last_chunk()?;
    let (rest, epoch) = rest.split_last_chunk()?;
    let epoch = u64::from_le_bytes(*epoch);
    let primary = rest.strip_suffix(&[0])?;
    (epoch != 0 && epoch <= SEQUENCE_MAX).then_some((primary, epoch, hash))
}

/// The bytes that a variant's record has before the response's head; `None` if the values are too
/// long for a record.
pub(crate) fn values_prefix(values: &[u8]) -> Option<Vec<u8>> {
    let length = u16::try_from(values.len()).ok()?;
    let mut prefix = length.to_le_bytes().to_vec();
    prefix.extend_from_slice(values);
    Some(prefix)
}

/// The offset of the response's head in a variant's head; `None` if the variant has other values.
pub(crate) fn head_start(head: &[u8], values: &[u8]) -> Option<usize> {
    let (length, rest) = head.split_first_chunk::<LENGTH_BYTES>()?;
    let found = rest.get(..usize::from(u16::from_le_bytes(*length)))?;
    (found == values).then_some(LENGTH_BYTES + found.len())
}

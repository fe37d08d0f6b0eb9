//! The hash of a key: two buckets and a fingerprint.

use super::records::PinnedLocation;

/// The factor that spreads the bits of the hash to choose the second bucket: 2^64 divided by the
/// golden ratio.
const SECOND_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

const FINGERPRINT_MASK: u64 = (1 << 22) - 1;

/// The hash of a key with the region's seed: 64 well mixed bits.
///
/// All programs that share an index must compute the hash of a key in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash(u64);

impl KeyHash {
    /// Wraps a hash. Attackers choose keys, so they must not be able to predict hashes.
    pub const fn new(hash: u64) -> KeyHash {
        KeyHash(hash)
    }

    /// The hash as a number.
    pub const fn value(self) -> u64 {
        self.0
    }

    /// The indexes of the key's two buckets: they are different, and below `bucket_count`, which is
    /// at least two.
    #[inline]
    pub(crate) fn buckets(self, bucket_count: usize) -> [usize; 2] {
        let first = scale(self.0, bucket_count);
        let second = scale(self.0.wrapping_mul(SECOND_FACTOR), bucket_count);
        if second != first {
            return [first, second];
        }
        [first, if first + 1 == bucket_count { 0 } else { first + 1 }]
    }

    /// The fingerprint: the low 22 bits of the hash, or 1 if these are zero.
    #[inline]
    pub(crate) fn fingerprint(self) -> u32 {
        ((self.0 & FINGERPRINT_MASK) as u32).max(1)
    }
}

/// Maps the high bits of `hash` to a number below `count`.
#[inline]
fn scale(hash: u64, count: usize) -> usize {
    ((u128::from(hash) * count as u128) >> 64) as usize
}

/// A key as the index knows it: its hash, and a comparison with a record.
///
/// `is_at` compares the whole key. The index calls it only under a pin, and may call it several
/// times.
#[derive(Clone, Copy, Debug)]
pub struct IndexKey<F> {
    pub(super) hash: KeyHash,
    is_at: F,
}

impl<F: Fn(PinnedLocation<'_>) -> bool> IndexKey<F> {
    /// The key with this hash; `is_at` returns whether the record at a location has this key.
    pub fn new(hash: KeyHash, is_at: F) -> IndexKey<F> {
        IndexKey { hash, is_at }
    }

    #[inline]
    pub(super) fn is_at(&self, at: PinnedLocation<'_>) -> bool {
        (self.is_at)(at)
    }
}

//! What a key's hash says: two buckets and a fingerprint.

use super::records::PinnedLocation;

/// Spreads the bits of the hash over the second bucket; 2^64 divided by the golden ratio.
const SECOND_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

const FINGERPRINT_MASK: u64 = (1 << 22) - 1;

/// A key's hash with the region's seed, 64 well mixed bits.
///
/// All who share an index make it alike, whatever program they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash(u64);

impl KeyHash {
    /// Of a hash that strangers cannot foresee: keys are theirs.
    pub const fn new(hash: u64) -> KeyHash {
        KeyHash(hash)
    }

    /// The hash itself.
    pub const fn value(self) -> u64 {
        self.0
    }

    /// Two different buckets of `bucket_count`, which is at least two.
    #[inline]
    pub(crate) fn buckets(self, bucket_count: usize) -> [usize; 2] {
        let first = scale(self.0, bucket_count);
        let second = scale(self.0.wrapping_mul(SECOND_FACTOR), bucket_count);
        if second != first {
            return [first, second];
        }
        [first, if first + 1 == bucket_count { 0 } else { first + 1 }]
    }

    /// The low 22 bits, never zero.
    #[inline]
    pub(crate) fn fingerprint(self) -> u32 {
        ((self.0 & FINGERPRINT_MASK) as u32).max(1)
    }
}

/// A number below `count`, by the high bits of `hash`.
#[inline]
fn scale(hash: u64, count: usize) -> usize {
    ((u128::from(hash) * count as u128) >> 64) as usize
}

/// A key as the index knows it: its hash, and whether a record is one of it.
///
/// `is_at` compares the whole key. It is asked under a pin only, and may be asked several times.
#[derive(Clone, Copy, Debug)]
pub struct Key<F> {
    pub(super) hash: KeyHash,
    is_at: F,
}

impl<F: Fn(PinnedLocation<'_>) -> bool> Key<F> {
    /// The key with this hash; `is_at` says whether the record at a place is one of it.
    pub fn new(hash: KeyHash, is_at: F) -> Key<F> {
        Key { hash, is_at }
    }

    #[inline]
    pub(super) fn is_at(&self, at: PinnedLocation<'_>) -> bool {
        (self.is_at)(at)
    }
}

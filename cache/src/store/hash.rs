//! Hashes of keys with the seed of the region. They are the same in all processes that share the
//! region, and unpredictable for clients.

use std::fmt;
use std::hash::BuildHasher;

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;

use crate::index::KeyHash;

/// An arbitrary constant. The secret part of a hash is the seed of the region.
static SHARED_SEED: SharedSeed = SharedSeed::from_u64(0x666f_7265_6261_7901);

/// The hash functions of one region.
#[derive(Clone)]
pub(crate) struct Hasher {
    halves: [SeedableRandomState; 2],
}

impl Hasher {
    pub(crate) fn of_seed(seed: [u8; 16]) -> Hasher {
        let seed = u128::from_le_bytes(seed);
        let halves = [seed as u64, (seed >> 64) as u64];
        Hasher { halves: halves.map(|half| SeedableRandomState::with_seed(half, &SHARED_SEED)) }
    }

    /// The hash of a key.
    #[inline]
    pub(crate) fn key(&self, key: &[u8]) -> KeyHash {
        KeyHash::new(self.halves[0].hash_one(key))
    }

    /// The 16-byte hash of some bytes.
    pub(crate) fn wide(&self, bytes: &[u8]) -> [u8; 16] {
        let halves = self.halves.each_ref().map(|half| half.hash_one(bytes).to_le_bytes());
        let mut wide = [0; 16];
        wide[..8].copy_from_slice(&halves[0]);
        wide[8..].copy_from_slice(&halves[1]);
        wide
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The seed must stay secret.
        f.write_str("Hasher")
    }
}

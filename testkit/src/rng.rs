//! Random numbers for tests.

use std::hash::{BuildHasher, RandomState};

/// A small random generator (splitmix64), so that a run can be repeated from its seed.
pub struct Rng(u64);

impl Rng {
    /// Makes a generator for the test of this name, and prints its seed. The seed is
    /// `FOREBAY_SEED`, or else comes from the hasher's random keys.
    pub fn of(test: &str) -> Rng {
        let given = std::env::var("FOREBAY_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| RandomState::new().hash_one(0) >> 32);
        println!("{test}: FOREBAY_SEED={seed}");
        Rng(seed)
    }

    /// Returns a random number of 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next_u64() % limit as u64) as usize
    }

    /// Returns another generator, for another thread.
    pub fn fork(&mut self) -> Rng {
        Rng(self.next_u64())
    }
}

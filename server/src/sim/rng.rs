//! Pseudo-random numbers from a seed: SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom
//! number generators, 2014).

/// A generator of pseudo-random numbers. A copy of a generator produces the same further numbers.
#[derive(Clone, Debug)]
pub(super) struct Rng(u64);

impl Rng {
    /// Creates a generator whose numbers depend on all of `parts`.
    pub(super) fn of(parts: &[u64]) -> Rng {
        let mut rng = Rng(0);
        for part in parts {
            rng = Rng(rng.next() ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        }
        rng
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`, which must not be 0.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Returns a number from `low` to `high`, inclusive.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Returns true with a probability of `percent`.
    pub(super) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns one of the values, at random.
    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

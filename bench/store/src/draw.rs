//! The keys that are requested, in their order. They are drawn before the clock starts.

/// The distribution of requests over keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    /// All keys are requested equally often.
    Uniform,
    /// The n-th most popular key is requested 1/n times as often as the first (Zipf, exponent 1).
    Zipf,
    /// Only one key is requested.
    OneHot,
}

impl Spread {
    pub(crate) const ALL: [Spread; 3] = [Spread::Uniform, Spread::Zipf, Spread::OneHot];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Spread::Uniform => "uniform",
            Spread::Zipf => "Zipf 1.0",
            Spread::OneHot => "one hot key",
        }
    }

    /// The number of lookups of one thread in one round, which take some tenths of a second.
    pub(crate) fn draws(self) -> usize {
        match self {
            Spread::Uniform | Spread::Zipf => 1 << 20,
            Spread::OneHot => 1 << 23,
        }
    }

    /// Draws the numbers of keys below `key_count`.
    pub(crate) fn draw(self, key_count: usize, draws: usize, seed: u64) -> Vec<u32> {
        let mut random = fastrand::Rng::with_seed(seed);
        let sums = if self == Spread::Zipf { zipf_sums(key_count) } else { Vec::new() };
        (0..draws)
            .map(|_| match self {
                Spread::Uniform => random.usize(..key_count) as u32,
                Spread::OneHot => 0,
                Spread::Zipf => {
                    let at = random.f64() * sums.last().copied().unwrap_or(0.0);
                    let rank = sums.partition_point(|sum| *sum < at);
                    // Neighbouring ranks lie far apart in memory, as in a real cache.
                    (rank.wrapping_mul(7919) % key_count) as u32
                }
            })
            .collect()
    }
}

fn zipf_sums(key_count: usize) -> Vec<f64> {
    let add = |sum: &mut f64, rank: usize| {
        *sum += 1.0 / rank as f64;
        Some(*sum)
    };
    (1..=key_count).scan(0.0, add).collect()
}

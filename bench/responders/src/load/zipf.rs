//! Zipf's law: the probability of rank k is proportional to 1/k.

use fastrand::Rng;

/// Draws ranks from 0 up to a count, with exponent 1.0.
pub(super) struct Zipf {
    /// For each rank, the probability of this rank or a smaller rank.
    cumulative: Vec<f64>,
}

impl Zipf {
    /// Makes the law over `count` ranks, at least one.
    pub(super) fn new(count: u64) -> Self {
        let mut sum = 0.0;
        let mut cumulative: Vec<f64> = (1..=count.max(1))
            .map(|rank| {
                sum += 1.0 / rank as f64;
                sum
            })
            .collect();
        cumulative.iter_mut().for_each(|chance| *chance /= sum);
        Self { cumulative }
    }

    /// Draws a rank; 0 is the most frequent.
    pub(super) fn draw(&self, rng: &mut Rng) -> u64 {
        let chance = rng.f64();
        let rank = self.cumulative.partition_point(|&c| c <= chance);
        // Rounding may leave the last sum a little below 1.
        rank.min(self.cumulative.len() - 1) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_fall_as_one_over_rank() {
        const SEED: u64 = 42;
        const DRAWS: usize = 400_000;
        let (zipf, mut rng) = (Zipf::new(100_000), Rng::with_seed(SEED));
        let mut counts = vec![0_usize; 100_000];
        for _ in 0..DRAWS {
            counts[zipf.draw(&mut rng) as usize] += 1;
        }
        // The harmonic number of 100,000 is 12.09.
        for rank in [1_usize, 2, 10, 100] {
            let (got, want) = (counts[rank - 1] as f64, DRAWS as f64 / 12.09 / rank as f64);
            let tolerance = 5.0 * want.sqrt();
            assert!((got - want).abs() < tolerance, "seed {SEED} rank {rank}: {got}, not {want}");
        }
    }

    #[test]
    fn one_rank_is_always_drawn() {
        assert_eq!(Zipf::new(1).draw(&mut Rng::with_seed(1)), 0);
        assert_eq!(Zipf::new(0).draw(&mut Rng::with_seed(1)), 0);
    }
}

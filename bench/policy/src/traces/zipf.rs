//! Draws by Zipf's law: the key of rank r is requested in proportion to 1 / r^exponent.

use fastrand::Rng;

/// A distribution from which ranks are drawn in constant time by the alias method (Walker 1977): a
/// column is chosen evenly, and then one of its two ranks.
pub(crate) struct Zipf {
    columns: Vec<Column>,
}

#[derive(Clone, Copy)]
struct Column {
    /// The probability of the column's own rank.
    own: f32,
    /// The other rank of the column.
    other: u32,
}

impl Zipf {
    pub(crate) fn new(count: u32, exponent: f64) -> Self {
        let weights: Vec<f64> = (1..=count).map(|rank| f64::from(rank).powf(-exponent)).collect();
        let mean = weights.iter().sum::<f64>() / f64::from(count);
        let mut shares: Vec<f64> = weights.iter().map(|weight| weight / mean).collect();
        let mut columns: Vec<Column> =
            (0..count).map(|rank| Column { own: 1.0, other: rank }).collect();
        let (mut below, mut above): (Vec<u32>, Vec<u32>) =
            (0..count).partition(|rank| shares[*rank as usize] < 1.0);
        while let (Some(low), Some(high)) = (below.pop(), above.pop()) {
            columns[low as usize] = Column { own: shares[low as usize] as f32, other: high };
            shares[high as usize] -= 1.0 - shares[low as usize];
            let group = if shares[high as usize] < 1.0 { &mut below } else { &mut above };
            group.push(high);
        }
        Self { columns }
    }

    /// Draws a rank, counted from 0.
    pub(crate) fn draw(&self, random: &mut Rng) -> u32 {
        let index = random.u32(..self.columns.len() as u32);
        let column = self.columns[index as usize];
        if random.f32() < column.own { index } else { column.other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_come_as_often_as_the_law_says() {
        for exponent in [0.8, 1.0, 1.2] {
            let (zipf, mut random) = (Zipf::new(1000, exponent), Rng::with_seed(1));
            let mut counts = [0_u32; 1000];
            for _ in 0..1_000_000 {
                counts[zipf.draw(&mut random) as usize] += 1;
            }
            let sum: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-exponent)).sum();
            for rank in [1, 2, 10, 100] {
                let expected = 1e6 * f64::from(rank).powf(-exponent) / sum;
                let found = f64::from(counts[rank as usize - 1]);
                let is_near = (found - expected).abs() < 5.0 * expected.sqrt();
                assert!(is_near, "exponent {exponent}, rank {rank}: {found}, not {expected}");
            }
        }
    }
}

//! Exact latencies. They fit into memory, because the longest run has a few million requests.

use super::Report;

/// The nanoseconds of every request of one kind.
#[derive(Default)]
pub(super) struct Latencies(Vec<u64>);

impl Latencies {
    pub(super) fn add(&mut self, ns: u64) {
        self.0.push(ns);
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Writes the percentiles in microseconds as `<prefix>p50_us` and so on.
    pub(super) fn report(&mut self, prefix: &str, report: &mut Report) {
        self.0.sort_unstable();
        for (name, share) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)] {
            report.add(&format!("{prefix}{name}_us"), self.us(share));
        }
        report.add(&format!("{prefix}max_us"), self.us(1.0));
    }

    /// The latency in µs below which `share` of the sorted latencies lie; 0 if there are none.
    fn us(&self, share: f64) -> f64 {
        let rank = (self.0.len() as f64 * share).ceil() as usize;
        self.0.get(rank.saturating_sub(1)).map_or(0.0, |&ns| ns as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let hundred = Latencies((1..=100).map(|n| n * 1000).collect());
        let one = Latencies(vec![7000]);
        for (latencies, share, want) in [
            (&hundred, 0.5, 50.0),
            (&hundred, 0.99, 99.0),
            (&hundred, 0.999, 100.0),
            (&hundred, 1.0, 100.0),
            (&one, 0.5, 7.0),
            (&Latencies::default(), 0.5, 0.0),
        ] {
            assert_eq!(latencies.us(share), want, "share {share} of {}", latencies.count());
        }
    }
}

//! The values of counters.

/// The value of one counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CounterValue {
    /// The value of a counter or a gauge.
    Number(u64),
    /// The value of a histogram.
    Histogram(HistogramValue),
}

/// The number of values in each bucket, and their sum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistogramValue {
    /// The buckets, from the smallest values to the largest.
    pub buckets: Vec<Bucket>,
    /// The sum of all values.
    pub sum: u64,
}

/// The values between two bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The largest value of the bucket; `None` for the last bucket, which takes all larger values.
    pub bound: Option<u64>,
    /// The number of values that are above the bound of the previous bucket and at most `bound`.
    pub count: u64,
}

impl HistogramValue {
    /// The number of values.
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, bucket| sum.wrapping_add(bucket.count))
    }

    /// The mean of all values; `None` if there are no values.
    pub fn mean(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum as f64 / count as f64)
    }

    /// The bucket that contains the given percentile of the values; `None` if there are no values.
    pub fn percentile(&self, percent: u8) -> Option<Bucket> {
        let wanted = u128::from(self.count()) * u128::from(percent.min(100));
        let mut seen: u128 = 0;
        let holds = |bucket: &&Bucket| {
            seen += u128::from(bucket.count);
            bucket.count > 0 && seen * 100 >= wanted
        };
        self.buckets.iter().find(holds).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_bucket_with_the_last_of_so_many_values() {
        let value = |counts: [u64; 4]| HistogramValue {
            buckets: [Some(1), Some(2), Some(4), None]
                .into_iter()
                .zip(counts)
                .map(|(bound, count)| Bucket { bound, count })
                .collect(),
            sum: 10,
        };
        for (counts, percent, expected) in [
            ([0, 0, 0, 0], 50, None),
            ([1, 0, 0, 0], 50, Some(Some(1))),
            ([50, 50, 0, 0], 50, Some(Some(1))),
            ([49, 51, 0, 0], 50, Some(Some(2))),
            ([0, 99, 0, 1], 99, Some(Some(2))),
            ([0, 98, 0, 2], 99, Some(None)),
            ([0, 7, 0, 0], 0, Some(Some(2))),
            ([u64::MAX / 2, 0, 1, 0], 100, Some(Some(4))),
        ] {
            let found = value(counts).percentile(percent).map(|bucket| bucket.bound);
            assert_eq!(found, expected, "{percent} % of {counts:?}");
        }
        assert_eq!(value([0; 4]).mean(), None);
        assert_eq!(value([3, 1, 0, 0]).mean(), Some(2.5));
    }
}

//! The rows of a counter table. A number has one row; a histogram has a row of its own and one for
//! each bar.

use forebay_shm::{Bucket, CounterValue, HistogramValue};

/// A row of a counter table, before it is formatted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CounterRow {
    pub(super) name: String,
    /// If the row is a bar: the value of the row, and the value of the largest bar of its
    /// histogram.
    pub(super) bar: Option<(u64, u64)>,
    pub(super) value: u64,
    /// Change since the previous table; `None` if it is unknown.
    pub(super) change: Option<i64>,
}

/// The rows of a histogram: its own row, and the bars below it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct HistogramRows {
    pub(super) head: CounterRow,
    pub(super) buckets: Vec<CounterRow>,
}

/// Returns the part of a value that has a rate: a number itself, or the number of values in a
/// histogram.
pub(super) fn count(value: &CounterValue) -> u64 {
    match value {
        CounterValue::Number(number) => *number,
        CounterValue::Histogram(histogram) => histogram.count(),
    }
}

/// Returns the change of a value, which is negative if a gauge has fallen.
pub(super) fn change(now: u64, before: u64) -> i64 {
    now.wrapping_sub(before).cast_signed()
}

impl CounterRow {
    pub(super) fn number(name: &str, now: u64, before: Option<u64>) -> CounterRow {
        let change = before.map(|before| change(now, before));
        CounterRow { name: name.to_owned(), bar: None, value: now, change }
    }

    pub(super) fn has_changed(&self) -> bool {
        self.change.is_some_and(|change| change != 0)
    }

    /// Whether the value is zero and has not changed since the previous table.
    pub(super) fn is_nothing(&self) -> bool {
        self.value == 0 && !self.has_changed()
    }
}

impl HistogramRows {
    pub(super) fn new(
        name: &str,
        now: &HistogramValue,
        before: Option<&HistogramValue>,
    ) -> HistogramRows {
        let head = CounterRow::number(
            &format!("{name}{}", summary(now)),
            now.count(),
            before.map(HistogramValue::count),
        );
        let is_there = |bucket: &Bucket| bucket.count > 0;
        let first = now.buckets.iter().position(is_there);
        let last = now.buckets.iter().rposition(is_there);
        let span = first.zip(last).map_or(0..0, |(first, last)| first..last + 1);
        let bucket = |index: usize| {
            let before = before.and_then(|before| before.buckets.get(index));
            let bucket = now.buckets[index];
            CounterRow::number(&label(now, index), bucket.count, before.map(|before| before.count))
        };
        HistogramRows { head, buckets: span.map(bucket).collect() }
    }

    /// Returns at most `bars_max` bars, with their lengths relative to the largest bar. Adjacent
    /// bars are merged if there are more.
    pub(super) fn drawn(&self, bars_max: usize) -> Vec<CounterRow> {
        let together = self.buckets.len().div_ceil(bars_max.max(1)).max(1);
        let mut bars: Vec<CounterRow> = self.buckets.chunks(together).filter_map(merged).collect();
        let largest = bars.iter().map(|row| row.value).max().unwrap_or(0);
        for row in &mut bars {
            row.bar = Some((row.value, largest));
        }
        bars
    }
}

/// Merges adjacent bars into one bar, which has the label of the last bar.
fn merged(rows: &[CounterRow]) -> Option<CounterRow> {
    let value = rows.iter().fold(0, |sum: u64, row| sum.wrapping_add(row.value));
    let change = rows.iter().map(|row| row.change).sum();
    rows.last().map(|last| CounterRow { value, change, ..last.clone() })
}

fn label(histogram: &HistogramValue, index: usize) -> String {
    match histogram.buckets[index].bound {
        Some(bound) => format!("≤ {bound}"),
        None => above(histogram),
    }
}

fn above(histogram: &HistogramValue) -> String {
    let bound = histogram.buckets.iter().rev().find_map(|bucket| bucket.bound);
    format!("> {}", bound.unwrap_or(0))
}

/// Returns the mean and the 99th percentile as text; empty for an empty histogram.
fn summary(histogram: &HistogramValue) -> String {
    let Some((mean, bucket)) = histogram.mean().zip(histogram.percentile(99)) else {
        return String::new();
    };
    let most = bucket.bound.map_or_else(|| above(histogram), |bound| format!("≤ {bound}"));
    let mean = if mean < 10.0 { format!("{mean:.1}") } else { format!("{mean:.0}") };
    format!(": mean {mean}, 99% {most}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(counts: [u64; 6], sum: u64) -> HistogramValue {
        let bounds = [Some(16), Some(32), Some(64), Some(128), Some(256), None];
        let buckets = bounds.into_iter().zip(counts);
        HistogramValue {
            buckets: buckets.map(|(bound, count)| Bucket { bound, count }).collect(),
            sum,
        }
    }

    fn names(rows: &[CounterRow]) -> Vec<(&str, u64)> {
        rows.iter().map(|row| (row.name.as_str(), row.value)).collect()
    }

    #[test]
    fn bars_begin_and_end_with_buckets_that_have_values() {
        for (counts, expected) in [
            ([0; 6], vec![]),
            ([0, 5, 0, 1, 0, 0], vec![("≤ 32", 5), ("≤ 64", 0), ("≤ 128", 1)]),
            ([0, 0, 0, 0, 2, 7], vec![("≤ 256", 2), ("> 256", 7)]),
        ] {
            let bars = HistogramRows::new("turn_us", &histogram(counts, 9), None);
            assert_eq!(names(&bars.drawn(usize::MAX)), expected, "{counts:?}");
        }
    }

    #[test]
    fn bars_without_room_are_merged_and_keep_all_values() {
        let (then, now) = (histogram([1, 1, 1, 1, 1, 0], 0), histogram([1, 2, 4, 8, 1, 0], 0));
        let bars = HistogramRows::new("turn_us", &now, Some(&then));
        for (bars_max, expected) in [
            (5, vec![("≤ 16", 1), ("≤ 32", 2), ("≤ 64", 4), ("≤ 128", 8), ("≤ 256", 1)]),
            (4, vec![("≤ 32", 3), ("≤ 128", 12), ("≤ 256", 1)]),
            (2, vec![("≤ 64", 7), ("≤ 256", 9)]),
            (1, vec![("≤ 256", 16)]),
            (0, vec![("≤ 256", 16)]),
        ] {
            let drawn = bars.drawn(bars_max);
            assert_eq!(names(&drawn), expected, "{bars_max}");
            let largest = drawn.iter().map(|row| row.value).max();
            assert!(drawn.iter().all(|row| row.bar.map(|bar| bar.1) == largest), "{drawn:?}");
            assert_eq!(drawn.iter().map(|row| row.change).sum::<Option<i64>>(), Some(11));
        }
    }

    #[test]
    fn a_histogram_shows_its_mean_and_99th_percentile() {
        for (counts, sum, expected) in [
            ([0; 6], 0, "t"),
            ([3, 0, 0, 0, 0, 0], 7, "t: mean 2.3, 99% ≤ 16"),
            ([0, 199, 0, 0, 0, 1], 6000, "t: mean 30, 99% ≤ 32"),
            ([0, 0, 0, 0, 0, 1], 900, "t: mean 900, 99% > 256"),
        ] {
            assert_eq!(HistogramRows::new("t", &histogram(counts, sum), None).head.name, expected);
        }
    }

    #[test]
    fn a_change_may_be_negative_and_a_row_that_fell_to_zero_is_shown() {
        for (now, before, change, is_nothing) in [
            (5, Some(3), Some(2), false),
            (0, Some(3), Some(-3), false),
            (0, Some(0), Some(0), true),
            (0, None, None, true),
        ] {
            let row = CounterRow::number("a", now, before);
            assert_eq!((row.change, row.is_nothing()), (change, is_nothing), "{row:?}");
        }
    }
}

//! What a counter is called and what it counts.

/// What a number means over time; `B` holds the bounds of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterKind<B = &'static [u64]> {
    /// Only grows while the process lives.
    Counter,
    /// Goes up and down.
    Gauge,
    /// How many values lay in each of some buckets, and their sum. The bounds, which grow, are the
    /// largest values of the buckets; one more bucket takes what is above the last.
    Histogram(B),
}

/// Words that a histogram takes in a slot: one for each bucket, and one for the sum.
pub const fn histogram_words(bound_count: usize) -> usize {
    bound_count + 2
}

impl<B: AsRef<[u64]>> CounterKind<B> {
    /// As monitoring systems call it.
    pub fn name(&self) -> &'static str {
        match self {
            CounterKind::Counter => "counter",
            CounterKind::Gauge => "gauge",
            CounterKind::Histogram(_) => "histogram",
        }
    }

    /// The bounds of a histogram, none of a single number.
    pub fn bounds(&self) -> &[u64] {
        match self {
            CounterKind::Histogram(bounds) => bounds.as_ref(),
            CounterKind::Counter | CounterKind::Gauge => &[],
        }
    }

    /// Words that it takes in a slot.
    pub fn word_count(&self) -> usize {
        match self {
            CounterKind::Histogram(bounds) => histogram_words(bounds.as_ref().len()),
            CounterKind::Counter | CounterKind::Gauge => 1,
        }
    }

    pub(crate) fn encode(&self) -> u8 {
        match self {
            CounterKind::Counter => 0,
            CounterKind::Gauge => 1,
            CounterKind::Histogram(_) => 2,
        }
    }
}

impl CounterKind<Vec<u64>> {
    pub(crate) fn decode(byte: u8, bounds: Vec<u64>) -> Option<Self> {
        match byte {
            0 if bounds.is_empty() => Some(CounterKind::Counter),
            1 if bounds.is_empty() => Some(CounterKind::Gauge),
            2 if bounds_are_valid(&bounds) => Some(CounterKind::Histogram(bounds)),
            _ => None,
        }
    }
}

/// Each bound is larger than the one before.
pub(crate) fn bounds_are_valid(bounds: &[u64]) -> bool {
    (1..=crate::BOUNDS_MAX).contains(&bounds.len())
        && bounds.is_sorted_by(|left, right| left < right)
}

/// One counter: what it is called and what it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterDef<S = &'static str, B = &'static [u64]> {
    /// Lower-case letters, digits and `_`; at most [`NAME_BYTES_MAX`](crate::NAME_BYTES_MAX).
    pub name: S,
    /// What the number means over time.
    pub kind: CounterKind<B>,
    /// One line of text; at most [`HELP_BYTES_MAX`](crate::HELP_BYTES_MAX).
    pub help: S,
}

/// A counter as a reader gets it from a file.
pub type ReadDef = CounterDef<String, Vec<u64>>;

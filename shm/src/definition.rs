//! The definitions of counters.

/// How a number changes over time; `B` holds the bounds of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterKind<B = &'static [u64]> {
    /// A number that only grows while the process lives.
    Counter,
    /// A number that rises and falls.
    Gauge,
    /// The number of values in each bucket, and the sum of all values. The bounds, in ascending
    /// order, are the largest values of the buckets. One more bucket counts all values above the
    /// last bound.
    Histogram(B),
}

/// The number of words of a histogram in a slot: one for each bucket, and one for the sum.
pub const fn histogram_words(bound_count: usize) -> usize {
    bound_count + 2
}

impl<B: AsRef<[u64]>> CounterKind<B> {
    /// The word for this kind in monitoring systems: `counter`, `gauge` or `histogram`.
    pub fn name(&self) -> &'static str {
        match self {
            CounterKind::Counter => "counter",
            CounterKind::Gauge => "gauge",
            CounterKind::Histogram(_) => "histogram",
        }
    }

    /// The bounds of a histogram; empty for a single number.
    pub fn bounds(&self) -> &[u64] {
        match self {
            CounterKind::Histogram(bounds) => bounds.as_ref(),
            CounterKind::Counter | CounterKind::Gauge => &[],
        }
    }

    /// The number of words that a counter of this kind takes in a slot.
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

/// Whether there are 1 to [`BOUNDS_MAX`](crate::BOUNDS_MAX) bounds, each larger than the bound
/// before.
pub(crate) fn bounds_are_valid(bounds: &[u64]) -> bool {
    (1..=crate::BOUNDS_MAX).contains(&bounds.len())
        && bounds.is_sorted_by(|left, right| left < right)
}

/// The definition of one counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterDef<S = &'static str, B = &'static [u64]> {
    /// The name: lower-case letters, digits and `_`, beginning with a letter; at most
    /// [`NAME_BYTES_MAX`](crate::NAME_BYTES_MAX) bytes.
    pub name: S,
    /// How the number changes over time.
    pub kind: CounterKind<B>,
    /// The help text: one line; at most [`HELP_BYTES_MAX`](crate::HELP_BYTES_MAX) bytes.
    pub help: S,
}

/// A counter's definition as read from a file.
pub type ReadDef = CounterDef<String, Vec<u64>>;

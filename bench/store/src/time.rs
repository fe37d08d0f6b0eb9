//! Clocks, and statistics of measured times.

use std::time::Instant;

/// The time that a piece of work took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    pub(crate) wall_ns: f64,
    /// Processor time of this thread alone.
    pub(crate) cpu_ns: f64,
}

impl Spent {
    /// The time of `work`.
    #[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
    pub(crate) fn by(work: impl FnOnce()) -> Spent {
        let (wall, cpu) = (Instant::now(), thread_cpu_ns());
        work();
        Spent { wall_ns: wall.elapsed().as_nanos() as f64, cpu_ns: (thread_cpu_ns() - cpu) as f64 }
    }

    pub(crate) fn longer(self, other: Spent) -> Spent {
        if other.wall_ns > self.wall_ns { other } else { self }
    }
}

fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local timespec.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(result, 0, "the clock of a thread exists");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The median of the values.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// The distance from the lower to the upper quartile, in percent of the median.
pub(crate) fn spread_percent(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let quarter = sorted.len() / 4;
    (sorted[sorted.len() - 1 - quarter] - sorted[quarter]) / median(values) * 100.0
}

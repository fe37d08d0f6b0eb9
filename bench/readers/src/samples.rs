//! The measured cases and their samples.

use std::fmt;

use serde::Serialize;

use crate::completion::Load;
use crate::locks::{LOCKS, Lock};
use crate::revocation;

/// A figure to be measured on one lock.
pub(crate) struct Case {
    pub(crate) lock: &'static str,
    pub(crate) figure: Figure,
    pub(crate) measure: Box<dyn Fn() -> f64>,
}

/// The kind of figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "figure", rename_all = "snake_case")]
pub(crate) enum Figure {
    /// The nanoseconds until all threads are done.
    CompletionNs { threads: usize, write_percent: f64 },
    /// The nanoseconds of a read while no other thread uses the lock.
    ReadNs,
    /// The nanoseconds of a write while no other thread uses the lock.
    WriteNs,
    /// The percentage of a writer's time that revocations take, if the bias stays off
    /// `inhibit_factor` times as long as each revocation took.
    LostPercent { inhibit_factor: u32 },
}

impl Figure {
    /// The share of writes, for figures of several threads.
    pub(crate) fn write_percent(&self) -> Option<f64> {
        match self {
            Figure::CompletionNs { write_percent, .. } => Some(*write_percent),
            _ => None,
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Figure::CompletionNs { threads: 1, .. } => out.write_str("1 thread"),
            Figure::CompletionNs { threads, .. } => write!(out, "{threads} threads"),
            Figure::ReadNs => out.write_str("read"),
            Figure::WriteNs => out.write_str("write"),
            Figure::LostPercent { inhibit_factor } => {
                let bound = 100.0 / (f64::from(*inhibit_factor) + 1.0);
                write!(out, "N = {inhibit_factor} (at most {bound:.0} %)")
            }
        }
    }
}

/// A case's samples.
#[derive(Serialize)]
pub(crate) struct Samples {
    pub(crate) lock: &'static str,
    #[serde(flatten)]
    pub(crate) figure: Figure,
    pub(crate) samples: Vec<f64>,
}

/// Median and quartiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

/// The shares of writes in percent, each with the number of operations per write.
const WRITES: &[(f64, u32)] = &[(0.0, 0), (0.1, 1000), (1.0, 100), (10.0, 10)];

/// The inhibit factors that are measured and whose bounds are shown.
const FACTORS: &[u32] = &[1, 3, 9, 19];

/// Returns the cases of the locks whose names contain one of `words`, or of all locks if there are
/// no words.
pub(crate) fn cases(words: &[String], operations: u32, threads_max: usize) -> Vec<Case> {
    let is_asked = |name: &str| {
        let name = name.to_lowercase();
        words.is_empty() || words.iter().any(|word| name.contains(&word.to_lowercase()))
    };
    let mut cases = Vec::new();
    for lock in LOCKS.iter().filter(|lock| is_asked(lock.name)) {
        cases.extend(alone(lock));
        cases.extend(together(lock, operations, threads_max));
    }
    for (lock, measure) in revocation::FORMS.iter().filter(|(lock, _)| is_asked(lock)) {
        cases.extend(FACTORS.iter().map(|&inhibit_factor| {
            let figure = Figure::LostPercent { inhibit_factor };
            Case { lock, figure, measure: Box::new(move || measure(inhibit_factor)) }
        }));
    }
    cases
}

fn alone(lock: &'static Lock) -> [Case; 2] {
    [(Figure::ReadNs, lock.read_ns), (Figure::WriteNs, lock.write_ns)]
        .map(|(figure, measure)| Case { lock: lock.name, figure, measure: Box::new(measure) })
}

/// Returns the cases for each share of writes on 1, 2, 4, ... threads, up to `threads_max`.
fn together(lock: &'static Lock, operations: u32, threads_max: usize) -> Vec<Case> {
    let mut cases = Vec::new();
    for &(write_percent, write_interval) in WRITES {
        let threads = std::iter::successors(Some(1), |threads| Some(threads * 2));
        for threads in threads.take_while(|threads| *threads <= threads_max) {
            let figure = Figure::CompletionNs { threads, write_percent };
            let load = Load { threads, operations, write_interval };
            let measure = Box::new(move || (lock.completion_ns)(load));
            cases.push(Case { lock: lock.name, figure, measure });
        }
    }
    cases
}

impl Spread {
    /// Returns the spread of at least one sample.
    pub(crate) fn of(samples: &[f64]) -> Spread {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |quarters: usize| {
            let place = (sorted.len() - 1) * quarters;
            let (below, above) = (sorted[place / 4], sorted[place.div_ceil(4)]);
            below + (above - below) * [0.0, 0.25, 0.5, 0.75][place % 4]
        };
        Spread { low: at(1), median: at(2), high: at(3) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_samples() {
        for (samples, low, median, high) in [
            (&[7.0][..], 7.0, 7.0, 7.0),
            (&[2.0, 1.0], 1.25, 1.5, 1.75),
            (&[5.0, 1.0, 3.0, 2.0, 4.0], 2.0, 3.0, 4.0),
            (&[0.0, 10.0, 20.0, 30.0], 7.5, 15.0, 22.5),
        ] {
            assert_eq!(Spread::of(samples), Spread { low, median, high }, "{samples:?}");
        }
    }

    #[test]
    fn a_word_picks_locks() {
        let names = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            let mut names: Vec<_> = cases(&words, 1, 1).iter().map(|case| case.lock).collect();
            names.dedup();
            names.sort_unstable();
            names.dedup();
            names
        };
        assert_eq!(names(&["bravo"]), ["Bravo", "Bravo, membarrier"]);
        assert_eq!(names(&["Swap", "membarrier"]), ["Bravo, membarrier", "arc-swap"]);
        assert_eq!(names(&[]).len(), LOCKS.len());
        assert!(names(&["nothing"]).is_empty());
    }
}

//! Prints the samples as tables in Markdown: medians, with the quartiles in brackets, and targets.

use std::fmt::Write;

use serde::{Serialize, Serializer};

use crate::child::What;
use crate::data::Data;
use crate::engines::Work;

/// The kind of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    /// Processor time of an operation, with one process.
    Alone(Work),
    /// Processor time of an operation while another process works.
    With(Work, What),
    /// Processor time of an operation of the other process, while this process does the first work.
    Other(Work, What),
    /// Wall time of an overwrite while two processes do nothing but overwrite.
    TwoWriters,
    /// Memory in use for a record, after random inserts.
    UsedBytes,
    /// Memory in use for a record, without the key and the value.
    BesideBytes,
    /// Memory for a record, including free memory that the engine keeps.
    TakenBytes,
    /// Memory growth of the map for each change.
    GrownWithout,
    /// Memory growth of the map for each change while a reader in another process is stopped.
    GrownBehind,
}

/// One measured figure.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Sample {
    #[serde(serialize_with = "named")]
    pub(crate) figure: Figure,
    pub(crate) engine: &'static str,
    pub(crate) value_bytes: usize,
    pub(crate) value: f64,
}

impl Sample {
    pub(crate) fn new(figure: Figure, engine: &'static str, data: &Data, value: f64) -> Sample {
        Sample { figure, engine, value_bytes: data.value_bytes, value }
    }
}

fn named<S: Serializer>(figure: &Figure, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&figure.name())
}

impl Figure {
    fn name(self) -> String {
        let does = |what| match what {
            What::Read => "another process reads",
            What::Write => "another process writes",
            What::Hold => "another process is stopped",
        };
        match self {
            Figure::Alone(work) => format!("{}, ns", name_of(work)),
            Figure::With(work, what) => format!("{} while {}, ns", name_of(work), does(what)),
            Figure::Other(work, What::Write) => {
                format!("overwrite, in another process, beside {}, ns", name_of(work))
            }
            Figure::Other(work, _) => {
                format!("get, copied, in another process, beside {}, ns", name_of(work))
            }
            Figure::TwoWriters => "overwrites by two processes, ns of wall time for each".into(),
            Figure::UsedBytes => "memory in use for a record, bytes".into(),
            Figure::BesideBytes => "memory in use for a record without key and value, bytes".into(),
            Figure::TakenBytes => "memory taken for a record, bytes".into(),
            Figure::GrownWithout => "memory taken for each overwrite, bytes".into(),
            Figure::GrownBehind => {
                "memory taken for each overwrite while a reader is stopped, bytes".into()
            }
        }
    }
}

fn name_of(work: Work) -> &'static str {
    match work {
        Work::Get => "get, copied",
        Work::Hold => "get, read in place",
        Work::Range => "range of 100",
        Work::Scan => "range of 100, copied",
        Work::RangeByKey => "range of 100, advance by key",
        Work::Insert => "insert",
        Work::Remove => "remove",
        Work::InsertBatched => "insert, 1000 in a transaction",
        Work::RemoveBatched => "remove, 1000 in a transaction",
    }
}

/// Returns all tables.
pub(crate) fn markdown(samples: &[Sample], keys: usize) -> String {
    let mut text = String::new();
    for value_bytes in distinct(samples.iter().map(|sample| sample.value_bytes)) {
        let samples = samples.iter().filter(|sample| sample.value_bytes == value_bytes);
        let samples: Vec<&Sample> = samples.collect();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "### {keys} keys of 60 bytes, values of {value_bytes}\n");
        text += &table(&samples);
        text += &wanted(&samples);
    }
    text
}

fn table(samples: &[&Sample]) -> String {
    let engines = distinct(samples.iter().map(|sample| sample.engine));
    let headings: String = engines.iter().map(|engine| format!(" {engine} |")).collect();
    let mut text = format!("| |{headings}\n|---|{}\n", "--:|".repeat(engines.len()));
    for figure in distinct(samples.iter().map(|sample| sample.figure)) {
        let cell = |engine: &&str| match Spread::of(samples, figure, engine) {
            Some(Spread { low, median, high }) if low == high => format!(" {} |", short(median)),
            Some(Spread { low, median, high }) => {
                format!(" **{}** ({}–{}) |", short(median), short(low), short(high))
            }
            None => " |".into(),
        };
        let cells: String = engines.iter().map(cell).collect();
        text += &format!("| {} |{cells}\n", figure.name());
    }
    text + "\n"
}

type Pair = (Figure, &'static str);

/// The targets: for each pair of times, the least quotient of the second time to the first.
const WANTED: [(&str, Pair, Pair, f64); 8] = [
    (
        "get: LMDB's time / ours",
        (Figure::Alone(Work::Get), "LMDB"),
        (Figure::Alone(Work::Get), "ordmap"),
        1.2,
    ),
    (
        "get, hint table: LMDB's time / ours",
        (Figure::Alone(Work::Get), "LMDB"),
        (Figure::Alone(Work::Get), "ordmap, hint table"),
        4.0,
    ),
    (
        "range of 100: LMDB's time / ours",
        (Figure::Alone(Work::Range), "LMDB"),
        (Figure::Alone(Work::Range), "ordmap"),
        0.8,
    ),
    (
        "range of 100: LMDB's time / ours, copied",
        (Figure::Alone(Work::Range), "LMDB"),
        (Figure::Alone(Work::Scan), "ordmap"),
        0.8,
    ),
    (
        "range of 100: time of advance by key / of one iterator",
        (Figure::Alone(Work::RangeByKey), "ordmap"),
        (Figure::Alone(Work::Range), "ordmap"),
        4.0,
    ),
    (
        "insert: LMDB's time, 1000 in a transaction / ours",
        (Figure::Alone(Work::InsertBatched), "LMDB"),
        (Figure::Alone(Work::Insert), "ordmap"),
        1.0 / 1.5,
    ),
    (
        "insert: LMDB's time / ours",
        (Figure::Alone(Work::Insert), "LMDB"),
        (Figure::Alone(Work::Insert), "ordmap"),
        2.0,
    ),
    (
        "memory of a record: LMDB's / ours",
        (Figure::UsedBytes, "LMDB"),
        (Figure::UsedBytes, "ordmap"),
        1.0,
    ),
];

fn wanted(samples: &[&Sample]) -> String {
    let mut text = String::from("| quotient | wanted | found |\n|---|--:|--:|\n");
    for (name, one, two, least) in WANTED {
        let median = |(figure, engine)| Spread::of(samples, figure, engine);
        let (Some(one), Some(two)) = (median(one), median(two)) else { continue };
        let found = one.median / two.median;
        let mark = if found >= least { "" } else { " **missed**" };
        text += &format!("| {name} | ≥ {least:.2} | {found:.2}{mark} |\n");
    }
    text + "\n"
}

/// The median and the quartiles of some samples.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    low: f64,
    median: f64,
    high: f64,
}

impl Spread {
    fn of(samples: &[&Sample], figure: Figure, engine: &str) -> Option<Spread> {
        let is_it = |sample: &&&Sample| sample.figure == figure && sample.engine == engine;
        let mut sorted: Vec<f64> =
            samples.iter().filter(is_it).map(|sample| sample.value).collect();
        sorted.sort_by(f64::total_cmp);
        let quarter = sorted.len() / 4;
        let at = |index: usize| sorted.get(index).copied();
        Some(Spread {
            low: at(quarter)?,
            median: at(sorted.len() / 2)?,
            high: at(sorted.len() - 1 - quarter)?,
        })
    }
}

fn short(value: f64) -> String {
    if value.abs() >= 100.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_stand_beside_their_quartiles_and_what_was_wanted() {
        let sample = |work, engine, value| Sample {
            figure: Figure::Alone(work),
            engine,
            value_bytes: 8,
            value,
        };
        let mut samples: Vec<_> =
            [3.0, 1.0, 2.0, 4.0, 5.0].map(|value| sample(Work::Get, "ordmap", value)).into();
        samples.push(sample(Work::Get, "LMDB", 3.3));
        samples.push(sample(Work::Range, "LMDB", 300.0));
        let want = "\
### 10 keys of 60 bytes, values of 8

| | ordmap | LMDB |
|---|--:|--:|
| get, copied, ns | **3.0** (2.0–4.0) | 3.3 |
| range of 100, ns | | 300 |

| quotient | wanted | found |
|---|--:|--:|
| get: LMDB's time / ours | ≥ 1.20 | 1.10 **missed** |

";
        assert_eq!(markdown(&samples, 10), want);
    }
}

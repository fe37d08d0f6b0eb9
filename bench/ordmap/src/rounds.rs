//! The measurements with one process. Each round gives all engines the same work in a new random
//! order, so that a slow phase of the machine affects all of them.

use crate::data::{Asked, Data};
use crate::engines::{Engine, Work};
use crate::report::{Figure, Sample};
use crate::time::cpu_ns;

/// The number of operations of each kind of work in a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amounts {
    pub(crate) gets: usize,
    pub(crate) ranges: usize,
    pub(crate) changes: usize,
}

impl Amounts {
    pub(crate) const FULL: Amounts = Amounts { gets: 300_000, ranges: 10_000, changes: 30_000 };
    pub(crate) const QUICK: Amounts = Amounts { gets: 10_000, ranges: 500, changes: 2000 };

    pub(crate) fn of(self, work: Work) -> usize {
        match work {
            Work::Get | Work::Hold => self.gets,
            Work::Range | Work::Scan | Work::RangeByKey => self.ranges,
            Work::Insert | Work::Remove | Work::InsertBatched | Work::RemoveBatched => self.changes,
        }
    }
}

/// The order of the work in a round. Keys that one work removes, a later work inserts again.
const WORKS: [Work; 9] = [
    Work::Get,
    Work::Hold,
    Work::Range,
    Work::Scan,
    Work::RangeByKey,
    Work::Remove,
    Work::Insert,
    Work::RemoveBatched,
    Work::InsertBatched,
];

pub(crate) fn measure(
    engines: &mut [Box<dyn Engine>],
    data: &Data,
    amounts: Amounts,
    rounds: usize,
    samples: &mut Vec<Sample>,
) {
    compare_all(engines, data);
    let mut random = fastrand::Rng::with_seed(data.seed);
    // The first round warms the caches and is not counted.
    for round in 0..=rounds {
        eprintln!("{} bytes: round {round} of {rounds}", data.value_bytes);
        for work in WORKS {
            let asked = asked_of(work, data, amounts, round);
            let mut order: Vec<usize> = (0..engines.len()).collect();
            random.shuffle(&mut order);
            let mut answers = Vec::new();
            for index in order {
                let engine = &mut engines[index];
                let (ns, answer) = cpu_ns(|| engine.run(work, data, &asked));
                let Some(answer) = answer else { continue };
                answers.push((engine.name(), answer));
                if round > 0 {
                    let ns = ns / asked.len() as f64;
                    samples.push(Sample::new(Figure::Alone(work), engine.name(), data, ns));
                }
            }
            assert!(answers.is_sorted_by(|one, two| one.1 == two.1), "{work:?}: {answers:?}");
        }
    }
}

/// Returns the keys of the work. Changes use distinct keys: the same keys are removed and stored
/// again.
fn asked_of(work: Work, data: &Data, amounts: Amounts, round: usize) -> Vec<Asked> {
    let (count, turn) = (amounts.of(work), round as u64 + 1);
    match work {
        Work::Get | Work::Hold | Work::Range | Work::Scan | Work::RangeByKey => {
            data.draw(count, turn)
        }
        Work::Remove | Work::Insert => data.pick(count, turn << 32),
        Work::RemoveBatched | Work::InsertBatched => data.pick(count, turn << 33),
    }
}

/// Asserts that all engines hold the same entries.
pub(crate) fn compare_all(engines: &mut [Box<dyn Engine>], data: &Data) {
    let all = data.all();
    let every_100th: Vec<Asked> = all.iter().copied().step_by(100).collect();
    let gets: &[Work] = &[Work::Get, Work::Hold];
    let ranges: &[Work] = &[Work::Range, Work::Scan, Work::RangeByKey];
    for (works, asked) in [(gets, &all), (ranges, &every_100th)] {
        let mut answers = Vec::new();
        for engine in engines.iter_mut() {
            answers.extend(works.iter().filter_map(|work| engine.run(*work, data, asked)));
        }
        assert!(answers.is_sorted_by(|one, two| one == two), "{works:?}: {answers:?}");
    }
    let number = |asked: &Asked| u64::from(asked.number) + 1;
    let expected = all.iter().map(number).sum::<u64>();
    assert_eq!(engines[0].run(Work::Get, data, &all), Some(expected));
}

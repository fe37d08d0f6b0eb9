//! Lookups that hit: nanoseconds of one thread, and how much two threads do together.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;

use crate::caches::{Cache, Forebay, Hashbrown, Moka, Papaya, QuickCache, TinyUfo};
use crate::draw::Spread;
use crate::time::{Spent, median};

/// Lookups of one thread in one round.
const DRAWS: usize = 1 << 20;

/// What is measured of one cache and one spread.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) cache: &'static str,
    pub(crate) spread: Spread,
    /// Nanoseconds of processor time a lookup, on one thread: each round.
    pub(crate) one_ns: Vec<f64>,
    /// Lookups of two threads together against those of one, by the clock: each round.
    pub(crate) two_times: Vec<f64>,
}

impl Row {
    pub(crate) fn one(&self) -> f64 {
        median(&self.one_ns)
    }

    pub(crate) fn two(&self) -> f64 {
        median(&self.two_times)
    }
}

/// Fills every cache, then measures them in turns.
pub(crate) fn measure(key_count: usize, rounds: usize, spreads: &[Spread]) -> Vec<Row> {
    let keys = keys(key_count);
    let mut rows = Vec::new();
    let bench = Bench { keys: &keys, rounds, spreads };
    // One after another, since all together would not fit into memory at 1,000,000 keys.
    bench.cache::<Forebay>(&mut rows);
    bench.cache::<Papaya>(&mut rows);
    bench.cache::<QuickCache>(&mut rows);
    bench.cache::<TinyUfo>(&mut rows);
    bench.cache::<Moka>(&mut rows);
    bench.cache::<Hashbrown>(&mut rows);
    bench.cache::<Forebay>(&mut rows);
    rows
}

/// Keys of 60 bytes, as URLs are.
pub(crate) fn keys(count: usize) -> Vec<Vec<u8>> {
    let key = |i| format!("main\0http\0org.example.www\0/images/2026/object-{i:014}").into_bytes();
    let keys: Vec<Vec<u8>> = (0..count).map(key).collect();
    assert!(keys.iter().all(|key| key.len() == 60), "{}", keys[0].len());
    keys
}

struct Bench<'a> {
    keys: &'a [Vec<u8>],
    rounds: usize,
    spreads: &'a [Spread],
}

impl Bench<'_> {
    fn cache<C: Cache>(&self, rows: &mut Vec<Row>) {
        eprintln!("filling {}", C::name());
        let cache = C::full(self.keys);
        for spread in self.spreads {
            let draws: Vec<Vec<u32>> =
                (0..2).map(|seed| spread.draw(self.keys.len(), DRAWS, seed)).collect();
            let mut row =
                Row { cache: C::name(), spread: *spread, one_ns: vec![], two_times: vec![] };
            for _ in 0..self.rounds {
                let one = self.run(&cache, &draws[..1]);
                let two = self.run(&cache, &draws);
                row.one_ns.push(one.cpu_ns / DRAWS as f64);
                row.two_times.push(2.0 * one.wall_ns / two.wall_ns);
            }
            eprintln!("  {}: {:.0} ns, {:.2} times", spread.name(), row.one(), row.two());
            rows.push(row);
        }
    }

    /// A thread for each list of draws; the longest time of them.
    fn run<C: Cache>(&self, cache: &C, draws: &[Vec<u32>]) -> Spent {
        let start = &Barrier::new(draws.len());
        thread::scope(|scope| {
            let threads: Vec<_> = draws
                .iter()
                .map(|draws| {
                    scope.spawn(move || {
                        let reader = cache.reader();
                        start.wait();
                        Spent::by(|| {
                            for draw in draws {
                                black_box(C::hit(&reader, &self.keys[*draw as usize]));
                            }
                        })
                    })
                })
                .collect();
            let spent = threads.into_iter().map(|thread| thread.join().expect("no panic"));
            spent.reduce(Spent::longer).expect("a thread at least")
        })
    }
}

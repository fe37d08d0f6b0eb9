//! Measures lookups that hit: the nanoseconds on one thread, and the throughput of two threads.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;

use crate::caches::{Cache, Forebay, Hashbrown, Moka, Papaya, QuickCache, TinyUfo};
use crate::draw::Spread;
use crate::time::{Spent, median};

/// The measurements of one cache with one distribution.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) cache: &'static str,
    pub(crate) spread: Spread,
    /// The nanoseconds of processor time per lookup on one thread, in each round.
    pub(crate) one_ns: Vec<f64>,
    /// The throughput of two threads divided by the throughput of one thread, by wall time, in each
    /// round.
    pub(crate) two_times: Vec<f64>,
}

impl Row {
    fn new(cache: &'static str, spread: Spread) -> Row {
        Row { cache, spread, one_ns: Vec::new(), two_times: Vec::new() }
    }

    pub(crate) fn one(&self) -> f64 {
        median(&self.one_ns)
    }

    pub(crate) fn two(&self) -> f64 {
        median(&self.two_times)
    }
}

/// Fills every cache, then measures them in turn.
pub(crate) fn measure(key_count: usize, rounds: usize, spreads: &[Spread]) -> Vec<Row> {
    let keys = keys(key_count);
    let caches = [
        full::<Forebay>(&keys),
        full::<Papaya>(&keys),
        full::<QuickCache>(&keys),
        full::<TinyUfo>(&keys),
        full::<Moka>(&keys),
        full::<Hashbrown>(&keys),
    ];
    let measure = |spread: &Spread| compare(&caches, &keys, rounds, *spread);
    spreads.iter().flat_map(measure).collect()
}

/// Returns keys of 60 bytes, like URLs.
pub(crate) fn keys(count: usize) -> Vec<Vec<u8>> {
    let key = |i| format!("main\0http\0org.example.www\0/images/2026/object-{i:014}").into_bytes();
    let keys: Vec<Vec<u8>> = (0..count).map(key).collect();
    assert!(keys.iter().all(|key| key.len() == 60), "{}", keys[0].len());
    keys
}

/// A full cache of any type.
trait Full {
    fn name(&self) -> &'static str;
    /// Runs one thread for each list of draws. Returns the longest time.
    fn run(&self, keys: &[Vec<u8>], draws: &[Vec<u32>]) -> Spent;
}

fn full<C: Cache + 'static>(keys: &[Vec<u8>]) -> Box<dyn Full> {
    eprintln!("filling {}", C::name());
    Box::new(Held(C::full(keys)))
}

struct Held<C>(C);

impl<C: Cache> Full for Held<C> {
    fn name(&self) -> &'static str {
        C::name()
    }

    fn run(&self, keys: &[Vec<u8>], draws: &[Vec<u32>]) -> Spent {
        let start = &Barrier::new(draws.len());
        thread::scope(|scope| {
            let look_up = |draws: &[u32]| {
                let reader = self.0.reader();
                start.wait();
                Spent::by(|| {
                    for draw in draws {
                        black_box(C::hit(&reader, &keys[*draw as usize]));
                    }
                })
            };
            let threads: Vec<_> =
                draws.iter().map(|draws| scope.spawn(move || look_up(draws))).collect();
            let spent = threads.into_iter().map(|thread| thread.join().expect("no panic"));
            spent.reduce(Spent::longer).expect("at least one thread")
        })
    }
}

/// Each round measures all caches, so that a slow phase of the machine affects all of them.
fn compare(caches: &[Box<dyn Full>], keys: &[Vec<u8>], rounds: usize, spread: Spread) -> Vec<Row> {
    eprintln!("{}", spread.name());
    let draws: Vec<Vec<u32>> =
        (0..2).map(|seed| spread.draw(keys.len(), spread.draws(), seed)).collect();
    let mut rows: Vec<Row> = Vec::new();
    rows.extend(caches.iter().map(|cache| Row::new(cache.name(), spread)));
    for _ in 0..rounds {
        for (cache, row) in caches.iter().zip(&mut rows) {
            let one = cache.run(keys, &draws[..1]);
            let two = cache.run(keys, &draws);
            row.one_ns.push(one.cpu_ns / draws[0].len() as f64);
            row.two_times.push(2.0 * one.wall_ns / two.wall_ns);
        }
    }
    rows
}

//! Measures the cost and the benefit of keeping keys and tags in order: purging and listing by the
//! beginning of keys and by tags.

use std::sync::atomic::{AtomicBool, Ordering};

use forebay_cache::{
    CollapseResult, JoinTerms, Lookup, RecordTags, RecordTimes, Selection, Store, StoreConfig,
    StoreWorker, TagExpr,
};

use crate::time::{Spent, median};

/// The number of records in a group, which one purge removes.
const GROUP: usize = 10_000;

/// The time of the benchmark, in Unix seconds. No record is stale at this time.
const NOW: u64 = 2;

/// Prints all figures for a store of this many records.
pub(crate) fn print(key_count: usize, rounds: usize) {
    let with_tags = Filled::new(key_count, true);
    let without = Filled::new(key_count, false);
    println!("| {key_count} records with keys of {} bytes | no tags | one tag |", key(0).len());
    println!("|---|--:|--:|");
    for (name, value) in [
        ("storing one, µs", (without.store_us, with_tags.store_us)),
        ("order, bytes a record beside its key", (without.order_bytes(), with_tags.order_bytes())),
    ] {
        println!("| {name} | {:.2} | {:.2} |", value.0, value.1);
    }
    println!("\n| of 10,000 records, µs of processor time | median | longest |\n|---|--:|--:|");
    let mut group = 0;
    let mut next = || {
        group += 1;
        group
    };
    let within = |group: usize| Selection::within(format!("{PREFIX}{group:04}/").as_bytes());
    let by_tag = |group: usize| Selection { within: Vec::new(), tags: Some(tag(group)) };
    row("count by prefix", rounds, || with_tags.weigh(&within(next())));
    row("purge softly by prefix", rounds, || with_tags.purge(&within(next()), true));
    row("purge by prefix, no tags", rounds, || without.purge(&within(next()), false));
    row("purge by prefix, one tag", rounds, || with_tags.purge(&within(next()), false));
    row("purge by tag", rounds, || with_tags.purge(&by_tag(next()), false));
    row("list 100", rounds, || without.list(&within(next()), 100));
    let turn_us = without.longest_turn_us(&within(next()));
    println!("\nLongest turn of a worker that stores while 10,000 are purged: {turn_us:.0} µs");
}

fn row(name: &str, rounds: usize, mut measure: impl FnMut() -> f64) {
    let times: Vec<f64> = (0..rounds).map(|_| measure()).collect();
    let longest = times.iter().copied().fold(0.0, f64::max);
    println!("| {name} | {:.0} | {longest:.0} |", median(&times));
}

const PREFIX: &str = "main\0http\0org.example.www\0/group-";

fn key(number: usize) -> Vec<u8> {
    // The records are not stored in the order of their keys.
    format!("{PREFIX}{:04}/an-object-{:06}.html", number / GROUP, number % GROUP).into_bytes()
}

fn tag(group: usize) -> TagExpr {
    TagExpr::any_of([format!("tag-{group}").as_bytes()]).expect("a tag")
}

struct Filled {
    store: Store,
    worker: StoreWorker,
    store_us: f64,
    key_count: usize,
}

impl Filled {
    fn new(key_count: usize, has_tags: bool) -> Filled {
        let mut config = StoreConfig::with_budget(key_count as u64 * 2048);
        config.record_bytes_expected = 256;
        config.worker_count = 2;
        let store = Store::open(config).expect("the budget suffices");
        let worker = store.join().expect("the first");
        let mut numbers: Vec<usize> = (0..key_count).collect();
        fastrand::Rng::with_seed(7).shuffle(&mut numbers);
        let keys: Vec<_> = numbers.iter().map(|number| (key(*number), number / GROUP)).collect();
        let spent = Spent::by(|| {
            for (key, group) in &keys {
                let tag = format!("tag-{group}");
                let tags = RecordTags::new(has_tags.then_some(tag.as_bytes())).expect("a tag");
                put(&worker, key, tags);
            }
        });
        let store_us = spent.cpu_ns / 1000.0 / key_count as f64;
        Filled { store, worker, store_us, key_count }
    }

    fn order_bytes(&self) -> f64 {
        let stats = self.store.stats();
        assert_eq!(stats.ordered_keys, self.key_count as u64, "a record was not stored");
        stats.order_used_bytes as f64 / self.key_count as f64 - key(0).len() as f64
    }

    fn weigh(&self, selection: &Selection) -> f64 {
        let mut records = 0;
        let spent = Spent::by(|| {
            let weighed = self.worker.weigh_selected(selection, 10, &mut |_| ());
            records = weighed.expect("the order is sound").walked.records;
        });
        assert_eq!(records, GROUP as u64, "a selection has another number of records");
        spent.cpu_ns / 1000.0
    }

    fn purge(&self, selection: &Selection, is_soft: bool) -> f64 {
        let mut records = 0;
        let spent = Spent::by(|| {
            let purged = self.worker.purge_selected(selection, is_soft, &mut |_| ());
            records = purged.expect("refused, although no other purge is in progress").records;
        });
        assert_eq!(records, GROUP as u64, "a selection has another number of records");
        spent.cpu_ns / 1000.0
    }

    fn list(&self, selection: &Selection, limit: usize) -> f64 {
        let mut count = 0;
        let spent = Spent::by(|| {
            let listed = self.worker.list(selection, None, limit, &mut |_| count += 1);
            listed.expect("the order is sound");
        });
        assert_eq!(count, limit, "a list has another number of records");
        spent.cpu_ns / 1000.0
    }

    /// The longest turn of a thread that stores as a server's worker does, while another thread
    /// purges.
    fn longest_turn_us(&self, selection: &Selection) -> f64 {
        let (store, is_over) = (self.store.clone(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let is_over = &is_over;
            let worker = scope.spawn(move || {
                let worker = store.join().expect("the store has a row for a second worker");
                let (mut longest_ns, mut number) = (0.0_f64, 0);
                while !is_over.load(Ordering::Relaxed) {
                    let one_turn = || {
                        let found = worker.lookup(b"main\0http\0org.example.www\0/other");
                        assert!(matches!(found, Lookup::Miss | Lookup::Record(_)));
                        let key = format!("main\0http\0org.example.www\0/other-{number}");
                        put(&worker, key.as_bytes(), RecordTags::none());
                        worker.turn(NOW, |_| ());
                    };
                    longest_ns = longest_ns.max(Spent::by(one_turn).cpu_ns);
                    number += 1;
                }
                longest_ns / 1000.0
            });
            self.purge(selection, false);
            is_over.store(true, Ordering::Relaxed);
            worker.join().expect("the worker does not panic")
        })
    }
}

fn put(worker: &StoreWorker, key: &[u8], tags: RecordTags) {
    let CollapseResult::Leader(leader, _) = worker.collapse(key, None, None, JoinTerms::at(0))
    else {
        panic!("no leader for {key:?}, although it has no other fetch");
    };
    let times = RecordTimes { response_time: 1, stale_from: u64::MAX >> 16 };
    let filling = leader.begin(b"head", None, None, times);
    let mut filling = filling.unwrap_or_else(|_| panic!("the store has no room"));
    filling.tag(tags);
    assert!(filling.finish(), "the store did not store a record");
}

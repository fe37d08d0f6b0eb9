//! The test of `sequence.rs` with several threads: only one thread stores each key, all threads
//! read and purge it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use forebay_cache::{Store, StoreConfig};
use forebay_sync::LineWords;

use crate::operation_count;
use crate::sequence::least_budget_bytes;
use crate::store_common::actor::{Actor, Cast, Variants};
use crate::store_common::ledger::Ledger;
use forebay_testkit::Rng;

/// The steps of each thread on one store.
const STEPS: u64 = 10_000;

#[test]
fn threads_find_the_last_stored_version_or_nothing() {
    let mut random = Rng::of("threads_find_the_last_stored_version_or_nothing");
    let mut played = 0;
    while played < operation_count() {
        let actors = 2 + random.below(3) as u32;
        round(&mut random, actors);
        played += u64::from(actors) * STEPS;
    }
}

fn round(random: &mut Rng, actors: u32) {
    let mut config = StoreConfig::with_budget(0);
    config.worker_count = actors;
    config.record_bytes_expected = [256, 4096][random.below(2)];
    config.variants_max = [2, 64][random.below(2)];
    config.budget_bytes = least_budget_bytes(&config) * (2 + random.below(4) as u64) / 2;
    config.object_bytes_max = config.budget_bytes / 8;
    let body_bytes_max = [2000, 20_000, 100_000][random.below(3)];
    let keys = [4, 60, 3000][random.below(3)];
    let cast = Cast { actors, keys, body_bytes_max, variants: Variants::OfSomeKeys };
    let store = Store::open(config.clone()).expect("a store");
    let words = Arc::new(LineWords::new(Ledger::<LineWords>::words_needed(keys)));
    let (hits, stored, is_failed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let run = |number: u32, random: Rng| {
        let ledger = Ledger::new(Arc::clone(&words), 0);
        let worker = store.join().expect("a place");
        let mut actor = Actor::new(worker, ledger, cast, number, random);
        for step in 0..STEPS {
            if let Err(why) = actor.step() {
                is_failed.store(true, Relaxed);
                panic!("thread {number}, step {step}: {why}, {cast:?}, {config:?}");
            }
            if is_failed.load(Relaxed) {
                break;
            }
        }
        hits.fetch_add(actor.hits, Relaxed);
        stored.fetch_add(actor.stored, Relaxed);
    };
    std::thread::scope(|scope| {
        for number in 0..actors {
            let (random, run) = (random.fork(), &run);
            scope.spawn(move || run(number, random));
        }
    });
    // The counts are loaded, not moved out, since ThreadSanitizer does not follow the end of a
    // scope.
    let (hits, stored) = (hits.load(Relaxed), stored.load(Relaxed));
    assert!(stored > 0 && hits > 0, "{stored} stored, {hits} found: {cast:?}, {config:?}");
    let end = crate::finish::check_end(&store, keys);
    assert_eq!(end, Ok(()), "{cast:?}, {config:?}");
}

//! Cache operations, hits and inserts, of the store and of well-known caches.

use std::cell::{Cell, OnceCell};
use std::hint::black_box;
use std::sync::Arc;

use forebay_cache::{
    CollapseResult, JoinTerms, Lookup, RecordTimes, Store, StoreConfig, StoreWorker,
};
use forebay_conflict::THREADS_MAX;

use crate::workloads::Operation;

const BODY: [u8; 1024] = [b'x'; 1024];
const HEAD: &[u8] = b"content-type: text/plain\r\n";
/// The distance from one used key to the next, without a common factor with the numbers of keys.
const STRIDE: usize = 7919;
const FRESH: RecordTimes = RecordTimes { response_time: 1, stale_from: 1 << 32 };

thread_local! {
    static WORKER: OnceCell<StoreWorker> = const { OnceCell::new() };
    static TURN: Cell<usize> = const { Cell::new(0) };
}

/// Returns the index of the thread's next key. Each thread begins at another key.
fn next(thread: usize, count: usize) -> usize {
    TURN.with(|turn| {
        turn.set(turn.get() + 1);
        (turn.get() + thread).wrapping_mul(STRIDE) % count
    })
}

fn keys(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|i| format!("main\0http\0org.example.www\0/obj/{i}").into_bytes()).collect()
}

fn store() -> Store {
    let mut config = StoreConfig::with_budget(256 << 20);
    config.worker_count = THREADS_MAX as u32;
    Store::open(config).expect("the budget suffices")
}

/// Runs with this thread's worker of the store. The worker leaves when the thread ends.
fn with_worker<T>(store: &Store, run: impl FnOnce(&StoreWorker) -> T) -> T {
    WORKER.with(|worker| run(worker.get_or_init(|| store.join().expect("a row for each thread"))))
}

fn insert(worker: &StoreWorker, key: &[u8]) {
    assert!(is_stored(worker, key), "{} is not stored", key.escape_ascii());
}

fn is_stored(worker: &StoreWorker, key: &[u8]) -> bool {
    let CollapseResult::Leader(leader, _follower) =
        worker.collapse(key, None, None, JoinTerms::at(0))
    else {
        unreachable!("no other thread fetches this key");
    };
    let filling = leader.begin(HEAD, None, Some(BODY.len() as u64), FRESH);
    let mut filling = filling.map_err(|(_, refused)| refused).expect("the store has room");
    filling.append(&BODY).expect("a record that is stored needs no listener");
    filling.finish()
}

/// Looks up a key, pins its body, and releases it.
fn hit(worker: &StoreWorker, key: &[u8]) {
    let Lookup::Record(found) = worker.lookup(key) else {
        unreachable!("all keys are stored");
    };
    let lent = found.pin_body(0..BODY.len() as u32, 0);
    black_box(found.head());
    drop(found);
    assert_eq!(lent.bytes(&worker.send_guard()).map(<[u8]>::len), Ok(BODY.len()));
}

/// Hits in the store. Each key has been used `uses` times before.
pub(crate) fn store_hit(key_count: usize, uses: usize) -> Operation {
    let (store, keys) = (store(), keys(key_count));
    // The store is filled on another thread, so that this thread keeps no worker of the store.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let worker = store.join().expect("the store has a row for its first worker");
            keys.iter().for_each(|key| insert(&worker, key));
            (0..uses).for_each(|_| keys.iter().for_each(|key| hit(&worker, key)));
        });
    });
    Box::new(move |thread| {
        with_worker(&store, |worker| hit(worker, &keys[next(thread, keys.len())]));
    })
}

/// Misses whose responses are stored, each with another key.
pub(crate) fn store_insert() -> Operation {
    let store = store();
    Box::new(move |thread| {
        let turn = TURN.with(|turn| {
            turn.set(turn.get() + 1);
            turn.get()
        });
        let key = format!("main\0http\0org.example.www\0/{thread}/{turn}");
        with_worker(&store, |worker| {
            // There may be many more threads than processors. A thread that is preempted while it
            // holds the lock of the key index can make another thread's insert fail.
            is_stored(worker, key.as_bytes());
            while worker.turn(2, |_| ()) {}
        });
    })
}

type Body = Arc<[u8]>;

fn body() -> Body {
    Arc::from(BODY.as_slice())
}

pub(crate) fn moka_hit(key_count: usize) -> Operation {
    let keys = keys(key_count);
    let cache = moka::sync::Cache::<Vec<u8>, Body>::new(1 << 20);
    keys.iter().for_each(|key| cache.insert(key.clone(), body()));
    Box::new(move |thread| {
        black_box(cache.get(keys[next(thread, keys.len())].as_slice()));
    })
}

pub(crate) fn quick_cache_hit(key_count: usize) -> Operation {
    let keys = keys(key_count);
    let cache = quick_cache::sync::Cache::<Vec<u8>, Body>::new(1 << 20);
    keys.iter().for_each(|key| cache.insert(key.clone(), body()));
    Box::new(move |thread| {
        black_box(cache.get(keys[next(thread, keys.len())].as_slice()));
    })
}

pub(crate) fn tiny_ufo_hit(key_count: usize) -> Operation {
    let keys = keys(key_count);
    let cache = tinyufo::TinyUfo::<Vec<u8>, Body>::new(1 << 20, 1 << 20);
    for key in &keys {
        cache.put(key.clone(), body(), 1);
    }
    Box::new(move |thread| {
        black_box(cache.get(&keys[next(thread, keys.len())]));
    })
}

pub(crate) fn papaya_hit(key_count: usize) -> Operation {
    let keys = keys(key_count);
    let map = papaya::HashMap::<Vec<u8>, Body>::new();
    keys.iter().for_each(|key| _ = map.pin().insert(key.clone(), body()));
    Box::new(move |thread| {
        black_box(map.pin().get(keys[next(thread, keys.len())].as_slice()).is_some());
    })
}

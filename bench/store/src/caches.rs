//! The compared caches, behind common traits.

use std::hint::black_box;
use std::sync::Arc;

use forebay_cache::{
    CollapseResult, JoinTerms, Lookup, RecordTimes, Store, StoreConfig, StoreWorker,
};

/// The body of every record.
pub(crate) const BODY: [u8; 64] = [b'x'; 64];
const HEAD: &[u8] = b"h";
const FRESH: RecordTimes = RecordTimes { response_time: 1, stale_from: 1 << 32 };

/// A cache that holds all keys.
pub(crate) trait Cache: Sync {
    /// Returns a thread's handle for lookups.
    type Reader<'c>
    where
        Self: 'c;

    fn name() -> &'static str;
    fn full(keys: &[Vec<u8>]) -> Self;
    fn reader(&self) -> Self::Reader<'_>;
    /// Looks up `key` and reads the first byte of its value.
    fn hit(reader: &Self::Reader<'_>, key: &[u8]) -> u8;
}

type Body = Arc<[u8]>;

fn body() -> Body {
    Arc::from(BODY.as_slice())
}

pub(crate) struct Forebay(pub(crate) Store);

pub(crate) fn config(key_count: usize) -> StoreConfig {
    let mut config = StoreConfig::with_budget((key_count as u64 * 400).max(64 << 20));
    config.worker_count = 4;
    config.record_bytes_expected = 256;
    config
}

pub(crate) fn put(worker: &StoreWorker, key: &[u8]) {
    let CollapseResult::Leader(leader, _follower) =
        worker.collapse(key, None, None, JoinTerms::at(0))
    else {
        unreachable!("no leader for {key:?}, although it has no other fetch");
    };
    let filling = leader.begin(HEAD, None, Some(BODY.len() as u64), FRESH);
    let mut filling = filling.map_err(|(_, refused)| refused).expect("the store or map has room");
    filling.append(&BODY).expect("a record that is stored needs no listener");
    assert!(filling.finish(), "the store did not store a record");
}

impl Cache for Forebay {
    type Reader<'c> = StoreWorker;

    fn name() -> &'static str {
        "forebay"
    }

    fn full(keys: &[Vec<u8>]) -> Self {
        let store = Store::open(config(keys.len())).expect("the budget suffices");
        let worker = store.join().expect("the store has a row for its first worker");
        keys.iter().for_each(|key| put(&worker, key));
        for _ in 0..3 {
            keys.iter().for_each(|key| _ = Self::hit(&worker, key));
        }
        Forebay(store)
    }

    fn reader(&self) -> StoreWorker {
        self.0.join().expect("the store has a row for each thread")
    }

    fn hit(worker: &StoreWorker, key: &[u8]) -> u8 {
        match worker.lookup(key) {
            Lookup::Record(found) => black_box(found.whole_body())[0],
            _ => unreachable!("all keys are stored"),
        }
    }
}

macro_rules! shared_cache {
    ($type:ident, $name:literal, $inner:ty, $make:expr, $insert:expr, $get:expr) => {
        pub(crate) struct $type($inner);

        impl Cache for $type {
            type Reader<'c> = &'c $inner;

            fn name() -> &'static str {
                $name
            }

            fn full(keys: &[Vec<u8>]) -> Self {
                let cache: $inner = $make(keys.len());
                keys.iter().for_each(|key| $insert(&cache, key));
                $type(cache)
            }

            fn reader(&self) -> &$inner {
                &self.0
            }

            fn hit(cache: &&$inner, key: &[u8]) -> u8 {
                $get(*cache, key)
            }
        }
    };
}

shared_cache!(
    Moka,
    "moka",
    moka::sync::Cache<Vec<u8>, Body>,
    |count| moka::sync::Cache::new(2 * count as u64 + 64),
    |cache: &moka::sync::Cache<Vec<u8>, Body>, key: &Vec<u8>| cache.insert(key.clone(), body()),
    |cache: &moka::sync::Cache<Vec<u8>, Body>, key: &[u8]| cache.get(key).expect("stored")[0]
);

shared_cache!(
    QuickCache,
    "quick_cache",
    quick_cache::sync::Cache<Vec<u8>, Body>,
    |count| quick_cache::sync::Cache::new(2 * count + 64),
    |cache: &quick_cache::sync::Cache<Vec<u8>, Body>, key: &Vec<u8>| {
        cache.insert(key.clone(), body());
    },
    |cache: &quick_cache::sync::Cache<Vec<u8>, Body>, key: &[u8]| {
        cache.get(key).expect("stored")[0]
    }
);

shared_cache!(
    Papaya,
    "papaya",
    papaya::HashMap<Vec<u8>, Body>,
    papaya::HashMap::with_capacity,
    |map: &papaya::HashMap<Vec<u8>, Body>, key: &Vec<u8>| {
        map.pin().insert(key.clone(), body());
    },
    |map: &papaya::HashMap<Vec<u8>, Body>, key: &[u8]| map.pin().get(key).expect("stored")[0]
);

/// TinyUFO. Its keys are `Vec`s, because its interface takes no slices.
pub(crate) struct TinyUfo(tinyufo::TinyUfo<Vec<u8>, Body>);

impl Cache for TinyUfo {
    type Reader<'c> = (&'c tinyufo::TinyUfo<Vec<u8>, Body>, std::cell::RefCell<Vec<u8>>);

    fn name() -> &'static str {
        "TinyUFO"
    }

    fn full(keys: &[Vec<u8>]) -> Self {
        let cache = tinyufo::TinyUfo::new(2 * keys.len() + 64, 2 * keys.len() + 64);
        for key in keys {
            cache.put(key.clone(), body(), 1);
        }
        TinyUfo(cache)
    }

    fn reader(&self) -> Self::Reader<'_> {
        (&self.0, std::cell::RefCell::default())
    }

    fn hit((cache, key_space): &Self::Reader<'_>, key: &[u8]) -> u8 {
        let mut space = key_space.borrow_mut();
        space.clear();
        space.extend_from_slice(key);
        // The cache admits by frequency, so a key may be missing even if the cache is too large.
        cache.get(&space).map_or(0, |body| body[0])
    }
}

/// The lower bound of all caches: the hash table of a single thread, with the store's hash
/// function.
pub(crate) struct Hashbrown(hashbrown::HashMap<Vec<u8>, Body, foldhash::quality::RandomState>);

impl Cache for Hashbrown {
    type Reader<'c> = &'c Hashbrown;

    fn name() -> &'static str {
        "hashbrown (one thread's)"
    }

    fn full(keys: &[Vec<u8>]) -> Self {
        let mut map = hashbrown::HashMap::with_capacity_and_hasher(keys.len(), Default::default());
        keys.iter().for_each(|key| _ = map.insert(key.clone(), body()));
        Hashbrown(map)
    }

    fn reader(&self) -> &Hashbrown {
        self
    }

    fn hit(map: &&Hashbrown, key: &[u8]) -> u8 {
        map.0.get(key).expect("stored")[0]
    }
}

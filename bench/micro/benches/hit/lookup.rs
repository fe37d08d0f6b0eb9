//! The step from the key to the record: for one hot record, and for 100,000 records in an order
//! that defeats the processor's caches.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion};
use forebay_cache::{
    CollapseResult, JoinTerms, Lookup, RecordTimes, Store, StoreConfig, StoreWorker,
};
use quick_cache::sync::Cache;

const BODY: [u8; 1024] = [b'x'; 1024];
const HEAD: &[u8] = b"content-type: text/plain\r\netag: \"1024\"\r\n";
const BUDGET_BYTES: u64 = 1 << 30;
/// The distance from one key to the next, without a common factor with the numbers of keys.
const STRIDE: usize = 7919;

/// Measures lookups that hit.
pub(crate) fn benches(criterion: &mut Criterion) {
    for (name, count) in [("hot", 1), ("100k", 100_000)] {
        let keys = keys(count);
        let mut group = criterion.benchmark_group(format!("lookup/{name}"));
        let store = full_store(&keys);
        group.bench_function(BenchmarkId::from_parameter("forebay"), |bencher| {
            let mut turn = 0;
            bencher.iter(|| {
                turn = (turn + STRIDE) % keys.len();
                let found = store.lookup(black_box(&keys[turn]));
                assert!(matches!(found, Lookup::Record(_)));
            });
        });
        let cache = full_cache(&keys);
        group.bench_function(BenchmarkId::from_parameter("quick_cache"), |bencher| {
            let mut turn = 0;
            bencher.iter(|| {
                turn = (turn + STRIDE) % keys.len();
                let found = cache.get(black_box(keys[turn].as_slice()));
                assert!(found.is_some());
                found
            });
        });
        group.finish();
    }
}

fn keys(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|i| format!("main\0http\0org.example.www\0/obj/{i}").into_bytes()).collect()
}

fn full_store(keys: &[Vec<u8>]) -> StoreWorker {
    let config = StoreConfig::with_budget(BUDGET_BYTES);
    let store = Store::open(config).expect("the budget suffices");
    let store = store.join().expect("the store has a row for its first worker");
    let times = RecordTimes { response_time: 0, stale_from: u64::MAX };
    for key in keys {
        let CollapseResult::Leader(leader, _follower) =
            store.collapse(key, None, None, JoinTerms::at(0))
        else {
            unreachable!("no leader for {key:?}, although it has no other fetch");
        };
        let filling = leader.begin(HEAD, None, Some(BODY.len() as u64), times);
        let mut filling =
            filling.map_err(|(_, refused)| refused).expect("the store or map has room");
        filling.append(&BODY).expect("a record that is stored needs no listener");
        assert!(filling.finish());
    }
    store
}

fn full_cache(keys: &[Vec<u8>]) -> Cache<Vec<u8>, Arc<[u8]>> {
    // The cache is larger than needed, so that no key is evicted.
    let cache = Cache::new(keys.len() * 2 + 64);
    for key in keys {
        cache.insert(key.clone(), Arc::from(BODY.as_slice()));
    }
    cache
}

//! Tests against bugs that caches are known for.

use super::*;
use crate::segment::SegmentPhase;

#[test]
fn nothing_is_evicted_while_the_cache_is_not_full() {
    let config = StoreConfig { record_bytes_expected: 2000, ..config(16 << 20) };
    let store = Store::open(config).unwrap();
    let worker = store.join().unwrap();
    let mut number = 0;
    // Records are stored until only the reserve of free segments is unused.
    while store.stats().free_segment_count > u64::from(worker.inner.reclaimer.free_target()) {
        assert!(put(&worker, format!("k{number}").as_bytes(), b"head", &[1; 3000]));
        worker.turn(NOW, |_| ());
        number += 1;
    }
    let stats = store.stats();
    assert_eq!((stats.segments_freed, stats.evicted, stats.pushed_out), (0, 0, 0), "{stats:?}");
    assert!(
        stats.live_bytes * 10 > stats.budget_bytes * 7,
        "the cache was hardly filled: {stats:?}"
    );
    for number in 0..number {
        assert!(
            get(&worker, format!("k{number}").as_bytes()).is_some(),
            "record {number} was evicted"
        );
    }
}

#[test]
fn joining_and_leaving_changes_no_shared_count() {
    let (store, _folder, path) = reader::in_file(4 << 20);
    let worker = store.join().unwrap();
    assert!(put(&worker, b"key", b"head", b"body"));
    let mappings = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().filter(|line| line.contains(path.to_str().unwrap())).count()
    };
    let (stats, count) = (store.stats(), mappings());
    assert!(count > 0, "the region is mapped");
    for _ in 0..10_000 {
        let other = store.join().unwrap();
        assert!(matches!(other.lookup(b"none"), Lookup::Miss));
    }
    assert_eq!((store.stats(), mappings()), (stats, count));
}

/// After a death, the count of a segment's live bytes may be too low.
#[test]
fn a_count_that_is_too_low_never_goes_below_zero() {
    let (store, worker) = open(4 << 20);
    for number in 0..10 {
        assert!(put(&worker, format!("k{number}").as_bytes(), b"head", &[1; 3000]));
    }
    let table = store.shared.segments.table();
    table
        .segments_where(|state| state.phase == SegmentPhase::Open)
        .for_each(|open| table.set_live_bytes(open, 100));
    for number in 0..10 {
        assert_eq!(worker.purge(format!("k{number}").as_bytes()).unwrap().records, 1);
        assert_eq!(store.stats().live_bytes, 0, "{number}");
        assert_eq!(store.stats().sum_bytes(), store.stats().budget_bytes, "{number}");
    }
}

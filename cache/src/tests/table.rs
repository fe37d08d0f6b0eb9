//! Lookup, insert, variants, purge, the shape of bodies, and who is evicted.

use super::*;
use crate::ConfigError;

#[test]
fn a_setting_that_cannot_work_is_refused_by_name() {
    let small = config(1000);
    let minimum_bytes = small.minimum_bytes();
    let good = config(1 << 20);
    let cases = [
        (small, ConfigError::BudgetTooSmall { minimum_bytes }),
        (StoreConfig { shard_count: 3, ..good.clone() }, ConfigError::ShardCount { max: 4096 }),
        (StoreConfig { shard_count: 0, ..good.clone() }, ConfigError::ShardCount { max: 4096 }),
        (
            StoreConfig { growing_bytes_max: 2 << 20, ..good.clone() },
            ConfigError::GrowingAboveBudget,
        ),
        (
            StoreConfig { object_bytes_max: 1 << 20, ..good.clone() },
            ConfigError::ObjectAboveGrowing,
        ),
        (StoreConfig { variants_max: 0, ..good.clone() }, ConfigError::Zero),
        (StoreConfig { window_bytes: 0, ..good.clone() }, ConfigError::Zero),
    ];
    for (config, expected) in cases {
        assert_eq!(Store::new(config.clone()).err(), Some(expected), "{config:?}");
    }
    let mut least = config(minimum_bytes);
    least.object_bytes_max = least.growing_bytes_max;
    let least = store(least);
    assert!(fill(&least, b"a", None, &content(1, 4096)), "the minimum holds a record");
    assert!(Store::new(StoreConfig::with_budget(64 << 20)).is_ok(), "the defaults work");
}

#[test]
fn what_was_stored_is_found_until_it_is_replaced_or_purged() {
    let store = store(config(1 << 20));
    assert!(found(&store, b"a").is_none());
    for version in [1, 2] {
        let known = found(&store, b"a");
        let Join::Leader(leader, _) = store.join(b"a", None, known.as_ref(), 0) else {
            panic!("version {version}")
        };
        let mut filling = begin(leader, b"head", None);
        filling.append(&content(version, 5000)).unwrap();
        assert!(filling.finish());
        let record = found(&store, b"a").unwrap();
        assert_eq!((record.head(), body_of(&record)), (&b"head"[..], content(version, 5000)));
        check(&store);
    }
    assert!(fill(&store, b"", None, b""), "an empty key and an empty body are nothing special");
    assert_eq!(store.stats().record_count, 2);
    assert_eq!(store.purge(b"a").records, 1);
    assert_eq!(store.purge(b"a"), crate::Purged::default());
    assert!(found(&store, b"a").is_none() && found(&store, b"").is_some());
    assert_eq!(store.purge(b"").records, 1);
    check_at_rest(&store);
    assert_eq!(store.stats().used_bytes, store.stats().fixed_bytes);
}

#[test]
fn a_variant_is_found_by_all_of_its_names_and_values() {
    let store = store(config(1 << 20));
    for (version, variant) in ["gzip", "br"].into_iter().enumerate() {
        assert!(fill(&store, b"a", base("encoding", variant), &content(version as u64, 10)));
    }
    let Lookup::Base(names) = store.lookup(b"a") else { panic!("no base") };
    assert_eq!(&*names, b"encoding");
    let cases: [(&str, &str, Option<u64>); 5] = [
        ("encoding", "gzip", Some(0)),
        ("encoding", "br", Some(1)),
        ("encoding", "b", None),
        ("encoding", "", None),
        ("language", "br", None),
    ];
    for (names, variant, version) in cases {
        let record = store.lookup_variant(b"a", names.as_bytes(), variant.as_bytes());
        let body = record.map(|record| body_of(&record));
        assert_eq!(body, version.map(|version| content(version, 10)), "{names} {variant}");
    }
    assert!(store.lookup_variant(b"b", b"encoding", b"br").is_none());
    assert_eq!(store.purge(b"a").records, 2);
    check_at_rest(&store);
}

/// Variants of `a` that are stored, by their names.
fn stored_variants(store: &Store, names: &str, variants: &[&str]) -> Vec<String> {
    let is_stored = |variant: &&&str| {
        store.lookup_variant(b"a", names.as_bytes(), variant.as_bytes()).is_some()
    };
    variants.iter().filter(is_stored).map(ToString::to_string).collect()
}

#[test]
fn the_oldest_variant_leaves_and_another_base_replaces_all() {
    let store = store(config(1 << 20));
    let all = ["1", "2", "3", "4", "5", "6"];
    for variant in all {
        assert!(fill(&store, b"a", base("n", variant), b"x"));
    }
    assert_eq!(stored_variants(&store, "n", &all), ["3", "4", "5", "6"]);
    // A refetched variant is the newest again.
    let known = store.lookup_variant(b"a", b"n", b"3");
    let Join::Leader(leader, _) = store.join(b"a", Some(b"3"), known.as_ref(), 0) else {
        panic!("known is no reason to look up again")
    };
    assert!(begin(leader, b"", base("n", "3")).finish());
    drop(known);
    assert!(fill(&store, b"a", base("n", "7"), b"x"));
    assert_eq!(stored_variants(&store, "n", &all), ["3", "5", "6"]);
    check(&store);
    assert!(fill(&store, b"a", base("m", "1"), b"x"));
    assert_eq!(stored_variants(&store, "n", &all), [""; 0]);
    assert_eq!(store.stats().record_count, 1);
    // A response without variants takes the place of a base, and the other way round.
    let (leader, _) = lead(&store, b"a", Some(b"2"));
    assert!(begin(leader, b"", None).finish());
    assert!(found(&store, b"a").is_some());
    let known = found(&store, b"a");
    let Join::Leader(leader, _) = store.join(b"a", None, known.as_ref(), 0) else { panic!() };
    assert!(begin(leader, b"", base("m", "1")).finish());
    assert_eq!(stored_variants(&store, "m", &all), ["1"]);
    drop(known);
    check_at_rest(&store);
}

#[test]
fn a_small_body_is_one_fragment_and_dribbled_bytes_are_joined() {
    let store = store(config(4 << 20));
    // (bytes, bytes per append, most fragments)
    let cases = [(1, 1, 1), (4096, 1, 1), (4096, 1000, 1), (4097, 4097, 1), (40_000, 1, 30)];
    for (bytes, step, fragments_max) in cases {
        let (leader, follower) = lead(&store, b"a", None);
        let mut filling = begin(leader, b"", None);
        let body = content(bytes as u64, bytes);
        for part in body.chunks(step) {
            filling.append(part).unwrap();
        }
        assert_eq!(read_now(&mut reader(follower)).0, body, "{bytes} by {step}");
        assert!(filling.finish());
        let record = found(&store, b"a").unwrap();
        let fragment_count = record.body().fragments(0..u64::MAX).count();
        assert!(fragment_count <= fragments_max, "{bytes} by {step}: {fragment_count}");
        assert_eq!(body_of(&record), body, "{bytes} by {step}");
        drop(record);
        store.purge(b"a");
    }
    check_at_rest(&store);
}

#[test]
fn used_records_survive_a_scan_and_a_ghost_returns_to_main() {
    let store = store(StoreConfig { shard_count: 1, ..config(512 * 1024) });
    let hot: Vec<Vec<u8>> = (0..20_u32).map(|i| format!("hot{i}").into_bytes()).collect();
    for key in &hot {
        assert!(fill(&store, key, None, &content(1, 2000)));
        assert!(found(&store, key).is_some());
    }
    for i in 0..2000_u32 {
        assert!(fill(&store, format!("cold{i}").as_bytes(), None, &content(2, 2000)));
        if i % 50 == 0 {
            hot.iter().for_each(|key| drop(store.lookup(key)));
        }
    }
    let kept = hot.iter().filter(|key| found(&store, key).is_some()).count();
    assert_eq!(kept, hot.len());
    let stats = store.stats();
    assert!(stats.evicted > 1500 && stats.used_bytes <= stats.budget_bytes, "{stats:?}");
    // The last to leave has its ghost still.
    let gone = (0..2000_u32).rev().map(|i| format!("cold{i}"));
    let gone = gone.into_iter().find(|key| found(&store, key.as_bytes()).is_none()).unwrap();
    assert!(fill(&store, gone.as_bytes(), None, &content(3, 2000)));
    assert_eq!(store.stats().ghost_hits, stats.ghost_hits + 1);
    check_at_rest(&store);
}

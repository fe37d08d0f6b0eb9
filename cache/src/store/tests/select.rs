//! Counting, purging and listing records by prefixes of keys and by tags.

use super::super::put::NotStored;
use super::*;
use crate::flight::VariantKey;
use crate::{RecordTags, Selection, WalkProgress};

fn put_tagged(worker: &StoreWorker, key: &str, tags: &str, body: &[u8]) {
    let leader = match worker.collapse(key.as_bytes(), None, None, JoinTerms::at(0)) {
        CollapseResult::Leader(leader, _) => leader,
        other => panic!("{other:?}"),
    };
    let mut filling =
        leader.begin(b"head", None, None, fresh()).unwrap_or_else(|_| panic!("{key}"));
    filling.tag(tags_of(tags));
    filling.append(body).unwrap();
    assert!(filling.finish(), "{key}");
}

fn tags_of(words: &str) -> RecordTags {
    RecordTags::new(words.split_whitespace().map(str::as_bytes)).unwrap()
}

fn selection(within: &str, tags: &str) -> Selection {
    let tags = (!tags.is_empty()).then(|| tags.parse().unwrap());
    Selection { within: within.as_bytes().to_vec(), tags }
}

/// Ten keys, and the tags of each.
const STORED: &[(&str, &str)] = &[
    ("a/1", "red"),
    ("a/2", "red blue"),
    ("a/3", ""),
    ("a/4", "blue"),
    ("b/1", "red"),
    ("b/2", "green blue"),
    ("b/3", ""),
    ("c/1", "red green"),
];

fn filled() -> (Store, StoreWorker) {
    let (store, worker) = open(8 << 20);
    for (key, tags) in STORED {
        put_tagged(&worker, key, tags, b"body");
    }
    (store, worker)
}

/// The keys that are still stored.
fn left(worker: &StoreWorker) -> Vec<&'static str> {
    let keys = STORED.iter().map(|(key, _)| *key);
    keys.filter(|key| get(worker, key.as_bytes()).is_some()).collect()
}

#[test]
fn a_selection_is_counted_then_purged_and_nothing_else() {
    for (within, tags, selected) in [
        ("", "", &["a/1", "a/2", "a/3", "a/4", "b/1", "b/2", "b/3", "c/1"][..]),
        ("a/", "", &["a/1", "a/2", "a/3", "a/4"]),
        ("a/2", "", &["a/2"]),
        ("d", "", &[]),
        ("", "red", &["a/1", "a/2", "b/1", "c/1"]),
        ("a", "red", &["a/1", "a/2"]),
        ("", "red and not blue", &["a/1", "b/1", "c/1"]),
        ("", "blue and green", &["b/2"]),
        ("", "blue or green", &["a/2", "a/4", "b/2", "c/1"]),
        ("", "not red", &["a/3", "a/4", "b/2", "b/3"]),
        ("b", "not (red or green)", &["b/3"]),
        ("", "yellow", &[]),
    ] {
        let (store, worker) = filled();
        let selection = selection(within, tags);
        let weighed = worker.weigh_selected(&selection, 2, &mut |_| ()).unwrap();
        let case = format!("{within:?}, {tags:?}");
        assert_eq!(weighed.walked.records, selected.len() as u64, "{case}");
        let sample: Vec<_> = selected.iter().take(2).map(|key| key.as_bytes().to_vec()).collect();
        assert_eq!(weighed.sample, sample, "{case}");
        assert_eq!(left(&worker).len(), STORED.len(), "{case}: counting removes no record");

        let purged = worker.purge_selected(&selection, false, &mut |_| ()).unwrap();
        let counted = (weighed.walked.records, weighed.walked.bytes);
        assert_eq!((purged.records, purged.bytes), counted, "{case}");
        let expected: Vec<_> = STORED.iter().map(|(key, _)| *key).collect();
        let expected: Vec<_> = expected.into_iter().filter(|key| !selected.contains(key)).collect();
        assert_eq!(left(&worker), expected, "{case}");
        let order = worker.check_key_index().unwrap();
        assert_eq!((order.left_over, order.faults), (0, vec![]), "{case}");
        assert_eq!(store.stats().ordered_keys, expected.len() as u64, "{case}");
    }
}

#[test]
fn a_softly_purged_record_stays_and_says_so() {
    let (_store, worker) = filled();
    worker.purge_selected(&selection("", "red"), true, &mut |_| ()).unwrap();
    assert_eq!(left(&worker).len(), STORED.len());
    let mut soft = Vec::new();
    let all = Selection::within(b"");
    let next = worker.list(&all, None, 100, &mut |listed| {
        soft.extend(listed.is_soft.then(|| String::from_utf8_lossy(listed.key).into_owned()));
    });
    assert_eq!(next, Ok(None));
    assert_eq!(soft, ["a/1", "a/2", "b/1", "c/1"]);
}

#[test]
fn a_list_goes_on_where_it_ended() {
    let (_store, worker) = filled();
    for (within, tags, expected) in [
        ("", "", "a/1 a/2 a/3 a/4 b/1 b/2 b/3 c/1"),
        ("a", "", "a/1 a/2 a/3 a/4"),
        ("", "blue or green", "a/2 a/4 b/2 c/1"),
        ("", "not red", "a/3 a/4 b/2 b/3"),
    ] {
        for limit in 1..9 {
            let (mut keys, mut after) = (Vec::new(), None);
            loop {
                let selection = selection(within, tags);
                let next = worker.list(&selection, after.as_deref(), limit, &mut |listed| {
                    keys.push(String::from_utf8_lossy(listed.key).into_owned());
                });
                after = next.unwrap();
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(keys.join(" "), expected, "{limit} at a time");
        }
    }
}

#[test]
fn a_list_says_what_is_stored() {
    let (_store, worker) = open(8 << 20);
    put_tagged(&worker, "k", "red blue", &[7; 3000]);
    assert!(get(&worker, b"k").is_some());
    let mut seen = 0;
    worker
        .list(&Selection::within(b""), None, 10, &mut |listed| {
            seen += 1;
            assert_eq!((listed.key, listed.head, listed.variants), (&b"k"[..], &b"head"[..], 0));
            let tags: Vec<_> = listed.tags().collect();
            assert_eq!(tags, [&b"blue"[..], b"red"]);
            assert_eq!((listed.uses, listed.is_soft), (1, false));
            assert_eq!(listed.stale_from, fresh().stale_from);
            assert_eq!(listed.response_time, fresh().response_time);
            assert!((3000..3200).contains(&listed.bytes), "{}", listed.bytes);
        })
        .unwrap();
    assert_eq!(seen, 1);
}

fn put_variant(worker: &StoreWorker, value: &[u8], tags: &str) {
    let known = match worker.lookup(b"k") {
        Lookup::Base(_) => Some(selector_list(value)),
        _ => None,
    };
    let CollapseResult::Leader(leader, _) =
        worker.collapse(b"k", known.as_deref(), None, JoinTerms::at(0))
    else {
        panic!("no leader, although the key has no other fetch");
    };
    let base = VariantKey { names: b"accept".to_vec(), variant: value.to_vec() };
    let head = [b"head of ", value].concat();
    let mut filling = leader.begin(&head, Some(base), None, fresh()).unwrap_or_else(|_| panic!());
    filling.tag(tags_of(tags));
    filling.append(b"body").unwrap();
    assert!(filling.finish());
}

#[test]
fn each_variant_is_meant_by_its_own_tags() {
    let (_store, worker) = open(8 << 20);
    put_variant(&worker, b"one", "red");
    put_variant(&worker, b"two", "red blue");
    put_variant(&worker, b"three", "");
    let listed = |selection: &Selection| {
        let mut found = Vec::new();
        worker
            .list(selection, None, 10, &mut |listed| {
                found.push((String::from_utf8_lossy(listed.head).into_owned(), listed.variants));
            })
            .unwrap();
        found
    };
    assert_eq!(listed(&Selection::within(b"k")), [("head of three".to_owned(), 3)]);
    assert_eq!(listed(&selection("", "blue")), [("head of two".to_owned(), 3)]);
    let purged = worker.purge_selected(&selection("", "blue"), false, &mut |_| ()).unwrap();
    assert_eq!(purged.records, 1);
    let is_there = |value: &[u8]| match worker.lookup(b"k") {
        Lookup::Base(base) => base.variant(value).is_some(),
        _ => false,
    };
    let there = || [is_there(b"one"), is_there(b"two"), is_there(b"three")];
    assert_eq!(there(), [true, false, true]);
    worker.purge_selected(&selection("", "red"), false, &mut |_| ()).unwrap();
    assert_eq!(there(), [false, false, true]);
    worker.purge_selected(&selection("k", ""), false, &mut |_| ()).unwrap();
    assert!(matches!(worker.lookup(b"k"), Lookup::Miss));
    let order = worker.check_key_index().unwrap();
    assert_eq!((order.entries, order.left_over, order.faults), (0, 0, vec![]));
}

/// A fetch that began before a purge by tag is checked against the purge when its tags are known.
#[test]
fn a_fetched_response_is_not_stored_if_its_tags_were_purged() {
    let (_store, worker) = open(8 << 20);
    for (tags, is_stored) in [("red", false), ("blue", true), ("", true)] {
        let CollapseResult::Leader(leader, _) = worker.collapse(b"k", None, None, JoinTerms::at(0))
        else {
            panic!("no leader, although the key has no other fetch");
        };
        let mut filling = leader.begin(b"head", None, None, fresh()).unwrap_or_else(|_| panic!());
        filling.tag(tags_of(tags));
        worker.purge_selected(&selection("", "red"), false, &mut |_| ()).unwrap();
        assert_eq!(filling.finish(), is_stored, "{tags}");
        worker.purge(b"k").unwrap();
    }
}

/// At its end, a fill asks whether it still stores. Just after that, a caller that must not follow
/// the fetch detaches its flight.
#[test]
fn a_fill_that_is_detached_at_its_end_stores_no_head_without_its_last_fragment() {
    let (store, worker) = open(32 << 20);
    let other = store.join().unwrap();
    for bytes in [300_000, 20_000] {
        let leader = lead(&worker, b"k", None);
        let mut filling = leader.begin(b"head", None, None, fresh()).unwrap();
        append(&mut filling, &vec![7; bytes]);
        other.purge_selected(&selection("", "red"), false, &mut |_| ()).unwrap();
        let later = lead(&other, b"k", None);
        assert_eq!(filling.store(), Err(NotStored::Outdated), "{bytes}");
        drop((filling, later));
        assert!(matches!(worker.lookup(b"k"), Lookup::Miss), "{bytes}");
    }
    assert_sound(&store);
    assert_eq!(check(&store).live_count, 0, "fragments without a head are left in the store");
}

/// After a purge, no caller gets a response that may be older than the purge, whatever tags the
/// response will have.
#[test]
fn no_caller_joins_a_fetch_that_began_before_a_purge_by_tag() {
    let (_store, worker) = open(8 << 20);
    for (within, joins) in [("", false), ("k", false), ("x", true)] {
        let CollapseResult::Leader(leader, _) = worker.collapse(b"k", None, None, JoinTerms::at(0))
        else {
            panic!("no leader, although the key has no other fetch");
        };
        worker.purge_selected(&selection(within, "red"), false, &mut |_| ()).unwrap();
        let other = worker.collapse(b"k", None, None, JoinTerms::at(0));
        assert_eq!(matches!(other, CollapseResult::Follower(_)), joins, "{within}");
        leader.decline_once(crate::DeclineReason::TooLarge);
    }
}

/// A validation that began before a purge by tag does not store a purged record again, whatever
/// tags it adds.
#[test]
fn a_validated_record_is_not_renewed_if_its_tags_were_purged() {
    let (_store, worker) = open(8 << 20);
    for (before, after, stays) in [
        ("red", None, false),
        ("red", Some("blue"), false),
        ("blue", Some("red"), false),
        ("blue", None, true),
        ("blue", Some("green"), true),
    ] {
        put_tagged(&worker, "k", before, b"body");
        let known = match worker.lookup(b"k") {
            Lookup::Record(found) => found.version(),
            other => panic!("{other:?}"),
        };
        let CollapseResult::Leader(leader, _) =
            worker.collapse(b"k", None, Some(known), JoinTerms::at(0))
        else {
            panic!("no leader, although the key has no other fetch");
        };
        worker.purge_selected(&selection("", "red"), false, &mut |_| ()).unwrap();
        leader.validated(b"new", fresh(), after.map(tags_of).as_ref());
        let mut heads = Vec::new();
        worker
            .list(&Selection::within(b"k"), None, 1, &mut |listed| {
                let tags: Vec<_> = listed.tags().map(<[u8]>::to_vec).collect();
                heads.push((listed.head.to_vec(), tags));
            })
            .unwrap();
        // The validated record keeps its old tags.
        let expected: Vec<_> = std::iter::once(before).chain(after).collect();
        let expected = expected.into_iter().map(|tag| tag.as_bytes().to_vec()).collect();
        let renewed = (b"new".to_vec(), expected);
        // If a purge matches only the new tags, the record stays as it was.
        let old = (b"head".to_vec(), vec![before.as_bytes().to_vec()]);
        let expected = match (stays, before) {
            (true, _) => vec![renewed],
            (false, "red") => vec![],
            (false, _) => vec![old],
        };
        assert_eq!(heads, expected, "{before:?}, {after:?}");
        worker.purge(b"k").unwrap();
    }
}

/// No lookup finds a variant that its base no longer names: the variant is about to be removed, and
/// purges do not reach it.
#[test]
fn a_variant_that_is_not_named_any_more_is_not_found() {
    let store = Store::open(StoreConfig { variants_max: 1, ..config(8 << 20) }).unwrap();
    let worker = store.join().unwrap();
    put_variant(&worker, b"one", "red");
    let key = variant_key(&worker, b"k", b"one").expect("the base names it");
    put_variant(&worker, b"two", "red");
    // As if the thread that named the second variant had died before it removed the first one.
    assert!(put(&worker, &key, b"\x03\0onehead", b"body"));
    let is_there = |value: &[u8]| match worker.lookup(b"k") {
        Lookup::Base(base) => base.variant(value).is_some(),
        _ => false,
    };
    assert!(worker.inner.records.look(&key).is_some(), "the variant's record is in the index");
    assert_eq!([is_there(b"one"), is_there(b"two")], [false, true]);
}

#[test]
fn variants_are_purged_softly_each_by_its_tags() {
    let (_store, worker) = open(8 << 20);
    put_variant(&worker, b"one", "red");
    put_variant(&worker, b"two", "blue");
    let purged = worker.purge_selected(&selection("k", "red"), true, &mut |_| ()).unwrap();
    assert_eq!(purged.records, 1);
    let is_soft = |value: &[u8]| match worker.lookup(b"k") {
        Lookup::Base(base) => base.variant(value).map(|found| found.is_soft()),
        _ => None,
    };
    assert_eq!([is_soft(b"one"), is_soft(b"two")], [Some(true), Some(false)]);
    worker.purge_selected(&selection("k", ""), true, &mut |_| ()).unwrap();
    assert_eq!([is_soft(b"one"), is_soft(b"two")], [Some(true), Some(true)]);
}

/// A validated record still has the old body, so a purge by an old tag that is in progress must
/// find the record.
#[test]
fn a_validation_adds_tags_and_takes_none_away() {
    let (_store, worker) = open(8 << 20);
    put_tagged(&worker, "k", "red", b"body");
    let known = match worker.lookup(b"k") {
        Lookup::Record(found) => found.version(),
        other => panic!("{other:?}"),
    };
    let CollapseResult::Leader(leader, _) =
        worker.collapse(b"k", None, Some(known), JoinTerms::at(0))
    else {
        panic!("no leader, although the key has no other fetch");
    };
    leader.validated(b"new", fresh(), Some(&tags_of("green")));
    for (tags, count) in [("red", 1), ("green", 1), ("blue", 0)] {
        let weighed = worker.weigh_selected(&selection("", tags), 0, &mut |_| ()).unwrap();
        assert_eq!(weighed.walked.records, count, "{tags}");
    }
    let order = worker.check_key_index().unwrap();
    assert_eq!((order.entries, order.left_over, order.faults), (3, 0, vec![]));
}

#[test]
fn a_sweep_removes_entries_without_a_record_and_no_others() {
    let (store, worker) = filled();
    let tags = tags_of("red left");
    for sequence in [1 << 40, 1 << 41] {
        for (primary, has_key) in [(&b"a/1"[..], true), (b"gone", true), (b"gone", false)] {
            let tags = tags.as_bytes();
            let ordered = crate::key_index::RecordKeys { primary, has_key, sequence, tags };
            worker.inner.keys.handle.insert_keys(&ordered).unwrap();
        }
    }
    // One of the records is about to be published.
    worker.inner.shared.pending_inserts.begin(worker.inner.part.row(), 1 << 41);
    store.shared.leftovers.note();
    while worker.turn(NOW, |_| ()) {}
    let order = worker.check_key_index().unwrap();
    assert_eq!(
        (order.left_over, order.faults),
        (0, vec![]),
        "pending entries do not count as left over"
    );
    // The entries of the first sequence: two keys with two tags each.
    assert_eq!(store.stats().order_tidied, 6);
    assert_eq!(left(&worker).len(), STORED.len());

    worker.inner.shared.pending_inserts.end(worker.inner.part.row());
    store.shared.leftovers.note();
    while worker.turn(NOW, |_| ()) {}
    assert_eq!(store.stats().order_tidied, 12);
    assert_eq!(store.stats().ordered_keys, STORED.len() as u64);
    for (key, _) in STORED {
        worker.purge(key.as_bytes()).unwrap();
    }
    assert_eq!(worker.check_key_index().unwrap().entries, 0);
}

/// If the holder of a map's lock has stopped, other threads wait once. A sweep later makes the
/// changes that they could not make.
#[test]
fn a_stopped_owner_of_a_map_lock_stops_no_other_thread() {
    let (store, worker) = filled();
    let owner = store.join().unwrap();
    owner.inner.keys.handle.while_locked(|| {
        assert!(
            !put(&worker, b"new", b"head", b"body"),
            "a record is stored although its keys cannot be inserted"
        );
        for (key, _) in STORED {
            assert!(worker.purge(key.as_bytes()).unwrap().records == 1, "{key}");
        }
        assert_eq!(left(&worker), Vec::<&str>::new());
        assert!(
            worker.inner.keys.handle.is_busy(),
            "a thread that has waited once does not wait again"
        );
    });
    assert!(store.stats().order_refused > 0);
    assert!(put(&worker, b"new", b"head", b"body"), "the lock is free again");
    assert!(!worker.inner.keys.handle.is_busy());
    while worker.turn(NOW, |_| ()) {}
    let order = worker.check_key_index().unwrap();
    assert_eq!((order.entries, order.left_over, order.faults), (1, 0, vec![]));
}

/// If the key index cannot be walked, a purge searches all records.
#[test]
fn a_purge_finds_records_that_a_damaged_key_index_does_not_name() {
    for (within, tags, expected) in
        [("a/", "", &["b/1", "b/2", "b/3", "c/1"][..]), ("", "red", &["a/3", "a/4", "b/2", "b/3"])]
    {
        let (store, worker) = filled();
        worker.inner.keys.handle.damage();
        assert!(worker.weigh_selected(&selection(within, tags), 0, &mut |_| ()).is_err());
        let purged = worker.purge_selected(&selection(within, tags), false, &mut |_| ()).unwrap();
        assert_eq!(purged.records, 4, "{within:?}, {tags:?}");
        assert_eq!(left(&worker), expected, "{within:?}, {tags:?}");
        assert!(!put(&worker, b"new", b"head", b"body"));
        assert!(store.stats().order_damaged > 0);
    }
}

#[test]
fn progress_is_told_and_a_walk_goes_to_the_end() {
    let (_store, worker) = open(16 << 20);
    for number in 0..1000 {
        assert!(put(&worker, format!("k{number}").as_bytes(), b"head", b"body"));
    }
    let mut last = WalkProgress::default();
    let mut count = 0;
    let purged = worker
        .purge_selected(&Selection::within(b"k"), false, &mut |walked| {
            assert!(walked.resources > last.resources);
            last = *walked;
            count += 1;
        })
        .unwrap();
    assert_eq!((purged.records, count), (1000, 15));
}

/// A record whose key is too long for the key index is not stored, because a purge would not find
/// the record.
#[test]
fn a_record_without_room_in_the_key_index_is_not_stored() {
    let (store, worker) = open(8 << 20);
    let longest = vec![b'k'; crate::key_index::KEY_BYTES_MAX];
    assert!(put(&worker, &longest, b"head", b"body"));
    assert!(!put(&worker, &[&longest[..], b"k"].concat(), b"head", b"body"));
    let purged = worker.purge_selected(&Selection::within(b"k"), false, &mut |_| ()).unwrap();
    assert_eq!(purged.records, 1);

    // With many small records with long keys, the key index is full long before the segments are.
    let key = |number: usize| format!("{number:06}{}", "x".repeat(3000)).into_bytes();
    for number in 0..3000 {
        put(&worker, &key(number), b"", b"");
        worker.turn(NOW, |_| ());
    }
    let stats = store.stats();
    assert!(stats.evicted > 500, "{stats:?}");
    assert!(stats.order_used_bytes <= stats.order_bytes, "{stats:?}");
    assert!(
        get(&worker, &key(2999)).is_some(),
        "the last record is stored, and others were evicted for it"
    );
    assert_sound(&store);
    let order = worker.check_key_index().unwrap();
    assert_eq!((order.left_over, order.faults), (0, vec![]));
}

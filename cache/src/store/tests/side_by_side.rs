//! Tests of responses under one key that vary by different field names, or do not vary.

use super::*;
use crate::{RecordTags, Selection, selectors};

const KEY: &[u8] = b"key";

/// A response: its field names, its selector and its head.
type Case<'a> = (&'a [u8], &'a [u8], &'a [u8]);

const PLAIN: Case<'_> = (b"", b"", b"plain");
const HTML: Case<'_> = (b"accept", b"html", b"its html");
const GERMAN: Case<'_> = (b"language", b"de", b"its german");

fn base((names, selector, _): Case<'_>) -> Option<VariantKey> {
    let base = VariantKey { names: names.to_vec(), variant: selector.to_vec() };
    (!names.is_empty()).then_some(base)
}

/// Leads a fetch of a request with these selectors.
fn lead_with(worker: &StoreWorker, own: &[&[u8]]) -> Leader {
    let list: Vec<u8> = own.iter().flat_map(|own| selector_list(own)).collect();
    let known = match worker.lookup(KEY) {
        Lookup::Miss => None,
        Lookup::Record(found) => Some(found.version()),
        Lookup::Base(base) => {
            selectors(&list).find_map(|own| base.variant(own).map(|found| found.version()))
        }
    };
    match worker.collapse(KEY, Some(&list), known, JoinTerms::at(0)) {
        CollapseResult::Leader(leader, _) => leader,
        other => panic!("{other:?}"),
    }
}

/// Stores a response for a request that selects only this response.
fn put_one(worker: &StoreWorker, case: Case<'_>) -> bool {
    let none: &[u8] = b"none";
    fill(lead_with(worker, &[case.1, none, none]), case.2, base(case), b"body")
}

fn head_of(worker: &StoreWorker, selector: &[u8]) -> Option<Vec<u8>> {
    match worker.lookup(KEY) {
        Lookup::Base(base) => base.variant(selector).map(|found| found.head().to_vec()),
        Lookup::Record(found) if selector.is_empty() => Some(found.head().to_vec()),
        _ => None,
    }
}

fn are_found(worker: &StoreWorker) -> [bool; 3] {
    [PLAIN, HTML, GERMAN].map(|case| head_of(worker, case.1).as_deref() == Some(case.2))
}

#[test]
fn responses_with_other_names_and_without_stand_side_by_side_in_any_order() {
    for order in [[PLAIN, HTML, GERMAN], [HTML, PLAIN, GERMAN], [GERMAN, HTML, PLAIN]] {
        let (store, worker) = open(32 << 20);
        for case in order {
            assert!(put_one(&worker, case), "{order:?}");
        }
        assert_eq!(are_found(&worker), [true; 3], "{order:?}");
        let Lookup::Base(base) = worker.lookup(KEY) else { panic!("no base") };
        assert_eq!(base.name_sets().count(), 3, "{order:?}");
        assert_sound(&store);
        assert_eq!(worker.purge(KEY).unwrap().records, 3, "{order:?}");
        assert_eq!(are_found(&worker), [false; 3], "{order:?}");
        assert_sound(&store);
    }
}

#[test]
fn purges_reach_each_response_by_its_own_tags() {
    let (store, worker) = open(32 << 20);
    let none: &[u8] = b"none";
    for (case, tag) in [(PLAIN, "red"), (HTML, "red blue"), (GERMAN, "blue")] {
        let leader = lead_with(&worker, &[case.1, none, none]);
        let mut fill = leader.begin(case.2, base(case), None, fresh()).unwrap();
        fill.tag(RecordTags::new(tag.split(' ').map(str::as_bytes)).unwrap());
        fill.append(b"body").unwrap();
        assert!(fill.finish());
    }
    let red = Selection { within: Vec::new(), tags: Some("red".parse().unwrap()) };
    assert_eq!(worker.purge_selected(&red, false, &mut |_| ()).unwrap().records, 2);
    assert_eq!(are_found(&worker), [false, false, true]);
    assert_sound(&store);
}

/// A purge that is announced while the response arrives matches the stored response, which must not
/// come back as a variant.
#[test]
fn a_response_that_was_purged_does_not_come_back_as_a_variant() {
    for is_soft in [false, true] {
        let (store, worker) = open(32 << 20);
        let purger = store.join().unwrap();
        assert!(put_one(&worker, PLAIN));
        // The purge is older than the fetch of the other response, and newer than the first fetch.
        let purged = if is_soft { purger.purge_softly(KEY) } else { purger.purge(KEY) };
        assert_eq!(purged.unwrap().records, 1);
        assert!(put_one(&worker, HTML));
        assert_eq!(are_found(&worker), [false, true, false], "soft: {is_soft}");
        assert_sound(&store);
    }
}

/// A mark on a single record is not a purge, so only this record shows the mark.
#[test]
fn a_response_that_was_marked_as_stale_does_not_come_back_without_its_mark() {
    let (store, worker) = open(32 << 20);
    assert!(put_one(&worker, PLAIN));
    let Lookup::Record(found) = worker.lookup(KEY) else { panic!("no record") };
    let known = found.version();
    drop(found);
    assert!(worker.mark_stale(KEY, None, known));
    assert!(put_one(&worker, HTML));
    assert_eq!(are_found(&worker), [false, true, false]);
    assert_sound(&store);
}

/// The copy of a record is made with the marks that the record had before they were frozen.
#[test]
fn a_record_that_is_being_copied_is_removed_rather_than_left_unmarked() {
    let (store, worker) = open(32 << 20);
    assert!(put_one(&worker, PLAIN));
    let Lookup::Record(found) = worker.lookup(KEY) else { panic!("no record") };
    let known = found.version();
    drop(found);
    let records = &worker.inner.records;
    let pinned = records.look(KEY).expect("stored");
    let _ = records.access().marks(pinned.hit.at()).expect("not damaged").freeze();
    drop(pinned);
    assert!(worker.mark_stale(KEY, None, known), "a HEAD has contradicted it");
    assert_eq!(are_found(&worker), [false, false, false], "it is found without its mark");
    assert!(!worker.mark_stale(KEY, None, known), "it is gone");
    assert_sound(&store);
}

#[test]
fn the_copy_of_a_response_keeps_its_times_and_tags_and_body() {
    let (store, worker) = open(32 << 20);
    let mut fill = lead(&worker, KEY, None).begin(b"plain", None, None, fresh()).unwrap();
    fill.tag(RecordTags::new([&b"red"[..]]).unwrap());
    fill.append(b"all of the body").unwrap();
    assert!(fill.finish());
    assert!(put_one(&worker, HTML));
    let Lookup::Base(base) = worker.lookup(KEY) else { panic!("no base") };
    let found = base.variant(b"").expect("stored");
    assert_eq!(found.whole_body(), b"all of the body");
    assert_eq!(found.tags().collect::<Vec<_>>(), [b"red"]);
    let all = Selection { within: Vec::new(), tags: Some("red".parse().unwrap()) };
    let mut times = Vec::new();
    let mut see = |listed: &crate::ListedResource<'_>| {
        times.push((listed.response_time, listed.stale_from, listed.head == b"plain"));
    };
    worker.list(&all, None, 10, &mut see).unwrap();
    assert_eq!(times, [(NOW as u32, NOW + 3600, true)]);
    assert_sound(&store);
}

/// If the older variants stayed, requests could select them again and again.
#[test]
fn a_response_ends_the_older_variants_that_its_request_selects() {
    let (store, worker) = open(32 << 20);
    let other: Case<'_> = (b"accept", b"json", b"its json");
    for case in [PLAIN, HTML, other] {
        assert!(put_one(&worker, case));
    }
    assert!(fill(
        lead_with(&worker, &[HTML.1, PLAIN.1, GERMAN.1]),
        GERMAN.2,
        base(GERMAN),
        b"body"
    ));
    assert_eq!(are_found(&worker), [true, false, true], "the request selected HTML");
    assert_eq!(head_of(&worker, b"json").as_deref(), Some(&b"its json"[..]));
    assert!(fill(lead_with(&worker, &[b"none", PLAIN.1, GERMAN.1]), PLAIN.2, None, b"body"));
    assert_eq!(are_found(&worker), [true, false, false], "and then GERMAN");
    assert_sound(&store);
}

#[test]
fn the_ninth_set_of_names_starts_over() {
    let (store, worker) = open(32 << 20);
    let none: &[u8] = b"none";
    let put = |number: usize| {
        let (names, own) = (format!("names {number}"), format!("own {number}"));
        let key = VariantKey { names: names.into_bytes(), variant: own.clone().into_bytes() };
        let mut list = vec![none; 9];
        list[0] = own.as_bytes();
        assert!(fill(lead_with(&worker, &list), b"head", Some(key), b"body"), "{number}");
    };
    let sets = || match worker.lookup(KEY) {
        Lookup::Base(base) => base.name_sets().count(),
        other => panic!("{other:?}"),
    };
    (0..8).for_each(put);
    assert_eq!((sets(), head_of(&worker, b"own 0").is_some()), (8, true));
    put(8);
    let is_there = |own: &[u8]| head_of(&worker, own).is_some();
    assert_eq!((sets(), is_there(b"own 8"), is_there(b"own 0")), (1, true, false));
    assert_eq!(worker.purge(KEY).unwrap().records, 1);
    assert_sound(&store);
}

#[test]
fn variants_max_counts_all_responses_of_a_key() {
    for variants_max in [1, 2] {
        let store = Store::open(StoreConfig { variants_max, ..config(8 << 20) }).unwrap();
        let worker = store.join().unwrap();
        for case in [PLAIN, HTML, GERMAN] {
            assert!(put_one(&worker, case), "{variants_max}");
        }
        let count = are_found(&worker).into_iter().filter(|is_found| *is_found).count();
        assert_eq!(count, variants_max);
        assert!(are_found(&worker)[2], "{variants_max}: the last one is stored");
        assert_sound(&store);
    }
}

/// A caller that does not know all sets of field names has to look up again.
#[test]
fn a_caller_that_lacks_a_selector_looks_up_again() {
    let (_store, worker) = open(32 << 20);
    assert!(put_one(&worker, HTML) && put_one(&worker, GERMAN));
    let join = |own: &[&[u8]]| {
        let list: Vec<u8> = own.iter().flat_map(|own| selector_list(own)).collect();
        worker.collapse(KEY, Some(&list), None, JoinTerms::at(0))
    };
    assert!(matches!(join(&[b"json"]), CollapseResult::Stored));
    assert!(matches!(join(&[b"json", b"de"]), CollapseResult::Stored), "one of them is stored");
    assert!(matches!(join(&[b"json", b"en"]), CollapseResult::Leader(..)));
}

//! Tests of the choice of a slot and of a victim, and of the operations on records.

use super::*;

const WORDS: u32 = (BUCKETS * BUCKET_WORDS) as u32;

#[test]
fn an_index_needs_enough_words_on_cache_lines() {
    struct Shifted(LineWords);
    impl Words for Shifted {
        fn word_count(&self) -> usize {
            self.0.word_count() - 1
        }
        fn word(&self, index: usize) -> &forebay_sync::atomic::AtomicU64 {
            self.0.word(index + 1)
        }
        fn all(&self) -> &[forebay_sync::atomic::AtomicU64] {
            &self.0.all()[1..]
        }
    }
    let cases = [
        (16, 2, None),
        (32, 4, None),
        (16, 3, Some(IndexError::TooFewWords)),
        (16, 1, Some(IndexError::TooFewBuckets)),
        (16, 0, Some(IndexError::TooFewBuckets)),
        (16, usize::MAX, Some(IndexError::TooFewWords)),
    ];
    for (words, buckets, expected) in cases {
        // SAFETY: no record is inserted.
        let made = unsafe { Index::new(LineWords::new(words), buckets, Locations::default()) };
        assert_eq!(made.err(), expected, "{buckets} buckets in {words} words");
    }
    // SAFETY: as above.
    let shifted = unsafe { Index::new(Shifted(LineWords::new(64)), 2, Locations::default()) };
    assert_eq!(shifted.err(), Some(IndexError::NotOnALine));
    assert_eq!(words_needed(3), Some(24));
    assert_eq!(words_needed(usize::MAX), None);
}

#[test]
fn a_record_is_found_when_it_is_live_and_pinned_while_it_is_held() {
    let store = store();
    let unchecked = store.publish(7, 1).unwrap();
    assert!(store.lookup(7).is_none(), "not live yet");
    assert!(store.index.make_live(&store.row, &key(7), unchecked));
    let hit = store.lookup(7).unwrap();
    assert_eq!((hit.at().location(), hit.word().state()), (location(7, 1), WordState::Live));
    assert_eq!(hit.word().size_class(), 20);
    assert!(store.lookup(8).is_none() && store.lookup(7 + 1000).is_none());
    assert!(store.pins.is_pinned(0));
    let pin = hit.into_pin();
    assert!(store.pins.is_pinned(0));
    drop(pin);
    assert!(!store.pins.is_pinned(0), "a lookup that finds nothing leaves no pin");
}

#[test]
fn a_withdrawn_record_leaves_nothing() {
    let store = store();
    let unchecked = store.publish(7, 1).unwrap();
    assert!(store.index.withdraw(unchecked));
    assert_eq!(store.locations(), [0; 0]);
    let unchecked = store.publish(7, 2).unwrap();
    assert_eq!(store.index.remove(&store.row, &key(7)), 1);
    assert!(!store.index.make_live(&store.row, &key(7), unchecked), "the word was removed before");
    assert_eq!(store.locations(), [0; 0]);
}

#[test]
fn a_record_with_a_higher_sequence_replaces_a_lower_one() {
    let store = store();
    assert!(store.insert(7, 3));
    let slot = store.lookup(7).unwrap().slot();
    assert_eq!(store.publish(7, 2).err(), Some(InsertError::Outdated));
    assert!(store.insert(7, 5));
    assert_eq!(store.lookup(7).map(|hit| hit.slot()), Some(slot));
    assert_eq!(store.locations(), [location(7, 5)]);
    assert_eq!(store.take_removed(), [(location(7, 3), RemovalReason::Replaced)]);
}

#[test]
fn records_go_to_the_emptier_bucket() {
    let store = store();
    for key in 0..WORDS {
        let counts = [0, 1].map(|bucket| {
            store.index.bucket(bucket).iter().filter(|word| !word.is_empty()).count() as u32
        });
        assert!(counts[0].abs_diff(counts[1]) <= 1 && counts[0] + counts[1] == key, "{counts:?}");
        assert!(store.insert(key, 1));
    }
}

#[test]
fn the_word_with_the_fewest_uses_is_evicted_and_unchecked_words_last() {
    type Case = (&'static str, &'static [(u32, usize)], u32);
    let cases: [Case; 3] = [
        ("one record was not used", &[(4, 0)], 4),
        ("one record was used less", &[(5, 1)], 5),
        ("one of many records was not used", &[(2, 1), (9, 0), (11, 1)], 9),
    ];
    for (case, less_used, victim) in cases {
        let store = store();
        // The last word is unchecked.
        (0..WORDS - 1).for_each(|key| assert!(store.insert(key, 1)));
        let waits = store.publish(WORDS - 1, 1).unwrap();
        for key in 0..WORDS - 1 {
            let less = less_used.iter().find(|(less, _)| *less == key);
            store.use_often(key, less.map_or(2, |(_, times)| *times));
        }
        assert!(store.insert(50, 1), "{case}");
        assert_eq!(store.take_removed(), [(location(victim, 1), RemovalReason::Evicted)], "{case}");
        assert!(store.lookup(victim).is_none() && store.lookup(50).is_some(), "{case}");
        assert!(store.index.make_live(&store.row, &key(WORDS - 1), waits), "{case}");
    }
}

#[test]
fn equal_victims_take_turns() {
    let store = store();
    (0..WORDS).for_each(|key| assert!(store.insert(key, 1)));
    let mut slots: Vec<usize> = (50..66)
        .map(|key| {
            assert!(store.insert(key, 1));
            store.lookup(key).unwrap().slot()
        })
        .collect();
    slots.sort_unstable();
    slots.dedup();
    assert!(slots.len() > 4, "{slots:?}");
}

#[test]
fn a_word_with_the_same_fingerprint_is_not_evicted() {
    let store = store();
    let other = |number: u32| IndexKey::new(hash(7), move |at| at.location() == number);
    for number in 0..WORDS {
        let new = InsertRequest { location: number, size_class: 0, sequence: 1 };
        let unchecked = store.index.insert(&store.row, &other(number), &new).unwrap();
        assert!(store.index.make_live(&store.row, &other(number), unchecked));
    }
    let new = InsertRequest { location: 999, size_class: 0, sequence: 1 };
    let full = store.index.insert(&store.row, &other(999), &new);
    assert_eq!(full.err(), Some(InsertError::Full));
    assert_eq!(store.index.lookup(&store.row, &other(9)).map(|hit| hit.at().location()), Some(9));
}

#[test]
fn uses_are_counted_up_to_the_maximum() {
    let store = store();
    assert!(store.insert(7, 1));
    for expected in [1, 2, 3, 3, 3] {
        store.use_often(7, 1);
        assert_eq!(store.lookup(7).unwrap().word().uses(), expected);
    }
    let old = store.lookup(7).unwrap();
    store.set(old.slot(), old.word().with_uses(0));
    store.index.count_use(&old);
    assert_eq!(store.lookup(7).unwrap().word().uses(), 0, "a failed swap counts nothing");
}

#[test]
fn a_record_moves_and_is_replaced_in_its_slot() {
    let store = store();
    assert!(store.insert(7, 1));
    store.use_often(7, 3);
    let old = store.lookup(7).unwrap();
    assert!(store.index.move_to(&old, location(107, 1), 1));
    let of_copy = IndexKey::new(hash(7), |at| [7, 107].contains(&(at.location() / 10)));
    let moved = store.index.lookup(&store.row, &of_copy).unwrap();
    assert_eq!(moved.slot(), old.slot());
    let word = moved.word();
    assert_eq!((word.location(), word.uses(), word.size_class()), (location(107, 1), 1, 20));
    let new = InsertRequest { location: location(7, 2), size_class: 21, sequence: 2 };
    assert!(!store.index.replace(&store.row, &of_copy, &old, &new), "the record has moved");
    assert!(store.index.replace(&store.row, &of_copy, &moved, &new));
    let word = store.lookup(7).unwrap().word();
    assert_eq!((word.location(), word.uses(), word.size_class()), (location(7, 2), 1, 21));
    assert_eq!(store.take_removed(), [(location(107, 1), RemovalReason::Replaced)]);
    assert!(!store.index.remove_hit(&moved) && store.index.remove_hit(&store.lookup(7).unwrap()));
}

#[test]
fn an_unchecked_record_is_neither_moved_nor_replaced() {
    let store = store();
    let unchecked = store.publish(7, 1).unwrap();
    let hit = store.index.find_location(&store.row, hash(7), location(7, 1)).unwrap();
    assert!(!store.index.move_to(&hit, location(7, 2), 0));
    let new = InsertRequest { location: location(7, 2), size_class: 0, sequence: 2 };
    assert!(!store.index.replace(&store.row, &key(7), &hit, &new));
    assert!(store.index.make_live(&store.row, &key(7), unchecked));
}

#[test]
fn two_live_records_after_a_death_become_one() {
    let (low, high) = (location(7, 1), location(7, 2));
    let live = |location| IndexWord::new(hash(7).fingerprint(), WordState::Live, location, 0);
    for (found, other, stays) in [(low, high, false), (high, low, true)] {
        let store = store();
        store.set(3, live(found));
        store.set(9, live(other));
        let hit = store.index.find_location(&store.row, hash(7), found).unwrap();
        assert_eq!(store.index.resolve_duplicates(&store.row, &key(7), &hit), stays);
        assert_eq!(store.locations(), [high]);
    }
}

#[test]
fn a_damaged_word_is_skipped_and_overwritten_when_room_is_needed() {
    let damaged = IndexWord::new(hash(7).fingerprint(), WordState::Live, NOWHERE, 0);
    let store = store();
    store.set(0, damaged);
    assert!(store.lookup(7).is_none());
    assert_eq!(store.index.hits(&store.row, 0..BUCKETS).count(), 0);
    assert_eq!(store.index.remove(&store.row, &key(8)), 0);
    (0..WORDS - 1).filter(|key| *key != 7).for_each(|key| assert!(store.insert(key, 1)));
    (20..22).for_each(|key| assert!(store.insert(key, 1)));
    (20..22).for_each(|key| store.use_often(key, 1));
    (0..WORDS - 1).filter(|key| *key != 7).for_each(|key| {
        store.lookup(key).inspect(|hit| store.index.count_use(hit));
    });
    store.take_removed();
    assert!(store.insert(30, 1));
    assert_eq!(store.take_removed(), [], "no other record was removed");
    assert!(!store.locations().contains(&NOWHERE));

    store.set(0, damaged);
    assert_eq!(store.index.remove_where(&store.row, 0..BUCKETS, |_| false), 0);
    assert!(!store.locations().contains(&NOWHERE));
}

#[test]
fn records_of_other_segments_are_left_alone() {
    let store = store();
    for state in [WordState::Disk, WordState::Reserved] {
        let word = IndexWord::new(hash(7).fingerprint(), state, location(7, 1), 0);
        store.set(5, word);
        assert!(store.lookup(7).is_none());
        assert_eq!(store.index.remove(&store.row, &key(7)), 0);
        assert_eq!(store.index.hits(&store.row, 0..BUCKETS).count(), 0);
        assert!(store.index.remove_location(hash(7), location(7, 1)).is_none());
        assert_eq!(store.index.bucket(0)[5], word);
    }
}

#[test]
fn buckets_beyond_the_last_are_empty() {
    let store = store();
    (0..6).for_each(|key| assert!(store.insert(key, 1)));
    for (buckets, expected) in [(0..2, 6), (0..1, 3), (1..9, 3), (2..9, 0), (1..1, 0)] {
        assert_eq!(store.index.hits(&store.row, buckets.clone()).count(), expected, "{buckets:?}");
    }
    let mut seen = Vec::new();
    let count = store.index.remove_where(&store.row, 0..usize::MAX, |hit| {
        seen.push(hit.at().location());
        hit.at().location() >= location(3, 0)
    });
    assert_eq!((count, seen.len()), (3, 6));
    assert_eq!(store.locations(), [location(0, 1), location(1, 1), location(2, 1)]);
}

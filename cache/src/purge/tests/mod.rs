//! Purges on one thread, case by case, and on a few threads at random. The models cover every
//! interleaving.

mod deaths;
mod document;
mod oracle;
mod predicates;
mod stress;

use std::sync::Arc;

use forebay_sync::atomic::{AtomicU64, Relaxed};
use forebay_sync::{Words, boxed_words};

use super::predicate::{OwnedPredicate, PREDICATE_BYTES_MAX, kind};
use super::ring::{REGION_SHARE, RingError, SLOT_WORDS, SLOTS_MAX, SLOTS_MIN, widened};
use super::sites::{SITE_WORDS, site_of};
use super::*;

type Shared = Arc<Box<[AtomicU64]>>;

const SLOTS: usize = 4;

/// A purge ring, and the words in which it lies.
struct Made {
    purges: PurgeRing<Shared>,
    store: Shared,
    ring: Shared,
}

fn made(slots: usize) -> Made {
    let store = Arc::new(boxed_words(PURGE_SEQ_WORD + 1));
    let ring = Arc::new(boxed_words(words_needed(slots).unwrap()));
    let purges = PurgeRing::new(store.clone(), PURGE_SEQ_WORD, ring.clone(), slots).unwrap();
    Made { purges, store, ring }
}

impl Made {
    fn set_sequence(&self, number: u64) {
        self.store.word(PURGE_SEQ_WORD).store(number, Relaxed);
    }

    /// The word at an offset in the slot of a purge.
    fn word(&self, number: u64, offset: usize) -> &AtomicU64 {
        self.ring.word(number as usize % SLOTS * SLOT_WORDS + offset)
    }

    fn purge(&self, key: &[u8]) -> u64 {
        self.purges.announce(Predicate::Key(key))
    }

    fn check(&self, noted: u64, key: &[u8]) -> PurgeVerdict {
        self.purges.check(noted, key, |predicate| predicate.may_match(key))
    }
}

fn clear(checked: u64) -> PurgeVerdict {
    PurgeVerdict::Clear { checked }
}

#[test]
fn a_ring_needs_enough_words() {
    let ring = |store: usize, word, ring: usize, slots| {
        let words = |count| Arc::new(boxed_words(count));
        PurgeRing::new(words(store), word, words(ring), slots).map(|_| ())
    };
    let cases = [
        ("two slots", 1, 0, 2 * SLOT_WORDS + SITE_WORDS, 2, Ok(())),
        ("more words than needed", 64, 16, 11 * SLOT_WORDS, 8, Ok(())),
        ("none", 1, 0, SLOT_WORDS, 0, Err(RingError::Slots)),
        ("one: the last purge would be written over", 1, 0, SLOT_WORDS, 1, Err(RingError::Slots)),
        ("no power of two", 1, 0, 3 * SLOT_WORDS, 3, Err(RingError::Slots)),
        ("a word less", 1, 0, 2 * SLOT_WORDS + SITE_WORDS - 1, 2, Err(RingError::TooFewWords)),
        ("no word for the number", 16, 16, 4 * SLOT_WORDS, 2, Err(RingError::TooFewWords)),
        ("more than all memory", 1, 0, 0, 1 << 63, Err(RingError::TooFewWords)),
    ];
    for (what, store, word, words, slots, expected) in cases {
        assert_eq!(ring(store, word, words, slots), expected, "{what}");
    }
}

#[test]
fn a_larger_region_has_a_larger_ring() {
    let cases: &[(u64, usize)] = &[
        (0, 64),
        (1 << 20, 64),
        (16 << 20, 64),
        ((32 << 20) - 1, 64),
        (32 << 20, 128),
        (100 << 20, 256),
        (256 << 20, 1024),
        (u64::MAX, 1024),
    ];
    for (bytes, slots) in cases {
        assert_eq!(slots_for(*bytes), *slots, "{bytes} bytes");
        let words = boxed_words(words_needed(*slots).unwrap());
        assert!(PurgeRing::new(boxed_words(1), 0, words, *slots).is_ok());
    }
}

#[test]
fn a_fill_finds_the_purges_after_its_noted_number() {
    let made = made(SLOTS);
    assert_eq!(made.purges.noted(), 0);
    assert_eq!(made.check(0, b"a"), clear(0), "no purge at all");
    assert_eq!(made.purge(b"a"), 1);
    assert_eq!(made.purge(b"b"), 2);
    let cases: &[(u64, &[u8], PurgeVerdict)] = &[
        (0, b"a", PurgeVerdict::Purged),
        (0, b"b", PurgeVerdict::Purged),
        (0, b"c", clear(2)),
        (1, b"a", clear(2)),
        (1, b"b", PurgeVerdict::Purged),
        (2, b"b", clear(2)),
        // No fill can have noted these numbers.
        (3, b"c", PurgeVerdict::Purged),
        (u64::MAX, b"c", PurgeVerdict::Purged),
    ];
    for (noted, key, verdict) in cases {
        assert_eq!(made.check(*noted, key), *verdict, "{key:?}, noted {noted}");
        let is_newer = made.purges.is_newer(*noted, key, |predicate| predicate.may_match(key));
        assert_eq!(is_newer, *verdict == PurgeVerdict::Purged, "{key:?}, noted {noted}");
    }
}

#[test]
fn as_many_newer_purges_as_slots_count_as_a_match() {
    let made = made(SLOTS);
    for newest in 1..=3 * SLOTS as u64 {
        assert_eq!(made.purge(b"other"), newest);
        for noted in 0..=newest {
            let is_clear = newest - noted < SLOTS as u64;
            let expected = if is_clear { clear(newest) } else { PurgeVerdict::Purged };
            assert_eq!(made.check(noted, b"a"), expected, "noted {noted}, newest {newest}");
        }
    }
}

#[test]
fn a_ring_that_has_lost_purges_still_tells_those_of_other_sites() {
    let made = made(SLOTS);
    assert_ne!(site_of(b"ours\0a"), site_of(b"theirs\0a"), "the two sites share a word");
    made.purge(b"ours\0purged");
    let flood = |noted| {
        for number in 0..3 * SLOTS as u64 {
            assert_eq!(made.purge(b"theirs\0a"), noted + number + 1);
        }
        noted + 3 * SLOTS as u64
    };
    let newest = flood(1);
    assert_eq!(made.check(1, b"ours\0a"), clear(newest), "no purge of its site is newer");
    assert_eq!(made.check(0, b"ours\0a"), PurgeVerdict::Purged, "the ring has lost a purge of it");
    assert_eq!(made.check(1, b"theirs\0b"), PurgeVerdict::Purged);
    assert_eq!(made.check(newest + 1, b"ours\0a"), PurgeVerdict::Purged, "a damaged number");
    // Purges of several sites count for each.
    for predicate in [Predicate::All, Predicate::Prefix(b"our"), Predicate::Prefix(b"")] {
        let noted = made.purges.noted();
        made.purges.announce(predicate);
        flood(noted + 1);
        assert_eq!(made.check(noted, b"ours\0a"), PurgeVerdict::Purged, "{predicate:?}");
    }
    let noted = made.purges.noted();
    made.purges.announce(Predicate::Prefix(b"theirs\0"));
    let newest = flood(noted + 1);
    assert_eq!(made.check(noted, b"ours\0a"), clear(newest));
}

#[test]
fn purges_during_the_read_of_the_ring_are_counted() {
    for (come, expected) in [(0, clear(1)), (2, clear(1)), (3, PurgeVerdict::Purged)] {
        let made = made(SLOTS);
        made.purge(b"other");
        let verdict = made.purges.check(0, b"ours", |predicate| {
            assert_eq!(*predicate, Predicate::Key(b"other"));
            for _ in 0..come {
                made.purge(b"late");
            }
            false
        });
        assert_eq!(verdict, expected, "{come} more");
    }
}

#[test]
fn a_low_half_is_completed_against_the_present_number() {
    const HIGH: u64 = 1 << 32;
    let cases = [
        ("nothing was ever purged", 0, 0, 0),
        ("the newest", 7, 7, 7),
        ("an older one", 3, 7, 3),
        ("from before the low half began again", u32::MAX, HIGH, HIGH - 1),
        ("the first after it began again", 0, HIGH, HIGH),
        ("long ago", 8, 5 * HIGH + 7, 4 * HIGH + 8),
        ("as long ago as can be told", 8, HIGH + 7, 8),
        ("one longer: it comes out as of now", 7, HIGH + 7, HIGH + 7),
        ("of the future, which is damage: all purges are newer", 8, 7, 0),
        ("the last number of all", u32::MAX, u64::MAX, u64::MAX),
    ];
    let made = made(SLOTS);
    for (what, low, present, whole) in cases {
        assert_eq!(widened(low, present), whole, "{what}");
        made.set_sequence(present);
        assert_eq!(made.purges.widen(low), whole, "{what}");
    }
}

#[test]
fn damage_is_a_purge_of_everything() {
    let damages: &[(&str, usize, u64)] = &[
        ("another purge's number", 0, 1 + SLOTS as u64),
        ("no number", 0, 0),
        ("no kind", 1, 1 << 32),
        ("an unknown kind", 1, 200 | 1 << 32),
        ("tags without an expression", 1, 4 | 1 << 32),
        ("longer than a slot", 1, kind::KEY | (PREDICATE_BYTES_MAX as u64 + 1) << 32),
        ("as long as can be", 1, u64::MAX),
    ];
    for (what, offset, value) in damages {
        let made = made(SLOTS);
        made.purge(b"a");
        assert_eq!(made.check(0, b"b"), clear(1));
        made.word(1, *offset).store(*value, Relaxed);
        assert_eq!(made.check(0, b"b"), PurgeVerdict::Purged, "{what}");
        assert_eq!(made.purges.last(), Some((1, OwnedPredicate::All)), "{what}");
    }
    let made = made(SLOTS);
    made.set_sequence(u64::MAX);
    assert_eq!(made.check(u64::MAX, b"a"), clear(u64::MAX));
    assert_eq!(made.purge(b"a"), 0, "a damaged number causes no panic");
    assert_eq!(made.check(u64::MAX, b"b"), PurgeVerdict::Purged);
}

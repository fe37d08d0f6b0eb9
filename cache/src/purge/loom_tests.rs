//! Models of purges and fills on the real index, and of reads of the ring during a write.
//!
//! | field | written by | read by |
//! |---|---|---|
//! | `origin` | purger, first of all | fills |
//! | `is_done` | purger, after the walk | lookups |
//! | `word`, `second_word` | fills; purger | all |

mod naming_tests;
mod soft_tests;

use std::sync::Arc;

use forebay_sync::atomic::{AtomicU64, Ordering, Relaxed, fence};
use forebay_sync::model::{breaks, breaks_within, fails, holds, holds_within};
use forebay_sync::{LockClass, Mutex, boxed_words};
use loom::thread;

use super::predicate::{OwnedPredicate, PREDICATE_BYTES_MAX};
use super::sites::site_of;
use super::*;
use crate::index::loom_tests::{KEY, Row, Store, run, store};

type Words = Arc<Box<[AtomicU64]>>;

/// The locations of the origin's response before the purge, and after it.
const STALE: u32 = 0;
const NEW: u32 = 1;

/// Returns the bytes of a test key, which fill the two words that a slot has for a predicate.
const fn bytes(key: u8) -> [u8; PREDICATE_BYTES_MAX] {
    [key; PREDICATE_BYTES_MAX]
}
const OURS: [u8; PREDICATE_BYTES_MAX] = bytes(KEY);
const OTHER: [u8; PREDICATE_BYTES_MAX] = bytes(KEY + 1);

struct World {
    purges: PurgeRing<Words>,
    /// The location that stands for the origin's content.
    origin: AtomicU64,
    is_done: AtomicU64,
    /// A word that stands for an index or for a fetch.
    word: AtomicU64,
    second_word: AtomicU64,
    lock: Mutex<()>,
}

fn world(slots: usize) -> Arc<World> {
    let ring = Arc::new(boxed_words(words_needed(slots).unwrap()));
    Arc::new(World {
        purges: PurgeRing::new(Arc::new(boxed_words(1)), 0, ring, slots).unwrap(),
        origin: AtomicU64::new(u64::from(STALE)),
        is_done: AtomicU64::new(0),
        word: AtomicU64::new(EMPTY),
        second_word: AtomicU64::new(EMPTY),
        lock: Mutex::new(LockClass::Test, ()),
    })
}

impl World {
    fn is_ours_purged_since(&self, noted: u64) -> bool {
        self.purges.is_newer(noted, &OURS, |predicate| predicate.may_match(&OURS))
    }

    fn ask_origin(&self) -> u32 {
        self.origin.load(Relaxed) as u32
    }
}

/// Stores the origin's response, unless a newer purge matches it.
fn store_checked(world: &World, store: &Store, row: &Row, noted: u64, location: u32) {
    let Ok(unchecked) = store.publish(row, KEY, location) else {
        return;
    };
    if world.is_ours_purged_since(noted) {
        store.index.withdraw(unchecked);
    } else {
        store.index.make_live(row, &store.key(KEY), unchecked);
    }
}

fn fill(world: &World, store: &Store, row: &Row) {
    let noted = world.purges.noted();
    let location = world.ask_origin();
    store_checked(world, store, row, noted, location);
}

fn walk(store: &Store, row: &Row) {
    store.index.remove(row, &store.key(KEY));
}

fn purge(world: &World, store: &Store, row: &Row) {
    world.origin.store(u64::from(NEW), Relaxed);
    world.purges.announce(Predicate::Key(&OURS));
    walk(store, row);
    world.is_done.store(1, Ordering::Release);
}

type Work = fn(&World, &Store, &Row);

/// Runs a fill and a purge concurrently. Looks up the key after the acknowledgement, and again at
/// the end.
fn fill_against(fill: Work, purge: Work) {
    let (world, store) = (world(2), store());
    let (of_fill, of_purge) = (Arc::clone(&world), Arc::clone(&world));
    let filling = run(&store, 1, move |store, row| fill(&of_fill, store, row));
    let purging = run(&store, 2, move |store, row| purge(&of_purge, store, row));
    let row = store.row(0);
    let stale = Some(u64::from(STALE) + 1);
    if world.is_done.load(Ordering::Acquire) == 1 {
        assert_ne!(store.read(&row, KEY), stale, "a stale response was found after its purge");
    }
    filling.join().unwrap();
    purging.join().unwrap();
    assert_ne!(store.read(&row, KEY), stale, "a stale response survived its purge");
}

fn one_fill() {
    fill_against(fill, purge);
}

#[test]
fn no_lookup_finds_a_response_that_was_fetched_before_a_purge() {
    holds_within(Some(4), "purge: one fill", one_fill);
}

#[test]
fn each_ordering_between_purge_and_fill_is_needed() {
    for name in ["purge.note", "purge.walk", "index.unchecked"] {
        breaks(name, "purge: one fill", one_fill);
    }
}

#[test]
fn models_of_wrong_purges_and_fills_fail() {
    fails("purge: noted after the origin has answered", || {
        fill_against(
            |world, store, row| {
                let location = world.ask_origin();
                store_checked(world, store, row, world.purges.noted(), location);
            },
            purge,
        );
    });
    fails("purge: walked before it is announced", || {
        fill_against(fill, |world, store, row| {
            world.origin.store(u64::from(NEW), Relaxed);
            walk(store, row);
            world.purges.announce(Predicate::Key(&OURS));
            world.is_done.store(1, Ordering::Release);
        });
    });
}

/// Models a purger that dies after its announcement, and a participant that takes the purge lock
/// after it. One thread plays both, since the lock orders the second participant after all steps of
/// the first one.
fn die_and_repeat(world: &World, store: &Store, row: &Row) {
    world.origin.store(u64::from(NEW), Relaxed);
    world.purges.raise(world.purges.write(Predicate::Key(&OURS)));
    let last = world.purges.last();
    assert_eq!(last, Some((1, Predicate::Key(&OURS).into())));
    walk(store, row);
    world.is_done.store(1, Ordering::Release);
}

fn a_purger_dies() {
    fill_against(fill, die_and_repeat);
}

#[test]
fn repeating_the_walk_of_a_dead_purger_misses_nothing() {
    holds_within(Some(4), "purge: a purger dies", a_purger_dies);
    breaks("purge.repeat", "purge: a purger dies", a_purger_dies);
    fails("purge: a dead purger's walk is not repeated", || {
        fill_against(fill, |world, _, _| {
            world.origin.store(u64::from(NEW), Relaxed);
            world.purges.raise(world.purges.write(Predicate::Key(&OURS)));
            // The next purger has something else to purge.
            world.purges.announce(Predicate::Key(&OTHER));
            world.is_done.store(1, Ordering::Release);
        });
    });
}

/// The value of an empty word of an index that has only one word.
const EMPTY: u64 = 0;

fn live(location: u32) -> u64 {
    u64::from(location) * 2 + 2
}

/// Does the same as [`store_checked`], with a plain word as the index. Returns the newest purge
/// that was checked, or `None` if the record was not stored.
fn store_word(world: &World, word: &AtomicU64, noted: u64, location: u32) -> Option<u64> {
    let unchecked = live(location) + 1;
    word.compare_exchange(EMPTY, unchecked, Relaxed, Relaxed).ok()?;
    fence("index.unchecked");
    let verdict = world.purges.check(noted, &OURS, |predicate| predicate.may_match(&OURS));
    let (new, checked) = match verdict {
        PurgeVerdict::Clear { checked } => (live(location), Some(checked)),
        PurgeVerdict::Purged => (EMPTY, None),
    };
    word.compare_exchange(unchecked, new, Relaxed, Relaxed).ok()?;
    checked
}

impl World {
    fn fill_word(&self) {
        let noted = self.purges.noted();
        store_word(self, &self.word, noted, self.ask_origin());
    }

    fn purge_words(&self) -> u64 {
        let _guard = self.lock.lock();
        self.origin.store(u64::from(NEW), Relaxed);
        let number = self.purges.announce(Predicate::Key(&OURS));
        self.word.swap(EMPTY, Relaxed);
        self.second_word.swap(EMPTY, Relaxed);
        number
    }
}

/// Models a fill of two records, each with its own word. The second record is checked only against
/// purges that the first check did not cover.
fn two_records() {
    let world = world(2);
    let purger = Arc::clone(&world);
    let purging = thread::spawn(move || purger.purge_words());
    let noted = world.purges.noted();
    let location = world.ask_origin();
    if let Some(checked) = store_word(&world, &world.word, noted, location) {
        store_word(&world, &world.second_word, checked, location);
    }
    purging.join().unwrap();
    assert_ne!(world.second_word.load(Relaxed), live(STALE), "a stale response survived its purge");
    assert_ne!(world.word.load(Relaxed), live(STALE), "a stale response survived its purge");
}

#[test]
fn the_checked_number_can_replace_the_noted_one() {
    holds("purge: a fill of two records", two_records);
    for name in ["purge.announce", "purge.check"] {
        breaks(name, "purge: a fill of two records", two_records);
    }
}

/// Models two purges of different keys, in any order, and a fill of the first key.
fn two_purges() {
    let world = world(4);
    let filler = Arc::clone(&world);
    let other = Arc::clone(&world);
    let filling = thread::spawn(move || filler.fill_word());
    let purging = thread::spawn(move || {
        let _guard = other.lock.lock();
        other.purges.announce(Predicate::Key(&OTHER))
    });
    let number = world.purge_words();
    filling.join().unwrap();
    assert_eq!(number + purging.join().unwrap(), 3, "each purge has its own number");
    assert_ne!(world.word.load(Relaxed), live(STALE), "a stale response survived its purge");
    // Both purges can be read, whichever came last.
    for (key, noted) in [(&OURS, number - 1), (&OTHER, 2 - number)] {
        assert!(world.purges.is_newer(noted, key, |predicate| *predicate == Predicate::Key(key)));
    }
}

#[test]
fn two_concurrent_purges_both_count() {
    holds_within(Some(3), "purge: two purges, one fill", two_purges);
}

/// Models a purge of our key whose slot is overwritten while it is read: two other purges are
/// announced, and the second one takes that slot.
fn overwritten() {
    let world = world(2);
    world.purges.announce(Predicate::Key(&OURS));
    let purges = [1, 2].map(|_| {
        let world = Arc::clone(&world);
        thread::spawn(move || {
            let _guard = world.lock.lock();
            world.purges.announce(Predicate::Key(&OTHER));
        })
    });
    assert!(world.is_ours_purged_since(0), "a purged key passed the check");
    if let Some((found, _)) = world.purges.find_last(|_| true) {
        let is_real = [&OURS, &OTHER].map(|key| found == OwnedPredicate::Key(Box::from(&key[..])));
        assert!(is_real.contains(&true), "a purge that was never announced: {found:?}");
    }
    purges.into_iter().for_each(|purge| purge.join().unwrap());
    assert!(
        world.is_ours_purged_since(0),
        "a purge that the ring no longer holds counts as a match"
    );
}

#[test]
fn a_slot_that_is_overwritten_while_it_is_read_counts_as_a_match() {
    holds_within(Some(3), "purge: a slot overwritten while it is read", overwritten);
    for name in ["purge.overwrite", "purge.read"] {
        breaks_within(Some(3), name, "purge: a slot overwritten while it is read", overwritten);
    }
}

/// A key of another site. The last purge of that site is in another word than the last purge of the
/// site of our keys.
const OTHER_SITE: [u8; PREDICATE_BYTES_MAX] = {
    let mut key = bytes(KEY);
    key[1] = 0;
    key
};

/// Models a purge of our key among purges of another site, which overwrite the ring.
fn lost_among_other_sites() {
    let world = world(2);
    let (ours, others) = (Arc::clone(&world), Arc::clone(&world));
    let purging = thread::spawn(move || ours.purge_words());
    let overwriting = thread::spawn(move || {
        for _ in 0..2 {
            let _guard = others.lock.lock();
            others.purges.announce(Predicate::Key(&OTHER_SITE));
        }
    });
    world.fill_word();
    purging.join().unwrap();
    overwriting.join().unwrap();
    assert_ne!(world.word.load(Relaxed), live(STALE), "a stale response survived its purge");
}

#[test]
fn a_purge_that_the_ring_has_lost_is_found_by_its_site() {
    assert_ne!(site_of(&OTHER_SITE), site_of(&OURS));
    let name = "purge: a purge lost among those of other sites";
    holds_within(Some(2), name, lost_among_other_sites);
}

/// Checks that a request which arrives after a purge was acknowledged joins no fetch that brings
/// the old content. The purge itself ends no fetch: `may_join` decides whether the request joins.
fn join_flight(may_join: fn(&World, u64) -> bool) {
    let world = world(2);
    let (leader, purger) = (Arc::clone(&world), Arc::clone(&world));
    let leading = thread::spawn(move || {
        let noted = leader.purges.noted();
        let location = leader.ask_origin();
        leader.word.store(noted * 4 + live(location), Ordering::Release);
    });
    let purging = thread::spawn(move || {
        purger.origin.store(u64::from(NEW), Relaxed);
        purger.purges.announce(Predicate::Key(&OURS));
        purger.is_done.store(1, Ordering::Release);
    });
    if world.is_done.load(Ordering::Acquire) == 1 {
        let flight = world.word.load(Ordering::Acquire);
        if flight != EMPTY && may_join(&world, (flight - 2) / 4) {
            assert_ne!((flight - 2) % 4 / 2, u64::from(STALE), "a follower joined a purged flight");
        }
    }
    leading.join().unwrap();
    purging.join().unwrap();
}

#[test]
fn a_follower_joins_no_purged_fetch() {
    holds("purge: a follower joins", || {
        join_flight(|world, noted| !world.is_ours_purged_since(noted));
    });
    fails("purge: a follower joins without asking", || join_flight(|_, _| true));
}

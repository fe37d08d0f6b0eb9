//! Models of purges while a base record names a variant, stops naming it, and names it again: a
//! purge reaches only variants that the base record names. In these models, the base record is one
//! word, and so is each record of the variant.
//!
//! | field | written by | read by |
//! |---|---|---|
//! | `base`: the number under which the base record names the variant | namers | all |
//! | `world.word`: the record of the first number | fills; purger | all |
//! | `world.second_word`: the record of the second number | fills; purger | all |
//!
//! Initially, the base record names the variant under the first number. A thread that makes it stop
//! naming the variant may die before it removes the variant's record.

use super::*;

/// The value of `base` while the base record does not name the variant.
const NOT_NAMED: u64 = 0;
const FIRST: u64 = 1;
const SECOND: u64 = 2;

struct Naming {
    world: Arc<World>,
    base: AtomicU64,
    /// The number that the variant gets when it is named again.
    next_number: u64,
}

impl Naming {
    fn new(next_number: u64) -> Arc<Naming> {
        Arc::new(Naming { world: world(2), base: AtomicU64::new(FIRST), next_number })
    }

    /// The word of the record that is stored under this number.
    fn record(&self, number: u64) -> &AtomicU64 {
        if number == FIRST { &self.world.word } else { &self.world.second_word }
    }

    /// Replaces the base record by one that does not name the variant any more.
    fn take_name(&self) {
        // ORDER: `AcqRel`, as a swap of an index word after the look at its record.
        let _ = self.base.compare_exchange(FIRST, NOT_NAMED, Ordering::AcqRel, Relaxed);
    }

    /// Makes the base record name the variant if it does not. Returns the variant's number.
    fn name(&self) -> u64 {
        let next = self.next_number;
        // ORDER: as in `take_name`.
        match self.base.compare_exchange(NOT_NAMED, next, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => next,
            Err(number) => number,
        }
    }

    fn remove(&self, number: u64) {
        self.record(number).swap(EMPTY, Relaxed);
    }

    /// Fetches the variant, names it and stores it.
    fn fill(&self) {
        let noted = self.world.purges.noted();
        let location = self.world.ask_origin();
        let number = self.name();
        store_word(&self.world, self.record(number), noted, location);
    }

    fn purge(&self) {
        self.world.origin.store(u64::from(NEW), Relaxed);
        self.world.purges.announce(Predicate::Key(&OURS));
        // ORDER: `Acquire`, as a look at the base.
        let number = self.base.load(Ordering::Acquire);
        if number != NOT_NAMED {
            self.remove(number);
        }
        // ORDER: the acknowledgement, which `assert_purged` acquires.
        self.world.is_done.store(1, Ordering::Release);
    }

    /// If the purge is acknowledged, a lookup finds nothing older.
    fn assert_purged(&self) {
        // ORDER: the acknowledgement, which `purge` releases.
        if self.world.is_done.load(Ordering::Acquire) == 1 {
            // ORDER: `Acquire`, as a lookup.
            let number = self.base.load(Ordering::Acquire);
            let is_stale = number != NOT_NAMED && self.record(number).load(Relaxed) == live(STALE);
            assert!(!is_stale, "a stale response was found after its purge");
        }
    }
}

/// Runs `other` and a purge in threads of their own, beside `work` and a lookup.
fn purge_beside(naming: &Arc<Naming>, work: fn(&Naming), other: fn(&Naming)) {
    let (of_other, of_purge) = (Arc::clone(naming), Arc::clone(naming));
    let working = thread::spawn(move || other(&of_other));
    let purging = thread::spawn(move || of_purge.purge());
    work(naming);
    naming.assert_purged();
    working.join().unwrap();
    purging.join().unwrap();
    naming.assert_purged();
}

/// Models a stored record whose variant the base record stops naming, and a fill that makes the
/// base record name the variant again.
fn named_again(next_number: u64, take_name: fn(&Naming)) {
    let naming = Naming::new(next_number);
    naming.world.word.store(live(STALE), Relaxed);
    purge_beside(&naming, Naming::fill, take_name);
}

fn after_a_death() {
    named_again(SECOND, Naming::take_name);
}

#[test]
fn a_variant_that_is_named_again_was_purged() {
    let model = "purge: a variant is named again";
    holds_within(Some(4), model, || {
        named_again(SECOND, |naming| {
            naming.take_name();
            naming.remove(FIRST);
        });
    });
    holds_within(Some(4), "purge: a variant is named again after a death", after_a_death);
    for name in ["purge.note", "purge.walk", "index.unchecked"] {
        breaks(name, "purge: a variant is named again after a death", after_a_death);
    }
    fails("purge: a variant is named again by its old key", || {
        named_again(FIRST, Naming::take_name);
    });
}

/// Models a fill whose variant the base record names, and that stores the record late: the base
/// record has stopped naming the variant, and another thread has named it again and died.
fn stored_late(next_number: u64) {
    purge_beside(
        &Naming::new(next_number),
        |naming| {
            store_word(&naming.world, naming.record(FIRST), 0, STALE);
        },
        |naming| {
            naming.take_name();
            // This also stands for a removal of the old record before the variant is named again.
            naming.remove(FIRST);
            naming.name();
        },
    );
}

#[test]
fn a_variant_that_is_stored_after_it_lost_its_name_was_purged() {
    holds_within(Some(4), "purge: a variant is stored late", || stored_late(SECOND));
    fails("purge: a variant is stored late by its old key", || stored_late(FIRST));
}

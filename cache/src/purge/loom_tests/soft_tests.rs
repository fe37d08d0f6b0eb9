//! Models of soft purges, which mark records, with fills and with threads that derive a new record
//! from a stored one; on the real index and real marks.
//!
//! | field | written by | read by |
//! |---|---|---|
//! | `marks` | purger; deriving thread | all |

use super::*;
use crate::index::{IndexHit, WordState};
use crate::segment::MarksWord;

/// The locations of the stored record, and of the record that is derived from it.
const OLD: u32 = 0;
const RENEWED: u32 = 1;

struct Soft {
    world: Arc<World>,
    /// The marks of the record at each location.
    marks: [AtomicU64; 2],
}

impl Soft {
    fn new() -> Arc<Soft> {
        Arc::new(Soft { world: world(2), marks: [AtomicU64::new(0), AtomicU64::new(0)] })
    }

    fn marks_of(&self, hit: &IndexHit<'_>) -> MarksWord<'_> {
        MarksWord::new(&self.marks[hit.at().location() as usize])
    }

    /// Asserts that a lookup finds no record, or a marked one.
    fn assert_purged(&self, store: &Store, row: &Row, otherwise: &str) {
        if let Some(hit) = store.index.lookup(row, &store.key(KEY)) {
            assert!(self.marks_of(&hit).load().is_soft(), "{otherwise}");
        }
    }
}

type Work = fn(&Soft, &Store, &Row);

fn announce(soft: &Soft) {
    soft.world.purges.announce(Predicate::Key(&OURS));
}

fn walk(soft: &Soft, store: &Store, row: &Row) {
    let goes = |hit: &IndexHit<'_>| !soften(hit.word(), soft.marks_of(hit));
    store.index.remove_if(row, &store.key(KEY), goes);
}

fn purge(soft: &Soft, store: &Store, row: &Row) {
    announce(soft);
    walk(soft, store, row);
    soft.world.is_done.store(1, Ordering::Release);
}

/// Renews the record. The origin was asked before the purge, so the noted number is zero.
fn renew(soft: &Soft, store: &Store, row: &Row) {
    let Some(hit) = store.index.lookup(row, &store.key(KEY)) else {
        return;
    };
    let matches = |purge: &Predicate<'_>| purge.may_match(&OURS);
    let marks = soft.marks_of(&hit);
    if soft.world.purges.freeze_and_check(marks, 0, &OURS, matches) != PurgeVerdict::Purged {
        store.replace(row, &hit, RENEWED);
    }
}

/// Runs a purge and `work` concurrently. Looks up the key after the acknowledgement, and again at
/// the end.
fn purge_against(work: Work, purge: Work, is_stored: bool) {
    let (soft, store) = (Soft::new(), store());
    let row = store.row(0);
    if is_stored {
        assert!(store.insert(&row, KEY, OLD));
    }
    let (working, purging) = (Arc::clone(&soft), Arc::clone(&soft));
    let worker = run(&store, 1, move |store, row| work(&working, store, row));
    let purger = run(&store, 2, move |store, row| purge(&purging, store, row));
    if soft.world.is_done.load(Ordering::Acquire) == 1 {
        soft.assert_purged(&store, &row, "the record is unmarked after the acknowledgement");
    }
    worker.join().unwrap();
    purger.join().unwrap();
    soft.assert_purged(&store, &row, "the mark was lost");
}

fn one_renewal() {
    purge_against(renew, purge, true);
}

#[test]
fn a_derived_record_keeps_the_mark_of_a_purge() {
    holds_within(Some(4), "purge: a soft one against a renewal", one_renewal);
    // Without "purge.walk" the fence of the purger's pin would be enough here; `membarrier` has
    // none.
    breaks("purge.frozen", "purge: a soft one against a renewal", one_renewal);
}

#[test]
fn models_of_wrong_renewals_fail() {
    fails("purge: renewed without a freeze", || {
        purge_against(
            |soft, store, row| {
                let hit = store.index.lookup(row, &store.key(KEY));
                if let Some(hit) = hit.filter(|_| !soft.world.is_ours_purged_since(0)) {
                    store.replace(row, &hit, RENEWED);
                }
            },
            purge,
            true,
        );
    });
    fails("purge: renewed without a look at newer purges", || {
        purge_against(
            |soft, store, row| {
                let Some(hit) = store.index.lookup(row, &store.key(KEY)) else {
                    return;
                };
                let _ = soft.marks_of(&hit).freeze();
                store.replace(row, &hit, RENEWED);
            },
            purge,
            true,
        );
    });
    fails("purge: a frozen record is left alone", || {
        purge_against(
            renew,
            |soft, store, row| {
                announce(soft);
                let hit = store.index.lookup(row, &store.key(KEY));
                hit.into_iter().for_each(|hit| drop(soft.marks_of(&hit).mark_soft()));
                soft.world.is_done.store(1, Ordering::Release);
            },
            true,
        );
    });
}

fn fill(soft: &Soft, store: &Store, row: &Row) {
    store_checked(&soft.world, store, row, 0, OLD);
}

fn one_fill() {
    purge_against(fill, purge, false);
}

#[test]
fn a_soft_purge_covers_fills_in_progress() {
    holds_within(Some(4), "purge: a soft one against a fill", one_fill);
    for name in ["purge.walk", "index.unchecked"] {
        breaks(name, "purge: a soft one against a fill", one_fill);
    }
    fails("purge: a soft one passes over unchecked words", || {
        purge_against(
            fill,
            |soft, store, row| {
                announce(soft);
                store.index.remove_if(row, &store.key(KEY), |hit| {
                    hit.word().state() == WordState::Live && soft.marks_of(hit).mark_soft().is_err()
                });
                soft.world.is_done.store(1, Ordering::Release);
            },
            false,
        );
    });
}

//! Models of leases: a holder takes leases; a reclaimer unlinks values, frees those that are not
//! leased, and links another value at the same place.
//!
//! | field | written by | read by |
//! |---|---|---|
//! | `link[i]` | reclaimer | holder |
//! | `value[i]` | reclaimer, when it frees a value and reuses the memory | holder |

use std::sync::Arc;

use loom::thread;

use super::{LeaseRow, Leases};
use crate::atomic::{AtomicU64, Relaxed, UnsafeCell, acquire, release};
use crate::barrier::Barrier;
use crate::model::{breaks, fails, holds, holds_within};
use crate::pins::Pins;
use crate::words::LineWords;

const NOWHERE: u64 = 0;
const FREE: u64 = 99;

struct Store {
    leases: Leases<Arc<LineWords>>,
    pins: Pins<Arc<LineWords>>,
    link: [AtomicU64; 2],
    value: [UnsafeCell<u64>; 2],
}
// SAFETY: the models check this.
unsafe impl Sync for Store {}
// SAFETY: as above.
unsafe impl Send for Store {}

/// Makes a store of two values, at the places 1 and 2, and one row of leases with `slots` slots.
fn store(slots: usize) -> Arc<Store> {
    let words = || Arc::new(LineWords::new(2));
    Arc::new(Store {
        leases: Leases::new(words(), 1, slots, Barrier::fence()).unwrap(),
        pins: Pins::new(words(), 1, 1, Barrier::fence()).unwrap(),
        link: [AtomicU64::new(1), AtomicU64::new(2)],
        value: [UnsafeCell::new(1), UnsafeCell::new(2)],
    })
}

fn row(store: &Store) -> LeaseRow<Arc<LineWords>> {
    // SAFETY: in each model the row has one owner at a time.
    unsafe { store.leases.row(0) }.unwrap()
}

fn read(store: &Store, index: usize) {
    // SAFETY: leased.
    let value = store.value[index].with(|value| unsafe { *value });
    assert_eq!(value, index as u64 + 1, "read a value that was freed");
}

/// Leases a value and reads it. With `keep` the value stays leased, as if the holder had died.
fn use_value(store: &Store, row: &LeaseRow<Arc<LineWords>>, index: usize, keep: bool) {
    let place = store.link[index].load(Relaxed);
    let is_there = || store.link[index].load(acquire("model.linked")) == place;
    if let Ok(lease) = row.take(place, is_there) {
        read(store, index);
        if keep {
            let _ = lease.into_id();
        }
    }
}

/// Frees a value, and links another one at the same place, which the holder may find.
fn free(store: &Store, index: usize) {
    let place = index as u64 + 1;
    // SAFETY: no lease holds the value.
    store.value[index].with_mut(|value| unsafe { *value = FREE });
    // SAFETY: as above.
    store.value[index].with_mut(|value| unsafe { *value = place });
    store.link[index].store(place, release("model.link"));
}

fn reclaim(store: &Store) {
    store.link[0].store(NOWHERE, Relaxed);
    store.leases.barrier();
    if !store.leases.is_leased(1) {
        free(store, 0);
    }
}

fn one_value() {
    let store = store(1);
    let other = Arc::clone(&store);
    let holder = thread::spawn(move || use_value(&other, &row(&other), 0, false));
    reclaim(&store);
    holder.join().unwrap();
}

/// Models a reclaimer that checks several values with one pass over the leases.
fn one_scan() {
    let store = store(2);
    let other = Arc::clone(&store);
    let holder = thread::spawn(move || {
        let row = row(&other);
        let place = other.link[0].load(Relaxed);
        let first = row.take(place, || other.link[0].load(acquire("model.linked")) == place);
        use_value(&other, &row, 1, false);
        if first.is_ok() {
            read(&other, 0);
        }
    });
    store.link.iter().for_each(|link| link.store(NOWHERE, Relaxed));
    store.leases.barrier();
    let mut leased = Vec::new();
    store.leases.leased_places(&mut leased);
    for index in [0, 1] {
        if !leased.contains(&(index as u64 + 1)) {
            free(&store, index);
        }
    }
    holder.join().unwrap();
}

/// Models a row with one slot, which may hold the place of the second value when the reclaimer of
/// the first value looks.
fn slot_used_again() {
    let store = store(1);
    let other = Arc::clone(&store);
    let holder = thread::spawn(move || {
        let row = row(&other);
        use_value(&other, &row, 0, false);
        use_value(&other, &row, 1, false);
    });
    reclaim(&store);
    holder.join().unwrap();
}

/// Models a holder that turns its lease into a number, and ends the lease by this number.
fn by_number() {
    let store = store(1);
    let other = Arc::clone(&store);
    let holder = thread::spawn(move || {
        let row = row(&other);
        let is_there = || other.link[0].load(acquire("model.linked")) == 1;
        if let Ok(lease) = row.take(1, is_there) {
            let id = lease.into_id();
            read(&other, 0);
            row.release(id).unwrap();
        }
    });
    reclaim(&store);
    holder.join().unwrap();
}

/// Models a holder that dies while it has a lease. Another participant clears the holder's row and
/// takes the row.
fn dead_holder() {
    let store = store(1);
    let other = Arc::clone(&store);
    let finder = thread::spawn(move || {
        let dying = Arc::clone(&other);
        let holder = thread::spawn(move || use_value(&dying, &row(&dying), 0, true));
        holder.join().unwrap();
        // SAFETY: the owner has ended, and no other thread takes its row.
        unsafe { other.leases.clear_row(0) };
        use_value(&other, &row(&other), 0, false);
    });
    reclaim(&store);
    finder.join().unwrap();
}

/// Models a pinned value that is leased without a check, and then unpinned.
fn pin_becomes_lease(pins_first: bool) {
    let store = store(1);
    let other = Arc::clone(&store);
    let holder = thread::spawn(move || {
        // SAFETY: this row has one owner.
        let pin_row = unsafe { other.pins.row(0) }.unwrap();
        let row = row(&other);
        let is_there = || other.link[0].load(acquire("model.linked")) == 1;
        if let Ok(pin) = pin_row.pin(0, is_there) {
            let lease = row.take(1, || true);
            drop(pin);
            read(&other, 0);
            drop(lease);
        }
    });
    store.link[0].store(NOWHERE, Relaxed);
    store.pins.barrier();
    let is_free = if pins_first {
        !store.pins.is_pinned(0) && !store.leases.is_leased(1)
    } else {
        !store.leases.is_leased(1) && !store.pins.is_pinned(0)
    };
    if is_free {
        free(&store, 0);
    }
    holder.join().unwrap();
}

#[test]
fn a_leased_value_is_not_freed() {
    holds("leases: one value", one_value);
    holds("leases: one scan for several values", one_scan);
    holds("leases: a slot is used again", slot_used_again);
    holds("leases: by number", by_number);
    holds_within(Some(3), "leases: a holder dies", dead_holder);
    holds("leases: a pin becomes a lease", || pin_becomes_lease(true));
}

#[test]
fn each_ordering_of_leases_is_needed() {
    for name in [
        "leases.take",
        "leases.reclaim",
        "leases.release",
        "leases.look",
        "model.linked",
        "model.link",
    ] {
        breaks(name, "leases: one value", one_value);
    }
    breaks("leases.store", "leases: a slot is used again", slot_used_again);
    breaks("leases.clear", "leases: a holder dies", dead_holder);
    breaks("pins.look", "leases: a pin becomes a lease", || pin_becomes_lease(true));
}

#[test]
fn leases_cannot_be_looked_at_before_pins() {
    fails("leases: looked at before the pins", || pin_becomes_lease(false));
}

//! Tests of a table of leases that one thread uses. The models have several threads.

use std::sync::Arc;

use super::{LeaseId, LeaseRow, Leases, NotLeased, UnknownLease};
use crate::barrier::Barrier;
use crate::rows::TableError;
use crate::words::{LINE_WORDS, LineWords};

type Table = Leases<Arc<LineWords>>;

fn table(rows: usize, slots: usize) -> Table {
    let words = Arc::new(LineWords::new(Table::words_needed(rows, slots).expect("small")));
    Leases::new(words, rows, slots, Barrier::fence()).expect("its words")
}

fn row(leases: &Table, row: usize) -> LeaseRow<Arc<LineWords>> {
    // SAFETY: each test has a row once at a time.
    unsafe { leases.row(row) }.expect("a row")
}

fn there() -> bool {
    true
}

#[test]
fn a_place_is_leased_until_its_last_lease_ends() {
    let leases = table(2, 3);
    let (first, second) = (row(&leases, 0), row(&leases, 1));
    let once = first.take(7, there).unwrap();
    let twice = first.take(7, there).unwrap();
    let other = second.take(7, there).unwrap();
    assert_eq!((leases.held_count(), first.held_count(), second.held_count()), (3, 2, 1));
    assert_eq!(leases.places_of(0).collect::<Vec<_>>(), [7, 7]);
    for (lease, is_left) in [(once, true), (other, true), (twice, false)] {
        assert_eq!(lease.place(), 7);
        drop(lease);
        assert_eq!(leases.is_leased(7), is_left);
    }
    assert_eq!(leases.held_count(), 0);
}

#[test]
fn one_reading_finds_all_places() {
    let leases = table(3, 20);
    let rows = [0, 1, 2].map(|number| row(&leases, number));
    let held: Vec<_> = [(0, 9), (2, 4), (1, 9), (0, u64::MAX), (2, 1)]
        .map(|(row, place)| rows[row].take(place, there).unwrap())
        .into();
    let mut places = vec![55];
    leases.barrier();
    leases.leased_places(&mut places);
    assert_eq!(places, [1, 4, 9, u64::MAX]);
    drop(held);
    leases.leased_places(&mut places);
    assert!(places.is_empty(), "{places:?}");
}

#[test]
fn a_lease_that_fails_leaves_nothing_behind() {
    let leases = table(1, 1);
    let holder = row(&leases, 0);
    let cases = [
        ("the value was unlinked", 5, false, NotLeased::Gone),
        ("zero is no place", 0, true, NotLeased::NoPlace),
    ];
    for (case, place, is_there, expected) in cases {
        assert_eq!(holder.take(place, || is_there).err(), Some(expected), "{case}");
        assert_eq!(leases.held_count(), 0, "{case}");
    }
    assert_eq!(row(&table(1, 0), 0).take(5, there).err(), Some(NotLeased::NoSlot));
}

#[test]
fn slots_have_a_limit_and_are_used_again() {
    let leases = table(1, 3);
    let holder = row(&leases, 0);
    let mut held: Vec<_> = (1..=3).map(|place| holder.take(place, there).unwrap()).collect();
    for round in 4..20 {
        assert_eq!(holder.take(round, there).err(), Some(NotLeased::NoSlot), "round {round}");
        held.swap_remove(round as usize % 3);
        held.push(holder.take(round, there).unwrap());
        let mut places: Vec<u64> = held.iter().map(|lease| lease.place()).collect();
        places.sort_unstable();
        let mut leased = Vec::new();
        leases.leased_places(&mut leased);
        assert_eq!(leased, places, "round {round}");
    }
}

#[test]
fn a_number_ends_its_lease_once() {
    let leases = table(1, 2);
    let holder = row(&leases, 0);
    let guarded = holder.take(1, there).unwrap();
    let id = holder.take(2, there).unwrap().into_id();
    assert_eq!(LeaseId::from_raw(id.to_raw()), id);
    assert!(leases.is_leased(2), "the lease ended with the guard");
    let slot_of = |raw: u64| raw & u64::from(u32::MAX);
    let forged = [
        ("nothing", 0),
        ("the slot of the guard, without a number", 0x0000_0000_0000_0000),
        ("the slot of the guard, with a number", 1 << 32),
        ("another serial number", (2 << 32) | slot_of(id.to_raw())),
        ("a slot that is not there", (1 << 32) | 2),
        ("all ones", u64::MAX),
    ];
    for (case, raw) in forged {
        assert_eq!(holder.release(LeaseId::from_raw(raw)), Err(UnknownLease), "{case}");
        assert_eq!(leases.held_count(), 2, "{case}");
    }
    assert_eq!(holder.release(id), Ok(()));
    assert_eq!(holder.release(id), Err(UnknownLease), "it has ended");
    let again = holder.take(3, there).unwrap().into_id();
    assert_ne!(again, id, "two leases have the same id");
    assert_eq!(holder.release(id), Err(UnknownLease), "an old id ended a new lease");
    assert!(leases.is_leased(3));
    drop(guarded);
    assert!(!leases.is_leased(1));
}

#[test]
fn a_dead_row_is_cleared_and_others_stay() {
    let leases = table(2, 20);
    let dead = row(&leases, 0);
    for place in 1..=20 {
        let _ = dead.take(place, there).unwrap().into_id();
    }
    drop(dead);
    let living = row(&leases, 1);
    let held = living.take(5, there).unwrap();
    assert_eq!(leases.held_count(), 21);
    // SAFETY: the owner has given its row up.
    unsafe { leases.clear_row(0) };
    let mut places = Vec::new();
    leases.leased_places(&mut places);
    assert_eq!(places, [5]);
    assert_eq!(row(&leases, 0).take(6, there).map(|lease| lease.place()), Ok(6));
    drop(held);
}

#[test]
fn a_table_lies_in_enough_words() {
    assert_eq!(Table::words_needed(3, 17), Some(6 * LINE_WORDS));
    let cases = [(2, 17, None), (2, 33, Some(TableError::TooFewWords))];
    for (rows, slots, problem) in cases {
        let made = Leases::new(LineWords::new(64), rows, slots, Barrier::fence());
        assert_eq!(made.err(), problem, "{rows} rows, {slots} slots");
    }
    // SAFETY: the table has no such row.
    assert!(unsafe { table(2, 1).row(2) }.is_none());
}

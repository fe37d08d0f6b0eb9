//! Tests of participants, and of the locks that they share.

use std::sync::atomic::Ordering::Relaxed;

use forebay_sync::{LockClass, Words};

use super::{SPEC, fresh};
use crate::participant::*;
use crate::region::*;
use crate::{Liveness, RobustLock, robust_lock};

#[test]
fn rows_are_taken_from_below_and_die_without_being_left() {
    let spec = RegionSpec { participants_max: 2, ..SPEC };
    let region = Region::anonymous(&spec).unwrap();
    let first = region.join().unwrap();
    let second = region.join().unwrap();
    let full = region.join().unwrap_err().to_string();
    assert!(full.starts_with("the region has its maximum of 2 participants already"), "{full}");
    let (first_id, second_id) = (first.id(), second.id());
    assert_eq!((first_id.row, second_id.row), (0, 1));
    assert!(first.is_alive(second_id) && first.is_alive(first_id));
    let unknown = ParticipantId { row: 2, generation: 1 };
    assert!(!first.is_alive(unknown), "a row beyond the table counts as alive");

    drop(second);
    assert!(!first.is_alive(second_id));
    assert_eq!(region.list()[1].status, ParticipantStatus::Dead);
    assert!(region.join().is_err(), "the row of a dead participant was taken");
    let mut swept = Vec::new();
    let count = region
        .sweep(|dead| {
            assert_eq!(region.list()[1].status, ParticipantStatus::Sweeping);
            assert!(!first.is_alive(dead.id()), "dead while it is being swept");
            swept.push(dead.id());
        })
        .unwrap();
    assert_eq!((count, swept), (1, vec![second_id]));
    assert_eq!(region.sweep(|_| panic!("swept a living participant")).unwrap(), 0);

    let third = region.join().unwrap();
    assert_eq!((third.id().row, third.id().generation), (1, second_id.generation + 1));
    assert!(first.is_alive(third.id()) && !first.is_alive(second_id));
    first.leave();
    third.leave();
    assert_eq!(region.list(), []);
}

#[test]
fn the_owner_of_a_lock_cannot_wait_for_itself_and_others_can_give_up() {
    let region = Region::anonymous(&SPEC).unwrap();
    let lock = RobustLock::new(region.area(16).unwrap(), 0, LockClass::Test);
    let (first, second) = (region.join().unwrap(), region.join().unwrap());
    let guard = lock.lock(&first).unwrap();
    assert!(!guard.must_repair());
    assert_eq!(lock.owner(), Some(first.id()));
    assert_eq!(lock.lock(&first).unwrap_err(), crate::LockError::AlreadyHeld);
    assert!(lock.try_lock(&second).unwrap().is_none());
    let at_most = std::time::Duration::from_millis(1);
    assert_eq!(lock.lock_within(&second, at_most).unwrap_err(), crate::LockError::TimedOut);
    drop(guard);
    assert!(lock.lock_within(&second, at_most).is_ok());
    assert_eq!(lock.owner(), None);
}

#[test]
fn need_of_repair_stays_until_somebody_has_repaired() {
    let region = Region::anonymous(&SPEC).unwrap();
    let lock = RobustLock::new(region.area(16).unwrap(), 0, LockClass::Test);
    let (dying, member) = (region.join().unwrap(), region.join().unwrap());
    std::mem::forget(lock.lock(&dying).unwrap());
    let dead = dying.id();
    drop(dying);
    for attempt in 0..2 {
        let guard = lock.lock(&member).unwrap();
        assert!(guard.must_repair(), "attempt {attempt}");
    }
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut guard = lock.lock(&member).unwrap();
        guard.repaired();
        panic!("in the middle of a change");
    }));
    assert!(panicked.is_err());
    let mut guard = lock.try_lock(&member).unwrap().unwrap();
    assert!(guard.must_repair(), "a panic leaves the lock without need of repair");
    guard.repaired();
    assert!(!guard.must_repair());
    drop(guard);
    assert!(!lock.lock(&member).unwrap().must_repair());

    let word = region.area(16).unwrap();
    word.word(0).store(u64::from(dead.generation) << 32 | (u64::from(dead.row) + 1), Relaxed);
    let sweep = |dead: &Dead| {
        assert!(lock.abandon(dead));
        assert!(!lock.abandon(dead), "abandoned a lock that another participant owns now");
    };
    assert_eq!(region.sweep(sweep).unwrap(), 1);
    assert_eq!(word.word(0).load(Relaxed), robust_lock::REPAIR);
    assert!(lock.lock(&member).unwrap().must_repair());
}

/// The same row and generation identify different participants in different regions.
#[test]
fn who_takes_part_or_died_elsewhere_is_refused() {
    let (_dir, path) = fresh();
    let (here, again) = (
        Region::open_or_create(&path, &SPEC).unwrap(),
        Region::open_or_create(&path, &SPEC).unwrap(),
    );
    let elsewhere = Region::anonymous(&SPEC).unwrap();
    let lock = RobustLock::new(here.area(16).unwrap(), 0, LockClass::Test);
    let (of_again, stranger) = (again.join().unwrap(), elsewhere.join().unwrap());
    assert_eq!(lock.lock(&stranger).unwrap_err(), crate::LockError::OtherRegion);
    assert_eq!(lock.try_lock(&stranger).unwrap_err(), crate::LockError::OtherRegion);
    let guard = lock.lock(&of_again).unwrap();
    assert_eq!(stranger.id(), of_again.id());
    drop(stranger);
    elsewhere.sweep(|dead| assert!(!lock.abandon(dead), "freed under its owner")).unwrap();
    assert_eq!(lock.owner(), Some(of_again.id()));
    drop(guard);
    assert!(here.area(1).is_none(), "the region handed out its own area");
}

/// A participant in any row, such as the last row that a lock's word can name, or the row behind
/// it. It assumes that all other participants are alive.
struct Far(u32, RegionId);

impl Liveness for Far {
    fn id(&self) -> ParticipantId {
        ParticipantId { row: self.0, generation: 0 }
    }

    fn region_id(&self) -> RegionId {
        self.1
    }

    fn is_alive(&self, _: ParticipantId) -> bool {
        true
    }
}

#[test]
fn no_owner_s_row_is_cut_to_nobody() {
    let region = Region::anonymous(&SPEC).unwrap();
    let lock = RobustLock::new(region.area(16).unwrap(), 0, LockClass::Test);
    let last = Far(0x00ff_fffe, region.id());
    let guard = lock.lock(&last).unwrap();
    assert_eq!(lock.owner(), Some(last.id()));
    drop(guard);
    let beyond = Far(0x00ff_ffff, region.id());
    let locked = std::panic::AssertUnwindSafe(|| drop(lock.try_lock(&beyond)));
    assert!(
        std::panic::catch_unwind(locked).is_err(),
        "locked for a participant whose row does not fit into the word"
    );
}

#[test]
fn words_that_nobody_wrote_are_survived() {
    let region = Region::anonymous(&SPEC).unwrap();
    let lock = RobustLock::new(region.area(16).unwrap(), 0, LockClass::Test);
    let member = region.join().unwrap();
    for word in [u64::MAX, 0x00ff_ffff, 5, 1 << 63, u64::from(u32::MAX) << 32 | 1] {
        region.area(16).unwrap().word(0).store(word, Relaxed);
        let Ok(guard) = lock.lock(&member) else {
            panic!("{word:#x} stays locked");
        };
        drop(guard);
    }
    let rows = region.rows();
    for index in ROW_WORDS..rows.word_count() {
        rows.word(index).store(u64::MAX - index as u64, Relaxed);
    }
    assert_eq!(region.list().len(), 10);
    assert_eq!(region.sweep(|_| {}).unwrap(), 9);
    assert_eq!(region.list().len(), 1);
}

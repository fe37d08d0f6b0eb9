//! A participant's process has children. Their copies of its descriptors have no effect, except in
//! a child that has not executed a program when its parent dies.

use std::time::Duration;

use forebay_shm::{LockError, ParticipantStatus};

use super::shared::{Shared, fresh};
use forebay_testkit::process::{Actor, PATIENCE, pidfd_of, wait_readable};

#[test]
fn a_child_that_executed_a_program_keeps_nothing_of_its_dead_parent() {
    let (_dir, path) = fresh();
    let shared = Shared::open(&path);
    let mut parent = Actor::start("hold_and_spawn", &path);
    let child = pidfd_of(parent.hear().unwrap().parse().unwrap());
    let stdin = parent.take_stdin();
    assert_eq!(shared.region.list()[0].status, ParticipantStatus::Alive);
    parent.kill();
    assert!(!wait_readable(&child, Duration::ZERO), "the child lives");
    assert_eq!(shared.region.list()[0].status, ParticipantStatus::Dead);
    assert_eq!(shared.sweep(), 1);
    drop(stdin);
    assert!(wait_readable(&child, PATIENCE), "the child does not end");
}

/// A child that another thread starts also has copies of the descriptors, until it executes its
/// program.
#[test]
fn who_drops_leaves_or_sweeps_is_done_whatever_copies_its_children_have() {
    let (_dir, path) = fresh();
    let mut parent = Actor::start("part_beside_child", &path);
    assert_eq!(parent.hear().as_deref(), Some("done"));
    parent.end_well();
}

#[test]
fn a_child_that_drops_what_its_parent_has_changes_nothing() {
    let (_dir, path) = fresh();
    Actor::start("drop_in_child", &path).end_well();
}

#[test]
fn a_child_that_was_only_forked_keeps_its_dead_parent_s_row_and_lock() {
    let (_dir, path) = fresh();
    let shared = Shared::open(&path);
    let us = shared.region.join().unwrap();
    let mut parent = Actor::start("hold_and_fork", &path);
    let child = pidfd_of(parent.hear().unwrap().parse().unwrap());
    let stdin = parent.take_stdin();
    assert_eq!(shared.region.list()[1].status, ParticipantStatus::Alive);
    parent.kill();
    assert!(!wait_readable(&child, Duration::ZERO), "the child lives");
    assert_eq!(shared.region.list()[1].status, ParticipantStatus::HeldByAnother);
    assert_eq!(shared.sweep(), 0);
    let lock = shared.lock();
    let soon = Duration::from_millis(120);
    assert_eq!(lock.lock_within(&us, soon).unwrap_err(), LockError::TimedOut);

    drop(stdin);
    assert!(wait_readable(&child, PATIENCE), "the child does not end");
    assert_eq!(shared.region.list()[1].status, ParticipantStatus::Dead);
    assert!(shared.work(&us), "the death was not reported after the last copy was closed");
    assert_eq!(shared.sweep(), 1);
    us.leave();
    shared.assert_nothing_is_left("at the end");
}

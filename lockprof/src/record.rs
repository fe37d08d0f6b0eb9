//! What is recorded of a call, step by step. Between the steps the real functions run.

use forebay_sync::profile::{Held, Stamp, Taken, Wait};

use crate::holds::Hold;
use crate::place::Place;
use crate::process::Process;
use crate::thread::{self, Thread};

/// How an attempt ended, as the functions of the C library say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Taken,
    /// The last owner died while it had the lock.
    TakenFromDead,
    Busy,
    TimedOut,
    Failed,
}

/// A lock that is about to be left.
pub(crate) struct Left {
    held: Held,
    at: Stamp,
}

/// Is this attempt recorded? Finds out where it is made.
#[inline]
pub(crate) fn begin(place: &mut Place) -> bool {
    let is_recorded = thread::with(|thread, process| {
        let profile = &process.profile;
        let tid = thread.tid;
        let is_recorded =
            profile.is_on() && thread.recorder.begin(profile, || Thread::identity(tid));
        if is_recorded {
            if process.frame_count > 1 {
                look_up(place, thread, process);
            }
            place.seal(process.is_by_lock);
        }
        is_recorded
    });
    is_recorded == Some(true)
}

#[cold]
fn look_up(place: &mut Place, thread: &mut Thread, process: &Process) {
    let caller = place.caller;
    place.fill(|frames| thread.stack.callers(caller, &mut frames[..process.frame_count]));
}

/// The lock is found held, and is now waited for.
#[cold]
pub(crate) fn begin_wait(place: &Place) -> Option<Wait> {
    thread::with_ready(|_, process| Wait {
        since: process.profile.clock().now(),
        holder: process.holders.of(place.lock),
    })
}

/// An attempt of [`begin`] is over.
#[inline]
pub(crate) fn end(place: &Place, outcome: Outcome, wait: Option<Wait>) {
    match outcome {
        Outcome::Taken => taken(place, wait, false),
        Outcome::TakenFromDead => taken(place, wait, true),
        outcome => not_taken(place, outcome, wait),
    }
}

#[inline]
fn taken(place: &Place, wait: Option<Wait>, has_owner_died: bool) {
    thread::with_ready(|thread, process| {
        let is_shared = place.kind.is_shared();
        let taken = Taken { lock: place.lock, wait, is_shared, has_owner_died };
        let held = thread.recorder.acquired(&process.profile, place, &taken);
        if let Some(held) = held {
            note(thread, process, Hold { lock: place.lock, held, row: None });
        }
        if place.take_is_new() {
            thread.must_look |= !place.frames().iter().all(|at| process.modules.knows(*at));
        }
    });
}

#[inline]
fn note(thread: &mut Thread, process: &Process, hold: Hold) {
    let row = process.holders.note(hold.lock, hold.held.key());
    if row.is_none() {
        process.profile.count_untracked(1);
    }
    if thread.holds.push(Hold { row, ..hold }).is_some() {
        process.profile.count_lost(1);
    }
}

#[cold]
fn not_taken(place: &Place, outcome: Outcome, wait: Option<Wait>) {
    thread::with_ready(|thread, process| {
        let profile = &process.profile;
        match (outcome, wait) {
            (Outcome::Busy, _) => {
                let holder = process.holders.of(place.lock);
                thread.recorder.try_failed(profile, place, place.lock, holder);
            }
            (Outcome::TimedOut, Some(wait)) => {
                thread.recorder.timed_out(profile, place, place.lock, wait);
            }
            _ => {}
        }
        if place.take_is_new() {
            look(process, place.frames());
        }
    });
}

/// The lock is about to be left; `None` if nobody recorded that it was taken.
#[inline]
pub(crate) fn leave(lock: usize) -> Option<Left> {
    let left = thread::with_ready(|thread, process| {
        if thread.holds.is_empty() {
            return None;
        }
        let hold = thread.holds.take(lock)?;
        if let Some(row) = hold.row {
            process.holders.clear(row, lock, hold.held.key());
        }
        Some(Left { held: hold.held, at: process.profile.clock().now() })
    });
    left.flatten()
}

/// The lock is left.
#[inline]
pub(crate) fn left(left: &Left) {
    thread::with_ready(|thread, process| {
        thread.recorder.released_at(&process.profile, &left.held, left.at);
        // Not before: it takes long, and nobody waits for us now.
        if thread.must_look {
            thread.must_look = false;
            process.modules.look(&process.profile);
        }
    });
}

#[cold]
fn look(process: &Process, frames: &[u64]) {
    if !frames.iter().all(|at| process.modules.knows(*at)) {
        process.modules.look(&process.profile);
    }
}

/// When a thread that has left its lock began to wait for a condition; `None` while nothing is
/// recorded.
#[inline]
pub(crate) fn fall_asleep() -> Option<Stamp> {
    let since =
        thread::with(|_, process| process.profile.is_on().then(|| process.profile.clock().now()));
    since.flatten()
}

/// It has taken its lock back. Whether it found that held cannot be seen.
#[inline]
pub(crate) fn wake_up(place: &mut Place, since: Stamp, outcome: Outcome) {
    let has_lock = matches!(outcome, Outcome::Taken | Outcome::TakenFromDead | Outcome::TimedOut);
    if !has_lock || !begin(place) {
        return;
    }
    thread::with_ready(|thread, process| thread.recorder.slept(&process.profile, place, since));
    taken(place, None, outcome == Outcome::TakenFromDead);
}

/// There is no lock here any more, or a new one.
#[inline]
pub(crate) fn forget(lock: usize) {
    thread::with_ready(|thread, process| {
        thread.recorder.destroyed(lock);
        process.holders.forget(lock);
        // A hold that never ended, such as one of a lock in memory that was used again.
        while thread.holds.take(lock).is_some() {
            process.profile.count_lost(1);
        }
    });
}

/// The system's number of this thread, as locks note their owners; 0 while nothing is recorded.
#[cold]
pub(crate) fn own_number() -> u32 {
    thread::with(|thread, _| thread.tid).unwrap_or(0)
}

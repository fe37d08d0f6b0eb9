//! What one thread holds.

use forebay_sync::profile::Held;

/// Locks of which a thread remembers at a time that it holds them.
const HOLDS_MAX: usize = 24;

/// A lock that this thread holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub(crate) lock: usize,
    pub(crate) held: Held,
}

/// The holds of a thread, the latest last.
#[derive(Debug)]
pub(crate) struct Holds {
    holds: [Option<Hold>; HOLDS_MAX],
    count: usize,
}

impl Holds {
    pub(crate) const fn new() -> Holds {
        Holds { holds: [None; HOLDS_MAX], count: 0 }
    }

    /// Adds a hold, and gives back one that is forgotten for it.
    #[inline(always)]
    pub(crate) fn push(&mut self, hold: Hold) -> Option<Hold> {
        let forgotten = if self.count == HOLDS_MAX { self.take_at(0) } else { None };
        if let Some(place) = self.holds.get_mut(self.count) {
            *place = Some(hold);
            self.count += 1;
        }
        forgotten
    }

    /// Takes out the latest hold of a lock.
    #[inline]
    pub(crate) fn take(&mut self, lock: usize) -> Option<Hold> {
        let of_lock = |hold: &Option<Hold>| hold.is_some_and(|hold| hold.lock == lock);
        let index = self.holds[..self.count].iter().rposition(of_lock)?;
        self.take_at(index)
    }

    #[inline]
    fn take_at(&mut self, index: usize) -> Option<Hold> {
        let taken = self.holds[index];
        // Locks are mostly left in the order opposite to that in which they were taken.
        if index + 1 < self.count {
            self.holds.copy_within(index + 1..self.count, index);
        }
        self.count -= 1;
        taken
    }
}

#[cfg(test)]
mod tests {
    use forebay_sync::profile::{
        Clock, Identity, Plan, Profile, Recorder, SiteKind, StackPlan, ThreadIdentity,
    };

    use super::*;
    use crate::place::{Caller, Kind, Place};

    fn held() -> Held {
        let plan = Plan {
            sites: 1,
            frames: 1,
            modules: 0,
            text_bytes: 64,
            threads: 1,
            rows: 1,
            pairs: 1,
            stacks: StackPlan::NONE,
        };
        let words =
            Box::leak((0..plan.word_count()).map(|_| Default::default()).collect::<Box<[_]>>());
        let us = Identity {
            pid: 1,
            start_ticks: 0,
            boot_id: [0; 16],
            unix_ns: 0,
            program: "",
            kind: SiteKind::Stacks,
        };
        let profile = Profile::new(words, plan, Clock::SYSTEM, &us).unwrap();
        let mut recorder = Recorder::new();
        assert!(recorder.begin(&profile, || Some(ThreadIdentity::default())));
        let mut place = Place::new(Kind::Mutex, 0, Caller { address: 1, frame: 0 });
        place.seal(false);
        recorder.acquired(&profile, &place, &Default::default()).unwrap()
    }

    #[test]
    fn the_latest_hold_of_a_lock_is_taken_out_and_the_oldest_is_forgotten() {
        let held = held();
        let hold = |lock| Hold { lock, held };
        let mut holds = Holds::new();
        for lock in [1, 2, 1, 3] {
            assert!(holds.push(hold(lock)).is_none());
        }
        let mut take = |lock| holds.take(lock).map(|hold| hold.lock);
        assert_eq!([take(1), take(4), take(1), take(1)], [Some(1), None, Some(1), None]);
        assert_eq!([take(2), take(3)], [Some(2), Some(3)]);
        assert_eq!(holds.count, 0);
        for lock in 0..HOLDS_MAX {
            assert!(holds.push(hold(lock)).is_none());
        }
        assert_eq!(holds.push(hold(99)).map(|hold| hold.lock), Some(0));
        assert_eq!((holds.take(0).is_none(), holds.take(99).is_some()), (true, true));
    }
}

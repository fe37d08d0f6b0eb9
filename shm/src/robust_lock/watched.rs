//! The part of a lock that reports to the profiler. The profile is not in the region: each process
//! reports its own threads, and knows of other processes only that they hold the lock. In loom
//! models, nothing is reported.

#[cfg(loom)]
pub(super) use silent::{Hold, Watched};
#[cfg(not(loom))]
pub(super) use told::{Hold, Watched};

#[cfg(not(loom))]
mod told {
    use std::panic::Location;

    use forebay_sync::LockClass;
    use forebay_sync::atomic::{AtomicU64, Relaxed};
    use forebay_sync::observe::{LockMode, is_on};
    use forebay_sync::watch::{self, AcquiredHow, ObservedWait, Watch, WatchedAttempt};

    #[derive(Debug)]
    pub(in super::super) struct Watched {
        watch: Watch,
        /// The last owner in this process, encoded as in the lock's word; 0 if its hold was not
        /// reported.
        owner: AtomicU64,
    }

    /// The report of an attempt to lock.
    pub(in super::super) enum Telling<'a> {
        Off,
        PassedOver(&'a Watched),
        Told { watched: &'a Watched, attempt: WatchedAttempt<'a>, begun: Option<ObservedWait> },
    }

    /// The profiler's part of the guard.
    pub(in super::super) struct Hold<'a>(watch::WatchedHold<'a>);

    impl Watched {
        pub(in super::super) const fn new(class: LockClass) -> Watched {
            Watched { watch: Watch::new(class), owner: AtomicU64::new(0) }
        }

        #[inline]
        #[track_caller]
        pub(in super::super) fn begin(&self) -> Telling<'_> {
            if !is_on() {
                return Telling::Off;
            }
            match self.watch.attempt(LockMode::Exclusive, Location::caller()) {
                Some(attempt) => Telling::Told { watched: self, attempt, begun: None },
                None => Telling::PassedOver(self),
            }
        }

        /// Whether `owner` is the last owner in this process, and its hold was reported. If not, a
        /// thread of another process may hold the lock.
        fn knows(&self, owner: u64) -> bool {
            self.owner.load(Relaxed) == owner
        }
    }

    impl<'a> Telling<'a> {
        /// Reports a wait for this owner.
        pub(in super::super) fn waits(&mut self, owner: u64) {
            if let Telling::Told { watched, attempt, begun } = self {
                begun.get_or_insert_with(|| attempt.begin_wait(watched.knows(owner)));
            }
        }

        /// Reports that this thread has the lock; `owner` is its id, encoded as in the lock's word.
        pub(in super::super) fn acquired(self, owner: u64, has_owner_died: bool) -> Hold<'a> {
            let (watched, attempt, begun) = match self {
                Telling::Off => return Hold(watch::WatchedHold::SILENT),
                Telling::PassedOver(watched) => {
                    watched.owner.store(0, Relaxed);
                    watched.watch.acquired_silently();
                    return Hold(watch::WatchedHold::SILENT);
                }
                Telling::Told { watched, attempt, begun } => (watched, attempt, begun),
            };
            let way = match (has_owner_died, begun) {
                (true, begun) => AcquiredHow::OwnerDied(begun),
                (false, Some(begun)) => AcquiredHow::Waited(begun),
                (false, None) => AcquiredHow::Free,
            };
            let hold = attempt.acquired(way);
            watched.owner.store(owner, Relaxed);
            Hold(hold)
        }

        /// Reports that the attempt was given up; a wait, if there was one, is over.
        pub(in super::super) fn given_up(self) {
            if let Telling::Told { attempt, begun: Some(begun), .. } = self {
                attempt.timed_out(begun);
            }
        }

        /// Reports a failed try-lock or a timeout while this owner held the lock.
        pub(in super::super) fn failed(self, owner: u64) {
            match self {
                Telling::Told { watched, attempt, begun: None } => {
                    attempt.try_failed(watched.knows(owner));
                }
                Telling::Told { attempt, begun: Some(begun), .. } => attempt.timed_out(begun),
                Telling::Off | Telling::PassedOver(_) => {}
            }
        }
    }

    impl Hold<'_> {
        /// Reports that the lock is about to be released.
        #[inline]
        pub(in super::super) fn end(&mut self) {
            self.0 = watch::WatchedHold::SILENT;
        }
    }
}

#[cfg(loom)]
mod silent {
    use std::marker::PhantomData;

    #[derive(Debug)]
    pub(in super::super) struct Watched;

    pub(in super::super) struct Telling<'a>(PhantomData<&'a ()>);

    pub(in super::super) struct Hold<'a>(PhantomData<&'a ()>);

    impl Watched {
        pub(in super::super) fn begin(&self) -> Telling<'_> {
            Telling(PhantomData)
        }
    }

    impl<'a> Telling<'a> {
        pub(in super::super) fn waits(&mut self, _owner: u64) {}

        pub(in super::super) fn acquired(self, _owner: u64, _has_owner_died: bool) -> Hold<'a> {
            Hold(PhantomData)
        }

        pub(in super::super) fn failed(self, _owner: u64) {}

        pub(in super::super) fn given_up(self) {}
    }

    impl Hold<'_> {
        pub(in super::super) fn end(&mut self) {}
    }
}

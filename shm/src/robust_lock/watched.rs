//! The lock as it is recorded: nothing of it is in the region, so each process tells of its own
//! threads, and knows of others only that they hold the lock. A model tells nobody.

#[cfg(loom)]
pub(super) use silent::{Hold, Telling, Watched};
#[cfg(not(loom))]
pub(super) use told::{Hold, Telling, Watched};

#[cfg(not(loom))]
mod told {
    use std::panic::Location;

    use forebay_sync::LockClass;
    use forebay_sync::observe::{LockMode, is_on};
    use forebay_sync::watch::{self, Attempt, Begun, Watch, Way};

    #[derive(Debug)]
    pub(in super::super) struct Watched(Watch);

    /// An attempt, if it is told.
    pub(in super::super) struct Telling<'a>(Option<(Attempt<'a>, Option<Begun>)>);

    /// A part of the guard.
    pub(in super::super) struct Hold<'a>(watch::Hold<'a>);

    impl Watched {
        pub(in super::super) const fn new(class: LockClass) -> Watched {
            Watched(Watch::new(class))
        }

        #[inline]
        #[track_caller]
        pub(in super::super) fn begin(&self) -> Telling<'_> {
            if !is_on() {
                return Telling(None);
            }
            let attempt = self.0.attempt(LockMode::Exclusive, Location::caller());
            Telling(attempt.map(|attempt| (attempt, None)))
        }
    }

    impl<'a> Telling<'a> {
        /// Somebody else has the lock, and is waited for.
        pub(in super::super) fn waits(&mut self) {
            if let Some((attempt, begun)) = &mut self.0 {
                begun.get_or_insert_with(|| attempt.begin_wait());
            }
        }

        pub(in super::super) fn acquired(self, has_owner_died: bool) -> Hold<'a> {
            let Some((attempt, begun)) = self.0 else {
                return Hold(watch::Hold::SILENT);
            };
            let way = match (has_owner_died, begun) {
                (true, begun) => Way::OwnerDied(begun),
                (false, Some(begun)) => Way::Waited(begun),
                (false, None) => Way::Free,
            };
            Hold(attempt.acquired(way))
        }

        /// The lock was tried only, or waited for until time was up.
        pub(in super::super) fn failed(self) {
            match self.0 {
                None => {}
                Some((attempt, None)) => attempt.try_failed(),
                Some((attempt, Some(begun))) => attempt.timed_out(begun),
            }
        }
    }

    impl Hold<'_> {
        /// The lock is about to be left.
        #[inline]
        pub(in super::super) fn end(&mut self) {
            self.0 = watch::Hold::SILENT;
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
        pub(in super::super) fn waits(&mut self) {}

        pub(in super::super) fn acquired(self, _has_owner_died: bool) -> Hold<'a> {
            Hold(PhantomData)
        }

        pub(in super::super) fn failed(self) {}
    }

    impl Hold<'_> {
        pub(in super::super) fn end(&mut self) {}
    }
}

//! The table of events: what Forebay tells its operator, in one place.
//!
//! An event has a level and a text here and nowhere else; those that say how often something
//! happened have a counter beside it. What a client can cause is limited per worker and second,
//! so that nobody fills the disk through the log; the counters go on counting.

use std::cell::Cell;
use std::fmt;

use crate::clock;
use crate::limits::EVENTS_PER_SECOND_MAX;

macro_rules! events {
    ($( $id:ident, $level:ident, $name:literal, $text:literal; )*) => {
        /// Something worth a line in the log.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Event {
            $( #[doc = $text] $id, )*
        }

        impl Event {
            /// Every event, for the documentation and its test.
            pub const ALL: &'static [Event] = &[$( Event::$id ),*];

            /// Name, level and text.
            pub const fn describe(self) -> (&'static str, &'static str, &'static str) {
                match self { $( Event::$id => ($name, stringify!($level), $text), )* }
            }

                /// Would the log take it? What it would not must not use up the budget of the rest.
            pub(crate) fn is_wanted(self) -> bool {
                self.describe().1 != "debug" || tracing::enabled!(tracing::Level::DEBUG)
            }

            /// Writes the event to the log, with what belongs to it.
            pub fn log(self, detail: &dyn fmt::Display) {
                match self {
                    $( Event::$id => tracing::$level!(event = $name, %detail, $text), )*
                }
            }
        }
    };
}

events! {
    Started, info, "started", "Forebay serves";
    CacheOpened, info, "cache_opened", "the cache is there";
    CacheReplaced, warn, "cache_replaced", "the cache begins anew: what was there is of no use";
    Stopping, info, "stopping", "told to stop; requests in flight are finished";
    Stopped, info, "stopped", "stopped";
    DrainTimedOut, warn, "drain_timed_out", "requests in flight were cut: the time to stop is over";
    Reloaded, info, "reloaded", "a new configuration is in use";
    ReloadRefused, error, "reload_refused", "the new configuration is refused; the old one stays";
    UpgradeBegun, info, "upgrade_begun", "another process asks to take over";
    HandedOver, info, "handed_over", "another process serves now; requests in flight are finished";
    TookOver, info, "took_over", "took over from the server that ran here";
    UpgradeFailed, error, "upgrade_failed", "another process did not take over; this one goes on";
    UpgradeIncomplete, warn, "upgrade_incomplete", "took over, but not everything";
    NobodyToUpgrade, info, "nobody_to_upgrade", "no server runs here; this one starts by itself";
    FewFiles, warn, "few_files", "the process may open fewer files than the settings permit";
    NotPinned, warn, "not_pinned", "a worker could not be pinned to its CPU";
    AcceptFailed, error, "accept_failed", "a connection could not be accepted";
    ConnectionRefused, warn, "connection_refused", "a connection was closed: a limit is reached";
    RequestRefused, debug, "request_refused", "a request was refused or broken off by its client";
    Panicked, error, "panicked", "a connection ended in a panic; please report this";
    OriginUnreachable, warn, "origin_unreachable", "no connection to the origin";
    OriginUnresolved, warn, "origin_unresolved", "an origin's name can't be resolved";
    OriginAddressFailed, warn, "origin_address_failed", "an origin's address takes no connection";
    OriginTimedOut, warn, "origin_timed_out", "the origin did not answer in time";
    OriginBadAnswer, warn, "origin_bad_answer", "an origin answer is refused";
    OriginUnasked, warn, "origin_unasked", "the origin sent bytes that nobody asked for";
    TagsRefused, warn, "tags_refused", "a response has tags that can't be kept; it is not stored";
    LockProfileFailed, warn, "lock_profile_failed", "there is no lock profile: it can't be made";
    LogFailed, error, "log_failed", "the access log can't be written";
    PurgeBusy, error, "purge_busy", "a purge did not begin in time: nothing was dropped";
    PurgeFailed, error, "purge_failed", "a purge was not done, or not to its end";
    StoreUnswept, error, "store_unswept", "cannot tell which users of the cache's memory live";
    AdminFailed, error, "admin_failed", "an admin connection could not be accepted";
}

/// Lets through a bounded number of events each second.
#[derive(Debug, Default)]
pub(crate) struct EventBudget {
    second: Cell<u64>,
    count: Cell<u32>,
}

impl EventBudget {
    /// May one more event be logged in this second?
    pub(crate) fn take(&self) -> bool {
        let second = clock::monotonic_ms() / 1000;
        if self.second.replace(second) != second {
            self.count.set(0);
        }
        self.count.set(self.count.get().saturating_add(1));
        self.count.get() <= EVENTS_PER_SECOND_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_names_are_unique() {
        let mut names: Vec<_> = Event::ALL.iter().map(|event| event.describe().0).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Event::ALL.len());
    }

    #[test]
    fn a_budget_ends_within_a_second() {
        let budget = EventBudget::default();
        let taken = (0..EVENTS_PER_SECOND_MAX * 3).filter(|_| budget.take()).count();
        assert!(taken < EVENTS_PER_SECOND_MAX as usize * 3, "{taken}");
        assert!(taken >= EVENTS_PER_SECOND_MAX as usize, "{taken}");
    }
}

//! The table of events that Forebay logs for its operator.
//!
//! The level and the text of an event are only in this table. Events that can repeat also have a
//! counter. Each worker limits the number of events that it logs per second, so that no client can
//! fill the disk through the log; the counters include the events that are not logged.

use std::cell::Cell;
use std::fmt;

use crate::clock;
use crate::limits::EVENTS_PER_SECOND_MAX;
use crate::terminal::EscapedText;

macro_rules! events {
    ($( $id:ident, $level:ident, $name:literal, $text:literal; )*) => {
        /// An event that the log reports.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Event {
            $( #[doc = $text] $id, )*
        }

        impl Event {
            /// Every event, for the documentation and the test that checks it.
            pub const ALL: &'static [Event] = &[$( Event::$id ),*];

            /// Returns the name, the level and the text of the event.
            pub const fn describe(self) -> (&'static str, &'static str, &'static str) {
                match self { $( Event::$id => ($name, stringify!($level), $text), )* }
            }

            /// Whether the log level permits the event. An event that the level suppresses does not
            /// use up the budget of events that a worker may log.
            pub(crate) fn is_wanted(self) -> bool {
                match self.describe().1 {
                    "error" => tracing::enabled!(tracing::Level::ERROR),
                    "warn" => tracing::enabled!(tracing::Level::WARN),
                    "info" => tracing::enabled!(tracing::Level::INFO),
                    _ => tracing::enabled!(tracing::Level::DEBUG),
                }
            }

            /// Writes the event to the log. `detail` may contain text from clients or origins.
            pub fn log(self, detail: &dyn fmt::Display) {
                match self {
                    $( Event::$id => {
                        let detail = EscapedText(detail);
                        tracing::$level!(event = $name, %detail, $text)
                    } )*
                }
            }
        }
    };
}

events! {
    Started, info, "started", "Forebay is serving";
    CacheOpened, info, "cache_opened", "opened the cache";
    CacheReplaced, warn, "cache_replaced", "the cache starts empty: its old content is unusable";
    AnnounceFailed, warn, "announce_failed",
        "cannot write the listening addresses to standard output";
    RecordDamaged, warn, "record_damaged", "removed a damaged response from the cache";
    Stopping, info, "stopping", "stopping; finishing requests in flight";
    Stopped, info, "stopped", "stopped";
    DrainTimedOut, warn, "drain_timed_out", "cut requests in flight: shutdown_ms_max is over";
    Reloaded, info, "reloaded", "a new configuration is in use";
    FilesChanged, info, "files_changed", "files of the configuration have changed; loading them";
    ReloadRefused, error, "reload_refused",
        "refused the new configuration; the old one stays in use";
    TrialBegun, info, "trial_begun", "the new configuration is on trial";
    TrialPassed, info, "trial_passed", "the new configuration has passed its trial";
    TrialSuperseded, info, "trial_superseded", "another reload ended a trial";
    RolledBack, error, "rolled_back",
        "too many requests failed in the trial; the previous configuration is in use again";
    UpgradeBegun, info, "upgrade_begun", "another process asks to take over";
    HandedOver, info, "handed_over", "another process serves now; finishing requests in flight";
    TookOver, info, "took_over", "took over from the running server";
    UpgradeFailed, error, "upgrade_failed", "another process did not take over; still serving";
    UpgradeIncomplete, warn, "upgrade_incomplete",
        "took over, but could not replace or update a file of the old process";
    UpgradeWaits, info, "upgrade_waits", "waiting until an earlier process has left the cache";
    NobodyToUpgrade, info, "nobody_to_upgrade", "found no running server to take over from";
    FewFiles, warn, "few_files", "the process is allowed to open too few files for its settings";
    WorkerStuck, error, "worker_stuck", "a worker is stuck: its event loop does not run";
    WorkerRecovered, info, "worker_recovered", "a worker that was stuck runs again";
    NotPinned, warn, "not_pinned", "cannot pin a worker to its processor";
    AcceptFailed, error, "accept_failed", "cannot accept a connection";
    ConnectionRefused, warn, "connection_refused", "closed a connection: a limit is reached";
    TlsRefused, debug, "tls_refused", "a TLS handshake failed";
    TlsFiles, warn, "tls_files", "a file for TLS needs attention";
    UserFiles, warn, "user_files", "a file with users needs attention";
    AcmeAccount, info, "acme_account", "the certificate authority has created an account";
    AcmeCertificate, info, "acme_certificate", "the certificate authority has issued a certificate";
    AcmeFailed, warn, "acme_failed", "cannot order a certificate; the old one stays in use";
    AcmeUrgent, error, "acme_urgent",
        "cannot order a certificate, and the site has none, or one that ends soon";
    CertificatesReplaced, info, "certificates_replaced", "changed certificate files are now in use";
    CertificatesRefused, error, "certificates_refused", "cannot use a changed certificate";
    TlsFailed, error, "tls_failed",
        "cannot make new keys for session tickets; the old keys stay in use";
    ForwardedForMalformed, warn, "forwarded_for_malformed",
        "a trusted proxy sent no usable client address";
    RequestRefused, debug, "request_refused", "refused a request, or its client aborted it";
    Http2Refused, debug, "http2_refused",
        "ended an HTTP/2 connection because its client broke a rule or a limit";
    Panicked, error, "panicked", "a connection ended in a panic; please report this";
    OriginUnreachable, warn, "origin_unreachable", "cannot connect to the origin";
    OriginTlsFailed, warn, "origin_tls_failed", "cannot use TLS to the origin";
    OriginDown, warn, "origin_down", "an origin gets no requests for a while";
    OriginBack, info, "origin_back", "an origin that could not be reached can be reached again";
    OriginUnresolved, warn, "origin_unresolved", "cannot resolve an origin's name";
    OriginTargets, info, "origin_targets", "the targets of an SRV origin have changed";
    OriginTargetsLeftOut, warn, "origin_targets_left_out",
        "an SRV origin has more targets than targets_max";
    OriginAddressFailed, warn, "origin_address_failed", "an origin's address refuses connections";
    OriginTimedOut, warn, "origin_timed_out", "the origin did not answer in time";
    OriginBadAnswer, warn, "origin_bad_answer", "refused an origin's answer";
    OriginUnasked, warn, "origin_unasked", "the origin sent bytes on an idle connection";
    FilesFailed, error, "files_failed", "cannot read a file";
    FileDenied, warn, "file_denied", "refused a file: the server may not open it";
    FallbackMissing, warn, "fallback_missing",
        "answered with 404: the file of files_fallback does not exist";
    FileChanged, warn, "file_changed",
        "ended a response: its file changed while it was being read";
    TagsRefused, warn, "tags_refused", "did not store a response: its tags exceed a limit";
    RateLimited, warn, "rate_limited", "refuses requests: a rate limit is reached";
    ConcurrencyLimited, warn, "concurrency_limited",
        "refuses requests: too many are in progress";
    TunnelRefused, warn, "tunnel_refused", "refused a tunnel: a limit is reached";
    LockProfileFailed, warn, "lock_profile_failed", "cannot create the lock profile";
    LogFailed, error, "log_failed", "cannot write an access log";
    LogReopened, info, "log_reopened", "opened the access logs again";
    SignalIgnored, info, "signal_ignored", "ignored a signal";
    PurgeBusy, error, "purge_busy", "a purge gave up because it waited too long for another purge";
    PurgeFailed, error, "purge_failed", "a purge failed, or stopped before its end";
    StoreUnswept, error, "store_unswept", "cannot tell which processes still use the cache";
    RunsAsRoot, warn, "runs_as_root", "the server runs as root";
    AdminFull, warn, "admin_full", "too many admin connections: closed one, or refused one";
    AdminFailed, error, "admin_failed", "cannot accept an admin connection";
    TraceBegun, info, "trace_begun", "an operator traces requests";
    TraceEnded, info, "trace_ended", "a trace of requests has ended";
    EventsLost, warn, "events_lost", "could not write events to standard error";
}

/// Limits the number of events that a worker logs per second.
#[derive(Debug, Default)]
pub(crate) struct EventBudget {
    second: Cell<u64>,
    count: Cell<u32>,
}

impl EventBudget {
    /// Takes one event from this second's budget; returns false if the budget is used up.
    pub(crate) fn take(&self) -> bool {
        self.take_in(clock::monotonic_ms() / 1000)
    }

    fn take_in(&self, second: u64) -> bool {
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

    /// A logger at level `error` that discards all records.
    struct ErrorsOnly;

    impl tracing::Subscriber for ErrorsOnly {
        fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
            *metadata.level() == tracing::Level::ERROR
        }

        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }

        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

        fn event(&self, _: &tracing::Event<'_>) {}

        fn enter(&self, _: &tracing::span::Id) {}

        fn exit(&self, _: &tracing::span::Id) {}
    }

    #[test]
    fn events_below_the_log_level_do_not_count_against_the_budget() {
        tracing::subscriber::with_default(ErrorsOnly, || {
            for event in Event::ALL {
                let (name, level, _) = event.describe();
                assert_eq!(event.is_wanted(), level == "error", "{name}");
            }
        });
    }

    /// A logger that passes on each detail.
    struct Details(std::sync::mpsc::Sender<String>);

    impl tracing::Subscriber for Details {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }

        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

        fn event(&self, event: &tracing::Event<'_>) {
            event.record(&mut |field: &tracing::field::Field, value: &dyn fmt::Debug| {
                if field.name() == "detail" {
                    self.0.send(format!("{value:?}")).expect("the test waits");
                }
            });
        }

        fn enter(&self, _: &tracing::span::Id) {}

        fn exit(&self, _: &tracing::span::Id) {}
    }

    #[test]
    fn the_detail_of_an_event_steers_no_terminal() {
        let (details, logged) = std::sync::mpsc::channel();
        tracing::subscriber::with_default(Details(details), || {
            Event::OriginBadAnswer.log(&"a\u{9b}2J\u{202e}b\u{1b}");
        });
        assert_eq!(logged.recv().as_deref(), Ok(r"a\u{9b}2J\u{202e}b\u{1b}"));
    }

    #[test]
    fn each_second_has_a_budget_of_its_own() {
        let budget = EventBudget::default();
        for second in [7, 8] {
            let events = 0..EVENTS_PER_SECOND_MAX * 3;
            let taken = events.filter(|_| budget.take_in(second)).count();
            assert_eq!(taken, EVENTS_PER_SECOND_MAX as usize, "second {second}");
        }
    }
}

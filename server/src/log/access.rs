//! The reports on one request, from its head to the end of the response: its access log entry and
//! its trace.

use std::rc::Rc;

use forebay_http::policy::cache_status::{CacheName, CacheStatus};
use forebay_http::request::RequestHead;

use super::line::AccessEntry;
use crate::accept::Client;
use crate::clock;
use crate::config::{Config, Site};
use crate::fault::Fault;
use crate::trace::Trace;

/// The section of a configuration whose access log has a request.
#[derive(Clone, Copy)]
pub(crate) struct LogOwner<'a> {
    pub(crate) config: &'a Rc<Config>,
    /// The site that serves the request; `None` if the request has ended before its site was found.
    pub(crate) site: Option<&'a Site>,
}

/// The reports on a request in progress.
pub(crate) struct Access {
    entry: EntryState,
    pub(crate) trace: Trace,
}

/// The access log entry of a request in progress.
enum EntryState {
    /// The request is not logged: there is no log, or its sample does not include the request.
    None,
    /// The site of the request is not known yet. The request began at this time.
    Pending {
        started_us: u64,
    },
    Begun(Box<AccessEntry>),
}

impl Access {
    /// Begins the reports on a request whose head has been parsed.
    pub(crate) fn begin(client: &Client, head: RequestHead<'_>) -> Access {
        let entry = match client.worker.access_logs().is_empty() {
            true => EntryState::None,
            false => EntryState::Pending { started_us: clock::monotonic_us() },
        };
        Access { entry, trace: client.worker.tracers.begin(client, head) }
    }

    /// Begins the entry of the request with this number, if the log of its site is on.
    #[inline]
    pub(crate) fn begin_entry(
        &mut self,
        (client, head, number): (&Client, RequestHead<'_>, u64),
        owner: LogOwner<'_>,
    ) {
        let EntryState::Pending { started_us } = self.entry else { return };
        self.entry = EntryState::None;
        client.worker.with_access_log(owner, |log| {
            if log.samples() {
                let mut entry = AccessEntry::begin(head, client, number);
                entry.begin_at(started_us);
                owner.site.into_iter().for_each(|site| entry.set_site(&site.name));
                self.entry = EntryState::Begun(Box::new(entry));
                self.trace.keep_answer();
            }
        });
    }

    /// Drops the entry, so that the request is not logged.
    pub(crate) fn without_entry(self) -> Access {
        Access { entry: EntryState::None, ..self }
    }

    /// Adds the number of bytes that a client sent through its tunnel.
    pub(crate) fn note_tunnel(&mut self, bytes_in: u64) {
        if let EntryState::Begun(entry) = &mut self.entry {
            entry.set_tunnel(bytes_in);
        }
    }

    /// Adds the user whose password was right.
    pub(crate) fn note_user(&mut self, user: String) {
        if let EntryState::Begun(entry) = &mut self.entry {
            entry.set_user(user);
        }
    }

    /// Adds the reason why the request did not get the response that it asked for.
    pub(crate) fn note_fault(&mut self, fault: Fault) {
        if let EntryState::Begun(entry) = &mut self.entry {
            entry.set_fault(fault.reason());
        }
    }

    /// Ends the reports once the response is complete or has broken off, and writes the entry to
    /// the log.
    pub(crate) fn end(
        self,
        (client, owner): (&Client, LogOwner<'_>),
        status: u16,
        body_bytes: u64,
        cache: (&CacheStatus, &CacheName),
    ) {
        self.trace.end(status, body_bytes, cache);
        let EntryState::Begun(mut entry) = self.entry else { return };
        entry.end(status, body_bytes, cache);
        entry.set_answered(self.trace.answered());
        client.worker.with_access_log(owner, |log| log.log(&entry));
    }
}

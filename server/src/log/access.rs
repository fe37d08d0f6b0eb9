//! The reports on one request, from its head to the end of the response: its access log entry and
//! its trace.

use forebay_http::policy::cache_status::{CacheName, CacheStatus};
use forebay_http::request::RequestHead;

use super::line::AccessEntry;
use crate::accept::Client;
use crate::fault::Fault;
use crate::trace::Trace;

/// The reports on a request in progress.
pub(crate) struct Access {
    /// The access log entry; `None` if there is no log, or if the log's sample does not include
    /// this request.
    entry: Option<Box<AccessEntry>>,
    pub(crate) trace: Trace,
}

impl Access {
    /// Begins the reports on a request whose head has been parsed.
    pub(crate) fn begin(client: &Client, head: RequestHead<'_>) -> Access {
        let mut entry = None;
        client.worker.with_access_log(|log| {
            if log.samples() {
                entry = Some(Box::new(AccessEntry::begin(head, client)));
            }
        });
        let mut trace = client.worker.tracers.begin(client, head);
        if entry.is_some() {
            trace.keep_answer();
        }
        Access { entry, trace }
    }

    /// Drops the entry, so that the request is not logged.
    pub(crate) fn without_entry(self) -> Access {
        Access { entry: None, ..self }
    }

    /// Adds the number of bytes that a client sent through its tunnel.
    pub(crate) fn note_tunnel(&mut self, bytes_in: u64) {
        if let Some(entry) = &mut self.entry {
            entry.set_tunnel(bytes_in);
        }
    }

    /// Adds the site that serves the request.
    #[inline]
    pub(crate) fn note_site(&mut self, name: &str) {
        if let Some(entry) = &mut self.entry {
            entry.set_site(name);
        }
    }

    /// Adds the user whose password was right.
    pub(crate) fn note_user(&mut self, user: String) {
        if let Some(entry) = &mut self.entry {
            entry.set_user(user);
        }
    }

    /// Adds the reason why the request did not get the response that it asked for.
    pub(crate) fn note_fault(&mut self, fault: Fault) {
        if let Some(entry) = &mut self.entry {
            entry.set_fault(fault.reason());
        }
    }

    /// Ends the reports once the response is complete or has broken off, and writes the entry to
    /// the log.
    pub(crate) fn end(
        self,
        client: &Client,
        status: u16,
        body_bytes: u64,
        cache: (&CacheStatus, &CacheName),
    ) {
        self.trace.end(status, body_bytes, cache);
        let Some(mut entry) = self.entry else { return };
        entry.end(status, body_bytes, cache);
        entry.set_answered(self.trace.answered());
        client.worker.with_access_log(|log| log.log(&entry));
    }
}

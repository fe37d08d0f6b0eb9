//! The access log entry of one request, from the request's head to the end of the response.

use forebay_http::policy::cache_status::{CacheName, CacheStatus};
use forebay_http::request::RequestHead;

use super::line::AccessEntry;
use crate::accept::Client;

/// The access log entry of a request in progress; empty if there is no log, or the log does not
/// sample this request.
pub(crate) struct Access(Option<Box<AccessEntry>>);

impl Access {
    /// Begins the entry of a request whose head has been parsed.
    pub(crate) fn begin(client: &Client, head: RequestHead<'_>) -> Access {
        let mut entry = None;
        client.worker.with_access_log(|log| {
            if log.samples() {
                entry = Some(Box::new(AccessEntry::begin(head, client.peer.ip())));
            }
        });
        Access(entry)
    }

    /// Ends the entry with a response that is complete or broke off, and writes it to the log.
    pub(crate) fn end(
        self,
        client: &Client,
        status: u16,
        body_bytes: u64,
        cache: (&CacheStatus, &CacheName),
    ) {
        let Some(mut entry) = self.0 else { return };
        entry.end(status, body_bytes, cache);
        client.worker.with_access_log(|log| log.log(&entry));
    }
}

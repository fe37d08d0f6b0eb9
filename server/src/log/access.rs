//! The access log's view of one request, from its head to the end of its answer.

use forebay_http::policy::cache_status::CacheStatus;
use forebay_http::request::RequestHead;

use super::line::AccessEntry;
use crate::accept::Client;

/// A line that is being made; empty unless the response is one of those that are logged.
pub(crate) struct Access(Option<Box<AccessEntry>>);

impl Access {
    /// Begins with a head that has been parsed.
    pub(crate) fn begin(client: &Client, head: RequestHead<'_>) -> Access {
        let mut entry = None;
        client.worker.with_access_log(|log| {
            if log.samples() {
                entry = Some(Box::new(AccessEntry::begin(head, client.peer.ip())));
            }
        });
        Access(entry)
    }

    /// Ends with a response that is complete, or has broken off.
    pub(crate) fn end(self, client: &Client, status: u16, body_bytes: u64, cache: &CacheStatus) {
        let Some(mut entry) = self.0 else { return };
        entry.end(status, body_bytes, cache);
        client.worker.with_access_log(|log| log.log(&entry));
    }
}

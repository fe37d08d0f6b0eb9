//! The access log's view of one request, from its head to the end of its answer.

use forebay_http::policy::cache_status::CacheStatus;
use forebay_http::request::RequestHead;

use super::line::AccessEntry;
use crate::accept::Client;

/// A log entry that is being filled; empty if sampling leaves this request out.
#[derive(Default)]
pub(crate) struct Access(Option<Box<AccessEntry>>);

impl Access {
    /// A request's head has been parsed.
    pub(crate) fn begin(&mut self, client: &Client, head: RequestHead<'_>) {
        client.worker.with_access_log(|log| {
            if log.samples() {
                self.0 = Some(Box::new(AccessEntry::begin(head, client.peer.ip())));
            }
        });
    }

    /// The answer is complete, or has broken off.
    pub(crate) fn end(self, client: &Client, status: u16, body_bytes: u64, cache: &CacheStatus) {
        let Some(mut entry) = self.0 else { return };
        entry.end(status, body_bytes, cache);
        client.worker.with_access_log(|log| log.log(&entry));
    }
}

//! The limits on requests in progress (`concurrency_limit`), whose counts all workers share.
//!
//! A request is in progress from the moment at which its route admits it until its transaction
//! ends, whatever ends it: the response is sent, the client or the origin fails, a tunnel closes,
//! an HTTP/2 stream is reset. Therefore the transaction owns the guard that counts the request. The
//! counts are in the memory of the process, so a process that dies leaves none behind.

use forebay_sync::concurrency::{ConcurrencyEntry, ConcurrencyTable};

use crate::accept::Client;
use crate::config::{LimitScope, Route};
use crate::counters::Counter;
use crate::fault::Fault;
use crate::limits::CONCURRENCY_LIMITS_MAX;
use crate::parse::Request;
use crate::rate_limits::RateLimiter;

/// Counts a request as in progress for each limit of its route, until it is dropped.
pub(crate) struct ConcurrencyGuard<'a> {
    table: &'a ConcurrencyTable,
    entries: [Option<ConcurrencyEntry>; CONCURRENCY_LIMITS_MAX],
}

impl RateLimiter {
    /// Counts a request as in progress against the limits of its route.
    ///
    /// # Errors
    /// [`Fault::ConcurrencyLimited`]: a limit is reached. The request counts against none.
    pub(crate) fn begin<'a>(
        &'a self,
        client: &Client,
        route: &Route,
        request: &Request<'_>,
    ) -> Result<ConcurrencyGuard<'a>, Fault> {
        let mut guard = ConcurrencyGuard { table: self.in_progress(), entries: Default::default() };
        let limits = route.settings.concurrency_limit.all().iter().zip(&route.concurrency_ids);
        for (entry, (limit, id)) in guard.entries.iter_mut().zip(limits) {
            let key = self.key_of(*id, &limit.scope, client, request);
            let decision = guard.table.take(key, limit.count_max);
            if decision.shares {
                client.worker.count(Counter::ConcurrencyEntriesShared);
            }
            *entry = decision.entry;
            if entry.is_none() {
                // Dropping the guard gives the entries of the earlier limits back.
                let is_shared = limit.scope == LimitScope::Route;
                return Err(Fault::ConcurrencyLimited { is_shared });
            }
        }
        Ok(guard)
    }
}

impl Drop for ConcurrencyGuard<'_> {
    fn drop(&mut self) {
        for entry in self.entries.iter_mut().filter_map(Option::take) {
            self.table.give_back(entry);
        }
    }
}

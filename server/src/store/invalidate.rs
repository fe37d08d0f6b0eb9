//! What an unsafe request has changed is dropped from the store (RFC 9111 §4.4).

use forebay_http::authority::Authority;
use forebay_http::policy::invalidate::{TargetUri, invalidated_targets, invalidates};
use forebay_http::response::ResponseHead;
use forebay_http::target::Scheme;

use crate::config::Site;
use crate::counters::Counter;
use crate::events::Event;
use crate::key::write_key;
use crate::parse::Request;
use crate::worker::Worker;

/// Host and path of an unsafe request, as they are keyed.
pub(crate) struct UnsafeTarget {
    host: Option<Vec<u8>>,
    path_query: Vec<u8>,
}

impl UnsafeTarget {
    /// Copies them; `None` for a request that changes nothing (RFC 9110 §9.2.1).
    pub(crate) fn of(request: &Request<'_>) -> Option<UnsafeTarget> {
        if request.head.method().is_safe() {
            return None;
        }
        let mut host = Vec::new();
        let named = request.write_host(&mut host);
        let path_query = request.target.path_query.to_vec();
        Some(UnsafeTarget { host: named.then_some(host), path_query })
    }

    /// Drops what is stored for the target and for what the answer says was made or moved by
    /// it; a failed request has changed nothing.
    pub(crate) fn invalidate(&self, worker: &Worker, site: &Site, answer: &ResponseHead) {
        if !invalidates(false, answer.status) {
            return;
        }
        let authority = self.host.as_deref().and_then(Authority::parse);
        let mut key = Vec::new();
        let mut purge = |path_query: &[u8]| {
            write_key(&mut key, site, authority, path_query);
            match worker.store.purge(&key) {
                Ok(purged) => worker.count_many(Counter::Invalidated, purged.records),
                Err(_) => worker.event(Event::PurgeBusy, &key.escape_ascii()),
            }
        };
        purge(&self.path_query);
        if let Some(authority) = authority {
            let path_query = &self.path_query;
            let target = TargetUri { scheme: Scheme::Http, authority, path_query };
            invalidated_targets(target, answer.block.fields()).for_each(|path| purge(&path));
        }
    }
}

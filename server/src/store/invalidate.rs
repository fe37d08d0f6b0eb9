//! What an unsafe request has changed is dropped from the store (RFC 9111 §4.4).

use std::rc::Rc;
use std::time::Duration;

use forebay_http::authority::Authority;
use forebay_http::policy::invalidate::{TargetUri, invalidated_targets, invalidates};
use forebay_http::target::Scheme;
use tokio::sync::oneshot;

use crate::clock;
use crate::config::Site;
use crate::counters::Counter;
use crate::events::Event;
use crate::fetch::OriginAnswer;
use crate::key::write_key;
use crate::limits::{INVALIDATE_MS_MAX, INVALIDATE_RETRY_MS, INVALIDATE_WAIT_US_MAX};
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
    /// it; a failed request has changed nothing. The answer may be sent when this is done.
    pub(crate) async fn invalidate(&self, worker: &Rc<Worker>, site: &Site, answer: &OriginAnswer) {
        if !invalidates(false, answer.received_status) {
            return;
        }
        let mut keys = self.keys(site, answer).into_iter();
        let is_busy = |key: &Vec<u8>| !drop_stored(worker, key);
        let Some(busy) = keys.find(is_busy) else {
            return;
        };
        let left: Vec<_> = std::iter::once(busy).chain(keys).collect();
        let (done, ended) = oneshot::channel();
        // A task of its own: it must happen, whatever becomes of the client.
        worker.spawn(drop_patiently(Rc::clone(worker), left, done));
        let _ = ended.await;
    }

    /// By what the origin said, whatever rules have made of it.
    fn keys(&self, site: &Site, answer: &OriginAnswer) -> Vec<Vec<u8>> {
        let received = answer.received.as_ref().unwrap_or(&answer.head.block);
        let authority = self.host.as_deref().and_then(Authority::parse);
        let mut keys = Vec::new();
        let mut add = |path_query: &[u8]| {
            let mut key = Vec::new();
            write_key(&mut key, site, authority, path_query);
            keys.push(key);
        };
        add(&self.path_query);
        if let Some(authority) = authority {
            let path_query = &self.path_query;
            let target = TargetUri { scheme: Scheme::Http, authority, path_query };
            invalidated_targets(target, received.fields()).for_each(|path| add(&path));
        }
        keys
    }
}

/// False if another purge does not end.
fn drop_stored(worker: &Worker, key: &[u8]) -> bool {
    let dropped = worker.store.try_purge(key, Duration::from_micros(INVALIDATE_WAIT_US_MAX));
    if let Ok(purged) = &dropped {
        worker.count_many(Counter::Invalidated, purged.records);
    }
    dropped.is_ok()
}

/// Tries again until it is done or takes too long; the event loop goes on between.
async fn drop_patiently(worker: Rc<Worker>, keys: Vec<Vec<u8>>, done: oneshot::Sender<()>) {
    let deadline_ms = clock::monotonic_ms() + INVALIDATE_MS_MAX;
    for key in keys {
        while !drop_stored(&worker, &key) {
            if clock::monotonic_ms() >= deadline_ms {
                worker.count(Counter::PurgesBusy);
                worker.event(Event::PurgeBusy, &key.escape_ascii());
                break;
            }
            tokio::time::sleep(Duration::from_millis(INVALIDATE_RETRY_MS)).await;
        }
    }
    // The client may have gone meanwhile.
    let _ = done.send(());
}

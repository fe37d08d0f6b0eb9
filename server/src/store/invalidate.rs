//! What an unsafe request has changed is dropped from the store (RFC 9111 §4.4).

use std::rc::Rc;
use std::time::Duration;

use forebay_cache::{Selection, TAGS_MAX, TagExpr};
use forebay_http::authority::Authority;
use forebay_http::fields::FieldId;
use forebay_http::policy::invalidate::{TargetUri, invalidated_targets, invalidates};
use forebay_http::policy::tags::invalidated_groups;
use forebay_http::target::Scheme;
use tokio::sync::oneshot;

use crate::clock;
use crate::counters::Counter;
use crate::events::Event;
use crate::fetch::OriginAnswer;
use crate::key::{RouteMatch, write_key};
use crate::limits::{
    INVALIDATE_MS_MAX, INVALIDATE_RETRY_MS, INVALIDATE_WAIT_US_MAX, INVALIDATED_GROUPS_MAX,
};
use crate::parse::Request;
use crate::purger::{PurgeError, PurgeWork};
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

    /// Drops what is stored for the target, for what the answer says was made or moved by it, and
    /// for the groups that it names; a failed request has changed nothing. The answer may be sent
    /// when this is done.
    pub(crate) async fn invalidate(
        &self,
        worker: &Rc<Worker>,
        place: RouteMatch<'_>,
        answer: &OriginAnswer,
    ) {
        if !invalidates(false, answer.received_status) {
            return;
        }
        let groups = self.groups(worker, place, answer);
        let mut keys = self.keys(place, answer).into_iter();
        let is_busy = |key: &Vec<u8>| !drop_stored(worker, key);
        let mut left: Vec<_> = keys.find(is_busy).into_iter().collect();
        left.extend(keys);
        if left.is_empty() && groups.is_empty() {
            return;
        }
        let (done, ended) = oneshot::channel();
        // A task of its own: it must happen, whatever becomes of the client.
        worker.spawn(drop_patiently(Rc::clone(worker), (left, groups), done));
        let _ = ended.await;
    }

    /// What the answer drops by its group, of the same origin (RFC 9875 §3).
    fn groups(
        &self,
        worker: &Worker,
        place: RouteMatch<'_>,
        answer: &OriginAnswer,
    ) -> Vec<Selection> {
        let received = answer.received.as_ref().unwrap_or(&answer.head.block);
        if !place.route.settings.tag_fields.set().contains(FieldId::CacheGroups) {
            return Vec::new();
        }
        let mut groups = invalidated_groups(received.fields());
        groups.sort_unstable();
        groups.dedup();
        // What can be no tag is in no stored response.
        groups.retain(|group| TagExpr::any_of([&**group]).is_ok());
        let mut within = Vec::new();
        write_key(&mut within, place.site, self.host.as_deref().and_then(Authority::parse), b"");
        if groups.len() > INVALIDATED_GROUPS_MAX {
            // Rather too much than some of it left.
            worker.count(Counter::OriginsInvalidated);
            return vec![Selection { within, tags: None }];
        }
        let selection = |groups: &[Vec<u8>]| {
            let tags = TagExpr::any_of(groups.iter().map(Vec::as_slice)).ok();
            tags.map(|tags| Selection { within: within.clone(), tags: Some(tags) })
        };
        groups.chunks(TAGS_MAX).filter_map(selection).collect()
    }

    /// By what the origin said, whatever rules have made of it.
    fn keys(&self, place: RouteMatch<'_>, answer: &OriginAnswer) -> Vec<Vec<u8>> {
        let received = answer.received.as_ref().unwrap_or(&answer.head.block);
        let authority = self.host.as_deref().and_then(Authority::parse);
        let mut keys = Vec::new();
        let mut add = |path_query: &[u8]| {
            let mut key = Vec::new();
            write_key(&mut key, place.site, authority, path_query);
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
async fn drop_patiently(
    worker: Rc<Worker>,
    (keys, groups): (Vec<Vec<u8>>, Vec<Selection>),
    done: oneshot::Sender<()>,
) {
    let deadline_ms = clock::monotonic_ms() + INVALIDATE_MS_MAX;
    if !groups.is_empty() {
        drop_groups(&worker, groups, deadline_ms).await;
    }
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

async fn drop_groups(worker: &Worker, groups: Vec<Selection>, deadline_ms: u64) {
    let work = PurgeWork::Purge { is_soft: false, counter: Counter::Invalidated };
    let asked = loop {
        match worker.purger.ask_for_client(groups.clone(), work) {
            Err(PurgeError::Queue) if clock::monotonic_ms() < deadline_ms => {
                tokio::time::sleep(Duration::from_millis(INVALIDATE_RETRY_MS)).await;
            }
            asked => break asked,
        }
    };
    match asked {
        // Once asked for, it is done to its end, but its end is not waited for without limit.
        Ok(asked) => {
            let left = Duration::from_millis(deadline_ms.saturating_sub(clock::monotonic_ms()));
            if tokio::time::timeout(left, asked.purged()).await.is_err() {
                worker.count(Counter::GroupsLate);
            }
        }
        Err(failed) => {
            worker.count(Counter::PurgesBusy);
            worker.event(Event::PurgeBusy, &failed);
        }
    }
}

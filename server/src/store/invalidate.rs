//! Invalidation: after an unsafe request, removes the stored responses that the request may have
//! changed (RFC 9111 §4.4).

use std::rc::Rc;
use std::time::Duration;

use forebay_cache::{Selection, TAGS_MAX, TagExpr};
use forebay_http::authority::Authority;
use forebay_http::fields::{FieldId, Fields};
use forebay_http::policy::invalidate::{TargetUri, invalidated_targets, invalidates};
use forebay_http::policy::tags::invalidated_groups;
use tokio::sync::oneshot;

use crate::clock;
use crate::counters::Counter;
use crate::events::Event;
use crate::key::{RouteMatch, resource_keys, route_of_url, write_key};
use crate::limits::{
    INVALIDATE_MS_MAX, INVALIDATE_RETRY_MS, INVALIDATE_WAIT_US_MAX, INVALIDATED_GROUPS_MAX,
};
use crate::parse::Request;
use crate::purger::{PurgeError, PurgeKind, PurgeWork};
use crate::worker::Worker;

/// Host and path of an unsafe request, from which the keys to invalidate are made.
pub(crate) struct UnsafeTarget {
    host: Option<Vec<u8>>,
    path_query: Vec<u8>,
}

impl UnsafeTarget {
    /// Copies the target of a request; `None` if its method is safe (RFC 9110 §9.2.1).
    // RFC: 9875-3-1
    pub(crate) fn of(request: &Request<'_>) -> Option<UnsafeTarget> {
        if request.head.method().is_safe() {
            return None;
        }
        let mut host = Vec::new();
        let named = request.write_host(&mut host);
        let path_query = request.target.path_query.to_vec();
        Some(UnsafeTarget { host: named.then_some(host), path_query })
    }

    /// Removes the stored responses for the target, for the URLs in Location and Content-Location
    /// of the origin's response, and for the groups that the response names. A response with an
    /// error status invalidates nothing. The caller must not send the response before this future
    /// is ready.
    ///
    /// `status` and `fields` are those of the response as the origin sent it, before rules ran.
    // RFC: 9111-4.4-1
    pub(crate) async fn invalidate(
        &self,
        worker: &Rc<Worker>,
        route: RouteMatch<'_>,
        status: u16,
        fields: Fields<'_>,
    ) {
        if !invalidates(false, status) {
            return;
        }
        let groups = self.groups(worker, route, fields);
        let mut keys = self.keys(route, fields).into_iter();
        let is_busy = |key: &Vec<u8>| !drop_stored(worker, key);
        let mut left: Vec<_> = keys.find(is_busy).into_iter().collect();
        left.extend(keys);
        if left.is_empty() && groups.is_empty() {
            return;
        }
        let (done, ended) = oneshot::channel();
        // A separate task removes the other responses, so that they are removed even if the client
        // leaves.
        worker.spawn(drop_patiently(Rc::clone(worker), left, groups, done));
        let _ = ended.await;
    }

    /// Returns selections of stored responses: those that have the same origin as the target, and
    /// are in a group that the response names (RFC 9875 §3). If the response names too many groups,
    /// selects all stored responses of that origin.
    // RFC: 9875-3-2
    fn groups(&self, worker: &Worker, route: RouteMatch<'_>, fields: Fields<'_>) -> Vec<Selection> {
        if !route.route.settings.tag_fields.set().contains(FieldId::CacheGroups) {
            return Vec::new();
        }
        let mut groups = invalidated_groups(fields);
        groups.sort_unstable();
        groups.dedup();
        // A group that is not a valid tag cannot be in a stored response.
        groups.retain(|group| TagExpr::any_of([&**group]).is_ok());
        let mut within = Vec::new();
        write_key(&mut within, route, self.host.as_deref().and_then(Authority::parse), b"");
        if groups.len() > INVALIDATED_GROUPS_MAX {
            // With too many groups, the whole origin is invalidated, because invalidating too much
            // is safer than too little.
            worker.count(Counter::OriginsInvalidated);
            return vec![Selection { within, tags: None }];
        }
        let selection = |groups: &[Vec<u8>]| {
            let tags = TagExpr::any_of(groups.iter().map(Vec::as_slice)).ok();
            tags.map(|tags| Selection { within: within.clone(), tags: Some(tags) })
        };
        groups.chunks(TAGS_MAX).filter_map(selection).collect()
    }

    /// Returns the keys of the target and of the URLs that the response names.
    fn keys(&self, route: RouteMatch<'_>, fields: Fields<'_>) -> Vec<Vec<u8>> {
        let authority = self.host.as_deref().and_then(Authority::parse);
        let mut keys = resource_keys(route, authority, &self.path_query);
        if route.site.has_conditions() {
            // The stored responses may belong to another route of the URL, whose settings give the
            // query another normal form.
            let of_stored = route_of_url(route.site, route.scheme, &self.path_query);
            keys.extend(resource_keys(of_stored, authority, &self.path_query));
            keys.sort_unstable();
            keys.dedup();
        }
        if let Some(authority) = authority {
            let path_query = &self.path_query;
            let target = TargetUri { scheme: route.scheme, authority, path_query };
            for path_query in invalidated_targets(target, fields) {
                let route = route_of_url(route.site, route.scheme, &path_query);
                keys.extend(resource_keys(route, Some(authority), &path_query));
            }
        }
        keys
    }
}

/// Removes the stored responses for a key. Returns whether this was done in time: false if another
/// purge takes too long.
fn drop_stored(worker: &Worker, key: &[u8]) -> bool {
    let dropped = worker.store.try_purge(key, Duration::from_micros(INVALIDATE_WAIT_US_MAX));
    if let Ok(purged) = &dropped {
        worker.purger.kinds().note(purged.number, PurgeKind::Invalidation);
        worker.count_many(Counter::Invalidated, purged.records);
    }
    dropped.is_ok()
}

/// Removes the stored responses for `keys` and `groups`. While other purges run, retries until
/// `INVALIDATE_MS_MAX` has passed; other tasks of the worker run between the attempts.
async fn drop_patiently(
    worker: Rc<Worker>,
    keys: Vec<Vec<u8>>,
    groups: Vec<Selection>,
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
    // Sending fails if the client has left.
    let _ = done.send(());
}

async fn drop_groups(worker: &Worker, groups: Vec<Selection>, deadline_ms: u64) {
    let work = PurgeWork::Purge { kind: PurgeKind::Invalidation, counter: Counter::Invalidated };
    let asked = loop {
        match worker.purger.ask_for_client(groups.clone(), work) {
            Err(PurgeError::Queue) if clock::monotonic_ms() < deadline_ms => {
                tokio::time::sleep(Duration::from_millis(INVALIDATE_RETRY_MS)).await;
            }
            asked => break asked,
        }
    };
    match asked {
        // A purge that is queued will run in any case, but the wait for its end is limited.
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

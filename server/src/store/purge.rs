//! PURGE requests. A client that is allowed to purge removes the stored responses of a URL. If the
//! request has tags, in the fields in which responses have tags, it instead removes all stored
//! responses of the URL's site that have one of these tags.
//!
//! There is no standard for PURGE. The method, the fields `Surrogate-Key` and `xkey` for tags, and
//! `Fastly-Soft-Purge: 1` follow the usage of other caches.

use std::net::IpAddr;
use std::time::Duration;

use forebay_cache::{PurgeBusy, PurgeResult, Selection, TagExpr};
use forebay_http::fields::FieldSet;
use forebay_http::policy::tags::{SURROGATE_FIELDS, TAG_FIELDS, tags};

use crate::clock;
use crate::counters::Counter;
use crate::events::Event;
use crate::fault::Fault;
use crate::key::{RouteMatch, resource_keys, site_prefix};
use crate::limits::{INVALIDATE_MS_MAX, INVALIDATE_RETRY_MS, INVALIDATE_WAIT_US_MAX};
use crate::parse::Request;
use crate::purger::{PurgeKind, PurgeWork};
use crate::worker::Worker;

/// A PURGE request and its context.
pub(crate) struct PurgeRequest<'a> {
    pub(crate) worker: &'a Worker,
    /// The address of the client, if it is known.
    pub(crate) client: Option<IpAddr>,
    pub(crate) route: RouteMatch<'a>,
    pub(crate) request: &'a Request<'a>,
}

/// Whether a client that may purge on a route may also purge all of the site by tags. Any response
/// of the site may have a tag, so the client must be allowed to purge at the site's `/`, must be
/// served there, and must have given the password that is asked there.
fn may_purge_site(route: RouteMatch<'_>, client: IpAddr) -> bool {
    let root = route.site.route(b"/");
    let (settings, own) = (&root.settings, &route.route.settings);
    let users = &settings.basic_auth;
    let has_password = users.users().is_none() || *users == own.basic_auth;
    has_password && root.admits(Some(client)) && settings.purge_from.contains(client)
}

/// Removes the responses that a PURGE request names.
///
/// # Errors
/// The client is not allowed to purge here, the tags of the request are not usable, a process with
/// another store is taking over, or other purges take too long.
pub(crate) async fn purge(asked: PurgeRequest<'_>) -> Result<PurgeResult, Fault> {
    let PurgeRequest { worker, client, route, request } = asked;
    let settings = &route.route.settings;
    let Some(client) = client.filter(|client| settings.purge_from.contains(*client)) else {
        return Err(Fault::PurgeForbidden);
    };
    if !worker.store_is_used() {
        worker.count(Counter::PurgesFailed);
        return Err(Fault::PurgeElsewhere);
    }
    let expression = tags_asked(route, request)?;
    if expression.is_some() && !may_purge_site(route, client) {
        return Err(Fault::PurgeForbidden);
    }
    worker.count(Counter::PurgeRequests);
    let is_soft = is_soft(request);
    let Some(tags) = expression else {
        let mut all = PurgeResult::default();
        for key in resource_keys(route, request.target.authority, request.target.path_query) {
            let purged = purge_patiently(worker, &key, is_soft).await.map_err(|PurgeBusy| {
                worker.count(Counter::PurgesBusy);
                worker.event(Event::PurgeBusy, &key.escape_ascii());
                Fault::PurgeBusy
            })?;
            worker.purger.kinds().note(purged.number, PurgeKind::asked(is_soft));
            worker.count_many(Counter::Purged, purged.records);
            all.records += purged.records;
            all.flights += purged.flights;
        }
        return Ok(all);
    };
    let selection = Selection { within: site_prefix(&route.site.name), tags: Some(tags) };
    let work = PurgeWork::Purge { kind: PurgeKind::asked(is_soft), counter: Counter::Purged };
    // The purge continues if the client leaves, however long it takes.
    let asked = worker.purger.ask(vec![selection], work).map_err(|_| {
        worker.count(Counter::PurgesBusy);
        Fault::PurgeBusy
    })?;
    asked.purged().await.map_err(|_| Fault::PurgeBusy)
}

/// Returns the tags to purge by; `None` if the request has no tag field and so purges only its URL.
///
/// # Errors
/// A tag is invalid, the tag fields contain no tag, or the route does not read one of the tag
/// fields. In these cases it would be wrong to purge only the URL, because the responses that the
/// client means would stay in the cache.
fn tags_asked(route: RouteMatch<'_>, request: &Request<'_>) -> Result<Option<TagExpr>, Fault> {
    let read = route.route.settings.tag_fields.set().intersection(SURROGATE_FIELDS);
    let fields = request.head.fields();
    let brought = fields.seen().intersection(FieldSet::of(&TAG_FIELDS));
    if brought == FieldSet::EMPTY {
        return Ok(None);
    }
    let tags = tags(fields, read);
    if tags.is_empty() || brought.intersection(read) != brought {
        return Err(Fault::PurgeNoTags);
    }
    let tags = TagExpr::any_of(tags.iter().map(|tag| &**tag));
    tags.map(Some).map_err(|_| Fault::PurgeTags)
}

fn is_soft(request: &Request<'_>) -> bool {
    let mut fields = request.head.fields().iter();
    fields.any(|field| field.name.eq_ignore_ascii_case(b"fastly-soft-purge") && field.value == b"1")
}

/// Purges the responses for a key. While other purges run, retries until `INVALIDATE_MS_MAX` has
/// passed; other tasks of the worker run between the attempts.
async fn purge_patiently(
    worker: &Worker,
    key: &[u8],
    is_soft: bool,
) -> Result<PurgeResult, PurgeBusy> {
    let deadline_ms = clock::monotonic_ms() + INVALIDATE_MS_MAX;
    let at_most = Duration::from_micros(INVALIDATE_WAIT_US_MAX);
    loop {
        let purged = match is_soft {
            true => worker.store.try_purge_softly(key, at_most),
            false => worker.store.try_purge(key, at_most),
        };
        if purged.is_ok() || clock::monotonic_ms() >= deadline_ms {
            return purged;
        }
        tokio::time::sleep(Duration::from_millis(INVALIDATE_RETRY_MS)).await;
    }
}

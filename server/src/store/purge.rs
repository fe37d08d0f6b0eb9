//! PURGE requests: a client that may do so drops what is stored for a URL, or, if the request has
//! tags as a response has them, what is stored under these tags for the URL's site.
//!
//! There is no standard for it: the method, the tags in `Surrogate-Key` or `xkey`, and
//! `Fastly-Soft-Purge: 1` are what other caches have made usual.

use std::net::IpAddr;
use std::time::Duration;

use forebay_cache::{PurgeBusy, PurgeResult, Selection, TagExpr};
use forebay_http::fields::FieldSet;
use forebay_http::policy::tags::{SURROGATE_FIELDS, TAG_FIELDS, tags};
use forebay_http::request::Method;

use crate::clock;
use crate::counters::Counter;
use crate::events::Event;
use crate::fault::Fault;
use crate::key::{RouteMatch, site_beginning};
use crate::limits::{INVALIDATE_MS_MAX, INVALIDATE_RETRY_MS, INVALIDATE_WAIT_US_MAX};
use crate::parse::Request;
use crate::purger::PurgeWork;
use crate::worker::Worker;

/// Is it for us to purge? Where nobody may, it is a method like others.
pub(crate) fn is_purge(place: RouteMatch<'_>, request: &Request<'_>) -> bool {
    request.head.method() == Method::Other(b"PURGE") && !place.route.settings.purge_from.is_empty()
}

/// Does what a PURGE request asks for; `key` is that of its URL.
///
/// # Errors
/// The client may not, its tags can be nobody's, or other purges do not end.
pub(crate) async fn purge_asked(
    (worker, client): (&Worker, IpAddr),
    place: RouteMatch<'_>,
    request: &Request<'_>,
    key: &[u8],
) -> Result<PurgeResult, Fault> {
    let settings = &place.route.settings;
    if !settings.purge_from.contains(client) {
        return Err(Fault::PurgeForbidden);
    }
    if !worker.store_is_used() {
        worker.count(Counter::PurgesFailed);
        return Err(Fault::PurgeElsewhere);
    }
    let expression = tags_asked(place, request)?;
    // What has a tag lies anywhere in the site.
    if expression.is_some() && !place.site.route(b"/").settings.purge_from.contains(client) {
        return Err(Fault::PurgeForbidden);
    }
    worker.count(Counter::PurgeRequests);
    let is_soft = is_soft(request);
    let Some(tags) = expression else {
        let purged = purge_patiently(worker, key, is_soft).await.map_err(|PurgeBusy| {
            worker.count(Counter::PurgesBusy);
            worker.event(Event::PurgeBusy, &key.escape_ascii());
            Fault::PurgeBusy
        })?;
        worker.count_many(Counter::Purged, purged.records);
        return Ok(purged);
    };
    let selection = Selection { within: site_beginning(&place.site.name), tags: Some(tags) };
    let work = PurgeWork::Purge { is_soft, counter: Counter::Purged };
    // However long it takes: it goes on if the client leaves.
    let asked = worker.purger.ask(vec![selection], work).map_err(|_| {
        worker.count(Counter::PurgesBusy);
        Fault::PurgeBusy
    })?;
    asked.purged().await.map_err(|_| Fault::PurgeBusy)
}

/// The tags to purge by; `None` if it is about the URL alone.
///
/// # Errors
/// They can be nobody's, or there are none where tags stand: purging only the URL then would leave
/// what was meant.
fn tags_asked(place: RouteMatch<'_>, request: &Request<'_>) -> Result<Option<TagExpr>, Fault> {
    let read = place.route.settings.tag_fields.set().intersection(SURROGATE_FIELDS);
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

/// Tries again while other purges do not end; the event loop goes on between.
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

//! PURGE requests. A client that is allowed to purge removes the stored responses of a URL, in both
//! schemes. If the request has tags, in the fields in which responses have tags, it instead removes
//! all stored responses of the URL's site that have one of these tags; if it has a pattern for a
//! prefix, all responses of the host whose path has the prefix.
//!
//! There is no standard for PURGE. The methods, the fields and the patterns follow the usage of
//! other caches, and of the programs that purge them (see [`PurgeScope`]).

use std::net::IpAddr;
use std::time::Duration;

use forebay_cache::{PurgeBusy, PurgeResult, Selection};
use forebay_http::authority::Authority;
use forebay_http::target::Scheme;

use super::purge_scope::PurgeScope;
use crate::clock;
use crate::config::Route;
use crate::counters::Counter;
use crate::events::Event;
use crate::fault::Fault;
use crate::key::{RouteMatch, path_prefix, resource_keys, site_prefix};
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

/// Whether a client that may purge on a route may also purge by tags or by a prefix. Any response
/// of the site may have a tag, and a prefix may reach other routes, so the client must be allowed
/// to purge at the site's `/`, must be served there and on each route that stores responses, and
/// must have given the password and shown the certificate that are asked for there.
fn may_purge_site(route: RouteMatch<'_>, client: IpAddr) -> bool {
    let root = route.site.route(b"/");
    let own_users = &route.route.settings.basic_auth;
    let has_shown_certificate = route.route.requires_certificate();
    let is_served = |other: &Route| {
        let users = &other.settings.basic_auth;
        (users.users().is_none() || users == own_users)
            && (has_shown_certificate || !other.requires_certificate())
            && other.admits(Some(client))
    };
    let mut storing = route.site.routes().iter().filter(|other| other.settings.cache);
    root.settings.purge_from.contains(client) && is_served(root) && storing.all(is_served)
}

/// Removes the responses that a PURGE request names.
///
/// # Errors
/// The client is not allowed to purge here, the tags or the pattern of the request are not usable,
/// a process with another store is taking over, or other purges take too long.
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
    let scope = PurgeScope::of(route, request)?;
    if !matches!(scope, PurgeScope::Url) && !may_purge_site(route, client) {
        return Err(Fault::PurgeForbidden);
    }
    worker.count(Counter::PurgeRequests);
    let kind = PurgeKind::asked(is_soft(request));
    let site = site_prefix(&route.site.name);
    let selections = match scope {
        PurgeScope::Url => return purge_url(worker, route, request).await,
        PurgeScope::Prefix(prefix) => {
            let authority = request.target.authority;
            let within = SCHEMES.map(|scheme| {
                let authority = authority_in(scheme, route, authority);
                path_prefix(RouteMatch { scheme, ..route }, authority, prefix)
            });
            within.map(|within| Selection { within, tags: None }).into()
        }
        PurgeScope::Tags(tags) => {
            let selection = |tags| Selection { within: site.clone(), tags: Some(tags) };
            tags.into_iter().map(selection).collect()
        }
        PurgeScope::Site => vec![Selection { within: site, tags: None }],
    };
    let work = PurgeWork::Purge { kind, counter: Counter::Purged };
    // The purge continues if the client leaves, however long it takes.
    let asked = worker.purger.ask(selections, work).map_err(|_| {
        worker.count(Counter::PurgesBusy);
        Fault::PurgeBusy
    })?;
    asked.purged().await.map_err(|_| Fault::PurgeBusy)
}

/// Both schemes: a program that purges often speaks HTTP without TLS to the cache beside it,
/// whatever the scheme of the site's URLs.
const SCHEMES: [Scheme; 2] = [Scheme::Http, Scheme::Https];

/// Returns the authority of a request on `route` for a URL with another scheme: the default port of
/// one scheme becomes that of the other.
fn authority_in<'a>(
    scheme: Scheme,
    route: RouteMatch<'_>,
    authority: Option<Authority<'a>>,
) -> Option<Authority<'a>> {
    let authority = authority?;
    let is_default = scheme != route.scheme && authority.port == Some(route.scheme.default_port());
    Some(Authority { port: authority.port.filter(|_| !is_default), ..authority })
}

/// Removes the responses of the request's URL.
async fn purge_url(
    worker: &Worker,
    route: RouteMatch<'_>,
    request: &Request<'_>,
) -> Result<PurgeResult, Fault> {
    let is_soft = is_soft(request);
    let target = &request.target;
    let mut all = PurgeResult::default();
    for scheme in SCHEMES {
        let authority = authority_in(scheme, route, target.authority);
        let route = RouteMatch { scheme, ..route };
        for key in resource_keys(route, authority, target.path_query) {
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
    }
    Ok(all)
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

//! The site, the route and the origins of an explanation.

use std::path::Path;

use super::facts::SiteFacts;
use crate::config::{OriginGroup, OriginHost, OriginMember, Route, Zone};
use crate::fault::Fault;
use crate::fetch::{JoinContext, file_path, sent_path};
use crate::key::{RouteMatch, reasons_for_route};
use crate::parse::Request;

/// Returns the checks of the client that a route makes, in their order.
fn client_checks(route: &Route) -> Vec<&'static str> {
    let settings = &route.settings;
    let checks = [
        (!settings.deny_from.is_empty(), "addresses in deny_from are refused"),
        (!settings.allow_from.is_empty(), "addresses that are not in allow_from are refused"),
        (!settings.rate_limit.is_empty(), "requests beyond rate_limit are refused"),
        (!settings.concurrency_limit.is_empty(), "requests beyond concurrency_limit are refused"),
        (settings.signed_urls.keys().is_some(), "URLs without a valid signature are refused"),
        (route.requires_certificate(), "clients without a valid certificate are refused"),
        (settings.basic_auth.users().is_some(), "a user of basic_auth has to log in"),
    ];
    checks.into_iter().filter(|(is_made, _)| *is_made).map(|(_, check)| check).collect()
}

/// Collects the facts about the site and the route of a request.
pub(super) fn site_facts(
    route: RouteMatch<'_>,
    context: Option<&JoinContext<'_>>,
    (request, zone): (&Request<'_>, &Zone),
) -> SiteFacts {
    let directory = route.route.settings.files.get();
    let first = route.route.origins.first();
    SiteFacts {
        site: route.site.name.clone(),
        origin: match first {
            Some(_) => route.route.origins.to_string(),
            None => "none".to_owned(),
        },
        file: directory.map(|directory| shown_file(directory, route, request)),
        sent: None,
        zone: shown_zone(&route.route.origins, zone),
        http2: first.map(|origin| origin.http2).unwrap_or_default(),
        proxy_protocol: first.map(|origin| origin.proxy_protocol).unwrap_or_default(),
        path_prefix: route.route.shown_path(),
        route_reasons: reasons_for_route(route, request),
        client_checks: client_checks(route.route),
        origin_is_down: context.is_some_and(JoinContext::origin_is_down),
        origin_failure: context.and_then(JoinContext::origin_failure).map(Fault::reason),
    }
}

/// Returns the origins that come first in the zone of the server; `None` if all origins or none are
/// in this zone.
fn shown_zone(group: &OriginGroup, zone: &Zone) -> Option<String> {
    let is_first = |one: &&OriginMember| !one.rank(zone).is_out_of_zone;
    let first: Vec<_> = group.members().iter().filter(is_first).collect();
    if first.is_empty() || first.len() == group.members().len() {
        return None;
    }
    let first: Vec<_> = first.iter().map(|one| one.address.authority.as_str()).collect();
    Some(format!(
        "the origins in zone {zone}, that of the server, come first: {}",
        first.join(", ")
    ))
}

/// Returns the path and query that the origin gets, and the host, if they are not those of the
/// request, and if the origin answers it.
pub(super) fn shown_sent(route: &Route, request: &Request<'_>) -> Option<String> {
    if route.settings.files.get().is_some() {
        return None;
    }
    let path_query = request.target.path_query;
    let host = match (&route.settings.origin_host, route.origins.members()) {
        (OriginHost::Origin, [_, _, ..]) => Some("that of the chosen origin"),
        (host, members) => members.first().and_then(|first| host.of(&first.address)),
    };
    let sent = match sent_path(route, path_query) {
        Ok(sent) => sent,
        Err(fault) => return Some(format!("nothing (400): {}", fault.reason())),
    };
    if sent.is_none() && host.is_none() {
        return None;
    }
    let sent = sent.as_deref().unwrap_or(path_query);
    let host = host.map(|host| format!(", with Host: {host}")).unwrap_or_default();
    Some(format!("{}{host}", String::from_utf8_lossy(sent)))
}

/// Returns the path of the file that answers a request, or the reason why there is none.
fn shown_file(directory: &Path, route: RouteMatch<'_>, request: &Request<'_>) -> String {
    let path = match file_path(route, request.target.path_query) {
        Ok(path) => directory.join(path.shown()),
        Err(refusal) => return format!("none (404): {}", refusal.reason()),
    };
    let path = path.display();
    // This thread does not look at files, because a file system may block.
    match route.route.settings.files_fallback.get() {
        Some(fallback) => {
            let fallback = directory.join(&*fallback);
            let fallback = fallback.display();
            format!("{path}; if it is missing, {fallback}, which is not stored (files_fallback)")
        }
        None => path.to_string(),
    }
}

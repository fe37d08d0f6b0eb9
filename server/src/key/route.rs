//! Routing: finds the site and the route of a request, and the requests that this server answers
//! itself.

use forebay_http::fields::FieldId;
use forebay_http::request::Method;

use crate::config::{Config, Route, Site};
use crate::fault::Fault;
use crate::parse::Request;

/// The site and the route that serve a request.
#[derive(Clone, Copy)]
pub(crate) struct RouteMatch<'a> {
    pub(crate) site: &'a Site,
    pub(crate) route: &'a Route,
}

/// A request that this server answers itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LocalRequest {
    /// OPTIONS with `Max-Forwards: 0`, which is not to be forwarded (RFC 9110 §7.6.2).
    Options,
    /// PURGE, on a route that permits it for at least one address.
    Purge,
}

/// Finds the site and the route of a request.
///
/// # Errors
/// [`Fault::NoSite`]: no site serves the request's host.
pub(crate) fn match_route<'a>(
    config: &'a Config,
    request: &Request<'_>,
) -> Result<RouteMatch<'a>, Fault> {
    let host = request.target.authority.map_or(&b""[..], |authority| authority.host);
    let site = config.sites.lookup(host).ok_or(Fault::NoSite)?;
    Ok(RouteMatch { site, route: site.route(path_of(request.target.path_query)) })
}

fn path_of(path_query: &[u8]) -> &[u8] {
    let end = path_query.iter().position(|byte| *byte == b'?');
    path_query.get(..end.unwrap_or(path_query.len())).unwrap_or_default()
}

/// Whether this server has forwarded the request before, which its name in Via tells (RFC 9110
/// §7.6.3). Then the origin forwards back to this server, and the request would loop forever.
pub(crate) fn is_loop(request: &Request<'_>, via: &str) -> bool {
    let mut lines = request.head.fields().all(FieldId::Via);
    lines.any(|line| line.windows(via.len()).any(|part| part == via.as_bytes()))
}

/// Checks that a GET or HEAD request has no content, unless its route permits content.
///
/// RFC 9110 §9.3.1: content of a GET has no defined meaning, and an origin that does not expect it
/// takes it for the next request.
///
/// # Errors
/// [`Fault::GetContent`]
pub(crate) fn check_content(route: RouteMatch<'_>, request: &Request<'_>) -> Result<(), Fault> {
    let is_get = matches!(request.head.method(), Method::Get | Method::Head);
    match request.has_body() && is_get && !route.route.settings.content_of_get {
        true => Err(Fault::GetContent),
        false => Ok(()),
    }
}

/// Returns the kind of a request that this server answers itself; `None` for other requests. If the
/// route lets no address purge, PURGE is forwarded like any other method.
pub(crate) fn local_request(route: RouteMatch<'_>, request: &Request<'_>) -> Option<LocalRequest> {
    match request.head.method() {
        Method::Options if !request.has_body() => {
            let forwards_left = request.head.fields().only(FieldId::MaxForwards);
            (forwards_left == Some(b"0")).then_some(LocalRequest::Options)
        }
        Method::Other(b"PURGE") if !route.route.settings.purge_from.is_empty() => {
            Some(LocalRequest::Purge)
        }
        _ => None,
    }
}

//! Routing: finds the site and the route of a request, and recognises requests that this server
//! answers itself.

use std::cell::Cell;

use forebay_http::error::RequestError;
use forebay_http::fields::FieldId;
use forebay_http::framing::BodyFraming;
use forebay_http::path::{PathReading, every_reading, is_plain, normal_form};
use forebay_http::request::Method;
use forebay_http::target::Scheme;

use super::conditions::meets;
use crate::config::{Config, ListenerNumber, Route, Site};
use crate::fault::Fault;
use crate::limits::{PATH_READINGS_BYTES_MAX, ROUTES_PER_SITE_MAX};
use crate::parse::Request;

/// The site and the route that serve a request, and the scheme of its URL.
#[derive(Clone, Copy)]
pub(crate) struct RouteMatch<'a> {
    pub(crate) site: &'a Site,
    pub(crate) route: &'a Route,
    pub(crate) scheme: Scheme,
}

/// A request that this server answers itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LocalRequest {
    /// OPTIONS with `Max-Forwards: 0`, which must not be forwarded (RFC 9110 §7.6.2).
    Options,
    /// A request without TLS, on a route that redirects it to the `https` URL.
    HttpsRedirect,
    /// PURGE, on a route that lets at least one address purge.
    Purge,
    /// A request to a route with `redirect` or `respond`.
    Answered,
    /// CONNECT. The origin gets the bytes of the tunnel, but not the request.
    Connect,
}

/// Finds the site and the route of a request that a client of `listener` sends. `buffer` is memory
/// for the ways in which an origin may interpret the path.
///
/// # Errors
/// - [`Fault::NoSite`]: no site serves the request's host at the listener's address.
/// - [`Fault::AmbiguousPath`]: the origin might resolve the path to a path of another route.
pub(crate) fn match_route<'a>(
    config: &'a Config,
    listener: ListenerNumber,
    request: &Request<'_>,
    buffer: &mut Vec<u8>,
) -> Result<RouteMatch<'a>, Fault> {
    let host = request.target.authority.map_or(&b""[..], |authority| authority.host);
    let site = config.sites.lookup_at(listener, host).ok_or(Fault::NoSite)?;
    let route = match site.routes() {
        [only] => only,
        [.., of_all_paths] if request.is_connect() => of_all_paths,
        _ => {
            let path = path_of(request.target.path_query);
            route_of_path(site, path, buffer, |route| meets(route, request))?
        }
    };
    Ok(RouteMatch { site, route, scheme: request.scheme })
}

/// Returns the route of a path for the requests whose conditions `meets` tells.
#[inline]
fn route_of_path<'a>(
    site: &'a Site,
    path: &[u8],
    buffer: &mut Vec<u8>,
    meets: impl Fn(&Route) -> bool,
) -> Result<&'a Route, Fault> {
    match is_plain(path) {
        true => Ok(site.route_of_reading(PathReading { path, is_decoded: false }, meets)),
        false => route_of_readings(site, path, buffer, &meets),
    }
}

/// Returns the route of the normal form of a path. An origin may read the path in several ways. If
/// one of these readings has another route than the path as it was sent, and one of the two routes
/// refuses ambiguous paths, the request is refused. It is also refused if an origin may read an
/// encoded `?` as the beginning of a query, and the path before it has a route that depends on the
/// query.
#[cold]
fn route_of_readings<'a>(
    site: &'a Site,
    path: &[u8],
    buffer: &mut Vec<u8>,
    meets: &dyn Fn(&Route) -> bool,
) -> Result<&'a Route, Fault> {
    // Whether a request meets the conditions of a route is the same for every reading.
    let known = [const { Cell::new(None) }; ROUTES_PER_SITE_MAX];
    let meets = |route: &Route| {
        let Some(known) = known.get(route.number.in_site()) else { return meets(route) };
        let is_met = known.get().unwrap_or_else(|| meets(route));
        known.set(Some(is_met));
        is_met
    };
    let literal = site.route_of_reading(PathReading { path, is_decoded: false }, meets);
    if site.routes().iter().any(Route::refuses_ambiguous) {
        let is_safe = |route: &Route| {
            let is_relaxed = !route.refuses_ambiguous() && !literal.refuses_ambiguous();
            is_relaxed || route.number == literal.number
        };
        let hides_query = |PathReading { path, is_decoded }: PathReading<'_>| {
            let Some(path) = before_query(path) else { return false };
            let mut routes = site.query_routes(PathReading { path, is_decoded });
            routes.any(|route| route.refuses_ambiguous() || literal.refuses_ambiguous())
        };
        if !every_reading(path, buffer, PATH_READINGS_BYTES_MAX, |reading| {
            !hides_query(reading) && is_safe(site.route_of_reading(reading, meets))
        }) {
            return Err(Fault::AmbiguousPath);
        }
    }
    normal_form(path, buffer);
    Ok(site.route_of_reading(PathReading { path: buffer, is_decoded: false }, meets))
}

/// Whether the stored responses for the URL of a request come from other origins or files than
/// those of `route`. This is possible after rules have changed the URL of a request that had a
/// route: the key then belongs to the new URL, but the request is still sent to the origins of its
/// route. A route with conditions may have other origins, but stores nothing.
#[cold]
pub(crate) fn has_other_source(route: RouteMatch<'_>, request: &Request<'_>) -> bool {
    let path = path_of(request.target.path_query);
    let of_path = match route.site.routes() {
        [_] => return false,
        _ if !route.route.may_store() || !is_get(request) => return false,
        _ => route_of_path(route.site, path, &mut Vec::new(), Route::may_store),
    };
    !of_path.is_ok_and(|of_path| of_path.has_source_of(route.route))
}

/// Returns the reasons why a request has its route, unless the paths of the route say so.
pub(crate) fn reasons_for_route(route: RouteMatch<'_>, request: &Request<'_>) -> Vec<String> {
    let mut path = Vec::new();
    normal_form(path_of(request.target.path_query), &mut path);
    route.site.reasons_for(route.route, &path)
}

/// Returns the route of a URL of a site: the one whose responses to GET may be stored for the URL.
pub(crate) fn route_of_url<'a>(
    site: &'a Site,
    scheme: Scheme,
    path_query: &[u8],
) -> RouteMatch<'a> {
    let path = path_of(path_query);
    let mut normal = Vec::new();
    let route = match is_plain(path) {
        true => site.route(path),
        false => {
            normal_form(path, &mut normal);
            site.route(&normal)
        }
    };
    RouteMatch { site, route, scheme }
}

fn path_of(path_query: &[u8]) -> &[u8] {
    before_query(path_query).unwrap_or(path_query)
}

/// Returns the part of a path before its first `?`; `None` if it has none.
fn before_query(path_query: &[u8]) -> Option<&[u8]> {
    path_query.get(..path_query.iter().position(|byte| *byte == b'?')?)
}

/// Whether this server has forwarded the request before, which is the case if Via contains its name
/// (RFC 9110 §7.6.3). Then the origin forwards back to this server, and the request would loop
/// forever.
pub(crate) fn is_loop(request: &Request<'_>, via: &str) -> bool {
    let mut lines = request.head.fields().all(FieldId::Via);
    lines.any(|line| line.windows(via.len()).any(|part| part == via.as_bytes()))
}

/// Checks that a GET or HEAD request has no content, unless its route permits content.
///
/// RFC 9110 §9.3.1: content of a GET has no defined meaning, and an origin that does not expect it
/// would parse it as the next request.
///
/// # Errors
/// [`Fault::GetContent`]: the request has content.
pub(crate) fn check_content(route: RouteMatch<'_>, request: &Request<'_>) -> Result<(), Fault> {
    match request.has_body() && is_get(request) && !route.route.settings.content_of_get {
        true => Err(Fault::GetContent),
        false => Ok(()),
    }
}

/// RFC 9110 §9.3.6: checks that the site of a CONNECT permits the tunnel. On a connection of
/// HTTP/2, no site does. A site whose requests are redirected to TLS has tunnels only over TLS.
///
/// # Errors
/// - [`Fault::Request`]: CONNECT is not available here, or the request has content.
/// - [`Fault::ConnectRefused`]: the port is not permitted, or TLS is missing.
// RFC: 9110-9.3.6-2
#[cold]
pub(crate) fn check_connect(
    route: RouteMatch<'_>,
    request: &Request<'_>,
    is_http2: bool,
) -> Result<(), Fault> {
    let ports = route.site.connect_ports();
    if is_http2 || ports.is_empty() {
        return Err(RequestError::MethodNotImplemented.into());
    }
    // Two servers could disagree about where the content ends and the tunnel begins.
    if request.framing != BodyFraming::None {
        return Err(RequestError::ConnectContent.into());
    }
    let port = request.target.authority.and_then(|authority| authority.port);
    let needs_tls = route.route.settings.https_redirect_port != 0;
    match port.is_some_and(|port| ports.has(port)) {
        true if !needs_tls || request.scheme == Scheme::Https => Ok(()),
        _ => Err(Fault::ConnectRefused),
    }
}

fn is_get(request: &Request<'_>) -> bool {
    matches!(request.head.method(), Method::Get | Method::Head)
}

/// Returns the kind of a request that this server answers itself; `None` for other requests. If no
/// address may purge on the route, PURGE and BAN are forwarded like any other method.
pub(crate) fn local_request(route: RouteMatch<'_>, request: &Request<'_>) -> Option<LocalRequest> {
    if route.route.answers_itself() {
        return answered_by_settings(route.route, request);
    }
    local_method(route.route, request)
}

/// Returns the kind of a request to a route that may redirect or answer it. PURGE reaches the
/// cache; any other request without TLS goes to TLS first, and so does a PURGE with a password.
#[cold]
fn answered_by_settings(route: &Route, request: &Request<'_>) -> Option<LocalRequest> {
    let local = local_method(route, request);
    if local == Some(LocalRequest::Connect) {
        return local;
    }
    let is_open_purge =
        local == Some(LocalRequest::Purge) && route.settings.basic_auth.users().is_none();
    let is_redirected = route.settings.https_redirect_port != 0 && request.scheme == Scheme::Http;
    if is_redirected && !is_open_purge {
        return Some(LocalRequest::HttpsRedirect);
    }
    let answered = route.settings.needs_no_origin().then_some(LocalRequest::Answered);
    local.or(answered)
}

#[inline]
fn local_method(route: &Route, request: &Request<'_>) -> Option<LocalRequest> {
    match request.head.method() {
        Method::Options if !request.has_body() => {
            let forwards_left = request.head.fields().only(FieldId::MaxForwards);
            (forwards_left == Some(b"0")).then_some(LocalRequest::Options)
        }
        Method::Other(b"PURGE" | b"BAN") if !route.settings.purge_from.is_empty() => {
            Some(LocalRequest::Purge)
        }
        Method::Connect => Some(LocalRequest::Connect),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_conditions_of_a_route_are_compared_once_for_all_readings_of_a_path() {
        let text = "[[site]]\nname = 'a'\nnames = ['*']\norigin = 'http://a'\n\
                    [[site.route]]\npath_prefix = '/'\nwith_cookies = ['a']\n\
                    [[site.route]]\npath_prefix = '/'\nwith_query = ['b']\n";
        let config = Config::from_toml(text, "f.toml").unwrap_or_else(|errors| panic!("{errors}"));
        let site = config.sites.iter().next().expect("it has one");
        let asked = Cell::new(0);
        let meets = |route: &Route| {
            asked.set(asked.get() + usize::from(route.conditions.is_some()));
            route.conditions.is_none()
        };
        let route = route_of_path(site, b"/a/..;x//%25%34%31\\b", &mut Vec::new(), meets);
        assert!(route.is_ok_and(|route| route.conditions.is_none()));
        assert_eq!(asked.get(), 2);
    }
}

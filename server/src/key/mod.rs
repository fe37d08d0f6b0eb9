//! Step three: which site and route serve the request, and under which key.
//!
//! A key is `site NUL scheme NUL host NUL path`, the host's labels in reverse so that a domain
//! and everything below it stand together: `shop NUL http NUL org.example.www:8080 NUL /a?b`.
//! The same normalised host and the same unchanged path are forwarded: nothing is stored under a
//! key that the origin did not see.

mod bytes;
mod text;

pub(crate) use bytes::write_key;
use bytes::write_key_of;
pub use text::KeyText;

use forebay_http::authority::Authority;
use forebay_http::fields::FieldId;

use crate::config::{Config, Route, Site};
use crate::fault::Fault;
use crate::parse::Request;

/// Where a request belongs.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) site: &'a Site,
    pub(crate) route: &'a Route,
}

/// Finds site and route.
///
/// # Errors
/// [`Fault::NoSite`]: no site serves the request's host.
pub(crate) fn place<'a>(config: &'a Config, request: &Request<'_>) -> Result<Place<'a>, Fault> {
    let host = request.target.authority.map_or(&b""[..], |authority| authority.host);
    let site = config.sites.lookup(host).ok_or(Fault::NoSite)?;
    Ok(Place { site, route: site.route(path_of(request.target.path_query)) })
}

fn path_of(path_query: &[u8]) -> &[u8] {
    let end = path_query.iter().position(|byte| *byte == b'?');
    path_query.get(..end.unwrap_or(path_query.len())).unwrap_or_default()
}

/// Has the request been at this server before? Then the origin leads back to it (RFC 9110
/// §7.6.3), and forwarding it again would never end.
pub(crate) fn is_back_again(request: &Request<'_>, via: &str) -> bool {
    let mut lines = request.head.fields().all(FieldId::Via);
    lines.any(|line| line.windows(via.len()).any(|part| part == via.as_bytes()))
}

/// Writes the key of what an `http` URL names into `key`, for an operator who purges it.
///
/// # Errors
/// A sentence that says what is wrong with the URL, or that no site serves it.
pub fn url_key(config: &Config, url: &[u8], key: &mut Vec<u8>) -> Result<(), &'static str> {
    let (authority, path_query) = split_url(url)?;
    let site = config.sites.lookup(authority.host).ok_or("no site serves this host")?;
    write_key(key, site, Some(authority), path_query);
    Ok(())
}

/// The same for a site of which only the name is known, as a tool does that looks at a cache.
///
/// # Errors
/// A sentence that says what is wrong with the URL.
pub fn site_url_key(site_name: &str, url: &[u8], key: &mut Vec<u8>) -> Result<(), &'static str> {
    let (authority, path_query) = split_url(url)?;
    write_key_of(key, site_name, Some(authority), path_query);
    Ok(())
}

fn split_url(url: &[u8]) -> Result<(Authority<'_>, &[u8]), &'static str> {
    let rest = strip_scheme(url).ok_or("a URL begins with http:// here")?;
    let path_at = rest.iter().position(|byte| matches!(byte, b'/' | b'?'));
    let (authority, path_query) = rest.split_at(path_at.unwrap_or(rest.len()));
    let authority = Authority::parse(authority).ok_or("the URL's host or port is malformed")?;
    let path_query = match path_query {
        b"" => b"/",
        path if is_path_query(path) => path,
        _ => return Err("the URL's path has bytes that a request can't have"),
    };
    Ok((authority, path_query))
}

fn strip_scheme(url: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = url.split_at_checked(b"http://".len())?;
    scheme.eq_ignore_ascii_case(b"http://").then_some(rest)
}

fn is_path_query(path: &[u8]) -> bool {
    path.first() == Some(&b'/') && path.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'#')
}

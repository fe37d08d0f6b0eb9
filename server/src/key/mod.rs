//! Step three: which site and route serve the request, and under which key.
//!
//! A key is `site NUL scheme NUL host NUL path`, the host's labels in reverse so that a domain
//! and everything below it stand together: `shop NUL http NUL org.example.www:8080 NUL /a?b`.
//! The same normalised host and the same unchanged path are forwarded: nothing is stored under a
//! key that the origin did not see.

mod select;
mod text;
mod url;

pub(crate) use select::{
    host_beginnings, site_beginning, site_beginnings, url_beginnings, url_keys,
};
pub use text::KeyText;
pub use url::{site_url_key, url_key};

use forebay_http::authority::Authority;
use forebay_http::fields::FieldId;

use crate::config::{Config, Route, Site};
use crate::fault::Fault;
use crate::parse::{Request, explicit_port};

/// Where a request belongs.
#[derive(Clone, Copy)]
pub(crate) struct RouteMatch<'a> {
    pub(crate) site: &'a Site,
    pub(crate) route: &'a Route,
}

/// Finds site and route.
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

/// Has the request been at this server before? Then the origin leads back to it (RFC 9110
/// §7.6.3), and forwarding it again would never end.
pub(crate) fn is_back_again(request: &Request<'_>, via: &str) -> bool {
    let mut lines = request.head.fields().all(FieldId::Via);
    lines.any(|line| line.windows(via.len()).any(|part| part == via.as_bytes()))
}

/// Writes the key of what `authority` serves at `path_query` into `key`.
pub(crate) fn write_key(
    key: &mut Vec<u8>,
    site: &Site,
    authority: Option<Authority<'_>>,
    path_query: &[u8],
) {
    // Who names no host (HTTP/1.0) gets what the origin's own name gets, which is also forwarded.
    let authority = authority.or_else(|| Authority::parse(site.origin.authority.as_bytes()));
    write_key_of(key, &site.name, authority, path_query);
}

fn write_key_of(
    key: &mut Vec<u8>,
    site_name: &str,
    authority: Option<Authority<'_>>,
    path_query: &[u8],
) {
    key.clear();
    key.extend_from_slice(site_name.as_bytes());
    key.extend_from_slice(b"\0http\0");
    if let Some(authority) = authority {
        write_authority(key, authority);
    }
    key.push(0);
    key.extend_from_slice(path_query);
}

fn write_authority(key: &mut Vec<u8>, authority: Authority<'_>) {
    write_reversed_host(key, authority.host);
    if let Some(port) = explicit_port(authority) {
        key.push(b':');
        forebay_http::write::decimal(key, u64::from(port));
    }
}

/// `www.Example.org` as `org.example.www`; an address stays as it is.
fn write_reversed_host(key: &mut Vec<u8>, host: &[u8]) {
    if text::is_address(host) {
        key.extend(host.iter().map(u8::to_ascii_lowercase));
        return;
    }
    for (index, label) in host.rsplit(|byte| *byte == b'.').enumerate() {
        if index > 0 {
            key.push(b'.');
        }
        key.extend(label.iter().map(u8::to_ascii_lowercase));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_keyed_by_its_labels_in_reverse_and_without_case() {
        for (host, expected) in [
            ("www.Example.ORG", "org.example.www"),
            ("localhost", "localhost"),
            ("127.0.0.1", "127.0.0.1"),
            ("[2001:DB8::1]", "[2001:db8::1]"),
            ("a.b.", ".b.a"),
            ("1.2.3.4.example", "example.4.3.2.1"),
        ] {
            let mut key = Vec::new();
            write_reversed_host(&mut key, host.as_bytes());
            assert_eq!(String::from_utf8_lossy(&key), expected, "{host}");
        }
    }
}

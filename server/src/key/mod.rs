//! Step three: finds the site and the route of a request, and writes its key.
//!
//! A key is `site NUL scheme NUL host NUL path`. The host's labels are reversed, so that a domain
//! and its subdomains are neighbours in key order: `shop NUL http NUL org.example.www:8080 NUL
//! /a?b`. The request to the origin has the same normalised host, unchanged path and normalised
//! query as the key: no response is stored under the key of a URL that the origin did not receive.

mod conditions;
mod normal;
mod route;
mod select;
mod text;
mod url;

pub(crate) use normal::NormalText;
pub(crate) use route::{
    LocalRequest, RouteMatch, check_connect, check_content, has_other_source, is_loop,
    local_request, match_route, reasons_for_route, route_of_url,
};
pub(crate) use select::{
    host_prefixes, path_prefix, site_prefix, site_prefixes, url_keys, url_prefixes,
};
pub(crate) use text::DamagedKey;
pub use text::KeyText;
pub(crate) use url::{SplitUrl, https_url, is_path_query, redirect_url, split_url};
pub use url::{shown_url, site_url_key, url_key};

use forebay_http::authority::Authority;
use forebay_http::target::Scheme;

use crate::parse::explicit_port;
use crate::signature::without_signature;

/// Writes into `key` the key of the resource that `authority` serves at `path_query`.
// RFC: 9111-4-1
pub(crate) fn write_key(
    key: &mut Vec<u8>,
    route: RouteMatch<'_>,
    authority: Option<Authority<'_>>,
    path_query: &[u8],
) {
    write_host_of(key, &route.site.name, route.scheme, authority_of(route, authority));
    route.route.settings.write_path_query(path_query, key);
}

/// Does the same as [`write_key`] for a path and query in their normal form.
pub(crate) fn write_normal_key(
    key: &mut Vec<u8>,
    route: RouteMatch<'_>,
    authority: Option<Authority<'_>>,
    path_query: &[u8],
) {
    write_host_of(key, &route.site.name, route.scheme, authority_of(route, authority));
    key.extend_from_slice(path_query);
}

/// Returns the keys of a URL by the current settings: the key of its normal form, and its key
/// without normalisation. A response that was stored with other settings may have a third key,
/// which is not known here.
pub(crate) fn resource_keys(
    route: RouteMatch<'_>,
    authority: Option<Authority<'_>>,
    path_query: &[u8],
) -> Vec<Vec<u8>> {
    let path_query = without_signature(path_query, &route.route.settings);
    let (mut key, mut literal) = (Vec::new(), Vec::new());
    write_key(&mut key, route, authority, path_query);
    write_normal_key(&mut literal, route, authority, path_query);
    if key == literal { vec![key] } else { vec![key, literal] }
}

/// A request without a host (HTTP/1.0) is forwarded and keyed with the origin's own authority.
fn authority_of<'a>(
    route: RouteMatch<'a>,
    authority: Option<Authority<'a>>,
) -> Option<Authority<'a>> {
    authority.or_else(|| Authority::parse(route.route.origins.first()?.own_host().as_bytes()))
}

/// Writes a key without its path, which the caller appends.
fn write_host_of(
    key: &mut Vec<u8>,
    site_name: &str,
    scheme: Scheme,
    authority: Option<Authority<'_>>,
) {
    key.clear();
    key.extend_from_slice(site_name.as_bytes());
    key.extend_from_slice(match scheme {
        Scheme::Http => b"\0http\0",
        Scheme::Https => b"\0https\0",
    });
    if let Some(authority) = authority {
        write_authority(key, scheme, authority);
    }
    key.push(0);
}

fn write_authority(key: &mut Vec<u8>, scheme: Scheme, authority: Authority<'_>) {
    write_reversed_host(key, authority.host);
    if let Some(port) = explicit_port(authority, scheme) {
        key.push(b':');
        forebay_http::write::decimal(key, u64::from(port));
    }
}

/// Writes the host `www.Example.org` as `org.example.www`. An IP address is not reversed.
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
    fn a_host_is_keyed_by_its_reversed_labels_in_lower_case() {
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

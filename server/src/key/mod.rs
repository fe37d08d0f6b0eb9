//! Step three: finds the site and the route of a request, and writes its key.
//!
//! A key is `site NUL scheme NUL host NUL path`. The host's labels are reversed, so that a domain
//! and its subdomains are neighbours in key order: `shop NUL http NUL org.example.www:8080 NUL
//! /a?b`. The same normalised host and the same unchanged path are forwarded: nothing is stored
//! under a key that the origin did not see.

mod route;
mod select;
mod text;
mod url;

pub(crate) use route::{
    LocalRequest, RouteMatch, check_content, is_loop, local_request, match_route,
};
pub(crate) use select::{host_prefixes, site_prefix, site_prefixes, url_keys, url_prefixes};
pub(crate) use text::DamagedKey;
pub use text::KeyText;
pub(crate) use url::split_url;
pub use url::{site_url_key, url_key};

use forebay_http::authority::Authority;

use crate::config::Site;
use crate::parse::explicit_port;

/// Writes the key of the resource that `authority` serves at `path_query` into `key`.
// RFC: 9111-4-1
pub(crate) fn write_key(
    key: &mut Vec<u8>,
    site: &Site,
    authority: Option<Authority<'_>>,
    path_query: &[u8],
) {
    // A request without a host (HTTP/1.0) is forwarded with the origin's own authority, so it has
    // the key of a request with that authority.
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

/// Writes `www.Example.org` as `org.example.www`, and an address without reversing it.
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

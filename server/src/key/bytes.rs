//! The bytes of a key.

use forebay_http::authority::Authority;

use crate::config::Site;
use crate::parse::explicit_port;

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

pub(super) fn write_key_of(
    key: &mut Vec<u8>,
    site_name: &str,
    authority: Option<Authority<'_>>,
    path_query: &[u8],
) {
    key.clear();
    key.extend_from_slice(site_name.as_bytes());
    key.extend_from_slice(b"\0http\0");
    if let Some(authority) = authority {
        write_reversed_host(key, authority.host);
        if let Some(port) = explicit_port(authority) {
            key.push(b':');
            forebay_http::write::decimal(key, u64::from(port));
        }
    }
    key.push(0);
    key.extend_from_slice(path_query);
}

/// `www.Example.org` as `org.example.www`; an address stays as it is.
fn write_reversed_host(key: &mut Vec<u8>, host: &[u8]) {
    if super::text::is_address(host) {
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

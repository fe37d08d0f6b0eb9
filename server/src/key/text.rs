//! Keys as readable text.

use std::fmt::{self, Write};

/// The parts of a key as printable ASCII.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyText {
    /// The site's name.
    pub site: String,
    /// The URL of the stored response, as a client would request it.
    pub url: String,
}

impl KeyText {
    /// Returns the text of a key, which all variants of a resource share; `None` for bytes that
    /// this version of the server has not written as a key.
    pub fn of(key: &[u8]) -> Option<KeyText> {
        let mut parts = key.splitn(4, |byte| *byte == 0);
        let (site, scheme, host, path) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let (host, port) = split_port(host);
        let mut labels: Vec<_> = host.split(|byte| *byte == b'.').collect();
        if !is_address(host) {
            labels.reverse();
        }
        let mut url = printable(scheme);
        url.push_str("://");
        url.push_str(&printable(&labels.join(&b'.')));
        url.push_str(&printable(port));
        url.push_str(&printable(path));
        Some(KeyText { site: printable(site), url })
    }
}

/// The key of a damaged record, as text for an event; `None` if it is not known.
pub(crate) struct DamagedKey<'a>(pub(crate) Option<&'a [u8]>);

impl fmt::Display for DamagedKey<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.and_then(KeyText::of) {
            Some(KeyText { site, url }) => write!(out, "site {site}, {url}"),
            None => out.write_str(
                "URL unknown: the record's key is damaged, or the record is a part of a body",
            ),
        }
    }
}

/// Whether the host is an IP address, whose parts are not reversed in keys.
pub(super) fn is_address(host: &[u8]) -> bool {
    host.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.') || host.first() == Some(&b'[')
}

/// Splits the host of a key from its port. The port keeps its colon.
fn split_port(host: &[u8]) -> (&[u8], &[u8]) {
    let colon = host.iter().rposition(|byte| *byte == b':');
    let port = colon.filter(|at| host.iter().skip(at + 1).all(u8::is_ascii_digit));
    host.split_at(port.unwrap_or(host.len()))
}

/// Percent-encodes bytes that are not printable, as in a URL.
fn printable(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        if byte.is_ascii_graphic() {
            text.push(char::from(*byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::site_url_key;
    use super::*;

    #[test]
    fn the_text_of_a_key_is_the_url_that_it_was_made_of() {
        for url in [
            "http://www.example.org/a/b?c=d",
            "http://localhost:8080/",
            "http://127.0.0.1:80/x",
            "http://[2001:db8::1]/",
            "http://[2001:db8::1]:8080/",
            "http://a.b./it's",
        ] {
            let mut key = Vec::new();
            site_url_key("shop", url.as_bytes(), &mut key).expect(url);
            let text = KeyText::of(&key).expect(url);
            // The default port of the scheme is left out.
            assert_eq!((text.site.as_str(), text.url), ("shop", url.replace(":80/", "/")));
        }
    }

    #[test]
    fn other_bytes_have_no_text_and_no_text_moves_a_cursor() {
        for other in [&b""[..], b"a", b"a\0b\0c", b"\xff12345678abcd"] {
            assert_eq!(KeyText::of(other), None, "{other:?}");
        }
        let text = KeyText::of(b"a\x1b[2J\0http\0h\n\0/\r\0\xff").expect("four parts");
        assert_eq!(text.url, "http://h%0A/%0D%00%FF");
        assert_eq!(text.site, "a%1B[2J");
    }
}

//! The host and optional port of a Host field or of an absolute-form target (RFC 3986 §3.2, RFC
//! 9110 §7.2).
//!
//! The parser is stricter than the grammar wherever two parsers could read two different hosts. It
//! refuses userinfo, percent-encoding, sub-delims (so also lists), an empty label, an empty port, a
//! port with leading zeros, and a name that ends in a number but is not an IPv4 address.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use std::net::Ipv6Addr;

use crate::bytes::{decimal, is_host_byte};

/// Length of the longest accepted host, the limit of a domain name (RFC 1035 §2.3.4).
const HOST_BYTES_MAX: usize = 255;

/// A validated host with an optional port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authority<'a> {
    /// The domain name, IPv4 address or bracketed IPv6 address as received, in any case.
    pub host: &'a [u8],
    /// The port, 1 to 65535; `None` if the text has no port.
    pub port: Option<u16>,
}

impl<'a> Authority<'a> {
    /// Parses `host [ ":" port ]`; `None` for anything else, including an empty text.
    pub fn parse(text: &'a [u8]) -> Option<Authority<'a>> {
        let host_len = match text.first() {
            Some(b'[') => memchr::memchr(b']', text)? + 1,
            _ => memchr::memchr(b':', text).unwrap_or(text.len()),
        };
        let (host, rest) = text.split_at_checked(host_len)?;
        let valid = match host {
            [b'[', inner @ .., b']'] => is_ipv6(inner),
            name => is_name(name),
        };
        let port = match rest {
            [] => None,
            [b':', digits @ ..] => Some(parse_port(digits)?),
            _ => return None,
        };
        valid.then_some(Authority { host, port })
    }

    /// Returns the port, or the scheme's default if none was given.
    pub fn port_or(self, default_port: u16) -> u16 {
        self.port.unwrap_or(default_port)
    }

    /// Whether `self` and `other` have the same host, ignoring case, and the same port (RFC 9110
    /// §4.2.3). A missing port counts as `default_port`.
    pub fn is_same(self, other: Authority<'_>, default_port: u16) -> bool {
        self.host.eq_ignore_ascii_case(other.host)
            && self.port_or(default_port) == other.port_or(default_port)
    }
}

/// Whether `host` is a domain name, optionally with a final dot, or an IPv4 address.
fn is_name(host: &[u8]) -> bool {
    let labels = host.strip_suffix(b".").unwrap_or(host);
    let (mut is_valid, mut follows_dot) = (true, true);
    for byte in labels {
        let is_dot = *byte == b'.';
        is_valid &= is_host_byte(*byte) & !(is_dot & follows_dot);
        follows_dot = is_dot;
    }
    if !is_valid || follows_dot || host.len() > HOST_BYTES_MAX {
        return false;
    }
    // A name that ends in a number must be an IPv4 address: resolvers treat such a name as an
    // address, and some of them read its numbers as octal.
    let is_number = || {
        let last = labels.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
        last.iter().all(u8::is_ascii_digit)
    };
    !(labels.last().is_some_and(u8::is_ascii_digit) && is_number()) || is_ipv4(host)
}

/// Whether `host` is four numbers up to 255 without leading zeros. Every hit parses a host, and
/// this check takes a quarter of the time of std's parser.
fn is_ipv4(host: &[u8]) -> bool {
    let mut octets = host.split(|byte| *byte == b'.');
    let all_valid = octets.by_ref().take(4).filter(|octet| is_octet(octet)).count() == 4;
    all_valid && octets.next().is_none()
}

fn is_octet(digits: &[u8]) -> bool {
    match digits {
        [ones] => ones.is_ascii_digit(),
        [tens, ones] => matches!(tens, b'1'..=b'9') && ones.is_ascii_digit(),
        [b'1', tens, ones] => tens.is_ascii_digit() && ones.is_ascii_digit(),
        [b'2', b'0'..=b'4', ones] => ones.is_ascii_digit(),
        [b'2', b'5', ones] => matches!(ones, b'0'..=b'5'),
        _ => false,
    }
}

fn is_ipv6(inner: &[u8]) -> bool {
    str::from_utf8(inner).is_ok_and(|inner| inner.parse::<Ipv6Addr>().is_ok())
}

fn parse_port(digits: &[u8]) -> Option<u16> {
    let port = decimal(digits).and_then(|port| u16::try_from(port).ok())?;
    (digits.first() != Some(&b'0')).then_some(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_one_host_and_at_most_one_port() {
        for (text, host, port) in [
            ("example.com", "example.com", None),
            ("Example.COM:8080", "Example.COM", Some(8080)),
            ("example.com.", "example.com.", None),
            ("localhost:1", "localhost", Some(1)),
            ("a_b-c~d.e:65535", "a_b-c~d.e", Some(65535)),
            ("127.0.0.1:80", "127.0.0.1", Some(80)),
            ("1.2.3.4.example", "1.2.3.4.example", None),
            ("[::1]", "[::1]", None),
            ("[2001:DB8::1.2.3.4]:443", "[2001:DB8::1.2.3.4]", Some(443)),
        ] {
            let expected = Authority { host: host.as_bytes(), port };
            assert_eq!(Authority::parse(text.as_bytes()), Some(expected), "{text:?}");
        }
    }

    #[test]
    fn ipv4_addresses_are_those_that_std_accepts() {
        let parts = [
            "", "0", "00", "1", "01", "9", "10", "99", "099", "100", "199", "200", "249", "250",
            "255", "256", "260", "300", "999", "1000", "a", "-1", "+1", "0x1",
        ];
        for (index, first) in parts.iter().enumerate() {
            for (step, last) in parts.iter().enumerate() {
                let middle = parts[(index * 7 + step) % parts.len()];
                for text in [
                    format!("{first}.{middle}.{last}.1"),
                    format!("1.{first}.2.{last}"),
                    format!("{first}.{middle}.{last}"),
                    format!("{first}.1.{middle}.2.{last}"),
                ] {
                    let expected = text.parse::<std::net::Ipv4Addr>().is_ok();
                    assert_eq!(is_ipv4(text.as_bytes()), expected, "{text:?}");
                }
            }
        }
    }

    #[test]
    fn an_ambiguous_authority_is_refused() {
        let long = "a".repeat(HOST_BYTES_MAX + 1);
        for text in [
            "",
            ".",
            ":80",
            "a:",
            "a:0",
            "a:080",
            "a:65536",
            "a:99999999999999999999",
            "a:+1",
            "a:8 0",
            "a:b",
            "a:1:2",
            "a b",
            "a,b",
            "a, b",
            "user@a",
            "a/b",
            "a\\b",
            "a?b",
            "a#b",
            "a..b",
            ".a",
            "a..",
            "a%41",
            "a;b",
            "a\u{e9}",
            "a\0b",
            "1.2.3",
            "256.1.1.1",
            "01.2.3.4",
            "1.2.3.4.",
            "2130706433",
            "[::1",
            "::1",
            "[::1]x",
            "[::1]:",
            "[]",
            "[1]",
            "[::1%25eth0]",
            "[v1.a]",
            "[::g]",
            "a]",
            "a[",
            "http://a",
            &long,
        ] {
            assert_eq!(Authority::parse(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn hosts_compare_ignoring_case_and_the_default_port() {
        for (one, other, same) in [
            ("a.b", "A.B:80", true),
            ("a.b:80", "a.b:80", true),
            ("a.b", "a.b:81", false),
            ("a.b", "a.c", false),
            ("[::A]", "[::a]:80", true),
        ] {
            let parse = |text: &'static str| Authority::parse(text.as_bytes()).expect(text);
            assert_eq!(parse(one).is_same(parse(other), 80), same, "{one} {other}");
        }
    }
}

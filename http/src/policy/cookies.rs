//! The cookies of a request (RFC 6265 §4.2.1).

use crate::bytes::{is_token, trim_space};
use crate::fields::{FieldId, Fields};

/// Iterates over the names and values of the cookies of a request, as any origin may read them:
/// some origins also split cookies at commas (RFC 2965 §3.3.4), so a cookie with commas comes as a
/// whole, then in parts. A cookie without `=` is its own name. An empty cookie has an empty name,
/// so that a caller who counts cookies counts it, too.
pub fn cookie_pairs(request: Fields<'_>) -> impl Iterator<Item = (&[u8], &[u8])> {
    let readings = cookies(request).flat_map(|cookie| {
        let whole = cookie.contains(&b',').then_some(cookie);
        whole.into_iter().chain(cookie.split(|byte| *byte == b','))
    });
    readings.map(|cookie| {
        let mut parts = cookie.splitn(2, |byte| *byte == b'=').map(trim_space);
        (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
    })
}

/// Whether an origin may read the name of a cookie as `wanted` or, if `is_prefix` is set, as a name
/// that begins with `wanted`.
///
/// Some origins ignore case. PHP reads `.`, space and `[` as `_`, and `a[b]` as an element of `a`;
/// old versions decode percent-encoding. A needless match costs a request to the origin, but a
/// missed match could store one user's page for all users. So every name that some origin reads as
/// `wanted` matches.
pub fn may_be_named(name: &[u8], wanted: &[u8], is_prefix: bool) -> bool {
    let (mut name, mut wanted) = (decoded(name), decoded(wanted));
    let is_equal = wanted.all(|byte| name.next().is_some_and(|other| loose(other) == loose(byte)));
    is_equal && (is_prefix || name.next().is_none_or(|byte| byte == b'['))
}

fn loose(byte: u8) -> u8 {
    match byte {
        b'.' | b' ' | b'+' | b'[' => b'_',
        byte => byte.to_ascii_lowercase(),
    }
}

/// Iterates over the bytes of a text whose percent-encoding is decoded once.
fn decoded(text: &[u8]) -> impl Iterator<Item = u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut rest = text;
    std::iter::from_fn(move || {
        let (first, tail) = rest.split_first()?;
        if let (b'%', [high, low, tail @ ..]) = (first, tail)
            && let Some((high, low)) = digit(*high).zip(digit(*low))
        {
            rest = tail;
            return Some((high * 16 + low) as u8);
        }
        rest = tail;
        Some(*first)
    })
}

/// Appends the cookies that an origin may read under this name, each as it was sent. Returns false
/// if there are none.
///
/// Origins read a malformed field in different ways: some stop at the first malformed cookie, some
/// take a quoted text with semicolons for one value, some join several lines with commas. Such an
/// origin may not see a cookie that is named here, and its response would be stored for requests
/// that have the cookie. So all lines are appended if they are malformed, or if there are several.
pub fn write_cookies_named(request: Fields<'_>, wanted: &[u8], out: &mut Vec<u8>) -> bool {
    if !is_unambiguous(request) {
        for (index, line) in request.all(FieldId::Cookie).enumerate() {
            // No line contains this byte.
            out.extend_from_slice(if index > 0 { b"\n" } else { b"" });
            out.extend_from_slice(line);
        }
        return true;
    }
    let is_named = |cookie: &&[u8]| {
        let mut parts = cookie.split(|byte| *byte == b',').map(trim_space);
        parts.any(|part| may_be_named(name_of(part), wanted, false))
    };
    let mut has_any = false;
    for cookie in cookies(request).filter(is_named) {
        if has_any {
            out.extend_from_slice(b"; ");
        }
        has_any = true;
        out.extend_from_slice(cookie);
    }
    has_any
}

/// Whether all origins read the same cookies: there is one line at most, and it has the form of
/// RFC 6265 §4.2.1. Cookies are separated by a semicolon and one space, because some origins split
/// at exactly these bytes, and some leave other space in a name or a value.
fn is_unambiguous(request: Fields<'_>) -> bool {
    let mut lines = request.all(FieldId::Cookie);
    let line = lines.next().unwrap_or_default();
    let mut cookies = trim_space(line).split(|byte| *byte == b';');
    let first = cookies.next().unwrap_or_default();
    let mut others = cookies.map(|cookie| cookie.strip_prefix(b" "));
    lines.next().is_none()
        && (trim_space(line).is_empty() || is_cookie_pair(first))
        && others.all(|cookie| cookie.is_some_and(is_cookie_pair))
}

/// Names, in lower case, of cookies that some origins read as attributes of the preceding cookie.
const ATTRIBUTES: [&[u8]; 10] = [
    b"comment",
    b"domain",
    b"expires",
    b"httponly",
    b"max-age",
    b"partitioned",
    b"path",
    b"samesite",
    b"secure",
    b"version",
];

fn is_cookie_pair(cookie: &[u8]) -> bool {
    let Some(end) = memchr::memchr(b'=', cookie) else { return false };
    let (name, value) = cookie.split_at(end);
    let is_attribute =
        name.starts_with(b"$") || ATTRIBUTES.iter().any(|other| name.eq_ignore_ascii_case(other));
    let value = value.get(1..).unwrap_or_default();
    let quoted = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
    let is_octet = |byte: &u8| byte.is_ascii_graphic() && !b"\",;\\".contains(byte);
    is_token(name) && !is_attribute && quoted.unwrap_or(value).iter().all(is_octet)
}

/// Appends the cookies whose names `keeps` accepts, in their order, as the value of one line.
pub fn write_kept_cookies(request: Fields<'_>, keeps: impl Fn(&[u8]) -> bool, out: &mut Vec<u8>) {
    let kept = cookies(request).filter(|cookie| !cookie.is_empty() && keeps(name_of(cookie)));
    for (index, cookie) in kept.enumerate() {
        if index > 0 {
            out.extend_from_slice(b"; ");
        }
        out.extend_from_slice(cookie);
    }
}

fn cookies(request: Fields<'_>) -> impl Iterator<Item = &[u8]> {
    let lines = request.all(FieldId::Cookie);
    lines.flat_map(|line| line.split(|byte| *byte == b';')).map(trim_space)
}

fn name_of(cookie: &[u8]) -> &[u8] {
    trim_space(cookie.split(|byte| *byte == b'=').next().unwrap_or_default())
}

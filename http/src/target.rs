//! The forms of a request target, and the Host field (RFC 9112 §3.2, §3.3; RFC 9110 §7.2).
//!
//! Invariant: the target and the Host field of an accepted request never name different
//! authorities. Nothing is decoded or rewritten here.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use crate::{
    authority::Authority,
    bytes::is_target_byte,
    error::RequestError,
    fields::FieldId,
    request::{Method, RequestHead, Version},
};

/// Scheme of a URI: that of a target in absolute form, or of the connection that carries a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// The scheme `http`.
    Http,
    /// The scheme `https`.
    Https,
}

impl Scheme {
    /// Returns the default port of the scheme (RFC 9110 §4.2).
    pub const fn default_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }

    /// Returns the scheme as in a URI.
    pub const fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
}

/// The form of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetForm {
    /// Origin form: `/path?query`.
    Origin,
    /// Absolute form: `http://host/path?query`.
    Absolute(Scheme),
    /// Asterisk form: `*`.
    Asterisk,
    /// Authority form: `host:port`. Only CONNECT has it.
    Authority,
}

/// A validated request target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// The form that was received.
    pub form: TargetForm,
    /// Host and port, from the target or the Host field; `None` only in HTTP/1.0.
    pub authority: Option<Authority<'a>>,
    /// Path and query as received; begins with `/`, or is `*` for OPTIONS on the whole server;
    /// empty for CONNECT.
    pub path_query: &'a [u8],
}

/// RFC 9112 §3.2, §3.3: splits the target of an accepted head into form, authority, path and query.
///
/// Host must occur exactly once in HTTP/1.1 and must not be empty: an `http` URI has a host (RFC
/// 9110 §4.2.1). If an absolute-form target and Host differ, RFC 9112 §3.2.2 gives the target
/// precedence. Forebay refuses such a request instead, because the next recipient may believe Host.
pub fn request_target<'a>(head: RequestHead<'a>) -> Result<Target<'a>, RequestError> {
    if head.method() == Method::Trace {
        return Err(RequestError::MethodNotImplemented);
    }
    let host = host_field(head)?;
    match head.target() {
        target if head.method() == Method::Connect => authority_form(target, host),
        path_query @ [b'/', ..] => {
            check_path(path_query)?;
            Ok(Target { form: TargetForm::Origin, authority: host, path_query })
        }
        path_query @ b"*" if head.method() == Method::Options => {
            Ok(Target { form: TargetForm::Asterisk, authority: host, path_query })
        }
        target => absolute_form(head.method(), target, host),
    }
}

/// RFC 9112 §3.2: requires one valid Host line; HTTP/1.0 may omit it.
fn host_field<'a>(head: RequestHead<'a>) -> Result<Option<Authority<'a>>, RequestError> {
    let mut lines = head.fields().all(FieldId::Host);
    let Some(value) = lines.next() else {
        return match head.version() {
            Version::Http10 => Ok(None),
            Version::Http11 => Err(RequestError::MissingHost),
        };
    };
    if lines.next().is_some() {
        return Err(RequestError::SeveralHosts);
    }
    Authority::parse(value).map(Some).ok_or(RequestError::InvalidHost)
}

/// RFC 9112 §3.2.2: `scheme "://" authority path-abempty [ "?" query ]`.
///
/// An empty path with a query (`http://host?q`) is refused, because it would have to be rewritten.
fn absolute_form<'a>(
    method: Method<'_>,
    target: &'a [u8],
    host: Option<Authority<'a>>,
) -> Result<Target<'a>, RequestError> {
    let (scheme, rest) = strip_scheme(target).ok_or(RequestError::InvalidTarget)?;
    let authority_len = rest.iter().position(|byte| matches!(byte, b'/' | b'?'));
    let (authority, path_query) =
        rest.split_at_checked(authority_len.unwrap_or(rest.len())).unwrap_or_default();
    let authority = Authority::parse(authority).ok_or(RequestError::InvalidTarget)?;
    if host.is_some_and(|host| !host.is_same(authority, scheme.default_port())) {
        return Err(RequestError::HostConflict);
    }
    let path_query = match path_query {
        // RFC 9112 §3.2.4: OPTIONS without a path concerns the whole server.
        [] if method == Method::Options => b"*",
        [] => b"/",
        [b'?', ..] => return Err(RequestError::InvalidTarget),
        path_query => path_query,
    };
    check_path(path_query)?;
    Ok(Target { form: TargetForm::Absolute(scheme), authority: Some(authority), path_query })
}

/// RFC 9112 §3.2.3: `host ":" port`; the port has no default.
///
/// A Host field without a port, as in the example of RFC 9110 §9.3.6, names no other port.
// RFC: 9110-9.3.6-1
fn authority_form<'a>(
    target: &'a [u8],
    host: Option<Authority<'a>>,
) -> Result<Target<'a>, RequestError> {
    let authority = Authority::parse(target).ok_or(RequestError::InvalidTarget)?;
    let port = authority.port.ok_or(RequestError::InvalidTarget)?;
    if host.is_some_and(|host| !host.is_same(authority, port)) {
        return Err(RequestError::HostConflict);
    }
    Ok(Target { form: TargetForm::Authority, authority: Some(authority), path_query: b"" })
}

fn strip_scheme(target: &[u8]) -> Option<(Scheme, &[u8])> {
    [(Scheme::Http, &b"http://"[..]), (Scheme::Https, b"https://")].into_iter().find_map(
        |(scheme, prefix)| {
            let (start, rest) = target.split_at_checked(prefix.len())?;
            start.eq_ignore_ascii_case(prefix).then_some((scheme, rest))
        },
    )
}

/// RFC 3986 §2.1: requires two hexadecimal digits after each percent sign in a path.
///
/// The query is not checked: existing sites send `?off=50%`, and no server decodes a query to find
/// a resource.
fn check_path(path_query: &[u8]) -> Result<(), RequestError> {
    let mut rest = path_query;
    while let Some(at) = memchr::memchr2(b'%', b'?', rest) {
        match rest.get(at..) {
            Some([b'%', high, low, tail @ ..])
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                rest = tail;
            }
            Some([b'?', ..]) => return Ok(()),
            _ => return Err(RequestError::InvalidTarget),
        }
    }
    Ok(())
}

/// Whether this text is valid as a path or the end of a path: it consists of bytes of a request
/// target other than a question mark, and two hexadecimal digits follow each percent sign.
pub fn is_path(path: &[u8]) -> bool {
    is_query(path) && !path.contains(&b'?') && check_path(path).is_ok()
}

/// Whether this text is valid as a query: it consists of bytes of a request target.
pub fn is_query(query: &[u8]) -> bool {
    query.iter().all(|byte| is_target_byte(*byte))
}

#[cfg(test)]
mod tests;

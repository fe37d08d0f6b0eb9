//! The method and the version of a message.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

/// A request method (RFC 9110 §9). Methods are case-sensitive: `get` is [`Method::Other`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the methods")]
pub enum Method<'a> {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Options,
    Trace,
    Connect,
    Patch,
    /// Any other token, as received.
    Other(&'a [u8]),
}

impl<'a> Method<'a> {
    /// Returns the method that this token names.
    pub fn of(token: &'a [u8]) -> Method<'a> {
        match token {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            b"OPTIONS" => Method::Options,
            b"TRACE" => Method::Trace,
            b"CONNECT" => Method::Connect,
            b"PATCH" => Method::Patch,
            other => Method::Other(other),
        }
    }

    /// Returns the token that names the method.
    pub fn as_bytes(self) -> &'a [u8] {
        match self {
            Method::Get => b"GET",
            Method::Head => b"HEAD",
            Method::Post => b"POST",
            Method::Put => b"PUT",
            Method::Delete => b"DELETE",
            Method::Options => b"OPTIONS",
            Method::Trace => b"TRACE",
            Method::Connect => b"CONNECT",
            Method::Patch => b"PATCH",
            Method::Other(token) => token,
        }
    }

    /// RFC 9110 §9.2.1: whether the method is safe. An unknown method counts as unsafe.
    pub fn is_safe(self) -> bool {
        matches!(self, Method::Get | Method::Head | Method::Options | Method::Trace)
    }

    /// RFC 9110 §9.2.2: whether the request may be repeated after a failure.
    pub fn is_idempotent(self) -> bool {
        self.is_safe() || matches!(self, Method::Put | Method::Delete)
    }
}

/// The version of a message, as precisely as framing and keep-alive need it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// The version HTTP/1.0.
    Http10,
    /// HTTP/1.1 and later minor versions, which RFC 9110 §2.5 treats as the highest known minor
    /// version.
    #[default]
    Http11,
}

/// Errors of a version text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionError {
    /// The text is not `HTTP/` digit `.` digit, in capitals.
    Invalid,
    /// The major version is not 1.
    Unsupported,
}

/// RFC 9112 §2.3: parses `HTTP-name "/" DIGIT "." DIGIT`.
pub(crate) fn parse_version(text: &[u8]) -> Result<Version, VersionError> {
    let [b'H', b'T', b'T', b'P', b'/', major, b'.', minor] = text else {
        return Err(VersionError::Invalid);
    };
    match (major, minor) {
        (b'1', b'0') => Ok(Version::Http10),
        (b'1', b'1'..=b'9') => Ok(Version::Http11),
        (b'0'..=b'9', b'0'..=b'9') => Err(VersionError::Unsupported),
        _ => Err(VersionError::Invalid),
    }
}

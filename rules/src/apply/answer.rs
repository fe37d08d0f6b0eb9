//! Responses that rules make without the origin, such as a redirect or a refusal.

use std::{borrow::Cow, ops::Range};

use forebay_http::write;

use crate::run::{Effects, RunBuffers};

/// Content type of a body that comes entirely from the author of the rules.
pub(super) const HTML: &[u8] = b"text/html; charset=utf-8";

pub(super) const TEXT: &[u8] = b"text/plain; charset=utf-8";

/// A response that rules have made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnAnswer {
    status: u16,
    location: Option<Box<[u8]>>,
    body: Option<Box<[u8]>>,
    /// Whether every part of the body comes from the author of the rules.
    body_is_constant: bool,
}

impl OwnAnswer {
    pub(super) fn new(status: u16, effects: &Effects, buffers: &RunBuffers) -> OwnAnswer {
        let copy = |range: &Range<usize>| buffers.get(range).into();
        OwnAnswer {
            status,
            location: effects.location.as_ref().map(copy),
            body: effects.body.as_ref().map(copy),
            body_is_constant: effects.body_is_constant,
        }
    }

    /// The status code.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Returns the body that rules have set, or else the reason phrase as a line of text. The body
    /// is empty if the status allows none.
    pub fn body(&self) -> Cow<'_, [u8]> {
        match &self.body {
            _ if !has_body(self.status) => Cow::Borrowed(b""),
            Some(body) => Cow::Borrowed(body),
            None => [write::reason_phrase(self.status).as_bytes(), b"\n"].concat().into(),
        }
    }

    /// Appends the field lines of the response.
    pub fn write_fields(&self, text: &mut Vec<u8>) {
        // A browser must not show a body with text from the client as a page of the site.
        let kind = if self.body.is_some() && self.body_is_constant { HTML } else { TEXT };
        if has_body(self.status) {
            write::field(text, b"content-type", kind);
        }
        write::field(text, b"cache-control", b"no-store");
        if let Some(location) = &self.location {
            write::field(text, b"location", location);
        }
    }
}

/// Returns the body of a response that Forebay makes itself: `ruled`, the body that rules have set
/// for this response, or else `body`. If the status allows no body, `ruled` is ignored (RFC 9110
/// §6.4.1).
pub fn body_of<'a>(status: u16, body: &'a [u8], ruled: Option<&'a [u8]>) -> &'a [u8] {
    ruled.filter(|_| has_body(status)).unwrap_or(body)
}

fn has_body(status: u16) -> bool {
    !matches!(status, 204 | 205 | 304)
}

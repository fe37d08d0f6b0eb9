//! An answer that rules give without asking anybody: a redirect, a refusal.

use std::{borrow::Cow, ops::Range};

use forebay_http::write;

use crate::run::{Effects, RunBuffers};

/// What an answer of our own is if its author has written all of it.
pub(super) const HTML: &[u8] = b"text/html; charset=utf-8";

pub(super) const TEXT: &[u8] = b"text/plain; charset=utf-8";

/// An answer that rules have made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnAnswer {
    status: u16,
    location: Option<Box<[u8]>>,
    body: Option<Box<[u8]>>,
    /// Nobody but the rules' author has written any of it.
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

    /// Its status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// What the rules have for a body, else the reason in a line of text.
    pub fn body(&self) -> Cow<'_, [u8]> {
        match &self.body {
            _ if !has_body(self.status) => Cow::Borrowed(b""),
            Some(body) => Cow::Borrowed(body),
            None => [write::reason_phrase(self.status).as_bytes(), b"\n"].concat().into(),
        }
    }

    /// Appends its field lines.
    pub fn write_fields(&self, text: &mut Vec<u8>) {
        // With something of the client's in it, it must not be taken for a page of the site's.
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

/// The body that an answer of our own is sent with, when the last rules have run: theirs, if they
/// have one. A status without a body keeps it (RFC 9110 §6.4.1).
pub fn body_of<'a>(status: u16, body: &'a [u8], ruled: Option<&'a [u8]>) -> &'a [u8] {
    ruled.filter(|_| has_body(status)).unwrap_or(body)
}

fn has_body(status: u16) -> bool {
    !matches!(status, 204 | 205 | 304)
}

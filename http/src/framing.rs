//! Body length, persistence of the connection, and `Expect: 100-continue` (RFC 9112 §6, §9.3; RFC
//! 9110 §10.1.1).
//!
//! Invariant: a message whose length two recipients could read differently is an error, even where
//! RFC 9112 allows repairing it.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use crate::{
    bytes::{decimal, is_token, list, trim_space},
    error::{FramingError, RequestError},
    fields::{FieldId, FieldSet, Fields},
    request::{RequestHead, Version},
};

/// The way in which the end of a body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFraming {
    /// The message has no body.
    None,
    /// The body ends after this many bytes.
    Length(u64),
    /// The body ends after the last chunk and the trailers.
    Chunked,
    /// The body ends when the connection closes. Only responses have this framing.
    UntilClose,
}

/// RFC 9112 §6.3: how the end of a request's body is found.
pub fn request_framing(head: RequestHead<'_>) -> Result<BodyFraming, RequestError> {
    const FRAMING: FieldSet = FieldSet::of(&[FieldId::ContentLength, FieldId::TransferEncoding]);
    let fields = head.fields();
    if !fields.seen().intersects(FRAMING) {
        return Ok(BodyFraming::None);
    }
    let mut lines = FramingLines::default();
    for field in fields.iter() {
        lines.add(field.id, field.value);
    }
    Ok(lines.declared(head.version())?.unwrap_or(BodyFraming::None))
}

/// The framing fields of a head, collected in one pass.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FramingLines<'a> {
    length_count: usize,
    length: &'a [u8],
    coding_count: usize,
    coding: &'a [u8],
}

impl<'a> FramingLines<'a> {
    pub(crate) fn add(&mut self, id: FieldId, value: &'a [u8]) {
        match id {
            FieldId::ContentLength => {
                self.length_count += 1;
                self.length = value;
            }
            FieldId::TransferEncoding => {
                self.coding_count += 1;
                self.coding = value;
            }
            _ => {}
        }
    }

    /// RFC 9112 §6.1, §6.3: returns `Length` or `Chunked` if the head has a framing field, or else
    /// `None`.
    ///
    /// A list of equal lengths is refused, although RFC 9112 allows reading it as one length: it
    /// shows that the message has passed through a sender that confuses lengths.
    pub(crate) fn declared(self, version: Version) -> Result<Option<BodyFraming>, FramingError> {
        match (self.length_count, self.coding_count) {
            (0, 0) => Ok(None),
            (1.., 1..) => Err(FramingError::LengthAndCoding),
            (1, _) => match decimal(self.length) {
                Some(length) => Ok(Some(BodyFraming::Length(length))),
                None => Err(FramingError::InvalidLength),
            },
            (2.., _) => Err(FramingError::SeveralLengths),
            (_, 1..) if version == Version::Http10 => Err(FramingError::CodingInHttp10),
            (_, 1) => check_coding(self.coding).map(|()| Some(BodyFraming::Chunked)),
            (_, 2..) => Err(FramingError::SeveralCodings),
        }
    }
}

/// RFC 9112 §6.1, §7: accepts only `chunked`. The error is `UnknownCoding` if another coding
/// precedes a single `chunked` at the end, and `InvalidCoding` for any other value, because such a
/// value does not tell a recipient where the body ends.
fn check_coding(value: &[u8]) -> Result<(), FramingError> {
    const CHUNKED: &[u8] = b"chunked";
    if value.eq_ignore_ascii_case(CHUNKED) {
        return Ok(());
    }
    let mut chunked_count = 0;
    let mut is_last_chunked = false;
    for coding in value.split(|byte| *byte == b',') {
        let name = trim_space(coding.split(|byte| *byte == b';').next().unwrap_or_default());
        if !is_token(name) {
            return Err(FramingError::InvalidCoding);
        }
        chunked_count += usize::from(name.eq_ignore_ascii_case(CHUNKED));
        is_last_chunked = trim_space(coding).eq_ignore_ascii_case(CHUNKED);
    }
    if is_last_chunked && chunked_count == 1 {
        Err(FramingError::UnknownCoding)
    } else {
        Err(FramingError::InvalidCoding)
    }
}

/// RFC 9112 §9.3: whether another message may follow on this connection.
pub fn keeps_alive(version: Version, fields: Fields<'_>) -> bool {
    let mut keep = version == Version::Http11;
    for option in fields.all(FieldId::Connection).flat_map(list) {
        if option.eq_ignore_ascii_case(b"close") {
            return false;
        }
        keep |= option.eq_ignore_ascii_case(b"keep-alive");
    }
    keep
}

/// RFC 9110 §10.1.1: whether the client waits for a 100 before it sends the body.
///
/// HTTP/1.0 has no expectations, so the field of an HTTP/1.0 request is ignored.
pub fn expects_continue(head: RequestHead<'_>) -> Result<bool, RequestError> {
    if head.version() == Version::Http10 {
        return Ok(false);
    }
    let mut expects = false;
    for expectation in head.fields().all(FieldId::Expect).flat_map(list) {
        if !expectation.eq_ignore_ascii_case(b"100-continue") {
            return Err(RequestError::UnknownExpectation);
        }
        expects = true;
    }
    Ok(expects)
}

#[cfg(test)]
mod tests;

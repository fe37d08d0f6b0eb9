//! Checks of the field lines of a request and of trailers (RFC 9113 §8.1–§8.3, §8.5; RFC 8441 §4).
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use std::fmt;

use forebay_http::authority::Authority;
use forebay_http::fields::FieldId;
use forebay_http::target::{Scheme, is_query};

use crate::field_list::FieldList;
use crate::line::{DecodedLine, NameKind, is_token_byte};

macro_rules! malformed {
    ($( $variant:ident => $reason:literal; )*) => {
        /// The reason why a request or its trailers are malformed (RFC 9113 §8.1.1). The stream is
        /// reset with PROTOCOL_ERROR.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum MalformedRequest {
            $( #[doc = concat!($reason, ".")] $variant, )*
        }

        impl MalformedRequest {
            /// Returns the reason, a short sentence without a full stop.
            pub const fn reason(self) -> &'static str {
                match self { $( MalformedRequest::$variant => $reason, )* }
            }
        }
    };
}

malformed! {
    FieldName => "a field name is not a token in lower case";
    FieldValue => "a field value contains a control character, or begins or ends with white space";
    PseudoAfterField => "a pseudo-field follows a field";
    UnknownPseudo => "a pseudo-field is unknown, or not permitted in this place";
    RepeatedPseudo => "a pseudo-field occurs more than once";
    MissingPseudo => "a pseudo-field is missing";
    Method => "the method is not a token";
    Scheme => "the scheme differs from the scheme of the connection";
    Path => "the path is neither absolute nor, for OPTIONS, an asterisk";
    MissingHost => "neither :authority nor Host names a host";
    Authority => "the authority is not a single host with an optional port";
    HostConflict => "Host occurs more than once, or differs from :authority";
    ConnectionField => "a field is specific to a connection";
    Te => "TE has a value other than trailers";
    ContentLength => "Content-Length is not one decimal number, or differs from the body";
    TrailerField => "a field is not permitted in trailers";
    OpenTrailers => "trailers do not end their stream";
    Connect => "a CONNECT request has the wrong pseudo-fields";
}

impl fmt::Display for MalformedRequest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.reason())
    }
}

impl std::error::Error for MalformedRequest {}

/// The properties of a connection and a header block that the checks of a request depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckContext {
    pub(crate) scheme: Scheme,
    pub(crate) extended_connect: bool,
    /// Whether the header block ends the stream.
    pub(crate) is_last: bool,
}

/// The positions of a request's parts in its list, and values that the check has parsed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestIndex {
    pub(crate) method: Option<u16>,
    pub(crate) scheme: Option<u16>,
    pub(crate) authority: Option<u16>,
    pub(crate) path: Option<u16>,
    pub(crate) protocol: Option<u16>,
    pub(crate) host: Option<u16>,
    /// The first line of the field `priority` (RFC 9218 §5).
    pub(crate) priority: Option<u16>,
    /// The position after the pseudo-fields.
    pub(crate) first_field: u16,
    pub(crate) content_length: Option<u64>,
    pub(crate) has_body: bool,
}

/// Checks the lines of a request.
pub(crate) fn check_request(
    list: &FieldList,
    context: &CheckContext,
) -> Result<RequestIndex, MalformedRequest> {
    let mut index = RequestIndex { has_body: !context.is_last, ..RequestIndex::default() };
    for (at, line) in list.lines(0..list.count()).enumerate() {
        let at = u16::try_from(at).map_err(|_| MalformedRequest::FieldName)?;
        check_value(&line)?;
        match line.facts.name.kind {
            NameKind::Pseudo if index.first_field == at => {
                let place = match line.name {
                    b":method" => &mut index.method,
                    b":scheme" => &mut index.scheme,
                    b":authority" => &mut index.authority,
                    b":path" => &mut index.path,
                    b":protocol" if context.extended_connect => &mut index.protocol,
                    _ => return Err(MalformedRequest::UnknownPseudo),
                };
                if place.replace(at).is_some() {
                    return Err(MalformedRequest::RepeatedPseudo);
                }
                index.first_field = at + 1;
            }
            NameKind::Pseudo => return Err(MalformedRequest::PseudoAfterField),
            NameKind::Malformed => return Err(MalformedRequest::FieldName),
            NameKind::Connection => return Err(MalformedRequest::ConnectionField),
            NameKind::Field => check_field(&line, at, &mut index)?,
        }
    }
    check_pseudo_fields(list, context, &index)?;
    if context.is_last && index.content_length.is_some_and(|length| length > 0) {
        return Err(MalformedRequest::ContentLength);
    }
    Ok(index)
}

/// Checks the lines of trailers, which cannot have pseudo-fields or decide about framing or
/// routing (RFC 9113 §8.1; RFC 9110 §6.5.1).
pub(crate) fn check_trailers(list: &FieldList) -> Result<(), MalformedRequest> {
    for line in list.lines(0..list.count()) {
        check_value(&line)?;
        match (line.facts.name.kind, line.facts.name.id) {
            (NameKind::Pseudo, _) => return Err(MalformedRequest::UnknownPseudo),
            (NameKind::Malformed, _) => return Err(MalformedRequest::FieldName),
            (NameKind::Connection, _)
            | (_, FieldId::ContentLength | FieldId::Host | FieldId::Te | FieldId::Trailer) => {
                return Err(MalformedRequest::TrailerField);
            }
            (NameKind::Field, _) => {}
        }
    }
    Ok(())
}

fn check_field(
    line: &DecodedLine<'_>,
    at: u16,
    index: &mut RequestIndex,
) -> Result<(), MalformedRequest> {
    match line.facts.name.id {
        FieldId::Host if index.host.replace(at).is_some() => Err(MalformedRequest::HostConflict),
        FieldId::ContentLength => {
            let length = decimal(line.value).ok_or(MalformedRequest::ContentLength)?;
            match index.content_length.replace(length) {
                Some(_) => Err(MalformedRequest::ContentLength),
                None => Ok(()),
            }
        }
        FieldId::Te if !line.value.eq_ignore_ascii_case(b"trailers") => Err(MalformedRequest::Te),
        _ if line.name == b"priority" => {
            index.priority.get_or_insert(at);
            Ok(())
        }
        _ => Ok(()),
    }
}

fn check_value(line: &DecodedLine<'_>) -> Result<(), MalformedRequest> {
    if line.facts.is_value_valid { Ok(()) } else { Err(MalformedRequest::FieldValue) }
}

/// RFC 9113 §8.3.1, §8.5; RFC 8441 §4: checks which pseudo-fields occur, and their values.
fn check_pseudo_fields(
    list: &FieldList,
    context: &CheckContext,
    index: &RequestIndex,
) -> Result<(), MalformedRequest> {
    let value = |at: Option<u16>| {
        let at = usize::from(at?);
        list.lines(at..at + 1).next().map(|line| line.value)
    };
    let method = value(index.method).ok_or(MalformedRequest::MissingPseudo)?;
    if method.is_empty() || !method.iter().all(|byte| is_token_byte(*byte)) {
        return Err(MalformedRequest::Method);
    }
    check_authority(value(index.authority), value(index.host), context.scheme)?;
    if method == b"CONNECT" && index.protocol.is_none() {
        let is_plain = index.authority.is_some() && index.scheme.is_none() && index.path.is_none();
        return if is_plain { Ok(()) } else { Err(MalformedRequest::Connect) };
    }
    if let Some(protocol) = value(index.protocol) {
        let is_token = !protocol.is_empty() && protocol.iter().all(|byte| is_token_byte(*byte));
        if method != b"CONNECT" || index.authority.is_none() || !is_token {
            return Err(MalformedRequest::Connect);
        }
    }
    let (Some(scheme), Some(path)) = (value(index.scheme), value(index.path)) else {
        return Err(MalformedRequest::MissingPseudo);
    };
    let expected: &[u8] = match context.scheme {
        Scheme::Http => b"http",
        Scheme::Https => b"https",
    };
    if !scheme.eq_ignore_ascii_case(expected) {
        return Err(MalformedRequest::Scheme);
    }
    let is_asterisk = path == b"*" && method == b"OPTIONS";
    if !is_asterisk && (path.first() != Some(&b'/') || !is_query(path)) {
        return Err(MalformedRequest::Path);
    }
    Ok(())
}

/// RFC 9113 §8.3.1: `:authority` and Host name the same host and port; one of them is needed.
fn check_authority(
    authority: Option<&[u8]>,
    host: Option<&[u8]>,
    scheme: Scheme,
) -> Result<(), MalformedRequest> {
    let parse = |text| Authority::parse(text).ok_or(MalformedRequest::Authority);
    match (authority, host) {
        (None, None) => Err(MalformedRequest::MissingHost),
        (Some(one), None) | (None, Some(one)) => parse(one).map(|_| ()),
        (Some(one), Some(other)) => match parse(one)?.is_same(parse(other)?, scheme.default_port())
        {
            true => Ok(()),
            false => Err(MalformedRequest::HostConflict),
        },
    }
}

/// RFC 9110 §8.6: parses `1*DIGIT`.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

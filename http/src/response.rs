//! Response heads of origins, which are trusted as little as clients (RFC 9112 §4, §6.3).
//!
//! If an HTTP library has parsed the bytes, [`origin_head`] validates its result by our own rules.
//! [`parse_response`] parses and validates raw bytes. The resulting head is safe to store and to
//! send: its framing is decided, and connection-specific fields are removed.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

mod switch;

pub use switch::{SwitchHead, switch_head, wanted_protocols};

use crate::{
    bytes::{find_control, is_token, trim_space},
    chunked::is_allowed_trailer,
    error::{LineError, OriginError},
    fields::{Field, FieldBlock, FieldId, FieldSet, Fields},
    framing::{BodyFraming, FramingLines},
    hop::{HopFields, TooManyOptions},
    lines::{LineScan, parse_field_line},
    request::{Method, Version},
    start_line::parse_version,
};

/// Limits of an origin's head.
#[derive(Clone, Copy, Debug)]
pub struct OriginLimits {
    /// Largest size of the whole head in bytes. If a library has parsed the head, the limit applies
    /// to the field lines only.
    pub head_bytes_max: u32,
    /// Largest number of field lines.
    pub field_count_max: u16,
}

/// A validated response head.
#[derive(Clone, Debug)]
pub struct ResponseHead {
    /// Status code, 100 to 599 but never 101.
    pub status: u16,
    /// How the end of the body on this connection is found.
    pub framing: BodyFraming,
    /// The declared Content-Length. A HEAD or 304 response may declare a length, but has no body.
    pub content_length: Option<u64>,
    /// The end-to-end fields in order, without Content-Length, which is written when sending.
    pub block: FieldBlock,
}

/// Validates the response of an origin to a request with `method`. `lines` yields names and values
/// in order, and is walked twice.
///
/// An interim response (1xx) is treated like any other response without a body. Date and all other
/// end-to-end fields are kept, except Content-Length.
pub fn origin_head<'a>(
    status: u16,
    version: Version,
    method: Method<'_>,
    limits: &OriginLimits,
    lines: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
) -> Result<ResponseHead, OriginError> {
    check_status(status)?;
    let facts = HeadFacts::collect(limits, lines.clone())?;
    let declared = facts.framing.declared(version)?;
    let content_length = match declared {
        Some(BodyFraming::Length(length)) => Some(length),
        _ => None,
    };
    let mut block = FieldBlock::with_capacity(facts.wire_bytes, facts.field_count);
    for (name, value) in lines {
        let field = Field::new(name, trim_space(value));
        if field.id != FieldId::ContentLength && !facts.hop.contains(field) {
            block.push_field(field);
        }
    }
    let framing = body_framing(status, method, declared)?;
    Ok(ResponseHead { status, framing, content_length, block })
}

/// Returns the trailers of an origin's response, whose name/value lines a library has parsed.
/// Fields that must not be trailers are dropped (RFC 9110 §6.5.1).
///
/// # Errors
/// The trailers are malformed, or larger than `limits`.
pub fn origin_trailers<'a>(
    limits: &OriginLimits,
    lines: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
) -> Result<FieldBlock, OriginError> {
    let facts = HeadFacts::collect(limits, lines.clone())?;
    let mut block = FieldBlock::with_capacity(facts.wire_bytes, facts.field_count);
    for (name, value) in lines {
        let field = Field::new(name, trim_space(value));
        if is_allowed_trailer(field) {
            block.push_field(field);
        }
    }
    Ok(block)
}

// RFC: 9110-15-1, 9110-15-2
fn check_status(status: u16) -> Result<(), OriginError> {
    match status {
        // [`switch_head`] validates a 101 that was asked for.
        101 => Err(OriginError::UnaskedUpgrade),
        100..=599 => Ok(()),
        _ => Err(OriginError::InvalidStatus),
    }
}

/// RFC 9112 §6.3: decides how the end of the body is found. RFC 9112 §6.1 and RFC 9110 §8.6 forbid
/// a framing field in a 1xx or 204 response, which has no body. An origin that sends such a field
/// means to send a body, so the response is refused; only a length of 0, which is common and
/// harmless, is accepted.
fn body_framing(
    status: u16,
    method: Method<'_>,
    declared: Option<BodyFraming>,
) -> Result<BodyFraming, OriginError> {
    match (status, declared) {
        (100..=199 | 204, None | Some(BodyFraming::Length(0))) => Ok(BodyFraming::None),
        (100..=199 | 204, Some(_)) => Err(OriginError::ForbiddenBody),
        (304, _) => Ok(BodyFraming::None),
        _ if method == Method::Head => Ok(BodyFraming::None),
        (_, declared) => Ok(declared.unwrap_or(BodyFraming::UntilClose)),
    }
}

/// The results of the first walk over the lines.
#[derive(Default)]
struct HeadFacts<'a> {
    framing: FramingLines<'a>,
    hop: HopFields<'a>,
    field_count: usize,
    wire_bytes: usize,
}

impl<'a> HeadFacts<'a> {
    fn collect(
        limits: &OriginLimits,
        lines: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<HeadFacts<'a>, OriginError> {
        let mut facts = HeadFacts::default();
        for (name, value) in lines {
            facts.field_count += 1;
            if facts.field_count > usize::from(limits.field_count_max) {
                return Err(OriginError::TooManyFields);
            }
            facts.wire_bytes += name.len() + value.len() + ": \r\n".len();
            if facts.wire_bytes > limits.head_bytes_max as usize {
                return Err(OriginError::HeadTooLarge);
            }
            facts.add(name, trim_space(value))?;
        }
        Ok(facts)
    }

    fn add(&mut self, name: &'a [u8], value: &'a [u8]) -> Result<(), OriginError> {
        check_line(name, value)?;
        let id = FieldId::of(name);
        self.framing.add(id, value);
        if id == FieldId::Connection {
            self.hop.add(value).map_err(|TooManyOptions| OriginError::TooManyOptions)?;
        }
        Ok(())
    }
}

/// RFC 9110 §5.1, §5.5: checks the name and the value of a line.
fn check_line(name: &[u8], value: &[u8]) -> Result<(), LineError> {
    if name.is_empty() {
        return Err(LineError::EmptyName);
    }
    if name.len() > usize::from(u16::MAX) {
        return Err(LineError::NameTooLong);
    }
    if !is_token(name) {
        return Err(LineError::InvalidName);
    }
    match find_control(value, 0) {
        Some(_) => Err(LineError::Control),
        None => Ok(()),
    }
}

/// Parses the response head at the start of `bytes`, which answers a request with `method`. Returns
/// the length and the validated head, or `None` if the head is incomplete.
///
/// No state is kept between calls, so the function is meant for whole heads, in tools and tests.
pub fn parse_response(
    bytes: &[u8],
    method: Method<'_>,
    limits: &OriginLimits,
) -> Result<Option<(usize, ResponseHead)>, OriginError> {
    let head_max = limits.head_bytes_max as usize;
    let window = bytes.get(..head_max).unwrap_or(bytes);
    let incomplete = || {
        if bytes.len() >= head_max { Err(OriginError::HeadTooLarge) } else { Ok(None) }
    };
    let mut scan = LineScan::default();
    let Some(line) = scan.next(window)? else {
        return incomplete();
    };
    let (version, status) = parse_status_line(window.get(line).unwrap_or_default())?;
    let mut lines = Vec::new();
    while let Some(line) = scan.next(window)? {
        if line.is_empty() {
            let fields = Fields::new(window, &lines, FieldSet::EMPTY);
            let pairs = fields.iter().map(|field| (field.name, field.value));
            let head = origin_head(status, version, method, limits, pairs)?;
            return Ok(Some((line.end + 2, head)));
        }
        if lines.len() >= usize::from(limits.field_count_max) {
            return Err(OriginError::TooManyFields);
        }
        lines.push(parse_field_line(window, line)?);
    }
    incomplete()
}

/// RFC 9112 §4: `HTTP-version SP 3DIGIT SP [ reason-phrase ]`; the second space is not optional.
fn parse_status_line(line: &[u8]) -> Result<(Version, u16), OriginError> {
    let (version, rest) = line.split_at_checked(8).ok_or(OriginError::InvalidStatusLine)?;
    let [b' ', code @ .., b' '] = rest.get(..5).unwrap_or_default() else {
        return Err(OriginError::InvalidStatusLine);
    };
    let version = parse_version(version).map_err(|error| match error {
        crate::start_line::VersionError::Invalid => OriginError::InvalidStatusLine,
        crate::start_line::VersionError::Unsupported => OriginError::UnsupportedVersion,
    })?;
    let status = crate::bytes::decimal(code).and_then(|status| u16::try_from(status).ok());
    let status = status.ok_or(OriginError::InvalidStatusLine)?;
    check_status(status)?;
    Ok((version, status))
}

#[cfg(test)]
mod tests;

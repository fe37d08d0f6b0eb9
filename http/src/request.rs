//! Request heads: found, validated and split in one pass (RFC 9112 §2, §3, §5).
//!
//! The accepted syntax is exact: CRLF line ends, single spaces in the request line, token names, no
//! control bytes. The result does not depend on how the bytes arrive: no byte beyond a limit is
//! inspected. The modules `target` and `framing` interpret the target and the framing fields.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use std::ops::Range;

pub use crate::start_line::{Method, Version};
use crate::{
    bytes::{is_target_byte, is_token_byte},
    error::RequestError,
    fields::{FieldLine, FieldSet, Fields},
    lines::{LineScan, parse_field_line},
    start_line::{VersionError, parse_version},
};

/// Length of the longest accepted method; registered methods have up to 17 bytes
/// (`UPDATEREDIRECTREF`).
pub const METHOD_BYTES_MAX: usize = 32;

/// Limits of a request head.
#[derive(Clone, Copy, Debug)]
pub struct HeadLimits {
    /// Largest size of the whole head in bytes, including the empty line at its end.
    pub head_bytes_max: u32,
    /// Largest number of field lines.
    pub field_count_max: u16,
    /// Largest size of the request target in bytes.
    pub target_bytes_max: u32,
}

/// The parts of a head, as offsets into its bytes; reused from request to request.
///
/// Each connection needs its own parts, because they keep the progress of a head that is still
/// arriving. After a result, the next call of [`parse_request`] starts over by itself.
#[derive(Debug, Default)]
pub struct RequestParts {
    stage: HeadStage,
    scan: LineScan,
    method: Range<usize>,
    target: Range<usize>,
    version: Version,
    lines: Vec<FieldLine>,
    seen: FieldSet,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum HeadStage {
    /// The last call returned a result, so the next call starts over.
    #[default]
    Done,
    /// Before the request line.
    Start,
    /// Before the request line, after one empty line.
    Skipped,
    /// Among the field lines.
    Fields,
}

/// Parses the request head at the start of `bytes`. Returns the length of the head, including the
/// empty line at its end, or `None` if more bytes are needed.
///
/// After `None` the next call must pass the same bytes with more appended, and only the new bytes
/// are inspected. A head that can no longer become valid is refused before it is complete.
pub fn parse_request(
    bytes: &[u8],
    limits: &HeadLimits,
    parts: &mut RequestParts,
) -> Result<Option<usize>, RequestError> {
    if parts.stage == HeadStage::Done {
        parts.clear();
    }
    let verdict = parts.advance(bytes, limits);
    if !matches!(verdict, Ok(None)) {
        parts.stage = HeadStage::Done;
    }
    verdict
}

impl RequestParts {
    /// Drops an incomplete head, so that the parts can be used for another connection.
    pub fn clear(&mut self) {
        self.stage = HeadStage::Start;
        self.scan = LineScan::default();
        self.lines.clear();
        self.seen = FieldSet::EMPTY;
    }

    /// The well-known fields of the parsed head.
    pub fn seen(&self) -> FieldSet {
        self.seen
    }

    /// Marks the lines that rules have written; `is_ruled` gets the offset of each line.
    pub fn mark_ruled(&mut self, is_ruled: impl Fn(usize) -> bool) {
        for line in &mut self.lines {
            line.is_ruled = is_ruled(line.name_start as usize);
        }
    }

    /// Borrows the parsed head. `bytes` must be those of the call that returned `Some`.
    pub fn head<'a>(&'a self, bytes: &'a [u8]) -> RequestHead<'a> {
        RequestHead {
            method: Method::of(bytes.get(self.method.clone()).unwrap_or_default()),
            target: bytes.get(self.target.clone()).unwrap_or_default(),
            version: self.version,
            fields: Fields::new(bytes, &self.lines, self.seen),
        }
    }

    fn advance(
        &mut self,
        bytes: &[u8],
        limits: &HeadLimits,
    ) -> Result<Option<usize>, RequestError> {
        if self.stage != HeadStage::Fields && !self.start(bytes, limits)? {
            return Ok(None);
        }
        let head_max = limits.head_bytes_max as usize;
        let window = bytes.get(..head_max).unwrap_or(bytes);
        while let Some(line) = self.scan.next(window)? {
            if line.is_empty() {
                return Ok(Some(line.end + 2));
            }
            if self.lines.len() >= usize::from(limits.field_count_max) {
                return Err(RequestError::TooManyFields);
            }
            let line = parse_field_line(window, line)?;
            self.seen.insert(line.id);
            self.lines.push(line);
        }
        if bytes.len() >= head_max { Err(RequestError::HeadTooLarge) } else { Ok(None) }
    }

    /// Parses the request line; returns false if it has not arrived yet.
    ///
    /// RFC 9112 §2.2: one empty line before the request line is skipped, for old clients that send
    /// an empty line after a body.
    fn start(&mut self, bytes: &[u8], limits: &HeadLimits) -> Result<bool, RequestError> {
        loop {
            let head_max = limits.head_bytes_max as usize;
            let line_max =
                METHOD_BYTES_MAX + limits.target_bytes_max as usize + "  HTTP/1.1\r\n".len();
            let line_end_max = self.scan.line_start() + line_max;
            let window = bytes.get(..line_end_max.min(head_max)).unwrap_or(bytes);
            let Some(line) = self.scan.next(window)? else {
                return match window.len() {
                    len if len >= line_end_max => Err(RequestError::TargetTooLong),
                    len if len >= head_max => Err(RequestError::HeadTooLarge),
                    _ => Ok(false),
                };
            };
            if !line.is_empty() {
                self.request_line(window, line, limits)?;
                self.stage = HeadStage::Fields;
                return Ok(true);
            }
            if self.stage == HeadStage::Skipped {
                return Err(RequestError::LeadingLines);
            }
            self.stage = HeadStage::Skipped;
        }
    }

    /// RFC 9112 §3: `method SP request-target SP HTTP-version`.
    fn request_line(
        &mut self,
        bytes: &[u8],
        line: Range<usize>,
        limits: &HeadLimits,
    ) -> Result<(), RequestError> {
        let text = bytes.get(line.clone()).unwrap_or_default();
        let method_len = run_before_space(text, is_token_byte, RequestError::InvalidMethod)?;
        if method_len > METHOD_BYTES_MAX {
            return Err(RequestError::MethodTooLong);
        }
        let rest = text.get(method_len + 1..).unwrap_or_default();
        let target_len = run_before_space(rest, is_target_byte, RequestError::InvalidTarget)?;
        if target_len > limits.target_bytes_max as usize {
            return Err(RequestError::TargetTooLong);
        }
        let version = rest.get(target_len + 1..).unwrap_or_default();
        self.version = parse_version(version).map_err(|error| match error {
            VersionError::Invalid if version.contains(&b' ') => RequestError::InvalidRequestLine,
            VersionError::Invalid => RequestError::InvalidVersion,
            VersionError::Unsupported => RequestError::UnsupportedVersion,
        })?;
        let target_start = line.start + method_len + 1;
        self.method = line.start..line.start + method_len;
        self.target = target_start..target_start + target_len;
        Ok(())
    }
}

/// Returns the length of the run of `allowed` bytes at the start of `text`. A single space must
/// follow the run; if another byte does, the error is `otherwise`.
fn run_before_space(
    text: &[u8],
    allowed: impl Fn(u8) -> bool,
    otherwise: RequestError,
) -> Result<usize, RequestError> {
    let len = text.iter().position(|byte| !allowed(*byte)).unwrap_or(text.len());
    match text.get(len) {
        Some(b' ') if len > 0 => Ok(len),
        Some(b' ') | None => Err(RequestError::InvalidRequestLine),
        Some(_) => Err(otherwise),
    }
}

/// A request head, borrowed from [`RequestParts`].
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    method: Method<'a>,
    target: &'a [u8],
    version: Version,
    fields: Fields<'a>,
}

impl<'a> RequestHead<'a> {
    /// Returns the method of the request.
    pub fn method(self) -> Method<'a> {
        self.method
    }

    /// The request target as received; `target::request_target` interprets it.
    pub fn target(self) -> &'a [u8] {
        self.target
    }

    /// Returns the version of the request.
    pub fn version(self) -> Version {
        self.version
    }

    /// Returns the field lines of the head.
    pub fn fields(self) -> Fields<'a> {
        self.fields
    }

    /// Returns the head with other field lines.
    pub fn with_fields(self, fields: Fields<'a>) -> RequestHead<'a> {
        RequestHead { fields, ..self }
    }
}

mod writer;
pub use writer::RequestHeadWriter;

#[cfg(test)]
mod oracle_tests;
#[cfg(test)]
mod tests;

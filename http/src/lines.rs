//! Lines of a head: finds them, checks them for control bytes, and splits them into name and value.
//!
//! Invariant: a search for a line end resumes where the previous search stopped, so the cost is
//! linear however the head arrives.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use std::ops::Range;

use crate::{
    bytes::{find_colon, find_control, is_space, is_token, trim_space},
    error::LineError,
    fields::{FieldId, FieldLine},
};

/// The progress of splitting a head into lines.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LineScan {
    line_start: usize,
    searched: usize,
}

impl LineScan {
    /// Offset of the next line.
    pub(crate) fn line_start(&self) -> usize {
        self.line_start
    }

    /// Offset up to which the bytes were searched for a line end.
    #[cfg(test)]
    pub(crate) fn searched(&self) -> usize {
        self.searched
    }

    /// Returns the next whole line of `bytes` without its CRLF, or `None` until more bytes arrive.
    ///
    /// RFC 9112 §2.2 allows a recipient to accept a bare LF as a line end. That lets attackers
    /// smuggle requests past recipients that do not accept it, so only CRLF ends a line here.
    pub(crate) fn next(&mut self, bytes: &[u8]) -> Result<Option<Range<usize>>, LineError> {
        let Some(end) = find_control(bytes, self.searched) else {
            self.searched = bytes.len();
            return Ok(None);
        };
        match (bytes.get(end), bytes.get(end + 1)) {
            (Some(b'\r'), Some(b'\n')) => {}
            (Some(b'\r'), None) => {
                self.searched = end;
                return Ok(None);
            }
            (Some(b'\r'), _) => return Err(LineError::BareCr),
            (Some(b'\n'), _) => return Err(LineError::BareLf),
            _ => return Err(LineError::Control),
        }
        let line = self.line_start..end;
        self.line_start = end + 2;
        self.searched = end + 2;
        Ok(Some(line))
    }
}

/// RFC 9112 §5: `field-name ":" OWS field-value OWS`.
///
/// `line` must come from [`LineScan`], so that its value has no control bytes. Offsets count from
/// the start of `bytes`, which must be shorter than 4 GiB.
pub(crate) fn parse_field_line(bytes: &[u8], line: Range<usize>) -> Result<FieldLine, LineError> {
    let text = bytes.get(line.clone()).unwrap_or_default();
    let name_len = find_colon(text).ok_or_else(|| colonless(text))?;
    let (name, rest) = text.split_at_checked(name_len).unwrap_or_default();
    let id = FieldId::of(name);
    // A well-known name is a token, so the check is needed only for other names.
    if id == FieldId::Other && !is_token(name) {
        return Err(name_error(name));
    }
    let rest = rest.get(1..).unwrap_or_default();
    let space_len = rest.iter().take_while(|byte| is_space(**byte)).count();
    Ok(FieldLine {
        id,
        name_start: line.start as u32,
        name_len: u16::try_from(name_len).map_err(|_| LineError::NameTooLong)?,
        value_start: (line.start + name_len + 1 + space_len) as u32,
        value_len: trim_space(rest).len() as u32,
        is_ruled: false,
    })
}

/// Returns the error for a line without a colon.
fn colonless(text: &[u8]) -> LineError {
    if text.first().is_some_and(|byte| is_space(*byte)) {
        LineError::Folded
    } else {
        LineError::MissingColon
    }
}

/// Returns the error for a name that is not a token.
fn name_error(name: &[u8]) -> LineError {
    match name {
        [] => LineError::EmptyName,
        [b' ' | b'\t', ..] => LineError::Folded,
        _ if name.iter().any(|byte| is_space(*byte)) => LineError::SpaceAfterName,
        _ => LineError::InvalidName,
    }
}

//! Requests for a single byte range (RFC 9110 §14), and partial responses of origins (RFC 9110
//! §15.3.7).
//!
//! A server may ignore Range. Forebay honours it only if the request asks for exactly one
//! well-formed byte range; several ranges, other units and malformed values are ignored, and the
//! request gets the whole response.

use std::ops::Range;

use crate::bytes::trim_space;
use crate::fields::{FieldId, Fields};
use crate::policy::etag::EntityTag;
use crate::policy::exchange::date_field;
use crate::policy::lists;
use crate::policy::meta::StoredMeta;
use crate::write::decimal;

/// The decision which part of the body to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeDecision {
    /// Send the whole body, with status 200.
    Whole,
    /// These bytes, both ends included, with 206.
    Part {
        /// Offset of the first byte.
        first: u64,
        /// Offset of the last byte; at least `first`, less than the body's length.
        last: u64,
    },
    /// Send no body, with status 416.
    Unsatisfiable,
}

/// RFC 9110 §14.2: decides which part of the body to send, for a GET whose other preconditions
/// allow the stored response. (With other methods Range has no meaning.) `block` is the stored
/// field block.
// RFC: 9110-13.1.5-2, 9110-13.1.5-5, 9110-13.1.5-6, 9110-13.1.5-7, 9110-14.2-4, 9110-14.2-5
pub fn range(
    request: Fields<'_>,
    meta: &StoredMeta,
    block: &[u8],
    body_bytes: u64,
) -> RangeDecision {
    if !request.contains(FieldId::Range) || meta.status != 200 {
        return RangeDecision::Whole;
    }
    let Some(spec) = request.only(FieldId::Range).and_then(single_spec) else {
        return RangeDecision::Whole;
    };
    if !if_range_holds(request, meta, block) {
        return RangeDecision::Whole;
    }
    resolve(spec, body_bytes)
}

/// A parsed range: `first-last`, `first-` or `-suffix`. Numbers that are too large are clamped to
/// `u64::MAX`.
#[derive(Clone, Copy)]
enum RangeSpec {
    From { first: u64, last: u64 },
    Suffix { bytes: u64 },
}

/// RFC 9110 §14.1.1: parses a single byte range. The case of the unit does not matter, and empty
/// list members are allowed.
fn single_spec(value: &[u8]) -> Option<RangeSpec> {
    let (unit, set) = value.split_at_checked(memchr::memchr(b'=', value)?)?;
    let set = set.strip_prefix(b"=")?;
    // White space is allowed around commas, but not after `=`.
    if !unit.eq_ignore_ascii_case(b"bytes") || trim_space(set).len() != set.len() {
        return None;
    }
    let mut members = lists::members(set);
    let spec = members.next()?;
    if members.next().is_some() {
        return None;
    }
    let (first, last) = spec.split_at_checked(memchr::memchr(b'-', spec)?)?;
    parse_spec(first, last.strip_prefix(b"-")?)
}

// RFC: 9110-14.1.2-1
fn parse_spec(first: &[u8], last: &[u8]) -> Option<RangeSpec> {
    if first.is_empty() {
        let bytes = lists::saturating_decimal(last)?;
        return Some(RangeSpec::Suffix { bytes });
    }
    let first = lists::saturating_decimal(first)?;
    let last = if last.is_empty() { u64::MAX } else { lists::saturating_decimal(last)? };
    (first <= last).then_some(RangeSpec::From { first, last })
}

/// RFC 9110 §14.1.2: returns the part that a range selects from a body with this length.
fn resolve(spec: RangeSpec, body_bytes: u64) -> RangeDecision {
    let end = body_bytes.saturating_sub(1);
    match spec {
        RangeSpec::Suffix { bytes: 0 } => RangeDecision::Unsatisfiable,
        // A suffix of an empty body is satisfiable, but no Content-Range can express it.
        RangeSpec::Suffix { .. } if body_bytes == 0 => RangeDecision::Whole,
        RangeSpec::Suffix { bytes } => {
            RangeDecision::Part { first: body_bytes.saturating_sub(bytes), last: end }
        }
        RangeSpec::From { first, .. } if first >= body_bytes => RangeDecision::Unsatisfiable,
        RangeSpec::From { first, last } => RangeDecision::Part { first, last: last.min(end) },
    }
}

/// Returns the unit of a resource of unknown length that holds the first byte that a request asks
/// for; `None` if the request asks for no single range, or for the last bytes. Units have
/// `unit_bytes` bytes.
pub fn first_unit(request: Fields<'_>, unit_bytes: u64) -> Option<Range<u64>> {
    match single_spec(request.only(FieldId::Range)?)? {
        RangeSpec::From { first, .. } => {
            let start = first - first % unit_bytes;
            Some(start..start.checked_add(unit_bytes)?)
        }
        RangeSpec::Suffix { .. } => None,
    }
}

/// Appends the value of Range (RFC 9110 §14.2) for one range, which is not empty.
pub fn write_range(part: &Range<u64>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"bytes=");
    decimal(out, part.start);
    out.push(b'-');
    decimal(out, part.end - 1);
}

/// The reason that a 206 cannot be stored as a part of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartRefused {
    /// Its Content-Range is missing, malformed, without a total length, or not of the range that
    /// was requested.
    ContentRange,
    /// It has no strong entity tag, so no other part can be combined with it (RFC 9110 §15.3.7.3).
    NoStrongTag,
}

/// Checks that a 206 with these fields is the answer to a request for `asked`, and can be combined
/// with other parts. Returns the total length of the response that it is a part of.
///
/// RFC 9110 §15.3.7 lets an origin send less than was requested; such a 206 is refused. So is one
/// for several ranges, and one whose Content-Length is not that of the range.
///
/// # Errors
/// See [`PartRefused`].
// RFC: 9110-14.4-5, 9110-15.3.7-1, 9110-15.3.7.3-1
pub fn total_of_part(
    fields: Fields<'_>,
    length: Option<u64>,
    asked: &Range<u64>,
) -> Result<u64, PartRefused> {
    let refused = PartRefused::ContentRange;
    let value = fields.only(FieldId::ContentRange).ok_or(refused)?;
    let (first, last, total) = content_range(value).ok_or(refused)?;
    let bytes = (last - first).checked_add(1).ok_or(refused)?;
    let is_asked = first == asked.start && last.checked_add(1) == Some(asked.end.min(total));
    // Without a length, more bytes than the range has could follow.
    if !is_asked || length != Some(bytes) {
        return Err(refused);
    }
    match has_strong_tag(fields) {
        true => Ok(total),
        false => Err(PartRefused::NoStrongTag),
    }
}

/// Whether an origin whose whole response has these fields says that it sends parts of it (RFC 9110
/// §14.3), and they can be combined.
pub fn sends_parts(fields: Fields<'_>) -> bool {
    let mut units = fields.all(FieldId::AcceptRanges).flat_map(lists::members);
    units.any(|unit| unit.eq_ignore_ascii_case(b"bytes")) && has_strong_tag(fields)
}

fn has_strong_tag(fields: Fields<'_>) -> bool {
    fields.only(FieldId::Etag).and_then(EntityTag::parse).is_some_and(|tag| !tag.is_weak)
}

/// RFC 9110 §14.4: parses `bytes first-last/total`; `None` for other forms, and if the numbers
/// contradict one another.
fn content_range(value: &[u8]) -> Option<(u64, u64, u64)> {
    let (unit, rest) = value.split_at_checked(memchr::memchr(b' ', value)?)?;
    if !unit.eq_ignore_ascii_case(b"bytes") {
        return None;
    }
    let rest = rest.strip_prefix(b" ")?;
    let (range, total) = rest.split_at_checked(memchr::memchr(b'/', rest)?)?;
    let (first, last) = range.split_at_checked(memchr::memchr(b'-', range)?)?;
    let first = lists::saturating_decimal(first)?;
    let last = lists::saturating_decimal(last.strip_prefix(b"-")?)?;
    let total = lists::saturating_decimal(total.strip_prefix(b"/")?)?;
    (first <= last && last < total && total < u64::MAX).then_some((first, last, total))
}

/// RFC 9110 §13.1.5: whether If-Range is absent, or matches the stored response strongly.
// RFC: 9110-13.1.5-5
fn if_range_holds(request: Fields<'_>, meta: &StoredMeta, block: &[u8]) -> bool {
    if !request.contains(FieldId::IfRange) {
        return true;
    }
    let tag = request.only(FieldId::IfRange).and_then(EntityTag::parse);
    if let Some(tag) = tag {
        return meta.etag(block).is_some_and(|stored| tag.matches_strongly(stored));
    }
    let date = date_field(request, FieldId::IfRange);
    // §8.8.2.2: a date is strong if the resource cannot have changed again within that second.
    let is_strong = |modified: u64| modified < meta.date;
    date.is_some_and(|date| meta.last_modified == Some(date) && is_strong(date))
}

/// Appends the value of Content-Range (RFC 9110 §14.4); appends nothing for
/// [`RangeDecision::Whole`].
// RFC: 9110-14.4-4, 9110-14.4-6, 9110-15.5.17-1
pub fn write_content_range(decision: RangeDecision, body_bytes: u64, out: &mut Vec<u8>) {
    match decision {
        RangeDecision::Whole => return,
        RangeDecision::Unsatisfiable => out.extend_from_slice(b"bytes *"),
        RangeDecision::Part { first, last } => {
            out.extend_from_slice(b"bytes ");
            decimal(out, first);
            out.push(b'-');
            decimal(out, last);
        }
    }
    out.push(b'/');
    decimal(out, body_bytes);
}

//! Requests for byte ranges (RFC 9110 §14), and partial responses of origins (RFC 9110 §15.3.7).
//!
//! A server may ignore Range. Forebay ignores other units, malformed values and more than
//! [`RANGES_MAX`] ranges, and the request gets the whole response.

use std::ops::Range;

use crate::bytes::trim_space;
use crate::fields::{FieldId, Fields};
use crate::policy::conditional::block_lines;
use crate::policy::etag::EntityTag;
use crate::policy::exchange::date_field;
use crate::policy::lists;
use crate::policy::meta::StoredMeta;
use crate::write::decimal;

/// The part of the body that a response sends, and the response's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeDecision {
    /// Send the whole body, with status 200.
    Whole,
    /// Send these bytes, both ends included, with status 206.
    Part {
        /// Offset of the first byte.
        first: u64,
        /// Offset of the last byte; at least `first`, less than the body's length.
        last: u64,
    },
    /// Send the parts that [`byte_ranges`] returns, as multipart/byteranges, with status 206.
    Parts,
    /// Send no body, with status 416.
    Unsatisfiable,
}

/// RFC 9110 §14.2: decides which part of the body to send, for a GET whose other preconditions
/// allow the stored response. (With other methods Range has no meaning.) `block` is the stored
/// field block.
///
/// The parts of a response with a content coding are not sent as multipart/byteranges:
/// Content-Encoding would name the coding of the parts, and be read as that of the whole content.
/// A range of a body that this server compressed or decompressed is not sent either: the bytes may
/// be others when it compresses the body again, and no strong validator would tell a client so.
// RFC: 9110-13.1.5-2, 9110-13.1.5-5, 9110-13.1.5-6, 9110-13.1.5-7, 9110-14.2-4, 9110-14.2-5
pub fn range(
    request: Fields<'_>,
    meta: &StoredMeta,
    block: &[u8],
    body_bytes: u64,
) -> RangeDecision {
    if !request.contains(FieldId::Range) || meta.status != 200 || !meta.has_original_body() {
        return RangeDecision::Whole;
    }
    let Some(set) = request.only(FieldId::Range).and_then(RangeSet::parse) else {
        return RangeDecision::Whole;
    };
    if !if_range_holds(request, meta, block) {
        return RangeDecision::Whole;
    }
    match set {
        RangeSet::One(spec) => resolve(spec, body_bytes),
        RangeSet::Several(_) if is_encoded(block) => RangeDecision::Whole,
        RangeSet::Several(specs) => decide_parts(&specs, body_bytes),
    }
}

/// RFC 9110 §14.2: returns the part of a body that a request asks for; the whole body if it asks
/// for several parts that are not near to each other, or if its ranges are malformed.
pub(super) fn one_range(request: Fields<'_>, body_bytes: u64) -> RangeDecision {
    let decision = match request.only(FieldId::Range).and_then(RangeSet::parse) {
        None => RangeDecision::Whole,
        Some(RangeSet::One(spec)) => resolve(spec, body_bytes),
        Some(RangeSet::Several(specs)) => decide_parts(&specs, body_bytes),
    };
    if decision == RangeDecision::Parts { RangeDecision::Whole } else { decision }
}

fn is_encoded(block: &[u8]) -> bool {
    block_lines(block).any(|(name, _)| FieldId::of(name) == FieldId::ContentEncoding)
}

/// The largest number of ranges in one request. Each part costs a head and a handle on the store's
/// memory; programs that ask for several ranges, such as document viewers, ask for fewer.
pub const RANGES_MAX: usize = 32;

/// The smallest gap between two parts (RFC 9110 §15.3.7.2): sending a shorter gap costs less than
/// the head of another part.
const GAP_BYTES_MIN: u64 = 80;

/// The parsed ranges of a request.
enum RangeSet {
    One(RangeSpec),
    /// At least two, and at most [`RANGES_MAX`].
    Several(Vec<RangeSpec>),
}

impl RangeSet {
    /// RFC 9110 §14.1.1: parses byte ranges. The case of the unit does not matter, and empty list
    /// members are allowed. `None` if a range is malformed, or if there are too many ranges.
    fn parse(value: &[u8]) -> Option<RangeSet> {
        let (unit, set) = value.split_at_checked(memchr::memchr(b'=', value)?)?;
        let set = set.strip_prefix(b"=")?;
        // White space is allowed around commas, but not after `=`.
        if !unit.eq_ignore_ascii_case(b"bytes") || trim_space(set).len() != set.len() {
            return None;
        }
        let mut members = lists::members(set);
        let first = parse_spec(members.next()?)?;
        let Some(second) = members.next() else { return Some(RangeSet::One(first)) };
        let mut specs = vec![first, parse_spec(second)?];
        for member in members {
            if specs.len() == RANGES_MAX {
                return None;
            }
            specs.push(parse_spec(member)?);
        }
        Some(RangeSet::Several(specs))
    }

    fn specs(&self) -> &[RangeSpec] {
        match self {
            RangeSet::One(spec) => std::slice::from_ref(spec),
            RangeSet::Several(specs) => specs,
        }
    }
}

/// Decides which parts of a body several ranges select.
// RFC: 9110-15.3.7.2-5
fn decide_parts(specs: &[RangeSpec], body_bytes: u64) -> RangeDecision {
    // Only a suffix of an empty body selects the whole body.
    if specs.iter().any(|spec| resolve(*spec, body_bytes) == RangeDecision::Whole) {
        return RangeDecision::Whole;
    }
    match &*parts(specs, body_bytes) {
        [] => RangeDecision::Unsatisfiable,
        [part] => RangeDecision::Part { first: part.start, last: part.end - 1 },
        _ => RangeDecision::Parts,
    }
}

/// RFC 9110 §15.3.7.2: returns the parts that ranges select, in the requested order. Ranges that
/// overlap, or have a short gap between them, become one part in the place of the first of them, so
/// the parts together are not longer than the body.
// RFC: 9110-15.3.7.2-6
fn parts(specs: &[RangeSpec], body_bytes: u64) -> Vec<Range<u64>> {
    let mut parts: Vec<Range<u64>> = Vec::with_capacity(specs.len());
    for spec in specs {
        let RangeDecision::Part { first, last } = resolve(*spec, body_bytes) else { continue };
        let mut part = first..last + 1;
        let is_near = |other: &Range<u64>, part: &Range<u64>| {
            other.start < part.end.saturating_add(GAP_BYTES_MIN)
                && part.start < other.end.saturating_add(GAP_BYTES_MIN)
        };
        // A part that has grown may reach parts that were out of its reach before.
        let mut place = parts.len();
        while let Some(index) = parts.iter().position(|other| is_near(other, &part)) {
            let other = parts.remove(index);
            part = part.start.min(other.start)..part.end.max(other.end);
            place = place.min(index);
        }
        parts.insert(place.min(parts.len()), part);
    }
    parts
}

/// Returns the parts that a request asks for, in the requested order, of a body for which [`range`]
/// has returned [`RangeDecision::Parts`].
pub fn byte_ranges(request: Fields<'_>, body_bytes: u64) -> Vec<Range<u64>> {
    let set = request.only(FieldId::Range).and_then(RangeSet::parse);
    set.map(|set| parts(set.specs(), body_bytes)).unwrap_or_default()
}

/// A parsed range: `first-last`, `first-` or `-suffix`. Numbers that are too large are clamped to
/// `u64::MAX`.
#[derive(Clone, Copy)]
enum RangeSpec {
    From { first: u64, last: u64 },
    Suffix { bytes: u64 },
}

// RFC: 9110-14.1.2-1
fn parse_spec(spec: &[u8]) -> Option<RangeSpec> {
    let (first, last) = spec.split_at_checked(memchr::memchr(b'-', spec)?)?;
    let last = last.strip_prefix(b"-")?;
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

/// Returns the range of the unit to fetch first, if a request asks for ranges of a resource of
/// unknown length: the unit that contains the first byte of the first range, or the first unit of
/// the resource if the request asks only for last bytes, whose offsets are not known yet. The
/// response to the first fetch gives the length. Returns `None` if the request has no well-formed
/// ranges. Units have `unit_bytes` bytes.
pub fn first_unit(request: Fields<'_>, unit_bytes: u64) -> Option<Range<u64>> {
    let set = RangeSet::parse(request.only(FieldId::Range)?)?;
    let first = set.specs().iter().find_map(|spec| match spec {
        RangeSpec::From { first, .. } => Some(*first),
        RangeSpec::Suffix { .. } => None,
    });
    let first = first.unwrap_or(0);
    let start = first - first % unit_bytes;
    Some(start..start.checked_add(unit_bytes)?)
}

/// Appends the value of Range (RFC 9110 §14.2) for one range, which is not empty.
pub fn write_range(part: &Range<u64>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"bytes=");
    decimal(out, part.start);
    out.push(b'-');
    decimal(out, part.end - 1);
}

/// The reason why a 206 cannot be stored as a part of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartRefused {
    /// The Content-Range of the 206 is missing, malformed, without a total length, or names another
    /// range than the requested one.
    ContentRange,
    /// The 206 has no strong entity tag, so no other part can be combined with it (RFC 9110
    /// §15.3.7.3).
    NoStrongTag,
}

/// Checks that a 206 with these fields is the answer to a request for `asked`, and can be combined
/// with other parts. Returns the total length of the response that it is a part of.
///
/// RFC 9110 §15.3.7 lets an origin send less than was requested; such a 206 is refused. A 206 with
/// several ranges is refused too, and so is a 206 whose Content-Length differs from the length of
/// the range.
///
/// # Errors
/// See [`PartRefused`].
/// RFC: 9110-14.4-5, 9110-15.3.7-1, 9110-15.3.7.3-1
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

/// Whether an origin whose whole response has these fields says that it serves ranges (RFC 9110
/// §14.3), and whether such parts can be combined.
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
    if meta.is_negotiated {
        // The compressed and the uncompressed form of the response have the same date but different
        // bytes.
        return false;
    }
    let date = date_field(request, FieldId::IfRange);
    // §8.8.2.2: a date is strong if the resource cannot have changed again within that second.
    let is_strong = |modified: u64| modified < meta.date;
    date.is_some_and(|date| meta.last_modified == Some(date) && is_strong(date))
}

/// Appends the value of Content-Range (RFC 9110 §14.4) for a response or a part of a multipart
/// response; appends nothing for [`RangeDecision::Whole`] and [`RangeDecision::Parts`].
// RFC: 9110-14.4-4, 9110-14.4-6, 9110-15.3.7.2-2, 9110-15.5.17-1
pub fn write_content_range(decision: RangeDecision, body_bytes: u64, out: &mut Vec<u8>) {
    match decision {
        RangeDecision::Whole | RangeDecision::Parts => return,
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

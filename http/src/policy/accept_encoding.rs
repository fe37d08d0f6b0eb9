//! The normal form of Accept-Encoding (RFC 9110 §12.5.3), in which equivalent fields are equal.
//!
//! Two fields are equivalent if they list the same codings with the same weights. The case and the
//! order of codings do not matter, an absent weight counts as 1, and empty members are ignored.
//! Nothing else is normalised: a coding with the weight 0 differs from a coding that is not listed.

use std::cmp::Ordering;

use crate::bytes::is_token;
use crate::fields::{FieldId, Fields};
use crate::policy::lists;
use crate::policy::weight::{WHOLE, split_weight};

/// Largest number of codings that are normalised. Browsers list four or five; a field with more is
/// compared as it was sent.
const CODINGS_MAX: usize = 16;

/// Appends the normal form of the request's Accept-Encoding. Returns false if the request has no
/// such field, or if the field has no normal form.
pub fn write_accept_encoding(request: Fields<'_>, out: &mut Vec<u8>) -> bool {
    let mut lines = request.all(FieldId::AcceptEncoding).peekable();
    if lines.peek().is_none() {
        return false;
    }
    let list = CodingList::parse(lines);
    list.is_some_and(|list| {
        list.write(out);
        true
    })
}

/// Whether a client that sends these fields accepts a content coding. Without Accept-Encoding, and
/// if the field is malformed, only content without a coding is sure to be accepted.
pub fn accepts_coding(request: Fields<'_>, coding: &[u8]) -> bool {
    let Some(list) = CodingList::parse(request.all(FieldId::AcceptEncoding)) else { return false };
    list.weight_of(coding).or_else(|| list.weight_of(b"*")).is_some_and(|weight| weight > 0)
}

/// Writes the value that replaces a request's Accept-Encoding where this server gives responses one
/// of these `codings`. The value lists the codings that the client prefers, in the given order and
/// without weights, and then those of the `others` that the client accepts; or only `identity` if
/// this leaves none. So requests whose fields have the same meaning for this server have the same
/// value.
///
/// RFC 9110 §12.5.3: a coding without a weight has that of `*`. Without Accept-Encoding, or if the
/// field is malformed, only the absence of a coding is sure to be accepted.
pub fn write_preferred_codings<'a>(
    request: Fields<'_>,
    codings: impl Iterator<Item = &'a [u8]> + Clone,
    others: impl Iterator<Item = &'a [u8]> + Clone,
    out: &mut Vec<u8>,
) {
    let list = CodingList::parse(request.all(FieldId::AcceptEncoding));
    let weight = |name: &[u8]| {
        list.as_ref().map_or(0, |list| {
            list.weight_of(name).or_else(|| list.weight_of(b"*")).unwrap_or_default()
        })
    };
    // Identity does not get the weight of `*`, as other codings do; but a weight of 0 excludes it
    // too.
    let identity = list.as_ref().and_then(|list| list.weight_of(IDENTITY)).unwrap_or_default();
    let best = codings.clone().map(weight).max().unwrap_or_default();
    let best_other = others.clone().map(weight).max().unwrap_or_default();
    let preferred = codings.filter(|coding| best >= identity && weight(coding) == best);
    let accepted = others.filter(|_| best.max(best_other) >= identity);
    let start = out.len();
    for coding in preferred.chain(accepted).filter(|coding| weight(coding) > 0) {
        if out.len() > start {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(coding);
    }
    if out.len() == start {
        out.extend_from_slice(IDENTITY);
    }
}

/// Writes the value that replaces a request's Accept-Encoding where this server takes other codings
/// off responses. The value lists all of these `codings` that the client accepts, in the given
/// order and without weights: an origin may have only one that the client likes less. It is only
/// `identity` if the client accepts none of them, or prefers the absence of a coding.
pub fn write_accepted_codings<'a>(
    request: Fields<'_>,
    codings: impl Iterator<Item = &'a [u8]>,
    out: &mut Vec<u8>,
) {
    let list = CodingList::parse(request.all(FieldId::AcceptEncoding));
    let weight = |name: &[u8]| list.as_ref().and_then(|list| list.weight_of(name));
    let other = weight(b"*").unwrap_or_default();
    let (start, mut best) = (out.len(), 0);
    for coding in codings {
        let weight = weight(coding).unwrap_or(other);
        if weight == 0 {
            continue;
        }
        best = best.max(weight);
        if out.len() > start {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(coding);
    }
    if best == 0 || best < weight(IDENTITY).unwrap_or_default() {
        out.truncate(start);
        out.extend_from_slice(IDENTITY);
    }
}

/// The name that stands for the absence of a coding.
pub const IDENTITY: &[u8] = b"identity";

/// The codings of one request, sorted.
struct CodingList<'a> {
    codings: [Coding<'a>; CODINGS_MAX],
    count: usize,
}

#[derive(Clone, Copy)]
struct Coding<'a> {
    name: &'a [u8],
    /// The weight, in thousandths.
    weight: u16,
}

impl<'a> CodingList<'a> {
    /// Parses the lines of the field. Returns `None` if a member is malformed, if a coding is
    /// listed twice, or if there are too many codings: different recipients may read such a field
    /// differently.
    fn parse(lines: impl Iterator<Item = &'a [u8]>) -> Option<CodingList<'a>> {
        let mut list =
            CodingList { codings: [Coding { name: b"", weight: 0 }; CODINGS_MAX], count: 0 };
        for member in lines.flat_map(lists::members) {
            *list.codings.get_mut(list.count)? = Coding::parse(member)?;
            list.count += 1;
        }
        let codings = list.codings.get_mut(..list.count)?;
        codings.sort_unstable_by(|left, right| order(left.name, right.name));
        let is_unique = codings.is_sorted_by(|left, right| order(left.name, right.name).is_lt());
        is_unique.then_some(list)
    }

    /// Returns the weight of a coding, if it is listed.
    fn weight_of(&self, name: &[u8]) -> Option<u16> {
        let codings = self.codings.get(..self.count).unwrap_or_default();
        codings.iter().find(|listed| order(listed.name, name).is_eq()).map(|listed| listed.weight)
    }

    /// Appends the normal form.
    fn write(&self, out: &mut Vec<u8>) {
        let codings = self.codings.get(..self.count).unwrap_or_default();
        for (index, coding) in codings.iter().enumerate() {
            if index > 0 {
                out.extend_from_slice(b", ");
            }
            coding.write(out);
        }
    }
}

impl<'a> Coding<'a> {
    fn parse(member: &'a [u8]) -> Option<Coding<'a>> {
        let (name, weight) = split_weight(member)?;
        is_token(name).then_some(Coding { name, weight })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.name.iter().map(u8::to_ascii_lowercase));
        if self.weight == WHOLE {
            return;
        }
        out.extend_from_slice(b";q=0.");
        for divisor in [100, 10, 1] {
            out.push(b'0' + (self.weight / divisor % 10) as u8);
        }
    }
}

/// Compares two codings without regard to case.
fn order(left: &[u8], right: &[u8]) -> Ordering {
    let (left, right) = (left.iter(), right.iter());
    left.map(u8::to_ascii_lowercase).cmp(right.map(u8::to_ascii_lowercase))
}

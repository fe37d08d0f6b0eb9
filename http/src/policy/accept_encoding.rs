//! The normal form of Accept-Encoding (RFC 9110 §12.5.3), in which equivalent fields are equal.
//!
//! Two fields are equivalent if they list the same codings with the same weights. Codings have no
//! case, their order means nothing, a weight that is absent is 1, and empty members do not count.
//! Nothing else is normalised: a coding with the weight 0 differs from a coding that is not listed.

use std::cmp::Ordering;

use crate::bytes::{is_token, trim_space};
use crate::policy::lists;

/// Most codings that are normalised. Browsers list four or five; a field with more is compared as
/// it was sent.
const CODINGS_MAX: usize = 16;

/// The weight 1, in thousandths.
const WHOLE: u16 = 1000;

/// The codings of one request, sorted.
pub(super) struct CodingList<'a> {
    codings: [Coding<'a>; CODINGS_MAX],
    count: usize,
}

#[derive(Clone, Copy)]
struct Coding<'a> {
    name: &'a [u8],
    /// In thousandths.
    weight: u16,
}

impl<'a> CodingList<'a> {
    /// Parses the lines of the field. `None` if a member is malformed, if a coding is listed twice,
    /// or if there are too many: then different recipients may read the field differently.
    pub(super) fn parse(lines: impl Iterator<Item = &'a [u8]>) -> Option<CodingList<'a>> {
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

    /// Appends the normal form.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
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
        let Some(semicolon) = member.iter().position(|byte| *byte == b';') else {
            return is_token(member).then_some(Coding { name: member, weight: WHOLE });
        };
        let (name, rest) = member.split_at_checked(semicolon)?;
        let name = trim_space(name);
        let weight = trim_space(rest.get(1..)?);
        let weight = weight.strip_prefix(b"q=").or_else(|| weight.strip_prefix(b"Q="))?;
        is_token(name).then_some(Coding { name, weight: parse_weight(weight)? })
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

/// Parses a weight into thousandths (RFC 9110 §12.4.2): `0`, `1`, or either with a point and up to
/// three digits.
fn parse_weight(text: &[u8]) -> Option<u16> {
    let (whole, digits) = match text {
        [b'0'] => (0, &b""[..]),
        [b'1'] => (WHOLE, &b""[..]),
        [b'0', b'.', digits @ ..] => (0, digits),
        [b'1', b'.', digits @ ..] => (WHOLE, digits),
        _ => return None,
    };
    if digits.len() > 3 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let thousandths = digits
        .iter()
        .zip([100, 10, 1])
        .fold(0, |sum, (digit, unit)| sum + u16::from(digit - b'0') * unit);
    let weight = whole + thousandths;
    (weight <= WHOLE).then_some(weight)
}

/// Compares two codings without regard to case.
fn order(left: &[u8], right: &[u8]) -> Ordering {
    let (left, right) = (left.iter(), right.iter());
    left.map(u8::to_ascii_lowercase).cmp(right.map(u8::to_ascii_lowercase))
}

//! Weights of the members of a list (RFC 9110 §12.4.2).

use crate::bytes::trim_space;

/// The weight 1, in thousandths.
pub(super) const WHOLE: u16 = 1000;

/// Splits a member into its value and its weight in thousandths; without a weight, the weight is
/// 1000. Returns `None` if the member has another parameter, or a malformed weight.
pub(super) fn split_weight(member: &[u8]) -> Option<(&[u8], u16)> {
    let Some(semicolon) = member.iter().position(|byte| *byte == b';') else {
        return Some((member, WHOLE));
    };
    let (value, rest) = member.split_at_checked(semicolon)?;
    let weight = trim_space(rest.get(1..)?);
    let weight = weight.strip_prefix(b"q=").or_else(|| weight.strip_prefix(b"Q="))?;
    Some((trim_space(value), parse_weight(weight)?))
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

//! Integers with a prefix (RFC 7541 §5.1).
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use super::HpackError;

/// The largest accepted integer. No length or index of a bounded block is larger.
const INTEGER_MAX: usize = (1 << 28) - 1;

/// Takes an integer from the start of `input`. Its prefix is the low `prefix_bits` of the first
/// byte.
///
/// At most four bytes follow the prefix, so leading zeros cannot make an integer long.
pub(super) fn take(input: &mut &[u8], prefix_bits: u32) -> Result<usize, HpackError> {
    let (first, mut rest) = input.split_first().ok_or(HpackError::Truncated)?;
    let prefix_max = (1usize << prefix_bits) - 1;
    let mut value = usize::from(*first) & prefix_max;
    if value == prefix_max {
        let mut shift = 0;
        loop {
            let (byte, after) = rest.split_first().ok_or(HpackError::Truncated)?;
            rest = after;
            value += usize::from(byte & 0x7f) << shift;
            if value > INTEGER_MAX {
                return Err(HpackError::Integer);
            }
            if byte & 0x80 == 0 {
                break;
            }
            shift += 7;
            if shift > 21 {
                return Err(HpackError::Integer);
            }
        }
    }
    *input = rest;
    Ok(value)
}

/// Appends an integer. The bits above the prefix of its first byte are those of `pattern`.
pub(super) fn put(out: &mut Vec<u8>, pattern: u8, prefix_bits: u32, value: usize) {
    let prefix_max = (1usize << prefix_bits) - 1;
    if value < prefix_max {
        out.push(pattern | value as u8);
        return;
    }
    out.push(pattern | prefix_max as u8);
    let mut rest = value - prefix_max;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

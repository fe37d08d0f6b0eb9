//! The Huffman code of string literals (RFC 7541 §5.2, appendix B).
//!
//! The code is canonical: it follows from the lengths of its codes, and all tables are computed
//! from these lengths at compile time. Codes of up to 8 bits are found by the next 8 bits of the
//! input. A longer code is found by its length: all codes of one length are consecutive numbers.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use super::HpackError;

/// Length in bits of the code of each byte.
#[rustfmt::skip]
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

/// The length of the longest code, which is also that of the end-of-string code.
const BITS_MAX: usize = 30;

/// The codes of one length.
#[derive(Clone, Copy)]
struct CodeRange {
    /// The first code.
    first: u32,
    count: u32,
    /// The index in [`Tables::order`] of the byte that has the first code.
    order_start: u32,
}

struct Tables {
    /// The bytes, ordered by their codes.
    order: [u8; 256],
    /// The codes of each length.
    ranges: [CodeRange; BITS_MAX + 1],
    /// For each value of the next 8 bits: the byte whose code is at their start, and the length of
    /// the code; a length of 0 if the code is longer than 8 bits.
    short: [(u8, u8); 256],
}

const TABLES: Tables = tables();
static SHORT: [(u8, u8); 256] = TABLES.short;
static ORDER: [u8; 256] = TABLES.order;

#[expect(clippy::indexing_slicing, reason = "checked while compiling")]
const fn tables() -> Tables {
    let none = CodeRange { first: 0, count: 0, order_start: 0 };
    let mut made = Tables { order: [0; 256], ranges: [none; BITS_MAX + 1], short: [(0, 0); 256] };
    let (mut code, mut ordered, mut bits) = (0u32, 0usize, 1usize);
    while bits <= BITS_MAX {
        code <<= 1;
        made.ranges[bits] = CodeRange { first: code, count: 0, order_start: ordered as u32 };
        let mut byte = 0;
        while byte < 256 {
            if LENGTHS[byte] as usize == bits {
                made.order[ordered] = byte as u8;
                made.ranges[bits].count += 1;
                if bits <= 8 {
                    let mut index = (code as usize) << (8 - bits);
                    let end = (code as usize + 1) << (8 - bits);
                    while index < end {
                        made.short[index] = (byte as u8, bits as u8);
                        index += 1;
                    }
                }
                code += 1;
                ordered += 1;
            }
            byte += 1;
        }
        bits += 1;
    }
    assert!(ordered == 256 && code == (1 << BITS_MAX) - 1, "only the end-of-string code is left");
    made
}

/// Appends the decoded text.
///
/// RFC 7541 §5.2: padding is at most 7 bits, all of them 1, and the end-of-string code is an error.
pub(super) fn decode(text: &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    let (mut bits, mut bit_count) = (0u64, 0usize);
    for byte in text {
        bits = (bits << 8) | u64::from(*byte);
        bit_count += 8;
        // With 37 bits, any code of up to 30 bits is complete; short codes need 8.
        while bit_count >= 8 {
            let next = (bits >> (bit_count - 8)) & 0xff;
            #[expect(clippy::indexing_slicing, reason = "an index of 8 bits")]
            let (symbol, length) = SHORT[next as usize];
            if length > 0 {
                out.push(symbol);
                bit_count -= usize::from(length);
                continue;
            }
            let Some((symbol, length)) = long_code(bits, bit_count)? else {
                break;
            };
            out.push(symbol);
            bit_count -= length;
        }
    }
    finish(bits, bit_count, out)
}

/// Decodes the short codes among the last bits, and checks the padding.
fn finish(bits: u64, mut bit_count: usize, out: &mut Vec<u8>) -> Result<(), HpackError> {
    while bit_count > 0 {
        let rest = bits & ((1 << bit_count) - 1);
        let padded = (((rest << 8) | 0xff) >> bit_count) & 0xff;
        #[expect(clippy::indexing_slicing, reason = "an index of 8 bits")]
        let (symbol, length) = SHORT[padded as usize];
        if bit_count >= 8 || length == 0 || usize::from(length) > bit_count {
            let is_padding = bit_count < 8 && rest == (1 << bit_count) - 1;
            return if is_padding { Ok(()) } else { Err(HpackError::Huffman) };
        }
        out.push(symbol);
        bit_count -= usize::from(length);
    }
    Ok(())
}

/// Finds a code of more than 8 bits at the start of the last `bit_count` bits; `None` if more bits
/// are needed.
fn long_code(bits: u64, bit_count: usize) -> Result<Option<(u8, usize)>, HpackError> {
    let ranges = &const { TABLES.ranges };
    for (length, range) in ranges.iter().enumerate().skip(9) {
        if length > bit_count {
            return Ok(None);
        }
        let code = (bits >> (bit_count - length)) & ((1 << length) - 1);
        let offset = (code as u32).wrapping_sub(range.first);
        if offset < range.count {
            let at = (range.order_start + offset) as usize;
            return ORDER.get(at).map(|symbol| Some((*symbol, length))).ok_or(HpackError::Huffman);
        }
    }
    Err(HpackError::Huffman)
}

/// Appends `text` in the Huffman code.
#[cfg(test)]
pub(super) fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut bits, mut bit_count) = (0u64, 0usize);
    for byte in text {
        let length = usize::from(LENGTHS[usize::from(*byte)]);
        let range = TABLES.ranges[length];
        let place = ORDER.iter().position(|other| other == byte).expect("each byte has a code");
        let code = range.first + (place as u32 - range.order_start);
        bits = (bits << length) | u64::from(code);
        bit_count += length;
        while bit_count >= 8 {
            bit_count -= 8;
            out.push((bits >> bit_count) as u8);
        }
    }
    if bit_count > 0 {
        let padding = 8 - bit_count;
        out.push((bits << padding) as u8 | ((1u16 << padding) - 1) as u8);
    }
}

//! Byte classes and scans that all parsers share.
//!
//! The functions work on plain bytes and know nothing of messages. Tables have 256 entries, so that
//! a `u8` index needs no bounds check.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

/// The class of the bytes of a token: `tchar` (RFC 9110 §5.6.2).
const TOKEN: u8 = 1;
/// Bytes of a request target: visible ASCII except `#`. Browsers send `|`, `{` and others
/// unescaped, so the stricter grammar of RFC 3986 is not enforced.
const TARGET: u8 = 2;
/// Bytes of a host name: the unreserved characters of RFC 3986.
const HOST: u8 = 4;

const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        #[expect(clippy::indexing_slicing, reason = "checked while compiling")]
        {
            classes[byte] = class_of(byte as u8);
        }
        byte += 1;
    }
    classes
};

const fn class_of(byte: u8) -> u8 {
    let mut class = 0;
    if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
        class |= TOKEN | HOST;
    }
    if matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'^' | b'`' | b'|') {
        class |= TOKEN;
    }
    if byte.is_ascii_graphic() && byte != b'#' {
        class |= TARGET;
    }
    class
}

fn is(byte: u8, class: u8) -> bool {
    #[expect(clippy::indexing_slicing, reason = "a u8 is a valid index of 256 entries")]
    let found = CLASSES[usize::from(byte)];
    found & class != 0
}

/// Whether a byte is a `tchar`.
pub(crate) fn is_token_byte(byte: u8) -> bool {
    is(byte, TOKEN)
}

/// Whether a byte may occur in a request target.
pub(crate) fn is_target_byte(byte: u8) -> bool {
    is(byte, TARGET)
}

/// Whether a byte may occur in a host name.
pub(crate) fn is_host_byte(byte: u8) -> bool {
    is(byte, HOST)
}

/// RFC 9110 §5.6.2: whether these bytes are a token.
pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|byte| is_token_byte(*byte))
}

/// Whether a byte is optional white space: a space or HTAB.
pub(crate) fn is_space(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// Whether a byte is a control character other than HTAB, which no line may contain (RFC 9110
/// §5.5).
pub(crate) fn is_control(byte: u8) -> bool {
    byte.is_ascii_control() && byte != b'\t'
}

/// Trims optional white space from both ends (RFC 9110 §5.5).
pub(crate) fn trim_space(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && is_space(*first)
    {
        bytes = rest;
    }
    while let [rest @ .., last] = bytes
        && is_space(*last)
    {
        bytes = rest;
    }
    bytes
}

/// RFC 9110 §5.6.1: iterates over the elements of a comma-separated list without quoted strings,
/// skipping empty elements.
pub(crate) fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(trim_space).filter(|element| !element.is_empty())
}

/// RFC 9110 §8.6: parses `1*DIGIT`; `None` for anything else, such as a sign or a space, and for a
/// number larger than `u64::MAX`.
pub(crate) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// Returns the offset of the first control byte other than HTAB at or after `from`.
///
/// A line ends at such a byte, so a single scan both finds the end of a line and validates the
/// bytes before it.
pub(crate) fn find_control(bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    let (blocks, tail) = rest.as_chunks::<16>();
    for (index, block) in blocks.iter().enumerate() {
        // Without an early exit, the compiler turns this loop into a few vector instructions.
        let mut found = false;
        for byte in block {
            found |= is_control(*byte);
        }
        if found {
            return find_word(block, control_flags).map(|at| from + index * 16 + at);
        }
    }
    find_word(tail, control_flags).map(|at| from + blocks.len() * 16 + at)
}

/// Returns the offset of the first colon. This does not call `memchr`: a field name is so short
/// that the call would cost more than it saves.
pub(crate) fn find_colon(bytes: &[u8]) -> Option<usize> {
    find_word(bytes, |word| zero_flags(word ^ (ONES * b':' as u64)))
}

/// Returns the offset of the first byte that `flags` marks. `flags` gets eight bytes as a
/// little-endian word, and returns a word in which the top bit of each marked byte is set and all
/// other bits are 0.
fn find_word(bytes: &[u8], flags: impl Fn(u64) -> u64) -> Option<usize> {
    let (words, tail) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let found = flags(u64::from_le_bytes(*word));
        if found != 0 {
            return Some(index * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    let at = tail.iter().position(|byte| flags(u64::from(*byte) | !0xff) & 0x80 != 0)?;
    Some(words.len() * 8 + at)
}

/// A word whose bytes are all 1. Multiplied by a byte, it repeats the byte in a word.
pub(crate) const ONES: u64 = u64::MAX / 0xff;
const HIGH: u64 = ONES * 0x80;

/// Returns a word in which the top bit of a byte is set if and only if that byte of `word` is 0.
pub(crate) const fn zero_flags(word: u64) -> u64 {
    !(((word & !HIGH) + !HIGH) | word) & HIGH
}

/// Returns a word in which the top bit of a byte is set if and only if that byte of `word` is a
/// control byte other than HTAB.
///
/// The sums use only the low seven bits of each byte, so they cannot carry into the next byte, and
/// every flag is exact.
const fn control_flags(word: u64) -> u64 {
    let low = word & !HIGH;
    let from_space = low + ONES * (0x80 - 0x20);
    let not_tab = (low ^ (ONES * 0x09)) + ONES * 0x7f;
    let delete = low + ONES;
    ((!from_space & not_tab) | delete) & !word & HIGH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_byte_is_found_at_every_position() {
        for byte in 0..=255u8 {
            for filler in [b'a', b'\t', b' ', 0x80, 0xff, b'~'] {
                for place in 0..20 {
                    let mut bytes = [filler; 20];
                    bytes[place] = byte;
                    let expected = is_control(byte).then_some(place);
                    assert_eq!(find_control(&bytes, 0), expected, "{byte} at {place} in {filler}");
                }
            }
        }
        assert_eq!(find_control(b"\r\ra", 1), Some(1));
        assert_eq!(find_control(b"\r", 1), None);
        assert_eq!(find_control(b"", 4), None);
    }

    #[test]
    fn decimals_are_digits_that_fit() {
        for (text, expected) in [
            ("0", Some(0)),
            ("007", Some(7)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("", None),
            ("+1", None),
            ("-1", None),
            ("1 ", None),
            ("0x1", None),
            ("1_0", None),
        ] {
            assert_eq!(decimal(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn byte_classes_are_those_of_the_grammar() {
        for byte in 0..=255u8 {
            let token = byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            assert_eq!(is_token_byte(byte), token, "{byte}");
            assert_eq!(is_target_byte(byte), (0x21..0x7f).contains(&byte) && byte != b'#');
        }
        assert_eq!(trim_space(b" \t a b\t "), b"a b");
        assert_eq!(trim_space(b" \t"), b"");
        assert!(list(b", a ,,b\t,").eq([&b"a"[..], b"b"]));
    }
}

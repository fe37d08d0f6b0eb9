//! Lists of strings in structured fields (RFC 9651).
//!
//! A list that is malformed or has a member of another type is ignored as a whole, because a part
//! of the list may not have the meaning that its sender intended.

/// Parses a List whose members are all Strings; `None` if it is malformed or has other members.
/// Parameters are validated and dropped, because none is defined for these fields.
///
/// RFC 9651 §4.2: the lines are joined by commas into one value.
pub(crate) fn string_list<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<Vec<Vec<u8>>> {
    let joined = lines.collect::<Vec<_>>().join(&b", "[..]);
    let mut rest = joined.as_slice();
    let mut strings = Vec::new();
    skip(&mut rest, is_blank);
    // RFC 9651 §3.1: an empty List is equivalent to an absent field.
    while !rest.is_empty() {
        strings.push(string(&mut rest)?);
        parameters(&mut rest)?;
        skip(&mut rest, is_blank);
        if rest.is_empty() {
            break;
        }
        expect(&mut rest, b',')?;
        skip(&mut rest, is_blank);
        if rest.is_empty() {
            // A trailing comma is an error.
            return None;
        }
    }
    Some(strings)
}

/// RFC 9651 §4.2.5: parses a String.
fn string(rest: &mut &[u8]) -> Option<Vec<u8>> {
    expect(rest, b'"')?;
    let mut text = Vec::new();
    loop {
        match take(rest)? {
            b'"' => return Some(text),
            b'\\' => match take(rest)? {
                escaped @ (b'"' | b'\\') => text.push(escaped),
                _ => return None,
            },
            byte @ 0x20..=0x7e => text.push(byte),
            _ => return None,
        }
    }
}

/// RFC 9651 §4.2.3.2: validates parameters and drops them.
fn parameters(rest: &mut &[u8]) -> Option<()> {
    while let Some(after) = rest.strip_prefix(b";") {
        *rest = after;
        skip(rest, |byte| byte == b' ');
        if !matches!(take(rest)?, b'a'..=b'z' | b'*') {
            return None;
        }
        skip(rest, |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*'));
        if let Some(after) = rest.strip_prefix(b"=") {
            *rest = after;
            bare_item(rest)?;
        }
    }
    Some(())
}

/// RFC 9651 §4.2.3.1: validates a value of any type that a parameter can have.
fn bare_item(rest: &mut &[u8]) -> Option<()> {
    match *rest.first()? {
        b'"' => string(rest).map(drop),
        b'-' | b'0'..=b'9' => number(rest),
        b'@' => {
            take(rest);
            number(rest)
        }
        b'?' => {
            take(rest);
            matches!(take(rest)?, b'0' | b'1').then_some(())
        }
        b':' => {
            take(rest);
            skip(rest, |byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
            expect(rest, b':')
        }
        b'%' => {
            take(rest);
            string(rest).map(drop)
        }
        byte if byte.is_ascii_alphabetic() || byte == b'*' => {
            let is_more = |byte| crate::bytes::is_token_byte(byte) || matches!(byte, b':' | b'/');
            skip(rest, is_more);
            Some(())
        }
        _ => None,
    }
}

/// RFC 9651 §4.2.4: validates a number. The count of digits is not limited, because the value is
/// not used.
fn number(rest: &mut &[u8]) -> Option<()> {
    *rest = rest.strip_prefix(b"-").unwrap_or(rest);
    digits(rest)?;
    if let Some(after) = rest.strip_prefix(b".") {
        *rest = after;
        digits(rest)?;
    }
    Some(())
}

fn digits(rest: &mut &[u8]) -> Option<()> {
    let before = rest.len();
    skip(rest, |byte| byte.is_ascii_digit());
    (rest.len() < before).then_some(())
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn take(rest: &mut &[u8]) -> Option<u8> {
    let (first, after) = rest.split_first()?;
    *rest = after;
    Some(*first)
}

fn expect(rest: &mut &[u8], wanted: u8) -> Option<()> {
    (take(rest)? == wanted).then_some(())
}

fn skip(rest: &mut &[u8], is_part: impl Fn(u8) -> bool) {
    let end = rest.iter().position(|byte| !is_part(*byte));
    *rest = rest.get(end.unwrap_or(rest.len())..).unwrap_or_default();
}

//! Structured fields (RFC 9651): lists of strings, and dictionaries.
//!
//! Parsing is strict: a field that is malformed anywhere has no value at all, because a part of it
//! may not have the meaning that its sender intended. Parameters are validated and dropped, because
//! none is defined for the fields that use this module.

use crate::bytes::is_token_byte;

/// A value without its parameters. Values of types that occur in no field that Forebay reads are
/// only validated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BareItem {
    Integer(i64),
    String(Vec<u8>),
    Boolean(bool),
    /// A Decimal, a Token, a Byte Sequence, a Date or a Display String.
    Other,
}

/// The value of a dictionary's member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MemberValue {
    Item(BareItem),
    InnerList,
}

/// The longest Integer, in digits (RFC 9651 §4.2.4).
const INTEGER_DIGITS_MAX: usize = 15;
/// The longest parts of a Decimal before and after the point, in digits (RFC 9651 §4.2.4).
const DECIMAL_DIGITS_MAX: (usize, usize) = (12, 3);

/// Parses a List whose members are all Strings; `None` if it is malformed or has other members.
pub(crate) fn string_list<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<Vec<Vec<u8>>> {
    let text = joined(lines);
    let mut strings = Vec::new();
    members(&text, |input| {
        strings.push(input.string()?);
        input.parameters()
    })?;
    Some(strings)
}

/// Largest number of members of a dictionary that is read.
const MEMBERS_MAX: usize = 128;

/// Parses a Dictionary; `None` if it is malformed or has more than [`MEMBERS_MAX`] members. The
/// members are in the order of their first occurrence.
///
/// RFC 9651 §4.2.2: if a key is repeated, its last value counts.
pub(crate) fn dictionary<'a>(
    lines: impl Iterator<Item = &'a [u8]>,
) -> Option<Vec<(Vec<u8>, MemberValue)>> {
    let text = joined(lines);
    let mut dictionary: Vec<(Vec<u8>, MemberValue)> = Vec::new();
    members(&text, |input| {
        let key = input.key()?;
        let value = match input.accept(b'=') {
            true => input.member_value()?,
            false => MemberValue::Item(BareItem::Boolean(true)),
        };
        input.parameters()?;
        let is_full = dictionary.len() == MEMBERS_MAX;
        match dictionary.iter_mut().find(|(earlier, _)| *earlier == key) {
            Some((_, earlier)) => *earlier = value,
            None if is_full => return None,
            None => dictionary.push((key, value)),
        }
        Some(())
    })?;
    Some(dictionary)
}

/// RFC 9651 §4.2: joins the lines of a field into one value.
fn joined<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    lines.collect::<Vec<_>>().join(&b", "[..])
}

/// RFC 9651 §4.2.1 and §4.2.2: parses members, separated by commas, to the end of the text.
fn members(
    text: &[u8],
    mut member: impl FnMut(&mut StructuredText<'_>) -> Option<()>,
) -> Option<()> {
    let mut input = StructuredText { rest: text };
    input.skip(is_blank);
    // RFC 9651 §3.1, §3.2: an empty field is valid, and equivalent to an absent one.
    if input.rest.is_empty() {
        return Some(());
    }
    loop {
        member(&mut input)?;
        input.skip(is_blank);
        if input.rest.is_empty() {
            return Some(());
        }
        // After the comma, a member has to follow: a trailing comma is an error.
        input.expect(b',')?;
        input.skip(is_blank);
    }
}

/// The text that is not parsed yet. Each method parses one element, or returns `None` if there is
/// none; the text is then of no further use.
struct StructuredText<'a> {
    rest: &'a [u8],
}

impl StructuredText<'_> {
    /// RFC 9651 §4.2.3.3: parses a key.
    fn key(&mut self) -> Option<Vec<u8>> {
        let is_first = |byte: u8| byte.is_ascii_lowercase() || byte == b'*';
        let is_more = |byte: u8| is_first(byte) || byte.is_ascii_digit() || b"_-.".contains(&byte);
        self.rest.first().filter(|byte| is_first(**byte))?;
        Some(self.skip(is_more).to_vec())
    }

    /// RFC 9651 §4.2.3.2: validates the parameters and drops them.
    fn parameters(&mut self) -> Option<()> {
        while self.accept(b';') {
            self.skip(|byte| byte == b' ');
            self.key()?;
            if self.accept(b'=') {
                self.bare_item()?;
            }
        }
        Some(())
    }

    /// RFC 9651 §4.2.1.1: parses an item or an inner list, without the parameters that follow it.
    fn member_value(&mut self) -> Option<MemberValue> {
        if !self.accept(b'(') {
            return Some(MemberValue::Item(self.bare_item()?));
        }
        // RFC 9651 §4.2.1.2.
        loop {
            self.skip(|byte| byte == b' ');
            if self.accept(b')') {
                return Some(MemberValue::InnerList);
            }
            self.bare_item()?;
            self.parameters()?;
            if !matches!(self.rest.first()?, b' ' | b')') {
                return None;
            }
        }
    }

    /// RFC 9651 §4.2.3.1: parses an item without its parameters.
    fn bare_item(&mut self) -> Option<BareItem> {
        match *self.rest.first()? {
            b'"' => self.string().map(BareItem::String),
            b'-' | b'0'..=b'9' => self.number(),
            b'@' => {
                self.take();
                let is_integer = matches!(self.number()?, BareItem::Integer(_));
                is_integer.then_some(BareItem::Other)
            }
            b'?' => {
                self.take();
                match self.take()? {
                    b'0' => Some(BareItem::Boolean(false)),
                    b'1' => Some(BareItem::Boolean(true)),
                    _ => None,
                }
            }
            b':' => self.byte_sequence(),
            b'%' => self.display_string(),
            byte if byte.is_ascii_alphabetic() || byte == b'*' => {
                self.skip(|byte| is_token_byte(byte) || matches!(byte, b':' | b'/'));
                Some(BareItem::Other)
            }
            _ => None,
        }
    }

    /// RFC 9651 §4.2.4: parses an Integer or a Decimal.
    fn number(&mut self) -> Option<BareItem> {
        let is_negative = self.accept(b'-');
        let whole = self.digits()?;
        if !self.accept(b'.') {
            let digits = (whole.len() <= INTEGER_DIGITS_MAX).then_some(whole)?;
            let value: i64 = str::from_utf8(digits).ok()?.parse().ok()?;
            return Some(BareItem::Integer(if is_negative { -value } else { value }));
        }
        let (whole_max, part_max) = DECIMAL_DIGITS_MAX;
        let is_valid = whole.len() <= whole_max && self.digits()?.len() <= part_max;
        is_valid.then_some(BareItem::Other)
    }

    /// RFC 9651 §4.2.5: parses a String.
    fn string(&mut self) -> Option<Vec<u8>> {
        self.expect(b'"')?;
        let mut text = Vec::new();
        loop {
            match self.take()? {
                b'"' => return Some(text),
                b'\\' => match self.take()? {
                    escaped @ (b'"' | b'\\') => text.push(escaped),
                    _ => return None,
                },
                byte @ 0x20..=0x7e => text.push(byte),
                _ => return None,
            }
        }
    }

    /// RFC 9651 §4.2.7: validates a Byte Sequence, whose padding may be missing.
    fn byte_sequence(&mut self) -> Option<BareItem> {
        self.expect(b':')?;
        let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
        let digit_count = self.skip(is_digit).len();
        let padding = self.skip(|byte| byte == b'=').len();
        self.expect(b':')?;
        let is_valid = match digit_count % 4 {
            0 => padding == 0,
            1 => false,
            over => padding == 0 || over + padding == 4,
        };
        is_valid.then_some(BareItem::Other)
    }

    /// RFC 9651 §4.2.10: validates a Display String.
    fn display_string(&mut self) -> Option<BareItem> {
        self.expect(b'%')?;
        self.expect(b'"')?;
        let mut text = Vec::new();
        loop {
            match self.take()? {
                b'"' => return str::from_utf8(&text).is_ok().then_some(BareItem::Other),
                b'%' => text.push(self.hex_digit()? << 4 | self.hex_digit()?),
                byte @ 0x20..=0x7e => text.push(byte),
                _ => return None,
            }
        }
    }

    fn hex_digit(&mut self) -> Option<u8> {
        match self.take()? {
            byte @ b'0'..=b'9' => Some(byte - b'0'),
            byte @ b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        }
    }

    fn take(&mut self) -> Option<u8> {
        let (first, after) = self.rest.split_first()?;
        self.rest = after;
        Some(*first)
    }

    fn expect(&mut self, wanted: u8) -> Option<()> {
        (self.take()? == wanted).then_some(())
    }

    /// Takes the next byte if it equals `wanted`.
    fn accept(&mut self, wanted: u8) -> bool {
        let is_next = self.rest.first() == Some(&wanted);
        if is_next {
            self.take();
        }
        is_next
    }
}

impl<'a> StructuredText<'a> {
    /// Takes one digit or more.
    fn digits(&mut self) -> Option<&'a [u8]> {
        Some(self.skip(|byte| byte.is_ascii_digit())).filter(|digits| !digits.is_empty())
    }

    /// Takes the bytes that belong to a class, up to the first that does not.
    fn skip(&mut self, is_part: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.rest.iter().position(|byte| !is_part(*byte)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at_checked(end).unwrap_or_default();
        self.rest = rest;
        taken
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

//! One field line of a header block, and the properties that follow from its text.
//!
//! The decoder finds these properties once for each text that a client sends. The dynamic table
//! keeps them, so a reference to a line costs no second check.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use forebay_http::fields::FieldId;

/// A decoded line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DecodedLine<'t> {
    pub(crate) name: &'t [u8],
    pub(crate) value: &'t [u8],
    pub(crate) facts: LineFacts,
}

/// The properties of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineFacts {
    pub(crate) name: NameFacts,
    /// Whether the value has no control character except HTAB, and no white space at its ends.
    pub(crate) is_value_valid: bool,
}

/// The properties of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NameFacts {
    pub(crate) kind: NameKind,
    /// The well-known field of this name, ignoring case.
    pub(crate) id: FieldId,
}

/// The place that a name has in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameKind {
    /// The name of a pseudo-field: it begins with a colon.
    Pseudo,
    Field,
    /// The name of a field that concerns one connection of HTTP/1.1 (RFC 9113 §8.2.2).
    Connection,
    /// The name is not a token without upper case.
    Malformed,
}

impl<'t> DecodedLine<'t> {
    /// Returns the line with its properties.
    pub(crate) fn of(name: &'t [u8], value: &'t [u8]) -> DecodedLine<'t> {
        let facts = LineFacts { name: NameFacts::of(name), is_value_valid: is_value_valid(value) };
        DecodedLine { name, value, facts }
    }
}

impl NameFacts {
    /// RFC 9113 §8.2.1: a name is a token without upper case.
    pub(crate) fn of(name: &[u8]) -> NameFacts {
        let id = FieldId::of(name);
        let kind = match name {
            [b':', ..] => NameKind::Pseudo,
            name if id != FieldId::Other => match name == id.name().as_bytes() {
                true => NameKind::of_field(id),
                false => NameKind::Malformed,
            },
            // It belongs to an upgrade that RFC 9113 has removed.
            b"http2-settings" => NameKind::Connection,
            name if is_lower_case_token(name) => NameKind::Field,
            _ => NameKind::Malformed,
        };
        NameFacts { kind, id }
    }
}

impl NameKind {
    /// Returns the kind of a well-known field.
    pub(crate) const fn of_field(id: FieldId) -> NameKind {
        match id {
            FieldId::Connection
            | FieldId::KeepAlive
            | FieldId::ProxyConnection
            | FieldId::TransferEncoding
            | FieldId::Upgrade => NameKind::Connection,
            _ => NameKind::Field,
        }
    }
}

/// RFC 9113 §8.2.1, and RFC 9110 §5.5 for control characters other than NUL, CR and LF.
pub(crate) fn is_value_valid(value: &[u8]) -> bool {
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let has_control = value
        .iter()
        .fold(false, |found, byte| found | ((*byte < b' ') & (*byte != b'\t')) | (*byte == 0x7f));
    !has_control && !is_space(value.first()) && !is_space(value.last())
}

fn is_lower_case_token(name: &[u8]) -> bool {
    let is_valid = |byte: &u8| is_token_byte(*byte) && !byte.is_ascii_uppercase();
    !name.is_empty() && name.iter().all(is_valid)
}

/// Whether a byte is a `tchar` (RFC 9110 §5.6.2).
pub(crate) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.')
        || matches!(byte, b'^'..=b'`' | b'|' | b'~')
}

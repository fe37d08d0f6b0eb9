//! Cookies of a request: `name=value` pairs separated by semicolons (RFC 6265 §4.2).

use std::sync::LazyLock;

use forebay_http::edit::FieldName;

/// The name of the field that holds cookies.
pub(super) fn field_name() -> &'static FieldName {
    static NAME: LazyLock<FieldName> =
        LazyLock::new(|| FieldName::parse(b"Cookie").expect("`Cookie` is a token"));
    &NAME
}

/// The position of one pair in a line.
struct CookiePair {
    /// Offset of the first byte of the name, after white space.
    start: usize,
    value_start: usize,
    /// End of the value, before white space.
    end: usize,
    /// Position of the semicolon, or the end of the line.
    stop: usize,
}

/// Returns the value of the first cookie of this name in a line.
pub(super) fn find<'l>(line: &'l [u8], name: &[u8]) -> Option<&'l [u8]> {
    let pair = locate(line, name)?;
    line.get(pair.value_start..pair.end)
}

fn locate(line: &[u8], name: &[u8]) -> Option<CookiePair> {
    let mut from = 0;
    while from < line.len() {
        let rest = line.get(from..)?;
        let stop = from + rest.iter().position(|byte| *byte == b';').unwrap_or(rest.len());
        if let Some(pair) = pair_at(line, from, stop).filter(|(_, found)| *found == name) {
            return Some(pair.0);
        }
        from = stop + 1;
    }
    None
}

/// Parses the pair between two semicolons. Returns the pair and the name of its cookie.
fn pair_at(line: &[u8], from: usize, stop: usize) -> Option<(CookiePair, &[u8])> {
    let text = line.get(from..stop)?;
    let start = from + (text.len() - text.trim_ascii_start().len());
    let equals = start + line.get(start..stop)?.iter().position(|byte| *byte == b'=')?;
    let name = line.get(start..equals)?.trim_ascii_end();
    let value = line.get(equals + 1..stop)?;
    let value_start = equals + 1 + (value.len() - value.trim_ascii_start().len());
    let end = value_start + value.trim_ascii().len();
    Some((CookiePair { start, value_start, end, stop }, name))
}

/// Whether this is valid as a cookie's value. A semicolon would start another cookie.
pub(super) fn is_value(value: &[u8]) -> bool {
    !value.iter().any(|byte| *byte == b';' || byte.is_ascii_control())
}

/// Writes the line with a new value for this cookie; returns false if the line does not have the
/// cookie.
pub(super) fn write_changed(line: &[u8], name: &[u8], value: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(pair) = locate(line, name) else {
        return false;
    };
    out.extend_from_slice(line.get(..pair.value_start).unwrap_or_default());
    out.extend_from_slice(value);
    out.extend_from_slice(line.get(pair.end..).unwrap_or_default());
    true
}

/// Writes the line with a cookie appended.
pub(super) fn write_added(line: &[u8], name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(line);
    if !line.is_empty() {
        out.push(b';');
    }
    out.extend_from_slice(name);
    out.push(b'=');
    out.extend_from_slice(value);
}

/// Writes the line without the first cookie of this name and its separator; returns false if the
/// line does not have the cookie.
pub(super) fn write_removed(line: &[u8], name: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(pair) = locate(line, name) else {
        return false;
    };
    let before = line.get(..pair.start).unwrap_or_default();
    let behind = line.get(pair.stop + 1..).unwrap_or_default().trim_ascii_start();
    if behind.is_empty() {
        let before = before.trim_ascii_end();
        out.extend_from_slice(before.strip_suffix(b";").unwrap_or(before));
    } else {
        out.extend_from_slice(before);
        out.extend_from_slice(behind);
    }
    true
}

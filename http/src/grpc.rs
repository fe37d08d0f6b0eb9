//! gRPC over HTTP/2, as far as a proxy has to know it: its requests, and errors in its terms
//! (`PROTOCOL-HTTP2.md` and `http-grpc-status-mapping.md` of gRPC).
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use crate::bytes::trim_space;
use crate::fields::{FieldId, Fields};

/// The media type of gRPC. A subtype for the format of messages may follow after `+`.
const MEDIA_TYPE: &[u8] = b"application/grpc";

/// Whether a request with this method and these fields is a call of gRPC, which is always a POST.
/// gRPC-Web, which also works over HTTP/1.1, has another media type.
pub fn is_grpc(method: &[u8], fields: Fields<'_>) -> bool {
    if method != b"POST" {
        return false;
    }
    let Some(value) = fields.first(FieldId::ContentType) else { return false };
    let Some((start, rest)) = trim_space(value).split_at_checked(MEDIA_TYPE.len()) else {
        return false;
    };
    start.eq_ignore_ascii_case(MEDIA_TYPE)
        && matches!(rest.first(), None | Some(b'+' | b';' | b' '))
}

/// Returns the `grpc-status` for an error that has this status in HTTP.
pub fn grpc_status(status: u16) -> u8 {
    const UNKNOWN: u8 = 2;
    const PERMISSION_DENIED: u8 = 7;
    const UNIMPLEMENTED: u8 = 12;
    const INTERNAL: u8 = 13;
    const UNAVAILABLE: u8 = 14;
    const UNAUTHENTICATED: u8 = 16;
    match status {
        400 => INTERNAL,
        401 => UNAUTHENTICATED,
        403 => PERMISSION_DENIED,
        404 => UNIMPLEMENTED,
        429 | 502 | 503 | 504 => UNAVAILABLE,
        _ => UNKNOWN,
    }
}

/// Appends a `grpc-message`, which is percent-encoded.
pub fn write_grpc_message(text: &mut Vec<u8>, message: &str) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |value: u8| DIGITS.get(usize::from(value)).copied().unwrap_or_default();
    for byte in message.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => text.push(byte),
            _ => text.extend([b'%', digit(byte >> 4), digit(byte & 15)]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::FieldBlock;

    #[test]
    fn a_call_is_known_by_its_method_and_its_media_type() {
        for (value, expected) in [
            ("application/grpc", true),
            ("Application/gRPC+proto", true),
            (" application/grpc; charset=utf-8", true),
            ("application/grpc-web", false),
            ("application/grpc-web+proto", false),
            ("application/grp", false),
            ("application/json", false),
        ] {
            let mut block = FieldBlock::new();
            block.push(b"content-type", value.as_bytes());
            assert_eq!(is_grpc(b"POST", block.fields()), expected, "{value}");
            assert!(!is_grpc(b"GET", block.fields()), "{value}");
        }
        assert!(!is_grpc(b"POST", FieldBlock::new().fields()));
    }

    #[test]
    fn errors_have_the_status_that_grpc_gives_them() {
        for (status, expected) in
            [(400, 13), (401, 16), (403, 7), (404, 12), (429, 14), (502, 14), (504, 14), (408, 2)]
        {
            assert_eq!(grpc_status(status), expected, "{status}");
        }
    }

    #[test]
    fn messages_are_percent_encoded() {
        let mut text = Vec::new();
        write_grpc_message(&mut text, "100 % \u{e9}\n");
        assert_eq!(text, b"100 %25 %C3%A9%0A");
    }
}

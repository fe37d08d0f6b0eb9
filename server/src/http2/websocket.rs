//! The key of a WebSocket: an extended CONNECT has none (RFC 8441 §5), but the origin's HTTP/1.1
//! needs one (RFC 6455 §4.1).

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use forebay_http::fields::FieldId;
use forebay_http::request::RequestHeadWriter;

use super::head::ResponseKind;
use crate::worker::Worker;

/// The text of RFC 6455 §1.3 that an origin appends to the key before it hashes it.
const SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

pub(super) fn is_websocket(protocol: &[u8]) -> bool {
    protocol.eq_ignore_ascii_case(b"websocket")
}

/// Adds a key to a request head. Returns the kind of response that answers it.
pub(super) fn write_key(head: &mut RequestHeadWriter<'_>, worker: &Worker) -> ResponseKind {
    // A predictable key is enough: it shows only that the origin has read this request.
    let nonce = [worker.random().to_le_bytes(), worker.random().to_le_bytes()].concat();
    let key = STANDARD.encode(nonce);
    head.field(FieldId::Other, b"sec-websocket-key", key.as_bytes());
    ResponseKind::Tunnel(Some(accept_of(key.as_bytes())))
}

/// RFC 6455 §4.2.2: returns the value of Sec-WebSocket-Accept for a key.
fn accept_of(key: &[u8]) -> [u8; 28] {
    let text = [key, SUFFIX].concat();
    let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &text);
    let mut accept = [0; 28];
    let written = STANDARD.encode_slice(hash.as_ref(), &mut accept);
    debug_assert_eq!(written, Ok(28), "a hash of 20 bytes has 28 characters");
    accept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_the_rfc_has_its_value() {
        assert_eq!(&accept_of(b"dGhlIHNhbXBsZSBub25jZQ=="), b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}

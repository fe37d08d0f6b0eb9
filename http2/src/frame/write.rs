//! The frames that a server sends. Each function appends whole frames to `out`, except
//! [`data_head`]: it appends only the head, and the caller sends the data after it.

use super::flags;
use crate::error::ErrorCode;

const DATA: u8 = 0x0;
const HEADERS: u8 = 0x1;
const RST_STREAM: u8 = 0x3;
const SETTINGS: u8 = 0x4;
const PING: u8 = 0x6;
const GOAWAY: u8 = 0x7;
const WINDOW_UPDATE: u8 = 0x8;
const CONTINUATION: u8 = 0x9;

fn head(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    debug_assert!(length < 1 << 24);
    out.extend_from_slice(&[(length >> 16) as u8, (length >> 8) as u8, length as u8, kind, flags]);
    word(out, stream);
}

fn word(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&[24, 16, 8, 0].map(|shift| (number >> shift) as u8));
}

/// RFC 9113 §6.1: appends the head of a DATA frame without padding.
pub fn data_head(out: &mut Vec<u8>, stream: u32, length: usize, is_last: bool) {
    head(out, length, DATA, if is_last { flags::END_STREAM } else { 0 }, stream);
}

/// RFC 9113 §6.2, §6.10: appends a header block, which is `prefix` and then `block`, in one HEADERS
/// frame or, if it is longer than `frame_bytes_max`, with CONTINUATION frames.
pub fn headers(
    out: &mut Vec<u8>,
    stream: u32,
    (prefix, block): (&[u8], &[u8]),
    is_last: bool,
    frame_bytes_max: usize,
) {
    let end_stream = if is_last { flags::END_STREAM } else { 0 };
    let first_len = block.len().min(frame_bytes_max - prefix.len());
    let (first, mut rest) = block.split_at_checked(first_len).unwrap_or_default();
    let end = |rest: &[u8]| if rest.is_empty() { flags::END_HEADERS } else { 0 };
    head(out, prefix.len() + first.len(), HEADERS, end_stream | end(rest), stream);
    out.extend_from_slice(prefix);
    out.extend_from_slice(first);
    while !rest.is_empty() {
        let (next, after) = rest.split_at_checked(frame_bytes_max).unwrap_or((rest, &[]));
        head(out, next.len(), CONTINUATION, end(after), stream);
        out.extend_from_slice(next);
        rest = after;
    }
}

/// RFC 9113 §6.4: appends a RST_STREAM frame.
pub fn rst_stream(out: &mut Vec<u8>, stream: u32, code: ErrorCode) {
    head(out, 4, RST_STREAM, 0, stream);
    word(out, code.number());
}

/// RFC 9113 §6.5: appends a SETTINGS frame with these identifiers and values.
pub fn settings(out: &mut Vec<u8>, entries: &[(u16, u32)]) {
    head(out, 6 * entries.len(), SETTINGS, 0, 0);
    for (identifier, value) in entries {
        out.extend_from_slice(&[(identifier >> 8) as u8, *identifier as u8]);
        word(out, *value);
    }
}

/// RFC 9113 §6.5.3: appends the acknowledgement of a SETTINGS frame.
pub fn settings_ack(out: &mut Vec<u8>) {
    head(out, 0, SETTINGS, flags::ACK, 0);
}

/// RFC 9113 §6.7: appends a PING frame or the answer to one.
pub fn ping(out: &mut Vec<u8>, data: [u8; 8], is_answer: bool) {
    head(out, 8, PING, if is_answer { flags::ACK } else { 0 }, 0);
    out.extend_from_slice(&data);
}

/// RFC 9113 §6.8: appends a GOAWAY frame. No stream after `last_stream` was processed.
pub fn go_away(out: &mut Vec<u8>, last_stream: u32, code: ErrorCode) {
    head(out, 8, GOAWAY, 0, 0);
    word(out, last_stream);
    word(out, code.number());
}

/// RFC 9113 §6.9: appends a WINDOW_UPDATE frame; stream 0 is the connection.
pub fn window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    head(out, 4, WINDOW_UPDATE, 0, stream);
    word(out, increment);
}

//! Payloads of frames.
//!
//! Each function checks size and stream as RFC 9113 §6 asks. Where the RFC asks for a stream error
//! that would make us reset a stream, the connection ends instead, which RFC 9113 §5.4.1 permits: a
//! client could otherwise use such frames to reset streams at our cost (MadeYouReset).
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use super::{FrameHead, flags};
use crate::error::{ConnectionError, ErrorCode};
use crate::limits::{SETTINGS_ENTRIES_MAX, WINDOW_BYTES_MAX};
use crate::priority::ResponsePriority;

/// Reads a number in network byte order.
pub(super) fn word(bytes: [u8; 4]) -> u32 {
    bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

fn word_at(payload: &[u8], at: usize) -> Option<u32> {
    payload.get(at..)?.first_chunk::<4>().map(|bytes| word(*bytes))
}

/// RFC 9113 §6.1, §6.2: returns the payload without its pad length field and its padding.
pub fn unpadded(head: FrameHead, payload: &[u8]) -> Result<&[u8], ConnectionError> {
    if !head.has(flags::PADDED) {
        return Ok(payload);
    }
    let (padding, rest) =
        payload.split_first().ok_or(ConnectionError::frame_size("a padded frame is empty"))?;
    let length = rest.len().checked_sub(usize::from(*padding));
    let length = length.ok_or(ConnectionError::protocol("padding is longer than its frame"))?;
    Ok(rest.get(..length).unwrap_or_default())
}

/// RFC 9113 §6.2: returns the fragment of a header block in a HEADERS frame.
pub fn headers(head: FrameHead, payload: &[u8]) -> Result<&[u8], ConnectionError> {
    let fragment = unpadded(head, payload)?;
    if !head.has(flags::PRIORITY) {
        return Ok(fragment);
    }
    let (priority, fragment) = fragment
        .split_at_checked(5)
        .ok_or(ConnectionError::frame_size("a HEADERS frame ends within its priority"))?;
    check_dependency(head.stream, priority)?;
    Ok(fragment)
}

/// RFC 9113 §6.3: checks a PRIORITY frame, which has no further effect.
pub fn priority(head: FrameHead, payload: &[u8]) -> Result<(), ConnectionError> {
    on_stream(head, "a PRIORITY frame names no stream")?;
    if payload.len() != 5 {
        return Err(ConnectionError::frame_size(
            "the payload of a PRIORITY frame is not 5 bytes long",
        ));
    }
    check_dependency(head.stream, payload)
}

fn check_dependency(stream: u32, priority: &[u8]) -> Result<(), ConnectionError> {
    match word_at(priority, 0) {
        Some(dependency) if dependency & !(1 << 31) == stream => {
            Err(ConnectionError::protocol("a stream depends on itself"))
        }
        _ => Ok(()),
    }
}

/// RFC 9113 §6.4: returns the code of a RST_STREAM frame.
pub fn rst_stream(head: FrameHead, payload: &[u8]) -> Result<ErrorCode, ConnectionError> {
    on_stream(head, "a RST_STREAM frame names no stream")?;
    if payload.len() != 4 {
        return Err(ConnectionError::frame_size(
            "the payload of a RST_STREAM frame is not 4 bytes long",
        ));
    }
    Ok(ErrorCode::of(word_at(payload, 0).unwrap_or_default()))
}

/// RFC 9113 §6.5: returns the entries of a SETTINGS frame, identifier and value.
pub fn settings(
    head: FrameHead,
    payload: &[u8],
) -> Result<impl Iterator<Item = (u16, u32)>, ConnectionError> {
    on_connection(head, "a SETTINGS frame names a stream")?;
    let (entries, rest) = payload.as_chunks::<6>();
    if !rest.is_empty() {
        return Err(ConnectionError::frame_size("a SETTINGS frame ends within an entry"));
    }
    if head.has(flags::ACK) && !payload.is_empty() {
        return Err(ConnectionError::frame_size("an acknowledgement of settings has entries"));
    }
    if entries.len() > SETTINGS_ENTRIES_MAX {
        return Err(ConnectionError::calm("a SETTINGS frame has too many entries"));
    }
    Ok(entries
        .iter()
        .map(|[high, low, value @ ..]| (u16::from(*high) << 8 | u16::from(*low), word(*value))))
}

/// RFC 9113 §6.7: returns the data of a PING frame.
pub fn ping(head: FrameHead, payload: &[u8]) -> Result<[u8; 8], ConnectionError> {
    on_connection(head, "a PING frame names a stream")?;
    <[u8; 8]>::try_from(payload)
        .map_err(|_| ConnectionError::frame_size("the payload of a PING frame is not 8 bytes long"))
}

/// RFC 9113 §6.8: returns the code of a GOAWAY frame.
pub fn go_away(head: FrameHead, payload: &[u8]) -> Result<ErrorCode, ConnectionError> {
    on_connection(head, "a GOAWAY frame names a stream")?;
    let code = word_at(payload, 4);
    code.map(ErrorCode::of).ok_or(ConnectionError::frame_size("a GOAWAY frame is too short"))
}

/// RFC 9113 §6.9: returns the increment of a WINDOW_UPDATE frame.
pub fn window_update(payload: &[u8]) -> Result<u32, ConnectionError> {
    if payload.len() != 4 {
        return Err(ConnectionError::frame_size(
            "the payload of a WINDOW_UPDATE frame is not 4 bytes long",
        ));
    }
    match word_at(payload, 0).unwrap_or_default() & WINDOW_BYTES_MAX {
        0 => Err(ConnectionError::protocol("a WINDOW_UPDATE frame has an increment of 0")),
        increment => Ok(increment),
    }
}

/// RFC 9218 §7.1: returns stream and priority of a PRIORITY_UPDATE frame.
pub fn priority_update(
    head: FrameHead,
    payload: &[u8],
) -> Result<(u32, ResponsePriority), ConnectionError> {
    on_connection(head, "a PRIORITY_UPDATE frame is sent on a stream")?;
    let stream = word_at(payload, 0)
        .ok_or(ConnectionError::frame_size("a PRIORITY_UPDATE frame is too short"))?
        & !(1 << 31);
    if stream.is_multiple_of(2) {
        return Err(ConnectionError::protocol(
            "a PRIORITY_UPDATE frame names no stream of a request",
        ));
    }
    Ok((stream, ResponsePriority::parse(payload.get(4..).unwrap_or_default())))
}

/// Checks that the frame concerns the connection.
fn on_connection(head: FrameHead, reason: &'static str) -> Result<(), ConnectionError> {
    if head.stream == 0 { Ok(()) } else { Err(ConnectionError::protocol(reason)) }
}

/// Checks that the frame concerns a stream.
pub fn on_stream(head: FrameHead, reason: &'static str) -> Result<(), ConnectionError> {
    if head.stream != 0 { Ok(()) } else { Err(ConnectionError::protocol(reason)) }
}

//! Settings (RFC 9113 §6.5.2, RFC 8441 §3, RFC 9218 §2.1).

use crate::error::{ConnectionError, ErrorCode};
use crate::frame::write;
use crate::hpack::TABLE_BYTES_MAX;
use crate::limits::{ConnectionLimits, WINDOW_BYTES_MAX, WINDOW_BYTES_MIN};

const HEADER_TABLE_SIZE: u16 = 0x1;
const ENABLE_PUSH: u16 = 0x2;
const MAX_CONCURRENT_STREAMS: u16 = 0x3;
const INITIAL_WINDOW_SIZE: u16 = 0x4;
const MAX_FRAME_SIZE: u16 = 0x5;
const MAX_HEADER_LIST_SIZE: u16 = 0x6;
const ENABLE_CONNECT_PROTOCOL: u16 = 0x8;
const NO_RFC7540_PRIORITIES: u16 = 0x9;

/// Appends our SETTINGS frame, and the WINDOW_UPDATE that enlarges the connection's window.
pub(crate) fn write_ours(out: &mut Vec<u8>, limits: &ConnectionLimits) {
    let entries = [
        (MAX_CONCURRENT_STREAMS, u32::from(limits.streams_max)),
        (INITIAL_WINDOW_SIZE, limits.stream_window_bytes),
        (MAX_HEADER_LIST_SIZE, limits.list.list_bytes_max),
        (NO_RFC7540_PRIORITIES, 1),
        (ENABLE_CONNECT_PROTOCOL, 1),
    ];
    // The last entry is sent only if extended CONNECT is enabled, because RFC 8441 §3 forbids
    // withdrawing it.
    let count = entries.len() - usize::from(!limits.extended_connect);
    write::settings(out, entries.get(..count).unwrap_or_default());
    let increment = limits.connection_window_bytes - WINDOW_BYTES_MIN;
    if increment > 0 {
        write::window_update(out, 0, increment);
    }
}

/// The settings of the client that concern us.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientSettings {
    pub(crate) initial_window_bytes: u32,
    pub(crate) frame_bytes_max: u32,
    pub(crate) table_bytes: u32,
}

impl Default for ClientSettings {
    fn default() -> ClientSettings {
        ClientSettings {
            initial_window_bytes: WINDOW_BYTES_MIN,
            frame_bytes_max: 16_384,
            table_bytes: TABLE_BYTES_MAX as u32,
        }
    }
}

impl ClientSettings {
    /// Applies one entry. RFC 9113 §6.5.2: an unknown identifier is ignored.
    pub(crate) fn apply(&mut self, identifier: u16, value: u32) -> Result<(), ConnectionError> {
        match identifier {
            HEADER_TABLE_SIZE => self.table_bytes = value,
            INITIAL_WINDOW_SIZE if value > WINDOW_BYTES_MAX => {
                let reason = "the initial window exceeds 2^31-1";
                return Err(ConnectionError::new(ErrorCode::FlowControlError, reason));
            }
            INITIAL_WINDOW_SIZE => self.initial_window_bytes = value,
            MAX_FRAME_SIZE if !(1 << 14..1 << 24).contains(&value) => {
                return Err(ConnectionError::protocol("the largest frame is out of range"));
            }
            MAX_FRAME_SIZE => self.frame_bytes_max = value,
            ENABLE_PUSH | ENABLE_CONNECT_PROTOCOL | NO_RFC7540_PRIORITIES if value > 1 => {
                return Err(ConnectionError::protocol("a setting is neither 0 nor 1"));
            }
            _ => {}
        }
        Ok(())
    }
}

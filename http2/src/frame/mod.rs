//! Frames (RFC 9113 §4, §6; RFC 9218 §7).
//!
//! [`FrameHead::parse`] reads the nine bytes in front of a frame, `read` checks and reads payloads,
//! and `write` writes the frames that a server sends.

pub mod read;
pub mod write;

/// Length of a frame's head.
pub const HEAD_BYTES: usize = 9;

/// The bytes that a client sends first (RFC 9113 §3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The type of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// A part of a body.
    Data,
    /// The start of a header block.
    Headers,
    /// A priority in the deprecated form of RFC 7540; only its size is checked.
    Priority,
    /// The abrupt end of a stream.
    RstStream,
    /// Settings of the peer, or an acknowledgement.
    Settings,
    /// A promise, which no client may send.
    PushPromise,
    /// A ping or its answer.
    Ping,
    /// The end of the connection.
    GoAway,
    /// An increment of a window.
    WindowUpdate,
    /// The continuation of a header block.
    Continuation,
    /// A priority (RFC 9218 §7.1).
    PriorityUpdate,
    /// Any other type. The frame is skipped (RFC 9113 §4.1).
    Unknown(u8),
}

impl FrameKind {
    fn of(number: u8) -> FrameKind {
        match number {
            0x0 => FrameKind::Data,
            0x1 => FrameKind::Headers,
            0x2 => FrameKind::Priority,
            0x3 => FrameKind::RstStream,
            0x4 => FrameKind::Settings,
            0x5 => FrameKind::PushPromise,
            0x6 => FrameKind::Ping,
            0x7 => FrameKind::GoAway,
            0x8 => FrameKind::WindowUpdate,
            0x9 => FrameKind::Continuation,
            0x10 => FrameKind::PriorityUpdate,
            other => FrameKind::Unknown(other),
        }
    }
}

/// Flags of frames. ACK and END_STREAM are the same bit, for different types.
pub mod flags {
    /// The frame ends the sender's side of the stream.
    pub const END_STREAM: u8 = 0x1;
    /// The frame acknowledges SETTINGS or a PING.
    pub const ACK: u8 = 0x1;
    /// The frame ends the header block.
    pub const END_HEADERS: u8 = 0x4;
    /// The payload begins with the length of its padding.
    pub const PADDED: u8 = 0x8;
    /// The payload begins with a priority of RFC 7540.
    pub const PRIORITY: u8 = 0x20;
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// Length of the payload in bytes.
    pub length: u32,
    /// The type.
    pub kind: FrameKind,
    /// The flags; those that the type does not define are ignored.
    pub flags: u8,
    /// The stream, without the reserved bit; 0 is the connection.
    pub stream: u32,
}

impl FrameHead {
    /// Parses the head at the start of `bytes`; `None` if it is not whole.
    pub fn parse(bytes: &[u8]) -> Option<FrameHead> {
        let [high, middle, low, kind, flags, rest @ ..] = bytes.first_chunk::<HEAD_BYTES>()?;
        let length = u32::from(*high) << 16 | u32::from(*middle) << 8 | u32::from(*low);
        let kind = FrameKind::of(*kind);
        Some(FrameHead { length, kind, flags: *flags, stream: read::word(*rest) & !(1 << 31) })
    }

    /// Whether a flag is set.
    pub fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Length of the whole frame.
    pub fn frame_bytes(self) -> usize {
        HEAD_BYTES + self.length as usize
    }
}

#[cfg(test)]
mod tests;

//! The limits of a connection. Each limit has its reason. Some of them are settings of the server.

use forebay_http::target::Scheme;

use crate::field_list::ListLimits;

/// Largest frame that a client may send, in bytes: the default of RFC 9113 §6.5.2, which need not
/// be announced. Larger frames would only delay other streams.
pub const FRAME_BYTES_MAX: u32 = 16_384;

/// Largest number of streams that a connection has at a time. The send schedule has one bit for
/// each stream in words of 128 bits.
pub const STREAMS_MAX: u16 = 128;

/// Smallest receive window of a stream and of a connection: the value that RFC 9113 §6.9.2 lets a
/// client assume until it has read our settings.
pub const WINDOW_BYTES_MIN: u32 = 65_535;

/// Largest window (RFC 9113 §6.9.1).
pub const WINDOW_BYTES_MAX: u32 = (1 << 31) - 1;

/// Largest number of CONTINUATION frames in a header block. With frames of 16 KiB, a list of the
/// largest permitted size needs two; the others are for clients that send small frames.
pub const CONTINUATIONS_MAX: u16 = 8;

/// Largest number of entries in a SETTINGS frame. RFC 9113 defines six settings, and other RFCs a
/// few more.
pub const SETTINGS_ENTRIES_MAX: usize = 32;

/// No input is read while this many bytes of output wait, because each frame may cause an answer.
/// This bounds every flood whose frames are answered (CVE-2019-9512, CVE-2019-9515).
pub const OUTPUT_BYTES_MAX: usize = 65_536;

/// Largest number of priorities that are kept for streams that are not open yet (RFC 9218 §7.1).
pub const EARLY_PRIORITIES_MAX: usize = 16;

/// Largest number of kept identifiers of streams that we have reset. Frames of such a stream may
/// still arrive, and are not an error of the client.
pub const RESETS_KEPT_MAX: usize = 128;

/// The limits and settings of a connection.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Largest number of streams at a time, up to [`STREAMS_MAX`]. A stream that the client has
    /// reset counts until its work has ended (CVE-2023-44487).
    pub streams_max: u16,
    /// Largest number of bytes of one request body that the client may send ahead.
    pub stream_window_bytes: u32,
    /// Largest number of bytes of all request bodies together that the client may send ahead.
    pub connection_window_bytes: u32,
    /// The limits of the field lines of a request, and of its trailers.
    pub list: ListLimits,
    /// The size of the budget of glitches, in the unit of their costs; see [`crate::glitch`].
    pub glitches_max: u32,
    /// Time limit in milliseconds: for the preface with the first SETTINGS, for each header block,
    /// and for the acknowledgement of our settings.
    pub head_ms_max: u32,
    /// The scheme of the connection, which each request must name.
    pub scheme: Scheme,
    /// Whether clients may use the extended CONNECT of RFC 8441.
    pub extended_connect: bool,
}

impl Default for ConnectionLimits {
    fn default() -> ConnectionLimits {
        ConnectionLimits {
            streams_max: STREAMS_MAX,
            stream_window_bytes: WINDOW_BYTES_MIN,
            connection_window_bytes: 4 * WINDOW_BYTES_MIN,
            list: ListLimits { list_bytes_max: 32_768, line_count_max: 128 },
            glitches_max: 10_000,
            head_ms_max: 10_000,
            scheme: Scheme::Http,
            extended_connect: false,
        }
    }
}

impl ConnectionLimits {
    /// Largest size of an encoded header block. Encoding seldom enlarges a list. The size leaves
    /// room for a list that is a little too large, so that its request is refused without ending
    /// the connection.
    pub(crate) fn block_bytes_max(&self) -> usize {
        2 * self.list.list_bytes_max as usize
    }

    /// Returns the limits with each value clamped to its valid range.
    pub(crate) fn clamped(self) -> ConnectionLimits {
        ConnectionLimits {
            streams_max: self.streams_max.clamp(1, STREAMS_MAX),
            stream_window_bytes: self.stream_window_bytes.clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX),
            connection_window_bytes: self
                .connection_window_bytes
                .clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX),
            ..self
        }
    }
}

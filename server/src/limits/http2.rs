//! Limits of HTTP/2 connections to origins.

/// Exchanges that share one connection to an origin, if the origin permits as many. With more, the
/// end of a connection would concern too many clients; further exchanges open another one.
pub(crate) const HTTP2_STREAMS_MAX: u32 = 100;

/// Bytes that an origin may send on a stream before its exchange has read them: enough for 25 MB/s
/// to an origin that is 10 ms away. An exchange over HTTP/1.1 has half of this memory, and the
/// kernel's buffers. A connection may receive as many bytes for each of its streams, so
/// that no stream stops another one.
pub(crate) const HTTP2_STREAM_WINDOW_BYTES: u32 = 256 << 10;

/// The budget of a connection for frames of less than 256 bytes that wait for slow clients: each
/// counts for the bytes that it lacks. The crate ends a connection that exceeds it. The budget
/// suffices if the windows of all streams are full of frames of 52 bytes, or one window is full of
/// frames of one byte.
pub(crate) const HTTP2_FRAME_BUDGET: usize =
    4 * HTTP2_STREAM_WINDOW_BYTES as usize * HTTP2_STREAMS_MAX as usize;

/// Bytes of a head or of trailers that the crate reads, as many as a stream may send otherwise. The
/// crate leaves out the rest of trailers from the field on that exceeds this limit.
pub(crate) const HTTP2_FIELDS_BYTES_MAX: u32 = HTTP2_STREAM_WINDOW_BYTES;

/// Bytes of the encoded form of trailers. Huffman codes have at least five bits, so a field of such
/// trailers has at most 8/5 as many bytes. If the crate leaves out such a field, the fields before
/// it have more bytes than `ORIGIN_LIMITS` permits: trailers of which a part is missing never look
/// complete.
pub(crate) const HTTP2_BLOCK_BYTES_MAX: usize = 96 << 10;

/// Bytes of a request's body that wait on a stream until they are sent.
pub(crate) const HTTP2_SEND_BYTES_MAX: usize = 64 << 10;

/// Bytes of a request's body that are kept until the origin answers, so that a request which the
/// origin refuses can be sent again: the default of `upload_buffer_bytes`, and one further piece.
pub(crate) const HTTP2_KEPT_BYTES_MAX: usize = 128 << 10;

/// Bytes for which a piece of a request's body counts at least while it is kept, for the memory
/// that it takes beside its bytes.
pub(crate) const HTTP2_KEPT_PIECE_BYTES_MIN: usize = 256;

/// Requests that the origin refused are sent to the same origin at most this many times more. The
/// first refusal may be a race with the origin's settings or its GOAWAY, so the first repeat is
/// free; the second takes a retry from the budget.
pub(crate) const HTTP2_REFUSALS_MAX: u32 = 2;

/// Streams that may be reset on a connection before it takes no further requests. An origin counts
/// resets as an attack at some point, and ends the connection with all its streams; a client that
/// requests and leaves must not cause this for others.
pub(crate) const HTTP2_RESETS_MAX: u32 = 100;

/// If nothing has arrived on a connection for this long when an exchange is given up, the
/// connection may be dead, and takes no further requests.
pub(crate) const HTTP2_SILENT_MS: u64 = 1_000;

/// Silence of the origin, while exchanges wait for it, after which a PING asks whether it is still
/// there. gRPC servers end connections with more PINGs than one in five minutes. Streams have
/// shorter limits of their own, unless `origin_idle_ms_max` is raised.
pub(crate) const HTTP2_PING_MS: u64 = 310_000;

/// Time in which a connection sends what it still has to send once no exchange needs it. An origin
/// that reads nothing would keep it open otherwise.
pub(crate) const HTTP2_CLOSE_MS_MAX: u64 = 10_000;

/// Time for the answer to a PING.
pub(crate) const HTTP2_PONG_MS_MAX: u64 = 10_000;

const _: () = {
    let hidden_bytes_max = HTTP2_BLOCK_BYTES_MAX as u32 * 8 / 5;
    assert!(HTTP2_FIELDS_BYTES_MAX - hidden_bytes_max > super::ORIGIN_LIMITS.head_bytes_max);
};

//! Limits of HTTP/2 connections of clients, and of their streams.

/// Bytes of a response that one stream of an HTTP/2 connection holds before its task waits: two
/// DATA frames. Further bytes stay where they are stored.
pub(crate) const STREAM_RESPONSE_BYTES_MAX: usize = 32 << 10;

/// The limit that replaces [`STREAM_RESPONSE_BYTES_MAX`] once the streams of a connection hold
/// `connection_bytes_max`. Each stream still makes progress, and 128 streams hold 512 KiB.
pub(crate) const STREAM_RESPONSE_BYTES_MIN: usize = 4 << 10;

/// The limit that replaces [`STREAM_RESPONSE_BYTES_MAX`] while the output of all connections of a
/// worker takes `output_bytes_max`: one DATA frame. A connection also keeps only so many bytes of
/// whole responses then, and sends only so many bytes of DATA in one write.
pub(crate) const STREAM_RESPONSE_BYTES_SHARE: usize = 16 << 10;

/// Parts of stored bodies that the responses of one HTTP/2 connection borrow while they wait for
/// the client's windows. Further responses are copied in pieces, as the client reads them.
pub(crate) const HTTP2_LENT_PIECES_MAX: usize = 32;

/// Send queues whose memory an HTTP/2 connection keeps for its next responses.
pub(crate) const HTTP2_QUEUES_KEPT_MAX: usize = 16;

/// Bytes of a response head that is not complete yet: the largest head of an origin, plus the lines
/// that this server adds.
pub(crate) const STREAM_HEAD_BYTES_MAX: usize = 128 << 10;

/// Bytes of unprocessed input at which an HTTP/2 connection stops reading. A whole frame fits.
pub(crate) const HTTP2_INPUT_BYTES_MAX: usize = 32 << 10;

/// Time for which an idle HTTP/2 connection keeps the memory of its streams, because browsers often
/// send their next request within it.
pub(crate) const HTTP2_MEMORY_KEPT_MS: u64 = 1_000;

/// Memory for output that a worker keeps for its HTTP/2 connections.
pub(crate) const HTTP2_OUTPUT_BYTES_KEPT_MAX: usize = 256 << 10;

/// Requests that one HTTP/2 connection begins before other connections get their turn: about 200
/// microseconds of hits.
pub(crate) const HTTP2_REQUESTS_PER_TURN_MAX: u32 = 128;

/// How many times one HTTP/2 connection reads and writes before other connections get their turn.
pub(crate) const HTTP2_ROUNDS_MAX: usize = 8;

//! Limits of languages and of the compression of stored responses.

/// Media types of a route that are compressed. The type of each response is compared with all of
/// them when the response is stored.
pub(crate) const MEDIA_TYPES_MAX: usize = 128;

/// Bytes that a worker gives to an encoder in one turn of its event loop. zstd and br collect up to
/// 128 KiB and compress them in one turn, so a turn may take longer than these bytes need.
pub(crate) const COMPRESS_TURN_BYTES: usize = 4 << 10;

/// How long an encoder may hold back bytes that have arrived. Each flush makes the compressed body
/// longer.
pub(crate) const COMPRESS_FLUSH_MS: u64 = 100;

/// Bytes of a piece that a decoder returns: about 50 µs of work for gzip. In each turn of its event
/// loop, a worker makes one piece. zstd decodes a whole block first, at most 128 KiB, and br the
/// rest of its window, at most 16 MiB. Windows of br above 4 MiB are not refused, because the tool
/// `brotli` makes them for files above 4 MiB.
pub(crate) const DECOMPRESS_PIECE_BYTES: usize = 16 << 10;

/// How many times as long as the compressed body the decoded one may be. Text and logs shrink to a
/// tenth or a fiftieth; a body that shrank to less was probably made to exhaust its readers.
pub(crate) const DECOMPRESS_RATIO_MAX: u64 = 200;

/// Bytes that may be decoded whatever the ratio: a short body may be an empty form or a row of
/// zeros, and so few bytes do no harm.
pub(crate) const DECOMPRESS_BYTES_FREE: u64 = 4 << 20;

/// Languages of a route. Each language range of a request is compared with all of them.
pub(crate) const LANGUAGES_MAX: usize = 64;

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

/// Languages of a route. Each language range of a request is compared with all of them.
pub(crate) const LANGUAGES_MAX: usize = 64;

//! Limits of languages and of the compression of stored responses.

/// Media types of a route that are compressed. The type of each response is compared with all of
/// them when the response is stored.
pub(crate) const MEDIA_TYPES_MAX: usize = 128;

/// Bytes that a worker gives to an encoder in one turn of its event loop. zstd and br work in
/// blocks of up to 128 KiB. So a turn may take a millisecond, but a few tenths of one on average.
pub(crate) const COMPRESS_TURN_BYTES: usize = 16 << 10;

/// How long an origin may pause within a body before its bytes that the encoder holds back are sent
/// to clients. A flush makes the compressed body longer.
pub(crate) const COMPRESS_FLUSH_MS: u64 = 100;

/// Languages of a route. Each language range of a request is compared with all of them.
pub(crate) const LANGUAGES_MAX: usize = 64;

//! Limits of the addresses that proxies state, of requests, and of answers that routes give.

/// Addresses of `X-Forwarded-For` that are read, from the last one on. A request passes few
/// proxies; each address is compared with the networks of `trusted_proxies`.
pub(crate) const FORWARDED_HOPS_MAX: usize = 32;

/// Longest value of `redirect`: as long as a URL that every browser accepts.
pub(crate) const REDIRECT_BYTES_MAX: usize = 2 << 10;

/// Longest body in `respond`. It is copied into the send queue of each request that gets it.
pub(crate) const FIXED_ANSWER_BYTES_MAX: usize = 64 << 10;

/// Longest value of `respond_type`; registered types have at most 127 characters on each side.
pub(crate) const MEDIA_TYPE_BYTES_MAX: usize = 255;

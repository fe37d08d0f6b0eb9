//! Limits of the addresses that proxies state, and of requests.

/// Addresses of `X-Forwarded-For` that are read, from the last one on. A request passes few
/// proxies; each address is compared with the networks of `trusted_proxies`.
pub(crate) const FORWARDED_HOPS_MAX: usize = 32;

//! Limits of routes and of their regular expressions.

/// Routes of one site. Every request is compared with the routes until one matches.
pub(crate) const ROUTES_PER_SITE_MAX: usize = 256;

/// Elements of each condition of a route. A request for one of its paths is compared with all.
pub(crate) const ROUTE_CONDITIONS_MAX: usize = 16;

/// Bytes of `origin_add_prefix`. With it, the longest target that is accepted by default
/// stays far below the 64 KiB that the HTTP library can send.
pub(crate) const ADDED_PREFIX_BYTES_MAX: usize = 1024;

/// Routes of one site with a regular expression. Each reading of a path is compared with them until
/// one matches: up to [`PATH_READINGS_BYTES_MAX`](super::PATH_READINGS_BYTES_MAX) bytes with each.
pub(crate) const PATH_REGEXES_PER_SITE_MAX: usize = 32;

/// Routes with a regular expression of all sites together. Each worker has an automaton of up to
/// twice [`PATH_REGEX_CACHE_BYTES_MAX`] for each of them.
pub(crate) const PATH_REGEXES_MAX: usize = 1024;

/// Largest size in bytes of a direction of the lazily built automaton of a route's regular
/// expression. Requests extend the automaton; when it exceeds this size, it is cleared and built
/// again.
pub(crate) const PATH_REGEX_CACHE_BYTES_MAX: usize = 64 << 10;

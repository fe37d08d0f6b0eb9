//! Caching policy: RFC 9111, and the parts of RFC 9110 and RFC 9211 that a cache implements.
//!
//! Every function is a pure decision over field lines and plain values. Time is an argument, in
//! Unix seconds. Nothing here does I/O or reads a clock, and nothing allocates when a stored
//! response answers a request; storing and validating may allocate.
//!
//! Invariants:
//! - No input makes these functions panic. Input that cannot be parsed is interpreted so that less
//!   is stored and reused.
//! - A [`StoredMeta`](meta::StoredMeta) holds everything that a hit needs, so a hit parses no
//!   stored field.
//!
//! | decision | used by | file |
//! |---|---|---|
//! | meaning of Cache-Control and Pragma | all steps below | [`directives`] |
//! | directives for this cache alone | store | [`targeted`] |
//! | whether to store a response | store | [`storable`] |
//! | freshness and age | store | [`freshness`] |
//! | facts that a hit needs | store, lookup | [`meta`] |
//! | whether a stored response answers a request | lookup | [`reuse`] |
//! | whether a stale response answers a request | lookup, fetch | [`stale`] |
//! | 304 to the client, 304 from the origin | deliver, store | [`conditional`], [`update`] |
//! | parts of the body to send | deliver | [`range`], [`multipart`] |
//! | preconditions and parts of a file | fetch | [`representation`] |
//! | links for a 103 | flow | [`early_hints`] |
//! | names of the request's cookies, and the cookies that are kept | key, lookup | [`cookies`] |
//! | normal form of the query | key | [`query`] |
//! | normal form of Accept-Language | key | [`accept_language`] |
//! | normal form of Accept-Encoding | lookup, fetch | [`accept_encoding`] |
//! | whether to compress a response | store | [`compression`] |
//! | variant to use | lookup, store | [`vary`] |
//! | URIs that an unsafe request invalidates | store | [`invalidate`] |
//! | tags of a response, and tags that it invalidates | store | [`tags`] |
//! | contents of Cache-Status | deliver | [`cache_status`] |
//! | words for reasons | lookup, store, fetch | [`reason`] |
#![deny(clippy::indexing_slicing)]

pub mod accept_encoding;
pub mod accept_language;
pub mod cache_status;
pub mod compression;
pub mod conditional;
pub mod cookies;
pub mod decompression;
pub mod directives;
pub mod early_hints;
pub mod etag;
pub mod exchange;
pub mod freshness;
pub mod invalidate;
pub mod meta;
pub mod multipart;
pub mod query;
pub mod range;
pub mod reason;
pub mod representation;
pub mod reuse;
pub mod stale;
pub mod storable;
pub mod tags;
pub mod targeted;
pub mod update;
pub mod vary;

mod lists;
mod structured;
mod weight;

#[cfg(test)]
#[allow(
    clippy::indexing_slicing,
    clippy::too_many_lines,
    reason = "a table has a line or more for each case, and a test may panic"
)]
mod tests;

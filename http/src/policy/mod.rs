//! Caching policy: RFC 9111, with the parts of RFC 9110 and RFC 9211 that a cache acts on.
//!
//! Every function is a pure decision over field lines and plain values. Time is an argument, in
//! Unix seconds. Nothing here does I/O or reads a clock, and nothing allocates when a stored
//! response answers a request; storing and validating may allocate.
//!
//! Invariants:
//! - No input makes these functions panic; what cannot be parsed is read the way that keeps less
//!   and reuses less.
//! - A [`StoredMeta`](meta::StoredMeta) holds everything that a hit needs, so a hit parses no
//!   stored field.
//!
//! | question | asked by | file |
//! |---|---|---|
//! | what do Cache-Control and Pragma say? | request and response | [`directives`] |
//! | may it be kept, and is it worth it? | store | [`storable`] |
//! | how long is it fresh, how old is it? | store | [`freshness`] |
//! | what must a hit know? | store, lookup | [`meta`] |
//! | may it answer this request? | lookup | [`reuse`] |
//! | 304 to the client, 304 from the origin? | serve, store | [`conditional`], [`update`] |
//! | which part of the body? | serve | [`range`] |
//! | which variant? | lookup, store | [`vary`] |
//! | what does an unsafe request drop? | who forwards it | [`invalidate`] |
//! | under which tags is it kept, and which does an answer drop? | store, who forwards | [`tags`] |
//! | what do we tell about it? | serve | [`cache_status`] |
#![deny(clippy::indexing_slicing)]

pub mod cache_status;
pub mod conditional;
pub mod directives;
pub mod etag;
pub mod exchange;
pub mod freshness;
pub mod invalidate;
pub mod meta;
pub mod range;
pub mod reuse;
pub mod storable;
pub mod tags;
pub mod update;
pub mod vary;

mod lists;
mod strings;

#[cfg(test)]
#[allow(
    clippy::indexing_slicing,
    clippy::too_many_lines,
    reason = "a table has a line or more for each case, and a test may panic"
)]
mod tests;

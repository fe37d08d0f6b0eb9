//! HTTP messages (RFC 9110, 9112) and caching policy (RFC 9111).
//!
//! All functions are pure functions over bytes. This crate does no I/O, starts no thread, reads no
//! clock (time is an argument) and does not know the cache.
#![forbid(unsafe_code)]

pub mod authority;
mod bytes;
pub mod chunked;
pub mod date;
pub mod edit;
pub mod error;
mod field_id;
pub mod fields;
pub mod framing;
pub mod grpc;
pub mod hop;
mod lines;
pub mod path;
pub mod policy;
pub mod request;
pub mod response;
mod start_line;
pub mod target;
pub mod write;

#[cfg(test)]
mod testing;

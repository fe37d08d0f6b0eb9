//! The server side of HTTP/2 (RFC 9113), with HPACK (RFC 7541) and priorities (RFC 9218).
//!
//! All functions are pure functions over bytes. This crate does no I/O, starts no thread, reads no
//! clock (time is an argument) and knows neither the cache nor the server. Begin with
//! [`connection::ServerConnection`]: input goes in, events come out, and output is appended to a
//! buffer of the caller.
//!
//! # From a request to the server's request head
//!
//! A request is delivered as a [`request::CheckedRequest`], which keeps the rules of RFC 9113 §8.
//! Its method `write_http1_head` writes it as an HTTP/1.1 head, with the parts that the parser of
//! `forebay_http::request` would find in it. So both protocols share the code that decides about
//! target, host and framing. No line of a client can be read as two lines, or as the end of the
//! head: the tests and the fuzzers parse each head that is written, and compare the parts.
#![forbid(unsafe_code)]

pub mod connection;
pub mod error;
mod field_list;
pub mod flow_control;
pub mod frame;
pub mod glitch;
pub mod hpack;
pub mod limits;
mod line;
pub mod priority;
pub mod request;
mod settings;
mod streams;

pub use field_list::{FieldList, ListLimits};
pub use streams::StreamKey;

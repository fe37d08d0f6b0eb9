//! HTTP/2 connections of clients, by prior knowledge (RFC 9113 §3.3).
//!
//! `forebay_http2` is the protocol. Each stream is a connection of HTTP/1.1 in memory: `pipe.rs`
//! is its transport, and the ordinary task of a connection serves it. So a request over HTTP/2
//! takes the same steps as any other, and each limit of a request holds for it. `answer.rs` turns
//! the response on the pipe into frames; `serve.rs` is the loop that moves bytes between the
//! client's connection and the pipes.

mod answer;
mod pipe;
mod serve;

pub(crate) use serve::{is_preface, serve};

#[cfg(test)]
mod tests;

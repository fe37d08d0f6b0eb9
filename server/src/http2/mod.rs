//! HTTP/2 connections of clients, over TLS by ALPN, or without it by prior knowledge (RFC 9113 §3.2
//! and §3.3).
//!
//! The crate `forebay_http2` implements the protocol. Each stream is an HTTP/1.1 connection in
//! memory: `pipe.rs` is its transport, and the ordinary connection task serves it. So a request
//! over HTTP/2 takes the same steps and has the same limits as any other request. The TLS
//! information of a stream is that of its connection. `answer.rs` turns the response on the pipe
//! into frames; `serve.rs` is the loop that moves bytes between the client's connection and the
//! pipes.

mod answer;
mod handler;
mod head;
mod pipe;
mod serve;
mod streams;
mod whole;

pub(crate) use serve::{is_preface, serve};

#[cfg(test)]
mod tests;

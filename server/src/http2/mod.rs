//! HTTP/2 connections of clients, over TLS by ALPN, or without it by prior knowledge (RFC 9113 §3.2
//! and §3.3).
//!
//! The crate `forebay_http2` implements the protocol. Each stream is an HTTP/1.1 connection in
//! memory, whose transport is in `pipe.rs`. So a request over HTTP/2 takes the same steps and has
//! the same limits as any other request. The TLS information of a stream is that of its connection.
//!
//! `serve.rs` is the loop that moves bytes between the client's connection and the pipes.
//! `stream_task.rs` answers the requests: it runs in the connection's own task until one has to
//! wait. `whole.rs` turns a response that is ready at once into frames, and `answer.rs` a response
//! that arrives on the pipe.

mod answer;
mod byte_queue;
mod glitch_counts;
mod head;
mod memory;
mod pipe;
mod serve;
mod shared;
mod stream_head;
mod stream_task;
mod streams;
mod websocket;
mod whole;

pub(crate) use memory::TurnMemory;
pub(crate) use serve::serve;

/// Whether the input of a connection begins with the first line of the HTTP/2 preface (RFC 9113
/// §3.4).
pub(crate) fn is_preface(input: &[u8]) -> bool {
    input.starts_with(b"PRI * HTTP/2.0\r\n")
}

#[cfg(test)]
mod tests;

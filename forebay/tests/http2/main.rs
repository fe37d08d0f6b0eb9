//! Clients over HTTP/2, without TLS and over TLS.

mod clear;
mod client_certificates;
mod common;
mod interim;
mod tls;
mod websocket;

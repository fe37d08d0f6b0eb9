//! HTTP/2 to origins (RFC 9113), over the crate `h2`.
//!
//! The requests of all clients share the connections to an origin ([`SharedConnection`]); each
//! exchange takes one of its streams ([`StreamPlace`]). `request.rs` sends a request and waits for
//! the head of its response, `upload.rs` sends the request's body, and `body.rs` reads the
//! response's body.
//!
//! - The window of a connection has room for the windows of all its streams. So a stream whose
//!   client is slow fills its own window only, and never stops another stream.
//! - Only REFUSED_STREAM and GOAWAY with a lower stream prove that the origin has done nothing with
//!   a request.

mod body;
mod connection;
mod failure;
mod header_blocks;
mod meter;
mod request;
mod shared;
mod upload;

pub(crate) use body::Http2Body;
pub(super) use connection::{SharedConnection, StreamPlace};
pub(super) use failure::{REFUSED, StreamFailure};
pub(super) use request::Http2Request;
pub(super) use shared::{IdleLimits, SharedConnections};

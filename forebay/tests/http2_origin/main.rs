//! HTTP/2 to origins.

mod common;
mod failures;
mod grpc;
mod sharing;
mod versions;

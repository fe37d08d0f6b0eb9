//! Step five: ask the origin.
//!
//! Connections are pooled per worker over hyper's HTTP/1.1 client. An origin is hostile too: what
//! it sends is checked again by our own rules before any of it is stored or passed on.

mod answer;
mod connect;
mod exchange;
mod hosts;
mod interim;
mod origins;
mod outbound;
mod preempt;
mod upload;

pub(crate) use answer::{OriginAnswer, OriginBody, OriginPart, PermittedBy};
pub(crate) use exchange::{Exchange, exchange};
pub(crate) use hosts::Hosts;
pub use hosts::Resolver;
pub(crate) use interim::InterimQueue;
pub(crate) use origins::Origins;
pub(crate) use outbound::{CONDITIONS, Outbound, OwnedRequest, Purpose, REWRITTEN};
pub(crate) use preempt::Preempted;
pub(crate) use upload::{Upload, UploadProgress, send_body};

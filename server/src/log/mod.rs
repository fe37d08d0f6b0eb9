//! The access log: one line for each answer, written by a thread of its own.
//!
//! A worker never waits for the disk: it hands batches of lines over a bounded channel, and what
//! does not fit is dropped and counted.

mod access;
mod line;
mod writer;

pub(crate) use access::Access;
pub(crate) use writer::{LogSender, LogWriter, flush_periodically};

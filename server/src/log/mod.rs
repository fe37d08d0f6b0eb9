//! The access logs: one line for each request, in the log of its site. Each log has a thread that
//! writes it.
//!
//! A worker never waits for the disk: it sends batches of lines through a queue of limited size,
//! and drops and counts the lines that do not fit.

mod access;
mod line;
mod replaced;
mod writer;

pub(crate) use access::{Access, LogOwner};
pub(crate) use line::{AccessEntry, shortened};
pub(crate) use replaced::ReplacedLogs;
pub(crate) use writer::{LogLosses, LogSender, LogSenders, LogWriters, flush_periodically};

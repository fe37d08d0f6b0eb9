//! The access log: one line for each request, written by a separate thread.
//!
//! A worker never waits for the disk: it sends batches of lines through a queue of limited size,
//! and drops and counts the lines that do not fit.

mod access;
mod line;
mod replaced;
mod writer;

pub(crate) use access::Access;
pub(crate) use line::{AccessEntry, shortened};
pub(crate) use replaced::ReplacedLogs;
pub(crate) use writer::{LogLosses, LogSender, LogWriter, flush_periodically};

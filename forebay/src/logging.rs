//! Writes events to standard error, one per line, through the server's queue. The log level can
//! change while the program runs.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::Write;
use std::panic::PanicHookInfo;

use forebay_server::config::LogLevel;
use forebay_server::event_queue::{self, EventOutput};
use forebay_server::{escaped_line, escaped_text};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, reload};

/// A handle that changes the log level.
pub(crate) struct LogLevelHandle(reload::Handle<LevelFilter, Registry>);

/// Starts logging at this level. Returns a handle that changes the level.
pub(crate) fn begin(level: LogLevel) -> LogLevelHandle {
    let (filter, handle) = reload::Layer::new(filter(level));
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(EventOutput::default)
        .with_ansi(is_terminal)
        .with_target(false);
    // A second call in one process (tests) keeps the first subscriber.
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
    std::panic::set_hook(Box::new(write_panic));
    LogLevelHandle(handle)
}

/// Puts the message of a panic into the queue of events: the standard hook would wait for standard
/// error.
fn write_panic(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("unnamed");
    let location = panic.location().map_or_else(String::new, |place| format!(" at {place}"));
    let message = panic.payload_as_str().unwrap_or("the payload of the panic is not text");
    let mut text = panic_text(name, &location, message);
    let stack = Backtrace::capture();
    if stack.status() == BacktraceStatus::Captured {
        text.push_str(&escaped_text(&format!("stack backtrace:\n{stack}")));
    }
    // Writing to this output does not fail.
    let _ = EventOutput.write(text.as_bytes());
    // A panic of the main thread ends the process.
    if name == "main" {
        let _ = event_queue::finish();
    }
}

/// Returns the lines of a panic. The message may quote text from outside, which must not look like
/// another event, so it stays on one line.
fn panic_text(thread: &str, location: &str, message: &str) -> String {
    format!("thread '{thread}' panicked{location}:\n{}\n", escaped_line(message))
}

impl LogLevelHandle {
    /// Logs events of `level` and above from now on.
    pub(crate) fn set(&self, level: LogLevel) {
        // This fails only if the subscriber no longer exists; then nothing is logged.
        let _ = self.0.modify(|current| *current = filter(level));
    }
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_a_panic_cannot_forge_an_event() {
        let text = panic_text("worker-0", " at a.rs:1:2", "bad\nERROR forged\u{1b}");
        let expected = "thread 'worker-0' panicked at a.rs:1:2:\nbad\\u{a}ERROR forged\\u{1b}\n";
        assert_eq!(text, expected);
    }
}

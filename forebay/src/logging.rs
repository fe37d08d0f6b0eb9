//! Writes events to standard error, one per line, through the server's queue. The log level can
//! change while the program runs.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::Write;
use std::panic::PanicHookInfo;

use forebay_server::config::LogLevel;
use forebay_server::escaped_text;
use forebay_server::event_queue::{self, EventOutput};
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
    let mut text = format!("thread '{name}' {panic}\n");
    let stack = Backtrace::capture();
    if stack.status() == BacktraceStatus::Captured {
        text.push_str(&format!("stack backtrace:\n{stack}"));
    }
    // The message may quote text from outside.
    let text = escaped_text(&text);
    // Writing to this output does not fail.
    let _ = EventOutput.write(text.as_bytes());
    // A panic of the main thread ends the process.
    if name == "main" {
        let _ = event_queue::finish();
    }
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

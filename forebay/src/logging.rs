//! Events go to standard error, one line each; their least level can change while running.

use forebay_server::config::LogLevel;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, reload};

/// Changes the least level that is logged.
pub(crate) struct LogLevelHandle(reload::Handle<LevelFilter, Registry>);

/// Begins to log.
pub(crate) fn begin(level: LogLevel) -> LogLevelHandle {
    let (filter, handle) = reload::Layer::new(filter(level));
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(is_terminal)
        .with_target(false);
    // A second call in one process (tests) keeps the first one's subscriber.
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
    LogLevelHandle(handle)
}

impl LogLevelHandle {
    /// From now on `level` and what is more important is logged.
    pub(crate) fn set(&self, level: LogLevel) {
        // It fails only if the subscriber is gone, and then nobody logs.
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

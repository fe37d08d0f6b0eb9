//! The control thread's event loop and the signals that it handles.

use std::io;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Streams of the signals that control the process.
pub(super) struct Signals {
    pub(super) terminate: Signal,
    pub(super) interrupt: Signal,
    pub(super) hang_up: Signal,
}

/// Creates the event loop and replaces the default actions of the signals, which would end the
/// process. This must happen before the server reports that it runs, because signals may follow.
///
/// # Errors
/// The system cannot create an event loop, or register a signal.
pub(super) fn event_loop() -> io::Result<(Runtime, Signals)> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let entered = runtime.enter();
    let signals = Signals {
        terminate: signal(SignalKind::terminate())?,
        interrupt: signal(SignalKind::interrupt())?,
        hang_up: signal(SignalKind::hangup())?,
    };
    drop(entered);
    Ok((runtime, signals))
}

//! The control thread's event loop and the signals that it hears.

use std::io;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a supervisor or an operator tells the process.
pub(super) struct Signals {
    pub(super) terminate: Signal,
    pub(super) interrupt: Signal,
    pub(super) hang_up: Signal,
}

/// Makes the event loop and takes the signals over from the system's defaults, which would end
/// the process: before anybody is told that it runs.
///
/// # Errors
/// The system gives no event loop.
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

//! The control thread's event loop and the signals that it handles.

use std::io;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Streams of the signals that control the process.
pub(super) struct Signals {
    pub(super) stop: StopSignals,
    /// SIGHUP, which reloads the configuration.
    pub(super) hang_up: Signal,
    /// SIGUSR1, which reopens the access logs.
    pub(super) user_1: Signal,
    /// SIGUSR2, which is ignored. Operators may send it by habit, because nginx starts an upgrade
    /// at this signal.
    pub(super) user_2: Signal,
}

/// Streams of the signals that stop the server.
pub(super) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
}

impl StopSignals {
    /// Waits for any of the signals.
    pub(super) async fn recv(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.quit.recv() => {}
        }
    }
}

/// Creates the event loop and replaces the default actions of the signals, which would end the
/// process. This must happen before the server reports that it runs, because then signals may
/// follow.
///
/// # Errors
/// The system cannot create an event loop or register a signal handler.
pub(super) fn event_loop() -> io::Result<(Runtime, Signals)> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let entered = runtime.enter();
    let signals = Signals {
        stop: StopSignals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
        },
        hang_up: signal(SignalKind::hangup())?,
        user_1: signal(SignalKind::user_defined1())?,
        user_2: signal(SignalKind::user_defined2())?,
    };
    drop(entered);
    Ok((runtime, signals))
}

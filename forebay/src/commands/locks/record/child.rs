//! Runs the program that is recorded.

use std::ffi::OsStr;
use std::fs;
use std::future::pending;
use std::process::{Command, ExitStatus};

use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// Runs a program until it exits, and forwards signals to it.
///
/// # Errors
/// The program cannot be started, or signals cannot be handled.
pub(super) fn run(command: Command, name: &OsStr) -> Result<ExitStatus, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot wait for the program: {error}"))?;
    runtime.block_on(wait(command, name))
}

/// Receives a signal, unless this process was started with the signal ignored (by `nohup`, or as a
/// background job of a script). Such a signal stays ignored, in this process and in the program.
struct SignalReceiver(Option<Stream>);

impl SignalReceiver {
    fn new(kind: SignalKind, ignored: u64) -> Result<SignalReceiver, String> {
        let is_ignored = ignored >> (kind.as_raw_value() - 1) & 1 != 0;
        let hear = |kind| signal(kind).map_err(|error| format!("cannot handle signals: {error}"));
        (!is_ignored).then(|| hear(kind)).transpose().map(SignalReceiver)
    }

    /// Waits for the signal.
    async fn recv(&mut self) {
        match &mut self.0 {
            Some(stream) => drop(stream.recv().await),
            None => pending().await,
        }
    }
}

/// Returns the set of signals that this process ignores; signal 1 is the lowest bit.
fn ignored() -> Result<u64, String> {
    let status = fs::read_to_string("/proc/self/status");
    let status = status.map_err(|error| format!("/proc/self/status: {error}"))?;
    ignored_in(&status).ok_or_else(|| "/proc/self/status has no valid line SigIgn".to_owned())
}

fn ignored_in(status: &str) -> Option<u64> {
    let digits = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(digits.trim(), 16).ok()
}

async fn wait(command: Command, name: &OsStr) -> Result<ExitStatus, String> {
    let ignored = ignored()?;
    let hear = |kind| SignalReceiver::new(kind, ignored);
    let mut terminate = hear(SignalKind::terminate())?;
    let mut hang_up = hear(SignalKind::hangup())?;
    let mut first = hear(SignalKind::user_defined1())?;
    let mut second = hear(SignalKind::user_defined2())?;
    // The terminal sends the signals of the keyboard to the program as well. They are received here
    // only so that this process outlives the program.
    let _interrupt = hear(SignalKind::interrupt())?;
    let _quit = hear(SignalKind::quit())?;

    let cannot = |error| format!("{}: cannot run: {error}", name.display());
    let mut child = tokio::process::Command::from(command).spawn().map_err(cannot)?;
    let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
    loop {
        let sent = tokio::select! {
            status = child.wait() => return status.map_err(cannot),
            _ = terminate.recv() => Signal::TERM,
            _ = hang_up.recv() => Signal::HUP,
            _ = first.recv() => Signal::USR1,
            _ = second.recv() => Signal::USR2,
        };
        if let Some(pid) = pid {
            // Sending fails if the program has just exited.
            let _ = kill_process(pid, sent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read() {
        let status = "SigBlk:\t00000000000000ff\nSigIgn:\t0000000000001001\nSigCgt:\t0\n";
        assert_eq!(ignored_in(status), Some(0x1001));
        for status in ["", "SigIgn:", "SigIgn:\tx"] {
            assert_eq!(ignored_in(status), None, "{status:?}");
        }
    }
}

//! The program while it runs.

use std::ffi::OsStr;
use std::process::{Command, ExitStatus};

use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

/// Runs a program to its end. Signals that somebody sends us are sent on.
///
/// # Errors
/// It can't be started, or signals can't be heard.
pub(super) fn run(command: Command, name: &OsStr) -> Result<ExitStatus, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot wait for a program: {error}"))?;
    runtime.block_on(wait(command, name))
}

async fn wait(command: Command, name: &OsStr) -> Result<ExitStatus, String> {
    let hear = |kind| signal(kind).map_err(|error| format!("cannot hear signals: {error}"));
    let mut terminate = hear(SignalKind::terminate())?;
    let mut hang_up = hear(SignalKind::hangup())?;
    let mut first = hear(SignalKind::user_defined1())?;
    let mut second = hear(SignalKind::user_defined2())?;
    // Those of the keyboard go to the program too: we only have to outlive it.
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
            // It may have ended just now.
            let _ = kill_process(pid, sent);
        }
    }
}

//! Starts the test program again in a role, and bounds every wait for that process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use rustix::time::{ClockId, clock_gettime};

/// The longest wait for one step of a process. Even a busy machine needs less time, so a process
/// that exceeds this time hangs.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The prefix of a process's messages to the test. Other lines of its output come from the test
/// runner.
pub const SAY: &str = "say ";

/// A process that plays a role. It is killed when the value is dropped.
pub struct Actor {
    child: Child,
    pidfd: OwnedFd,
    unread: Vec<u8>,
    what: String,
}

impl Actor {
    /// Starts this program in a role, on the region at this path.
    pub fn start(role: &str, region: &Path) -> Actor {
        Actor::start_with(role, region, &[])
    }

    /// Does the same as [`Actor::start`], with additional environment variables.
    pub fn start_with(role: &str, region: &Path, environment: &[(&str, &str)]) -> Actor {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "role", "--nocapture", "--test-threads=1"])
            .env("FOREBAY_ROLE", role)
            .env("FOREBAY_REGION", region)
            .env_remove("FOREBAY_CRASH_AT")
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let pidfd = pidfd_of(child.id());
        let what = format!("{role} {environment:?}");
        Actor { child, pidfd, unread: Vec::new(), what }
    }

    /// Waits for the process's next message. Returns `None` if the process ends first.
    pub fn hear(&mut self) -> Option<String> {
        let deadline = now() + PATIENCE;
        loop {
            while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                let line = String::from_utf8(line).unwrap();
                // The test runner may have written the beginning of the line.
                if let Some((_, said)) = line.trim_end().split_once(SAY) {
                    return Some(said.to_owned());
                }
            }
            let stdout = self.child.stdout.as_mut().unwrap();
            let is_ready = wait_readable(&*stdout, deadline.saturating_sub(now()));
            assert!(is_ready, "{} sent no message within {PATIENCE:?}", self.what);
            let mut bytes = [0; 4096];
            match stdout.read(&mut bytes).unwrap() {
                0 => return None,
                count => self.unread.extend(&bytes[..count]),
            }
        }
    }

    /// Lets the process continue from `wait_for_go`.
    pub fn go(&mut self) {
        // The process may be dead already.
        let _ = self.child.stdin.as_mut().unwrap().write_all(b"\n");
    }

    /// Returns the process's standard input. Dropping it ends `wait_for_end` in the process.
    pub fn take_stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().unwrap()
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends the process a signal.
    pub fn signal(&self, signal: Signal) {
        pidfd_send_signal(&self.pidfd, signal).unwrap();
    }

    /// Whether the process ends within this time.
    pub fn ends_within(&self, time: Duration) -> bool {
        wait_readable(&self.pidfd, time)
    }

    /// Waits until the process ends by itself.
    pub fn end(mut self) -> ExitStatus {
        drop(self.child.stdin.take());
        assert!(self.ends_within(PATIENCE), "{} did not end within {PATIENCE:?}", self.what);
        self.child.wait().unwrap()
    }

    /// Waits until the process ends, and asserts that it succeeded.
    pub fn end_well(self) {
        let what = self.what.clone();
        let status = self.end();
        assert!(status.success(), "{what} ended with {status}");
    }

    /// Waits until the process ends, and asserts that it killed itself.
    pub fn end_killed(self) {
        let what = self.what.clone();
        let status = self.end();
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "{what} ended with {status}");
    }

    /// Kills the process, and asserts that it had not ended before.
    pub fn kill(mut self) {
        let _ = self.child.kill();
        let status = self.child.wait().unwrap();
        let signal = Some(Signal::KILL.as_raw());
        assert_eq!(status.signal(), signal, "{} had already ended with {status}", self.what);
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a descriptor that becomes readable when the process ends.
pub fn pidfd_of(pid: u32) -> OwnedFd {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    pidfd_open(pid, PidfdFlags::empty()).unwrap()
}

/// Waits until a descriptor is readable. Returns whether it becomes readable within this time.
pub fn wait_readable(fd: impl AsFd, time: Duration) -> bool {
    let deadline = now() + time;
    loop {
        let left = deadline.saturating_sub(now());
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap(),
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)) {
            Ok(count) => return count > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("poll: {error}"),
        }
    }
}

/// The time of the monotonic clock.
pub fn now() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap())
}

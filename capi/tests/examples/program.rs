//! A running example, with line-based input and output.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Stdio};

use rustix::process::{Signal, pidfd_send_signal};

use crate::build::Language;
use forebay_testkit::process::{PATIENCE, pidfd_of, wait_readable};

/// A running example, killed when it is dropped.
pub(crate) struct Program {
    child: Child,
    unread: Vec<u8>,
    what: String,
}

/// Runs a command to its end. Returns whether it found its key, and its output.
pub(crate) fn run(language: &Language, region: &Path, arguments: &[&str]) -> (bool, String) {
    let mut program = Program::start(language, region, arguments);
    let mut output = String::new();
    while let Some(line) = program.hear() {
        output += &line;
        output.push('\n');
    }
    (program.end(), output)
}

impl Program {
    pub(crate) fn start(language: &Language, region: &Path, arguments: &[&str]) -> Program {
        let mut command = language.command();
        command.arg(region).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = command.spawn().unwrap();
        Program { child, unread: Vec::new(), what: format!("{language:?} {arguments:?}") }
    }

    /// Returns the program's next line of output, or `None` if the program ends first.
    pub(crate) fn hear(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                return Some(String::from_utf8(line).unwrap().trim_end().to_owned());
            }
            let stdout = self.child.stdout.as_mut().unwrap();
            assert!(wait_readable(&*stdout, PATIENCE), "{} says nothing", self.what);
            let mut bytes = [0; 4096];
            match stdout.read(&mut bytes).unwrap() {
                0 => return None,
                count => self.unread.extend(&bytes[..count]),
            }
        }
    }

    /// Sends a line and reads the answer.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
        self.hear().unwrap_or_else(|| panic!("{} has ended", self.what))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        pidfd_send_signal(pidfd_of(self.child.id()), signal).unwrap();
    }

    /// Kills the program, which must not have ended before.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        let status = self.child.wait().unwrap();
        let signal = Some(Signal::KILL.as_raw());
        assert_eq!(status.signal(), signal, "{} had already ended: {status}", self.what);
    }

    /// Waits for the program's end. Returns whether it found its key.
    pub(crate) fn end(mut self) -> bool {
        drop(self.child.stdin.take());
        let pidfd = pidfd_of(self.child.id());
        assert!(wait_readable(&pidfd, PATIENCE), "{} hangs", self.what);
        let status = self.child.wait().unwrap();
        assert!(matches!(status.code(), Some(0 | 1)), "{} failed: {status}", self.what);
        status.success()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

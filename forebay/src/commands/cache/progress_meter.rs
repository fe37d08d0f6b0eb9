//! A progress line on the terminal, erased at the end.

use std::io::{self, IsTerminal, Write};

use forebay_server::clock::monotonic_ms;

/// Time in milliseconds before the first progress line: shorter operations show nothing.
const FIRST_MS: u64 = 500;

const BETWEEN_MS: u64 = 100;

/// Prints progress to standard error, if that is a terminal.
pub(super) struct ProgressMeter {
    doing: &'static str,
    is_terminal: bool,
    next_ms: u64,
    is_shown: bool,
}

impl ProgressMeter {
    pub(super) fn begin(doing: &'static str) -> ProgressMeter {
        let is_terminal = io::stderr().is_terminal();
        ProgressMeter { doing, is_terminal, next_ms: monotonic_ms() + FIRST_MS, is_shown: false }
    }

    pub(super) fn show(&mut self, done: u64, total: u64) {
        if !self.is_terminal || monotonic_ms() < self.next_ms {
            return;
        }
        self.next_ms = monotonic_ms() + BETWEEN_MS;
        self.is_shown = true;
        let percent = done * 100 / total.max(1);
        let _ = write!(io::stderr(), "\r{}: {percent:3} %", self.doing);
    }
}

impl Drop for ProgressMeter {
    fn drop(&mut self) {
        if self.is_shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

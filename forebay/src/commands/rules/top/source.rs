//! Tables of a running server, one after the other.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use forebay_server::clock::monotonic_ms;
use forebay_server::config::AdminAddress;
use serde_json::Value;
use terminal_size::terminal_size_of;

use super::count::{Counts, Line};
use super::table::{Screen, Sort, Table};
use crate::admin_client::{ask, find};
use crate::say::say;

/// Takes the screen for the next table.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// What was asked for.
pub(super) struct Top {
    /// As it was named, if it was.
    pub(super) admin: Option<String>,
    pub(super) address: AdminAddress,
    pub(super) is_json: bool,
    /// The screen is taken for each table.
    pub(super) is_live: bool,
    pub(super) sort: Sort,
    pub(super) lines_max: usize,
    pub(super) interval_ms: u64,
}

impl Top {
    /// A table after each interval. While the server is away there is none, but that is said: it
    /// may come back.
    pub(super) fn watch(&mut self, first: Counts, tables: Option<u64>) -> Result<ExitCode, String> {
        let mut before = Some((first, monotonic_ms()));
        let mut away = None;
        let mut turn = 0;
        while tables.is_none_or(|tables| turn < tables) {
            pause(self.interval_ms);
            turn += 1;
            let now = match read(&self.address) {
                Ok(counts) => (counts, monotonic_ms()),
                Err(why) => {
                    self.say_away(&why, away.is_none());
                    (before, away) = (None, Some(why));
                    // A server that was started anew may have another socket.
                    if let Ok(address) = find(self.admin.as_ref()) {
                        self.address = address;
                    }
                    continue;
                }
            };
            away = None;
            if let Some((counts, at_ms)) = &before {
                let seconds = now.1.saturating_sub(*at_ms).max(1) as f64 / 1000.0;
                // Who has seen enough (`| head`) needs no more.
                if !self.show(now.0.per_second(counts, seconds), true) {
                    break;
                }
            }
            before = Some(now);
        }
        away.map_or(Ok(ExitCode::SUCCESS), Err)
    }

    /// False if nobody reads it.
    pub(super) fn show(&self, lines: Vec<Line>, is_rate: bool) -> bool {
        // Looked at for each table: windows are made larger and smaller.
        let screen = self.is_live.then(|| Screen::of(terminal_size_of(io::stdout())));
        let lines = self.sort.sorted(lines);
        let table = Table { lines, is_rate, lines_max: self.lines_max, screen };
        match self.is_json {
            true => say!("{}", table.json()),
            false => say!("{}{}", if self.is_live { CLEAR } else { "" }, table.text()),
        }
        io::stdout().flush().is_ok()
    }

    fn say_away(&self, why: &str, is_first: bool) {
        if self.is_live {
            say!("{CLEAR}{why}\nThe server is away; it is asked again and again until Ctrl-C.");
        } else if is_first {
            eprintln!("forebay: {why}; it is asked again");
        }
    }
}

/// Nobody ever sends: only the time runs out.
fn pause(ms: u64) {
    let (_sender, receiver) = mpsc::channel::<()>();
    let _ = receiver.recv_timeout(Duration::from_millis(ms));
}

/// Asks the server once.
pub(super) fn read(address: &AdminAddress) -> Result<Counts, String> {
    let answer = ask(address, "GET", "/rules", "")?;
    let value: Value = match serde_json::from_str(&answer.body) {
        Ok(value) if answer.is_success => value,
        _ => return Err(format!("the server at {address} says nothing of rules: it is older")),
    };
    let counts = Counts::of(&value);
    match counts.is_empty() {
        true => Err(format!("the server at {address} has no rules; see the setting `rules`")),
        false => Ok(counts),
    }
}

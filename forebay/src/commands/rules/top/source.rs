//! The server whose rules are looked at.

use forebay_server::config::AdminAddress;
use serde_json::Value;

use super::count::{Counts, Line};
use super::table::{Sort, Table};
use crate::admin_client::{ask, find};
use crate::say::is_read;
use crate::screen::{CLEAR, Screen, Watched};

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
}

impl Watched for Top {
    type Reading = Counts;

    const AWAY: &'static str = "it is asked";

    fn read(&mut self) -> Result<Counts, String> {
        let counts = read(&self.address);
        // A server that was started anew may have another socket.
        if counts.is_err()
            && let Ok(address) = find(self.admin.as_ref())
        {
            self.address = address;
        }
        counts
    }

    fn show(&self, now: &Counts, before: Option<(&Counts, f64)>) -> bool {
        match before {
            Some((before, seconds)) => self.print(now.per_second(before, seconds), true),
            // What was counted until now says nothing of a second.
            None => true,
        }
    }
}

impl Top {
    /// False if nobody reads it.
    pub(super) fn print(&self, lines: Vec<Line>, is_rate: bool) -> bool {
        let screen = self.is_live.then(Screen::of_output);
        let lines = self.sort.sorted(lines);
        let table = Table { lines, is_rate, lines_max: self.lines_max, screen };
        match self.is_json {
            true => is_read(format_args!("{}", table.json())),
            false => {
                let clear = if self.is_live { CLEAR } else { "" };
                is_read(format_args!("{clear}{}", table.text()))
            }
        }
    }
}

/// Asks the server once.
fn read(address: &AdminAddress) -> Result<Counts, String> {
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

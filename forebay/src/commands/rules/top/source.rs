//! The server whose rules are looked at.

use forebay_server::config::AdminAddress;
use serde_json::Value;

use super::count::{RuleCounts, RuleLine};
use super::table::{RuleSort, RuleTable};
use crate::admin_client::{ask, find};
use crate::screen::{CLEAR, Screen, WatchTarget};
use crate::stdout::write_line;

/// What was asked for.
pub(super) struct RulesTop {
    /// As it was named, if it was.
    pub(super) admin: Option<String>,
    pub(super) address: AdminAddress,
    pub(super) is_json: bool,
    /// The screen is taken for each table.
    pub(super) is_live: bool,
    pub(super) sort: RuleSort,
    pub(super) lines_max: usize,
}

impl WatchTarget for RulesTop {
    type Snapshot = RuleCounts;

    const AWAY: &'static str = "it is asked";

    fn read(&mut self) -> Result<RuleCounts, String> {
        let counts = read(&self.address);
        // A server that was started anew may have another socket.
        if counts.is_err()
            && let Ok(address) = find(self.admin.as_ref())
        {
            self.address = address;
        }
        counts
    }

    fn show(&self, now: &RuleCounts, before: Option<(&RuleCounts, f64)>) -> bool {
        match before {
            Some((before, seconds)) => self.print(now.per_second(before, seconds), true),
            // What was counted until now says nothing of a second.
            None => true,
        }
    }
}

impl RulesTop {
    /// False if nobody reads it.
    pub(super) fn print(&self, lines: Vec<RuleLine>, is_rate: bool) -> bool {
        let screen = self.is_live.then(Screen::of_output);
        let lines = self.sort.sorted(lines);
        let table = RuleTable { lines, is_rate, lines_max: self.lines_max, screen };
        match self.is_json {
            true => write_line(format_args!("{}", table.json())),
            false => {
                let clear = if self.is_live { CLEAR } else { "" };
                write_line(format_args!("{clear}{}", table.text()))
            }
        }
    }
}

/// Asks the server once.
fn read(address: &AdminAddress) -> Result<RuleCounts, String> {
    let answer = ask(address, "GET", "/rules", "")?;
    let value: Value = match serde_json::from_str(&answer.body) {
        Ok(value) if answer.is_success => value,
        _ => return Err(format!("the server at {address} says nothing of rules: it is older")),
    };
    let counts = RuleCounts::of(&value);
    match counts.is_empty() {
        true => Err(format!("the server at {address} has no rules; see the setting `rules`")),
        false => Ok(counts),
    }
}

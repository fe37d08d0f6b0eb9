//! Reads the rule counts of a server.

use forebay_server::config::AdminAddress;
use serde_json::Value;

use super::count::{RuleCounts, RuleLine};
use super::table::{RuleSort, RuleTable};
use crate::admin_client::{ask, find};
use crate::screen::{CLEAR, Screen, WatchTarget};
use crate::stdout::write_line;

/// The command's options, and the server's address.
pub(super) struct RulesTop {
    /// The value of `--admin`, if given.
    pub(super) admin: Option<String>,
    pub(super) address: AdminAddress,
    pub(super) is_json: bool,
    /// Whether each table clears the screen.
    pub(super) is_live: bool,
    pub(super) sort: RuleSort,
    pub(super) lines_max: usize,
}

impl WatchTarget for RulesTop {
    type Snapshot = RuleCounts;

    const AWAY: &'static str = "trying again to reach the server";

    fn read(&mut self) -> Result<RuleCounts, String> {
        let counts = read(&self.address);
        // A restarted server may have another socket.
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
            // Without an earlier snapshot there are only totals, which this table of rates cannot
            // show.
            None => true,
        }
    }
}

impl RulesTop {
    /// Prints a table. Returns false if the reader of the output has exited.
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

/// Reads the counts once.
fn read(address: &AdminAddress) -> Result<RuleCounts, String> {
    let answer = ask(address, "GET", "/rules", "")?;
    let value: Value = match serde_json::from_str(&answer.body) {
        Ok(value) if answer.is_success => value,
        _ => {
            return Err(format!(
                "the server at {address} has no rule counts; it runs an older version"
            ));
        }
    };
    let counts = RuleCounts::of(&value);
    match counts.is_empty() {
        true => Err(format!("the server at {address} has no rules; see the setting `rules`")),
        false => Ok(counts),
    }
}

//! `forebay counters`: the counter file of a running or dead server.

mod find;
mod follow;
mod json;
mod rows;
mod table;

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use clap::ArgMatches;

use super::is_set;
use crate::bars::BarStyle;
use crate::screen::{CLEAR, Screen, WatchLoop, WatchTarget, interval_of};
use crate::stdout::write_line;
use follow::{CounterSnapshot, FileFollower};
use table::CounterTable;

pub(super) fn run(args: &ArgMatches) -> Result<ExitCode, String> {
    let (is_json, is_watch) = (is_set(args, "json"), is_set(args, "watch"));
    let is_live = is_watch && !is_json && io::stdout().is_terminal();
    let follower = FileFollower::open(find::find(args.get_one("file"))?)?;
    let mut counters = Counters { follower, is_json, is_watch, is_live };
    let first = counters.read()?;
    if !counters.show(&first, None) || !is_watch {
        return Ok(ExitCode::SUCCESS);
    }
    let tables = args.get_one::<u64>("count").map(|count| count - 1);
    WatchLoop { interval_ms: interval_of(args), tables, is_live }.watch(&mut counters, first)
}

/// The options of `forebay counters`, and the file that it reads.
struct Counters {
    follower: FileFollower,
    is_json: bool,
    is_watch: bool,
    /// Whether each table clears the screen.
    is_live: bool,
}

impl WatchTarget for Counters {
    type Snapshot = CounterSnapshot;

    const AWAY: &'static str = "trying again to read the file";

    fn read(&mut self) -> Result<CounterSnapshot, String> {
        self.follower.read()
    }

    fn show(&self, now: &CounterSnapshot, before: Option<(&CounterSnapshot, f64)>) -> bool {
        // A new file starts from zero.
        let before = before.filter(|(before, _)| before.is_of_same_file(now));
        let path = self.follower.path();
        match self.is_json {
            true => write_line(format_args!("{}", json::table(path, now, before))),
            false => {
                let table = CounterTable { path, now, before, has_rates: self.is_watch };
                let clear = if self.is_live { CLEAR } else { "" };
                let screen = self.is_live.then(Screen::of_output);
                write_line(format_args!("{clear}{}", table.text(screen, BarStyle::of_output())))
            }
        }
    }
}

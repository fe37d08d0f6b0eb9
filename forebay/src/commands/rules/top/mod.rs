//! `forebay rules top`: the activity and cost of a running server's rules.

mod count;
mod source;
mod table;

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use clap::ArgMatches;

use crate::admin_client::find;
use crate::commands::is_set;
use crate::screen::{WatchLoop, WatchTarget as _, interval_of};
use source::RulesTop;
use table::RuleSort;

pub(super) fn run(args: &ArgMatches) -> Result<ExitCode, String> {
    let is_json = is_set(args, "json");
    let is_live = io::stdout().is_terminal() && !is_json;
    let mut top = RulesTop {
        admin: args.get_one("admin").cloned(),
        address: find(args.get_one("admin"))?,
        is_json,
        is_live,
        sort: RuleSort::named(args.get_one::<String>("sort").map_or("ns", String::as_str)),
        lines_max: args.get_one::<u64>("lines").map_or(usize::MAX, |lines| *lines as usize),
    };
    let tables = args.get_one::<u64>("count").copied().or((!is_live).then_some(1));
    let first = top.read()?;
    if tables == Some(1) {
        top.print(first.since_reload(), false);
        return Ok(ExitCode::SUCCESS);
    }
    WatchLoop { interval_ms: interval_of(args), tables, is_live }.watch(&mut top, first)
}

//! `forebay locks`: records and shows lock profiles.

use std::ffi::OsString;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command, value_parser};

use super::{count, interval, json};
use crate::commands::locks::COLUMNS;

/// Number of threads that fit into a profile of 4 GiB if call sites have as many callers as
/// possible.
const THREADS_MAX: u64 = 12_000;

/// Returns the command with its subcommands.
pub(super) fn command() -> Command {
    Command::new("locks")
        .about("Show contended locks, their holders and failed try-locks")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(record())
        .subcommand(on())
        .subcommand(switch("off", "Stop recording, and keep the recorded numbers"))
        .subcommand(switch("reset", "Reset all recorded numbers to zero"))
        .subcommand(report())
        .subcommand(now())
        .subcommand(diff())
        .subcommand(top())
        .subcommand(flame())
        .after_help(
            "A server records nothing until `forebay locks on`, unless its setting `lock_profile` \
             is on.\n\n\
             Examples:\n  \
             forebay locks on\n  \
             forebay locks report\n  \
             forebay locks top\n  \
             forebay locks off\n  \
             forebay locks record -- memcached -t 4",
        )
}

fn record() -> Command {
    let number = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("N").help(help)
    };
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    Command::new("record")
        .about("Run any program and record a profile of its locks")
        .arg(Arg::new("out").long("out").value_name("FILE").help(
            "Profile of the first process that takes a lock; the profiles of further processes \
             have the process id appended [default: PROGRAM.locks in the current directory]",
        ))
        .arg(
            number(
                "stacks",
                "Tell call sites apart by up to N callers, shown by `report --threads`; needs \
                 frame pointers",
            )
            .value_parser(value_parser!(u64).range(1..=32)),
        )
        .arg(
            number("sample", "Record one in N lock attempts of each thread [default: 1]")
                .value_parser(value_parser!(u64).range(1..=1_000_000_000)),
        )
        .arg(
            number(
                "threads",
                "Record up to N threads at the same time, at most 12000 [default: 256]",
            )
            .value_parser(value_parser!(u64).range(1..=THREADS_MAX)),
        )
        .arg(
            number("processes", "Record at most N processes [default: 1000]")
                .value_parser(value_parser!(u64).range(1..=1_000_000)),
        )
        .arg(flag("per-lock", "Distinguish locks that are taken at the same call site"))
        .arg(flag("off", "Start with recording off; switch it on with `forebay locks on FILE`"))
        .arg(flag("quiet", "Print no report when the program ends"))
        .arg(
            Arg::new("command")
                .value_name("PROGRAM")
                .num_args(1..)
                .required(true)
                .trailing_var_arg(true)
                .allow_hyphen_values(true)
                .value_parser(value_parser!(OsString))
                .help("Program to run, and its arguments"),
        )
        .after_help(
            "A preloaded library wraps the C library's lock functions, in the program and in every \
             process that it starts. While the program runs, watch it with `forebay locks top \
             FILE`. Exit code: that of the program.\n\n\
             Examples:\n  \
             forebay locks record -- memcached -t 4\n  \
             forebay locks record --out /tmp/db.locks --stacks 8 -- mariadbd --user=mysql",
        )
}

fn on() -> Command {
    let one_of = |name: &'static str, least: u64| {
        let range = value_parser!(u64).range(least..=1_000_000_000);
        Arg::new(name).long(name).value_name("N").value_parser(range)
    };
    switch("on", "Start recording the locks of a running process")
        .arg(one_of("sample", 1).help("Record one in N lock attempts of each thread [default: 1]"))
        .arg(one_of("stacks", 0).help(
            "Server only: record call stacks for one in N waits and failed try-locks per thread \
             (0: off) [default: unchanged]",
        ))
}

fn switch(name: &'static str, about: &'static str) -> Command {
    let examples = format!(
        "Examples:\n  forebay locks {name}\n  \
         forebay locks {name} /run/user/1000/forebay/8080.locks"
    );
    Command::new(name).about(about).arg(file()).after_help(examples)
}

fn report() -> Command {
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    Command::new("report")
        .about("Print a lock profile as a table with one line per call site")
        .arg(file())
        .arg(sort().conflicts_with_all(["matrix", "stacks"]).help(
            "Column to sort by, largest first [default: wait_total plus try_delay; with --threads \
             try_failed]",
        ))
        .arg(lines().help(
            "Print at most N entries of each list: call sites, call sites of a thread, pairs, \
             stacks",
        ))
        .arg(flag(
            "threads",
            "Show the call sites of each thread, with callers; most failed try-locks first",
        ))
        .arg(flag(
            "matrix",
            "Show pairs of call sites: one held a lock while the other waited for it",
        ))
        .arg(flag(
            "stacks",
            "Server only: show call stacks of waits and failed try-locks, sampled by `on \
             --stacks`; for other programs use --threads",
        ))
        .arg(flag(
            "histograms",
            "Show the distribution of wait and hold times as bars; with --threads, per thread",
        ))
        .arg(
            json()
                .conflicts_with_all(["threads", "matrix", "stacks", "histograms"])
                .help("Print the whole profile as JSON"),
        )
        .after_help(
            "The columns are those of LOCK_PROFILING(9), with times in microseconds:\n  \
             max, total            hold time: longest and sum\n  \
             wait_max, wait_total  wait time: longest and sum\n  \
             count                 acquisitions\n  \
             avg, wait_avg         hold and wait time per acquisition\n  \
             cnt_hold              times another thread wanted the lock while it was held here\n  \
             cnt_lock              contended acquisitions: times this call site had to wait\n  \
             try_failed            failed try-locks\n  \
             try_delay             time from the first failed try-lock to the acquisition\n  \
             asleep                time in condition waits, if there are any\n\n\
             Examples:\n  \
             forebay locks report\n  \
             forebay locks report --threads --sort wait_total\n  \
             forebay locks report /run/user/1000/forebay/8080.locks --matrix\n  \
             forebay locks report --json > before.json",
        )
}

fn now() -> Command {
    Command::new("now")
        .about("Show which threads hold and await which locks, also of a hung or killed process")
        .arg(file())
        .arg(json())
        .after_help(
            "Threads that wait for one another are reported as a deadlock. Locks taken while \
             recording was off, or outside the sample, are unknown.\n\n\
             Examples:\n  \
             forebay locks now\n  \
             forebay locks now memcached.locks\n  \
             forebay locks now --json /run/user/1000/forebay/8080.locks",
        )
}

fn diff() -> Command {
    let side = |name: &'static str| {
        Arg::new(name)
            .value_name(if name == "before" { "BEFORE" } else { "AFTER" })
            .required(true)
            .help("Lock profile, or the output of `report --json`")
    };
    Command::new("diff")
        .about("Compare two lock profiles: the change of each number")
        .arg(side("before"))
        .arg(side("after"))
        .arg(sort())
        .arg(lines().help("Print at most N call sites"))
        .arg(json())
        .after_help(
            "Examples:\n  \
             forebay locks diff before.json after.json\n  \
             forebay locks diff before.json /run/user/1000/forebay/8080.locks --sort cnt_lock",
        )
}

fn top() -> Command {
    Command::new("top")
        .about("Watch lock contention live")
        .arg(file())
        .arg(interval())
        .arg(count().help("Stop after N tables"))
        .arg(lines().help("Print at most N call sites"))
        .after_help(
            "Columns, per call site:\n  \
             waiting, holding  mean number of threads that wait for or hold the lock (1.00: one \
             thread all the time)\n  \
             delayed           mean number of threads between failed try-lock and acquisition\n  \
             locks/s           acquisitions per second\n  \
             waits/s, fails/s  contended acquisitions and failed try-locks per second\n  \
             wait_avg          mean wait in microseconds\n\n\
             For a program run by `record`, FILE stands for all its processes, and the command \
             ends with the last of them.\n\n\
             Examples:\n  \
             forebay locks top\n  \
             forebay locks top --interval 5s --lines 10\n  \
             forebay locks top memcached.locks",
        )
}

fn flame() -> Command {
    Command::new("flame")
        .about("Draw the time lost at locks as a flame graph (SVG)")
        .arg(file())
        .arg(
            Arg::new("out")
                .long("out")
                .value_name("FILE")
                .help("Output file [default: standard output]"),
        )
        .arg(
            Arg::new("folded").long("folded").action(ArgAction::SetTrue).help(
                "Print folded stacks, one line per stack with its microseconds, for other tools",
            ),
        )
        .after_help(
            "A frame's width is the time lost: waits, and delays after failed try-locks. From \
             bottom to top: the lock, the call site that wanted it, the holder; where callers are \
             known: the callers, the lock, the holder.\n\n\
             Examples:\n  \
             forebay locks flame --out locks.svg\n  \
             forebay locks flame --folded /run/user/1000/forebay/8080.locks",
        )
}

fn file() -> Arg {
    Arg::new("file").value_name("FILE").help(
        "Lock profile, such as PORT.locks in a server's runtime directory [default: that of the \
         only running server]",
    )
}

fn sort() -> Arg {
    Arg::new("sort")
        .long("sort")
        .value_name("COLUMN")
        .value_parser(PossibleValuesParser::new(COLUMNS))
        .help("Column to sort by, largest first [default: wait_total plus try_delay]")
}

fn lines() -> Arg {
    Arg::new("lines").long("lines").value_name("N").value_parser(value_parser!(u64).range(1..))
}

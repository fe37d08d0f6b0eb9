//! `forebay locks`: what happens at locks.

use std::ffi::OsString;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command, value_parser};

use super::{count, interval, json};
use crate::commands::locks::COLUMNS;

/// Threads for which a profile has room within its 4 GiB, with places of as many callers as can be.
const THREADS_MAX: u64 = 12_000;

/// The command and those below it.
pub(super) fn command() -> Command {
    Command::new("locks")
        .about(
            "See which locks are waited for, who holds them meanwhile, and what is tried in vain",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(record())
        .subcommand(on())
        .subcommand(switch("off", "Record no more; what was recorded stays"))
        .subcommand(switch("reset", "Forget what was recorded until now"))
        .subcommand(report())
        .subcommand(now())
        .subcommand(diff())
        .subcommand(top())
        .subcommand(flame())
        .after_help(
            "A server records nothing before `forebay locks on`, unless its `lock_profile` is \
             set.\n\n\
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
        .about("Run a program and record what happens at its locks, whatever program it is")
        .arg(Arg::new("out").long("out").value_name("FILE").help(
            "The profile of the first process that takes a lock; others have their number behind \
             it. By default PROGRAM.locks, here",
        ))
        .arg(
            number(
                "stacks",
                "Tell places apart by so many callers, which reports have with --threads; needs \
                 frame pointers",
            )
            .value_parser(value_parser!(u64).range(1..=32)),
        )
        .arg(
            number("sample", "Record one of so many attempts of each thread")
                .value_parser(value_parser!(u64).range(1..=1_000_000_000)),
        )
        .arg(
            number("threads", "Room for so many threads at a time, 12000 at most; 256 by default")
                .value_parser(value_parser!(u64).range(1..=THREADS_MAX)),
        )
        .arg(
            number("processes", "Record so many processes at most; 1000 by default")
                .value_parser(value_parser!(u64).range(1..=1_000_000)),
        )
        .arg(flag("per-lock", "Tell locks apart that are taken at the same place"))
        .arg(flag("off", "Begin switched off; see `forebay locks on FILE`"))
        .arg(flag("quiet", "Print no report when the program has ended"))
        .arg(
            Arg::new("command")
                .value_name("PROGRAM")
                .num_args(1..)
                .required(true)
                .trailing_var_arg(true)
                .allow_hyphen_values(true)
                .value_parser(value_parser!(OsString))
                .help("The program and its arguments"),
        )
        .after_help(
            "A library that is preloaded stands in for the functions of the C library that take \
             and leave locks, for the program and all that it starts. While it runs, `forebay \
             locks top FILE` watches it.\n\n\
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
    switch("on", "Record what happens at the locks of a process from now on")
        .arg(
            one_of("sample", 1)
                .help("Record one of so many attempts of each thread; 1 records all"),
        )
        .arg(one_of("stacks", 0).help(
            "Of a server: record who called, too, for one of so many waits and tries in vain of \
             each thread, or for none: 0. Without this it stays as it is",
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
        .about(
            "Print what was recorded, as a table with a line for each place where a lock is taken",
        )
        .arg(file())
        .arg(sort().conflicts_with_all(["matrix", "stacks"]).help(
            "By which column, the largest first; by default wait_total and try_delay together, \
             with --threads try_failed",
        ))
        .arg(lines().help(
            "Print so many lines of each list only: places, those of each thread, pairs, stacks",
        ))
        .arg(flag("threads", "Thread by thread with callers, those first that tried most in vain"))
        .arg(flag("matrix", "Who held a lock while whom it kept waiting"))
        .arg(flag(
            "stacks",
            "Of a server: who called what waited or tried in vain, as `on --stacks` has sampled; \
             of other programs see --threads",
        ))
        .arg(flag(
            "histograms",
            "How long waits and holds were, as bars; with --threads for each of them",
        ))
        .arg(
            json()
                .conflicts_with_all(["threads", "matrix", "stacks", "histograms"])
                .help("Print all of it as JSON"),
        )
        .after_help(
            "The columns are those of LOCK_PROFILING(9); times are microseconds. max: longest \
             hold; total: all holds; wait_max, wait_total: waits; avg, wait_avg: for each time \
             that the lock was taken; cnt_hold: how often another wanted the lock while it was \
             held from here; cnt_lock: how often it was held when reached from here, and waited \
             for; try_failed: tries in vain; try_delay: from the first of them until the lock was \
             taken after all; asleep: waiting for a condition, where there is any.\n\n\
             Examples:\n  \
             forebay locks report\n  \
             forebay locks report --threads --sort wait_total\n  \
             forebay locks report /run/user/1000/forebay/8080.locks --matrix\n  \
             forebay locks report --json > before.json",
        )
}

fn now() -> Command {
    Command::new("now")
        .about(
            "Print which thread has which lock and who waits for whom, also of a program that is \
             stuck, or was killed",
        )
        .arg(file())
        .arg(json())
        .after_help(
            "What was taken while recording was off, or not in the sample, is not known. Threads \
             that wait for one another are named as a deadlock.\n\n\
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
            .help("A lock profile, or what `report --json` printed")
    };
    Command::new("diff")
        .about("Print how much each number of a report has changed")
        .arg(side("before"))
        .arg(side("after"))
        .arg(sort())
        .arg(lines().help("Print so many places only"))
        .arg(json())
        .after_help(
            "Examples:\n  \
             forebay locks diff before.json after.json\n  \
             forebay locks diff before.json /run/user/1000/forebay/8080.locks --sort cnt_lock",
        )
}

fn top() -> Command {
    Command::new("top")
        .about("Watch which locks are waited for now")
        .arg(file())
        .arg(interval())
        .arg(count().help("End after so many tables"))
        .arg(lines().help("Print so many places only"))
        .after_help(
            "waiting: how many threads wait there, in the mean; holding: how many hold; delayed: \
             how many tried in vain and have it now. 1.00 is one thread all the time. \
             locks/s, waits/s, fails/s: how often it is taken, waited for, tried in vain; \
             wait_avg: microseconds of a wait.\n\n\
             Of a program that `record` runs, FILE shows all processes that there are, and the \
             command ends with the last of them.\n\n\
             Examples:\n  \
             forebay locks top\n  \
             forebay locks top --interval 5s --lines 10\n  \
             forebay locks top memcached.locks",
        )
}

fn flame() -> Command {
    Command::new("flame")
        .about("Draw where time is lost at locks, as a flame graph (SVG)")
        .arg(file())
        .arg(
            Arg::new("out")
                .long("out")
                .value_name("FILE")
                .help("Write it there; to standard output by default"),
        )
        .arg(Arg::new("folded").long("folded").action(ArgAction::SetTrue).help(
            "One line for each stack and its microseconds instead, for other programs that draw",
        ))
        .after_help(
            "The width is time that was waited, and from tries in vain until the lock was taken. \
             From below: the lock, where it was wanted, who held it. Where callers are known: \
             these, the lock, who held it.\n\n\
             Examples:\n  \
             forebay locks flame --out locks.svg\n  \
             forebay locks flame --folded /run/user/1000/forebay/8080.locks",
        )
}

fn file() -> Arg {
    Arg::new("file").value_name("FILE").help(
        "A lock profile, such as PORT.locks in a server's runtime directory; by default that of \
         the only server that runs",
    )
}

fn sort() -> Arg {
    Arg::new("sort")
        .long("sort")
        .value_name("COLUMN")
        .value_parser(PossibleValuesParser::new(COLUMNS))
        .help("By which column, the largest first; by default wait_total and try_delay together")
}

fn lines() -> Arg {
    Arg::new("lines").long("lines").value_name("N").value_parser(value_parser!(u64).range(1..))
}

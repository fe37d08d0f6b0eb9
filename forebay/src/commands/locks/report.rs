//! `forebay locks report`: prints a lock profile.

use std::path::Path;
use std::process::ExitCode;

use clap::ArgMatches;
use forebay_server::clock::unix_ns;
use forebay_shm::{ProfileFile, is_alive};
use forebay_sync::profile::{ProfileSnapshot, SiteKind, StackPlan};

use super::columns::{CNT_HOLD, SortOrder};
use super::files::of_run;
use super::find::find;
use super::names::SiteNames;
use super::summary::Summary;
use super::{
    UNSEEN, call_stacks, counted, in_progress, json, lines_max, matrix, stale_binaries, table,
    threads,
};
use crate::commands::is_set;
use crate::stdout::outln;

pub(super) fn run(args: &ArgMatches) -> Result<ExitCode, String> {
    if is_set(args, "threads")
        && SortOrder::named(args.get_one("sort")) == SortOrder::Column(CNT_HOLD)
    {
        let why = "this column is counted for all threads together";
        return Err(format!("--sort cnt_hold: not available with --threads, since {why}"));
    }
    let (file, reading) = read(args)?;
    let mut names = SiteNames::of(&reading);
    let summary = Summary::named(&mut names);
    let sort = SortOrder::named(args.get_one("sort"));
    let lines = lines_max(args);
    if is_set(args, "json") {
        let form = json::ReportOptions { sort, lines_max: lines };
        outln!("{}", json::report(file.path(), &mut names, &summary, form));
        return Ok(ExitCode::SUCCESS);
    }
    outln!("{}", head(&file, &reading, &summary));
    if reading.about.kind == SiteKind::Stacks {
        others(file.path()).iter().for_each(|line| outln!("{line}"));
    }
    let wants = |name: &str| is_set(args, name);
    if !["threads", "matrix", "histograms", "stacks"].iter().any(|name| wants(name)) {
        outln!("{}", table::text(&summary, sort, lines));
    }
    if wants("threads") {
        let with_bars = wants("histograms");
        let is_running = is_alive(&reading.about);
        let form = threads::ThreadOptions { sort, lines_max: lines, with_bars, is_running };
        outln!("{}", threads::text(&mut names, &summary, form));
    }
    if wants("matrix") {
        outln!("{}", matrix::text(&summary, lines));
    }
    if wants("stacks") {
        let nothing = call_stacks::nothing(&reading.about, reading.control.stack_sample);
        outln!(
            "{}",
            call_stacks::text(&call_stacks::of(&mut names, &reading.threads), lines, nothing)
        );
    }
    if wants("histograms") && !wants("threads") {
        outln!("{}", table::histograms(&summary, sort, lines));
    }
    if reading.about.kind == SiteKind::Stacks {
        outln!("{UNSEEN}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns a line that names the other profiles of the same run; `None` if there are none.
fn others(path: &Path) -> Option<String> {
    const NAMES_MAX: usize = 4;
    let others = of_run(path).into_iter().filter(|other| other.file_name() != path.file_name());
    let mut names: Vec<_> = others.map(|other| other.display().to_string()).collect();
    let count = names.len();
    if count > NAMES_MAX {
        names.truncate(NAMES_MAX - 1);
        names.push("…".to_owned());
    }
    let what = counted(
        count,
        "more process of this run has a profile",
        "more processes of this run have profiles",
    );
    (count > 0).then(|| format!("{what}: {}", names.join(", ")))
}

/// Reads the profile that the arguments name.
pub(super) fn read(args: &ArgMatches) -> Result<(ProfileFile, ProfileSnapshot), String> {
    let path = find(args.get_one("file"))?;
    let file = ProfileFile::open(&path).map_err(|error| error.to_string())?;
    let reading = file.read().map_err(|error| error.to_string())?;
    Ok((file, reading))
}

/// Returns the lines above a report: the process, its state, and the completeness of the profile.
pub(super) fn head(file: &ProfileFile, reading: &ProfileSnapshot, summary: &Summary) -> String {
    let (path, about) = (file.path().display(), &reading.about);
    let now_ns = is_alive(about).then(unix_ns);
    let life = match (now_ns, reading.control.is_on) {
        (Some(now_ns), is_on) => {
            let ns = now_ns.saturating_sub(reading.control.reset_unix_ns);
            let switch = if is_on { "on" } else { "off" };
            format!("runs; recording is {switch}; recorded for {:.1} s", ns as f64 / 1e9)
        }
        (None, true) => "has exited; these are its last numbers".to_owned(),
        (None, false) => "has exited; these are its last numbers; recording was off".to_owned(),
    };
    let mut lines = vec![format!("{path}: process {} ({}) {life}", about.pid, about.program)];
    let room = &summary.room;
    if reading.control.skip > 0 || room.skipped > 0 {
        lines.push(format!(
            "sampled: one in {} lock attempts of each thread is recorded; {} were skipped",
            reading.control.skip.saturating_add(1),
            room.skipped
        ));
    }
    let every = reading.control.stack_sample;
    if about.plan.stacks != StackPlan::NONE && (every > 0 || room.samples > 0) {
        let now = match every {
            0 => "off".to_owned(),
            every => format!("one in {every}"),
        };
        lines.push(format!("stacks of waits and failed try-locks: {now}; {} taken", room.samples));
    }
    let rejected: u64 = room.rejected.iter().fold(0, |sum, (_, n)| sum.saturating_add(*n));
    lines.push(format!(
        "records: {} of {} used, {rejected} rejected, {} collisions",
        room.records, room.maximum, room.collisions
    ));
    let without_room = room.rejected.iter().filter(|(_, n)| *n > 0);
    lines.extend(without_room.map(|(what, n)| format!("  rejected: {n} {what}")));
    lines.extend(in_progress::line(reading, now_ns));
    lines.extend(stale_binaries::lines(reading));
    lines.join("\n")
}

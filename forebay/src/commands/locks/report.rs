//! `forebay locks report`.

use std::process::ExitCode;

use clap::ArgMatches;
use forebay_shm::{ProfileFile, is_alive};
use forebay_sync::profile::{Reading, SiteKind};

use super::columns::Sort;
use super::find::find;
use super::summary::Summary;
use super::{UNSEEN, json, lines_max, matrix, table, threads};
use crate::commands::is_set;
use crate::say::say;

pub(super) fn run(args: &ArgMatches) -> Result<ExitCode, String> {
    let (file, reading) = read(args)?;
    let summary = Summary::of(&reading);
    if is_set(args, "json") {
        say!("{}", json::report(file.path(), &reading, &summary));
        return Ok(ExitCode::SUCCESS);
    }
    let sort = Sort::named(args.get_one("sort"));
    let lines = lines_max(args);
    say!("{}", head(&file, &reading, &summary));
    let wants = |name: &str| is_set(args, name);
    if !wants("threads") && !wants("matrix") && !wants("histograms") {
        say!("{}", table::text(&summary, sort, lines));
    }
    if wants("threads") {
        say!("{}", threads::text(&reading, &summary, lines));
    }
    if wants("matrix") {
        say!("{}", matrix::text(&summary, lines));
    }
    if wants("histograms") {
        say!("{}", table::histograms(&summary, sort, lines));
    }
    if reading.about.kind == SiteKind::Stacks {
        say!("{UNSEEN}");
    }
    Ok(ExitCode::SUCCESS)
}

/// The file that is meant, and what it says.
pub(super) fn read(args: &ArgMatches) -> Result<(ProfileFile, Reading), String> {
    let path = find(args.get_one("file"))?;
    let file = ProfileFile::open(&path).map_err(|error| error.to_string())?;
    let reading = file.read().map_err(|error| error.to_string())?;
    Ok((file, reading))
}

/// Whose the profile is, and whether it can be believed to be whole.
pub(super) fn head(file: &ProfileFile, reading: &Reading, summary: &Summary) -> String {
    let (path, about) = (file.path().display(), &reading.about);
    let life = if is_alive(about) { "runs" } else { "has gone, these are its last numbers" };
    let switch = if reading.control.is_on { "on" } else { "off" };
    let mut lines =
        vec![format!("{path}: process {} ({}) {life}; {switch}", about.pid, about.program)];
    let room = &summary.room;
    if reading.control.skip > 0 || room.skipped > 0 {
        lines.push(format!(
            "a sample: one of {} attempts of each thread is recorded; {} were passed over",
            reading.control.skip.saturating_add(1),
            room.skipped
        ));
    }
    let rejected: u64 = room.rejected.iter().fold(0, |sum, (_, n)| sum.saturating_add(*n));
    lines.push(format!(
        "records {} of {}, rejected {rejected}, collisions {}",
        room.records, room.maximum, room.collisions
    ));
    let without_room = room.rejected.iter().filter(|(_, n)| *n > 0);
    lines.extend(without_room.map(|(what, n)| format!("  rejected: {n} {what}")));
    lines.join("\n")
}

//! Switching what a process records, by the words of its profile.

use std::process::ExitCode;

use clap::ArgMatches;
use forebay_server::clock;
use forebay_shm::{ProfileFile, is_alive};
use forebay_sync::profile::Switch;

use super::find::find;
use crate::say::say;

pub(super) fn on(args: &ArgMatches) -> Result<ExitCode, String> {
    let file = open(args)?;
    let sample = args.get_one::<u64>("sample").copied().unwrap_or(1);
    set(&file, Switch::Skip, sample - 1)?;
    set(&file, Switch::Enabled, clock::unix_ns().max(1))?;
    match sample {
        1 => say!("{}: on", file.path().display()),
        sample => say!("{}: on, one of {sample} attempts", file.path().display()),
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn off(args: &ArgMatches) -> Result<ExitCode, String> {
    let file = open(args)?;
    set(&file, Switch::Enabled, 0)?;
    say!("{}: off", file.path().display());
    Ok(ExitCode::SUCCESS)
}

pub(super) fn reset(args: &ArgMatches) -> Result<ExitCode, String> {
    let file = open(args)?;
    file.reset(clock::unix_ns()).map_err(|error| error.to_string())?;
    say!("{}: begins anew", file.path().display());
    Ok(ExitCode::SUCCESS)
}

/// The profile of a process that runs: the last records of one that has gone stay as they are.
fn open(args: &ArgMatches) -> Result<ProfileFile, String> {
    let path = find(args.get_one("file"))?;
    let file = ProfileFile::open_to_switch(&path).map_err(|error| error.to_string())?;
    let about = file.about().map_err(|error| error.to_string())?;
    match is_alive(&about) {
        true => Ok(file),
        false => Err(format!("{}: process {} has gone", path.display(), about.pid)),
    }
}

fn set(file: &ProfileFile, switch: Switch, value: u64) -> Result<(), String> {
    file.switch(switch, value).map_err(|error| error.to_string())
}

//! Switches recording on and off, and resets it, by writing to the profile.

use std::process::ExitCode;

use clap::ArgMatches;
use forebay_server::clock;
use forebay_shm::{ProfileFile, is_alive};
use forebay_sync::profile::{StackPlan, Switch};

use super::call_stacks;
use super::find::find;
use crate::stdout::outln;

pub(super) fn on(args: &ArgMatches) -> Result<ExitCode, String> {
    let file = open(args)?;
    let sample = args.get_one::<u64>("sample").copied().unwrap_or(1);
    let stacks = args.get_one::<u64>("stacks").copied();
    if let Some(stacks) = stacks {
        set_stacks(&file, stacks)?;
    }
    set(&file, Switch::Skip, sample - 1)?;
    set(&file, Switch::Enabled, clock::unix_ns().max(1))?;
    let of_attempts = match sample {
        1 => String::new(),
        sample => format!(", one in {sample} lock attempts"),
    };
    let of_stacks = match stacks {
        None => String::new(),
        Some(0) => ", no stacks".to_owned(),
        Some(stacks) => format!(", stacks of one in {stacks} waits and failed try-locks"),
    };
    outln!("{}: recording is on{of_attempts}{of_stacks}", file.path().display());
    Ok(ExitCode::SUCCESS)
}

fn set_stacks(file: &ProfileFile, stacks: u64) -> Result<(), String> {
    let about = file.about().map_err(|error| error.to_string())?;
    match (about.plan.stacks == StackPlan::NONE, stacks) {
        (false, stacks) => set(file, Switch::StackSample, stacks),
        (true, 0) => Ok(()),
        (true, _) => {
            Err(format!("{}: {}", file.path().display(), call_stacks::nothing(&about, stacks)))
        }
    }
}

pub(super) fn off(args: &ArgMatches) -> Result<ExitCode, String> {
    let file = open(args)?;
    set(&file, Switch::Enabled, 0)?;
    outln!("{}: recording is off", file.path().display());
    Ok(ExitCode::SUCCESS)
}

pub(super) fn reset(args: &ArgMatches) -> Result<ExitCode, String> {
    let file = open(args)?;
    file.reset(clock::unix_ns()).map_err(|error| error.to_string())?;
    outln!("{}: all recorded numbers were reset", file.path().display());
    Ok(ExitCode::SUCCESS)
}

/// Opens the profile of a running process. The profile of an exited process is refused, so that its
/// last numbers do not change.
fn open(args: &ArgMatches) -> Result<ProfileFile, String> {
    let path = find(args.get_one("file"))?;
    let file = ProfileFile::open_to_switch(&path).map_err(|error| error.to_string())?;
    let about = file.about().map_err(|error| error.to_string())?;
    match is_alive(&about) {
        true => Ok(file),
        false => Err(format!("{}: process {} has exited", path.display(), about.pid)),
    }
}

fn set(file: &ProfileFile, switch: Switch, value: u64) -> Result<(), String> {
    file.switch(switch, value).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use forebay_sync::boxed_words;
    use forebay_sync::profile::{Clock, ProcessIdentity, Profile, ProfilePlan, SiteKind};

    use super::*;

    const PLAN: ProfilePlan = ProfilePlan {
        sites: 1,
        frames: 1,
        modules: 0,
        text_bytes: 0,
        threads: 1,
        rows: 1,
        pairs: 1,
        stacks: StackPlan::NONE,
    };

    #[test]
    fn a_refusal_to_sample_stacks_gives_the_reason() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("1.locks");
        for (kind, frames, why) in [
            (SiteKind::Stacks, 1, "see `forebay locks record --stacks`"),
            (SiteKind::Stacks, 2, "see `forebay locks report --threads`"),
            (SiteKind::Places, 0, "`lock_profile_size`"),
        ] {
            let plan = ProfilePlan { frames, ..PLAN };
            let us = ProcessIdentity {
                pid: 1,
                start_ticks: 0,
                boot_id: [0; 16],
                unix_ns: 0,
                program: "",
                kind,
            };
            let words: &'static [AtomicU64] = Box::leak(boxed_words(plan.word_count()));
            Profile::new(words, plan, Clock::SYSTEM, &us).expect("the plan is sound");
            let bytes = words.iter().flat_map(|word| word.load(Relaxed).to_le_bytes());
            std::fs::write(&path, bytes.collect::<Vec<u8>>()).expect("written");
            let file = ProfileFile::open_to_switch(&path).expect("a profile");
            let said = set_stacks(&file, 1).expect_err("there is no room");
            assert!(said.contains(why), "{said}");
            assert_eq!(set_stacks(&file, 0), Ok(()));
        }
    }
}

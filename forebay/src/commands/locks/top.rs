//! `forebay locks top`: watches lock contention live.

mod rows;

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ArgMatches;
use forebay_server::clock::unix_ns;
use forebay_shm::{ProfileFile, is_alive};
use forebay_sync::profile::{ProfileHeader, ProfileSnapshot, SiteKind};

use self::rows::{headings, rows};
use super::files::of_run;
use super::find::find;
use super::names::SiteNames;
use super::report::head;
use super::summary::Summary;
use super::{counted, in_progress, lines_max};
use crate::screen::{CLEAR, Screen, WatchLoop, WatchTarget, interval_of};
use crate::stdout::write_line;

pub(super) fn run(args: &ArgMatches) -> Result<ExitCode, String> {
    let is_live = io::stdout().is_terminal();
    let mut top =
        LocksTop { path: find(args.get_one("file"))?, is_live, lines_max: lines_max(args) };
    let first = top.read()?;
    if first.has_ended() {
        return Err(format!(
            "{}; see `forebay locks report {}`",
            first.end(&top.path),
            top.path.display()
        ));
    }
    let tables = args.get_one::<u64>("count").copied();
    WatchLoop { interval_ms: interval_of(args), tables, is_live }.watch(&mut top, first)
}

struct LocksTop {
    path: PathBuf,
    is_live: bool,
    lines_max: usize,
}

/// The profiles of a run at one time.
struct RunSnapshot {
    /// The running processes. An exited server stays in the list, because another server may
    /// replace it.
    processes: Vec<ProcessSnapshot>,
    /// Processes of a foreign program that have exited.
    gone: Vec<ProfileHeader>,
}

struct ProcessSnapshot {
    file: ProfileFile,
    reading: ProfileSnapshot,
    summary: Summary,
}

impl RunSnapshot {
    fn at(path: &Path) -> Result<RunSnapshot, String> {
        let mut look = RunSnapshot { processes: Vec::new(), gone: Vec::new() };
        let mut files = of_run(path);
        if files.is_empty() {
            // Opening the file gives the reason why there is no profile.
            files.push(path.to_owned());
        }
        let mut fault = None;
        for file in &files {
            if let Err(error) = look.add(file) {
                fault.get_or_insert(error);
            }
        }
        match fault {
            Some(error) if look.processes.is_empty() => Err(error),
            _ => Ok(look),
        }
    }

    fn add(&mut self, path: &Path) -> Result<(), String> {
        let file = ProfileFile::open(path).map_err(|error| error.to_string())?;
        let about = file.about().map_err(|error| error.to_string())?;
        if about.kind == SiteKind::Stacks && !is_alive(&about) {
            self.gone.push(about);
            return Ok(());
        }
        let reading = file.read().map_err(|error| error.to_string())?;
        let mut names = SiteNames::of(&reading);
        let mut summary = Summary::named(&mut names);
        if is_alive(&about) {
            in_progress::add(&mut summary, &mut names, unix_ns());
        }
        self.processes.push(ProcessSnapshot { summary, file, reading });
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.processes.is_empty()
    }

    /// Returns the message that no process is running any more.
    fn end(&self, path: &Path) -> String {
        match &*self.gone {
            [only] => {
                format!("{}: process {} ({}) has ended", path.display(), only.pid, only.program)
            }
            all => format!("{}: all its {} processes have ended", path.display(), all.len()),
        }
    }

    /// Whether the run has several profiles.
    fn is_of_several(&self) -> bool {
        self.processes.len() + self.gone.len() > 1
    }

    fn head(&self, path: &Path) -> String {
        let count = self.processes.len();
        match &*self.processes {
            [only] if self.gone.is_empty() => head(&only.file, &only.reading, &only.summary),
            all => {
                let on = all.iter().filter(|process| process.reading.control.is_on).count();
                let switch = match on {
                    0 => "recording is off".to_owned(),
                    on if on == count => "recording is on".to_owned(),
                    on => format!("recording is on in {on} of them"),
                };
                let gone = match self.gone.len() {
                    0 => String::new(),
                    gone => format!(", {gone} more have ended"),
                };
                let run = if count == 1 { "runs" } else { "run" };
                let processes = counted(count, "process", "processes");
                format!("{}: {processes} {run}{gone}; {switch}", path.display())
            }
        }
    }
}

impl WatchTarget for LocksTop {
    type Snapshot = RunSnapshot;

    const AWAY: &'static str = "trying again to read the file";

    fn read(&mut self) -> Result<RunSnapshot, String> {
        RunSnapshot::at(&self.path)
    }

    fn show(&self, now: &RunSnapshot, before: Option<(&RunSnapshot, f64)>) -> bool {
        if now.has_ended() {
            // The message is printed below the last table, which is not cleared.
            let _ = write_line(format_args!("{}", now.end(&self.path)));
            return false;
        }
        let head = now.head(&self.path);
        let (columns, rows) = match before {
            Some((before, seconds)) => rows(&before.processes, now, seconds, self.width()),
            None => (headings(now), vec!["the numbers were reset".to_owned()]),
        };
        let head = format!("{head}\n{columns}");
        let room = match self.is_live {
            true => Screen::of_output().room_for(&rows, &head),
            false => rows.len(),
        };
        let shown = rows.get(..room.min(self.lines_max)).unwrap_or(&rows).join("\n");
        let clear = if self.is_live { CLEAR } else { "" };
        write_line(format_args!("{clear}{head}\n{shown}"))
    }
}

impl LocksTop {
    /// Returns the width at which lines are cut.
    fn width(&self) -> usize {
        if self.is_live { Screen::of_output().width } else { usize::MAX }
    }
}

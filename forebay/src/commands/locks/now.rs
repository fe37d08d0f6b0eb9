//! `forebay locks now`: which thread has which lock, and who waits for whom.

mod circles;

use std::process::ExitCode;

use clap::ArgMatches;
use forebay_server::clock::unix_ns;
use forebay_shm::{ProfileFile, is_alive};
use forebay_sync::profile::{LockNow, Reading, ThreadNow};
use serde_json::{Value, json};

use super::files::of_run;
use super::find::find;
use super::summary::{Place, place_of};
use crate::commands::is_set;
use crate::say::say;

pub(super) fn run(args: &ArgMatches) -> Result<ExitCode, String> {
    let path = find(args.get_one("file"))?;
    let mut files = of_run(&path);
    if files.is_empty() {
        // The error says why.
        files.push(path);
    }
    let mut views = Vec::new();
    for file in &files {
        let read = ProfileFile::open(file).and_then(|file| file.read());
        let reading = read.map_err(|error| error.to_string())?;
        let view = View::of(&reading);
        views.push(match is_set(args, "json") {
            true => view.json(&file.display().to_string()).to_string(),
            false => view.titled(&file.display().to_string()),
        });
    }
    match is_set(args, "json") {
        true => say!("{{\"processes\":[{}]}}", views.join(",")),
        false => say!("{}", views.join("\n")),
    }
    Ok(ExitCode::SUCCESS)
}

/// A moment of a process.
struct View<'a> {
    reading: &'a Reading,
    is_alive: bool,
    /// When that was, in nanoseconds since 1970; of a process that has gone, when it began.
    origin_ns: u64,
}

impl View<'_> {
    fn of(reading: &Reading) -> View<'_> {
        let is_alive = is_alive(&reading.about);
        let origin_ns = if is_alive { unix_ns() } else { reading.about.created_unix_ns };
        View { reading, is_alive, origin_ns }
    }

    fn titled(&self, file: &str) -> String {
        let about = &self.reading.about;
        let life = if self.is_alive { "runs" } else { "has gone, this is how it ended" };
        format!("{file}: process {} ({}) {life}\n{}", about.pid, about.program, self.text())
    }

    fn text(&self) -> String {
        let mut lines = Vec::new();
        let is_at_locks =
            |thread: &&ThreadNow| thread.awaited.is_some() || !thread.holds.is_empty();
        for thread in self.reading.now.iter().filter(is_at_locks) {
            lines.push(title(thread));
            lines.extend(
                thread.holds.iter().map(|hold| format!("  has        {}", self.lock(hold))),
            );
            if let Some(awaited) = &thread.awaited {
                let holders = circles::holders(&self.reading.now, awaited.lock);
                lines.push(format!("  waits for  {}", self.lock(awaited)));
                lines.push(format!("             {}", held_by(&holders)));
            }
        }
        if lines.is_empty() {
            lines.push("no thread has a lock that was recorded, nor waits for one".to_owned());
        }
        lines.extend(circles::circles(&self.reading.now).iter().map(|circle| circle_line(circle)));
        lines.join("\n")
    }

    fn lock(&self, now: &LockNow) -> String {
        format!("{:#x}, {}, {}", now.lock, self.since(now), self.place(now).name())
    }

    fn place(&self, now: &LockNow) -> Place {
        place_of(self.reading, now.site)
    }

    fn since(&self, now: &LockNow) -> String {
        let seconds = now.since_unix_ns.abs_diff(self.origin_ns) as f64 / 1e9;
        match self.is_alive {
            true => format!("for {seconds:.6} s"),
            false => format!("since {seconds:.6} s after the start"),
        }
    }

    fn json(&self, file: &str) -> Value {
        let threads = self.reading.now.iter().map(|thread| {
            json!({
                "tid": thread.tid,
                "name": thread.name,
                "holds": thread.holds.iter().map(|hold| self.lock_json(hold)).collect::<Vec<_>>(),
                "awaits": thread.awaited.as_ref().map(|awaited| {
                    let mut object = self.lock_json(awaited);
                    object["held_by"] = circles::holders(&self.reading.now, awaited.lock).into();
                    object
                }),
            })
        });
        json!({
            "file": file,
            "pid": self.reading.about.pid,
            "program": self.reading.about.program,
            "is_alive": self.is_alive,
            "threads": threads.collect::<Vec<_>>(),
            "circles": circles::circles(&self.reading.now),
        })
    }

    fn lock_json(&self, now: &LockNow) -> Value {
        json!({
            "lock": format!("{:#x}", now.lock),
            "since_unix_ns": now.since_unix_ns,
            "place": super::json::place(&self.place(now)),
        })
    }
}

fn title(thread: &ThreadNow) -> String {
    match &*thread.name {
        "" => format!("thread {}", thread.tid),
        name => format!("thread {} {name}", thread.tid),
    }
}

fn held_by(holders: &[u32]) -> String {
    match holders {
        [] => "who has it is not known".to_owned(),
        [one] => format!("which thread {one} has"),
        many => format!("which threads {} have", joined(many, ", ")),
    }
}

fn circle_line(circle: &[u32]) -> String {
    match circle {
        [one] => format!("deadlock: thread {one} waits for itself"),
        many => format!(
            "deadlock: threads {} wait for one another, unless one of them gives up",
            joined(many, ", ")
        ),
    }
}

fn joined(tids: &[u32], between: &str) -> String {
    tids.iter().map(u32::to_string).collect::<Vec<_>>().join(between)
}

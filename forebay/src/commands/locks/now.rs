//! `forebay locks now`: the locks that each thread holds and awaits.

mod deadlocks;

use std::cell::RefCell;
use std::process::ExitCode;
use std::rc::Rc;

use clap::ArgMatches;
use forebay_server::clock::unix_ns;
use forebay_shm::{ProfileFile, is_alive};
use forebay_sync::profile::{LockNow, ProfileSnapshot, ThreadNow};
use serde_json::{Value, json};

use self::deadlocks::{Deadlocks, Holders};
use super::files::of_run;
use super::find::find;
use super::json::BoundedList;
use super::names::SiteNames;
use super::summary::LockSite;
use crate::commands::is_set;
use crate::stdout::outln;

pub(super) fn run(args: &ArgMatches) -> Result<ExitCode, String> {
    let path = find(args.get_one("file"))?;
    let mut files = of_run(&path);
    if files.is_empty() {
        // Opening the file gives the reason why there is no profile.
        files.push(path);
    }
    let mut views = Vec::new();
    for file in &files {
        let read = ProfileFile::open(file).and_then(|file| file.read());
        let reading = read.map_err(|error| error.to_string())?;
        let view = ThreadsView::of(&reading);
        views.push(match is_set(args, "json") {
            true => view.json(&file.display().to_string()).to_string(),
            false => view.titled(&file.display().to_string()),
        });
    }
    match is_set(args, "json") {
        true => outln!("{{\"processes\":[{}]}}", views.join(",")),
        false => outln!("{}", views.join("\n")),
    }
    Ok(ExitCode::SUCCESS)
}

/// Approximate number of bytes that are printed for all threads together.
const TEXT_BYTES_MAX: usize = 32 << 20;

/// Largest number of holders that are listed for a lock.
const HOLDERS_MAX: usize = 64;

/// The locks that the threads of a process hold and await at one instant.
struct ThreadsView<'a> {
    reading: &'a ProfileSnapshot,
    names: RefCell<SiteNames<'a>>,
    holders: Holders,
    is_alive: bool,
    /// The time relative to which holds and waits are shown, in nanoseconds since 1970: the instant
    /// of the view or, if the process has exited, its start.
    origin_ns: u64,
}

impl ThreadsView<'_> {
    fn of(reading: &ProfileSnapshot) -> ThreadsView<'_> {
        let is_alive = is_alive(&reading.about);
        let origin_ns = if is_alive { unix_ns() } else { reading.about.created_unix_ns };
        let (names, holders) = (SiteNames::of(reading).into(), Holders::of(&reading.now));
        ThreadsView { reading, names, holders, is_alive, origin_ns }
    }

    fn titled(&self, file: &str) -> String {
        let about = &self.reading.about;
        let life = if self.is_alive { "runs" } else { "has exited; this is its last state" };
        format!("{file}: process {} ({}) {life}\n{}", about.pid, about.program, self.text())
    }

    fn text(&self) -> String {
        let mut lines = Vec::new();
        let is_at_locks =
            |thread: &&ThreadNow| thread.awaited.is_some() || !thread.holds.is_empty();
        let (mut room, mut hidden) = (TEXT_BYTES_MAX, 0);
        for thread in self.reading.now.iter().filter(is_at_locks) {
            if room == 0 {
                hidden += 1;
                continue;
            }
            let of_thread = self.thread(thread);
            room = of_thread.iter().fold(room, |room, line| room.saturating_sub(line.len()));
            lines.extend(of_thread);
        }
        if hidden > 0 {
            lines.push(format!("{hidden} more threads not shown"));
        }
        if lines.is_empty() {
            lines.push("no thread holds or awaits a recorded lock".to_owned());
        }
        let deadlocks = Deadlocks::of(&self.reading.now, &self.holders);
        lines.extend(deadlocks.cycles.iter().map(|cycle| deadlock_line(cycle)));
        if deadlocks.is_cut_off {
            lines.push(
                "too many threads wait for one another: the search for deadlocks was cut short"
                    .to_owned(),
            );
        }
        lines.join("\n")
    }

    fn thread(&self, thread: &ThreadNow) -> Vec<String> {
        let mut lines = vec![title(thread)];
        let holds = thread.holds.iter();
        lines.extend(holds.map(|hold| format!("  has        {}", self.lock(hold))));
        if let Some(awaited) = &thread.awaited {
            lines.push(format!("  waits for  {}", self.lock(awaited)));
            lines.push(format!("             {}", held_by(self.holders.of_lock(awaited.lock))));
        }
        lines
    }

    fn lock(&self, now: &LockNow) -> String {
        format!("{:#x}, {}, {}", now.lock, self.since(now), self.site(now).name())
    }

    fn site(&self, now: &LockNow) -> Rc<LockSite> {
        self.names.borrow_mut().site(now.site)
    }

    fn since(&self, now: &LockNow) -> String {
        let seconds = now.since_unix_ns.abs_diff(self.origin_ns) as f64 / 1e9;
        match self.is_alive {
            true => format!("for {seconds:.6} s"),
            false => format!("since {seconds:.6} s after the start"),
        }
    }

    fn json(&self, file: &str) -> Value {
        let mut list = BoundedList::new(usize::MAX);
        let threads = list.of(&self.reading.now, |thread| {
            json!({
                "tid": thread.tid,
                "name": thread.name,
                "holds": thread.holds.iter().map(|hold| self.lock_json(hold)).collect::<Vec<_>>(),
                "awaits": thread.awaited.as_ref().map(|awaited| {
                    let mut object = self.lock_json(awaited);
                    object["held_by"] = self.holders.of_lock(awaited.lock).into();
                    object
                }),
            })
        });
        let deadlocks = Deadlocks::of(&self.reading.now, &self.holders);
        json!({
            "file": file,
            "pid": self.reading.about.pid,
            "program": self.reading.about.program,
            "is_alive": self.is_alive,
            "threads": threads,
            "deadlocks": deadlocks.cycles,
            "left_out": { "threads": list.left_out, "deadlocks": deadlocks.is_cut_off },
        })
    }

    fn lock_json(&self, now: &LockNow) -> Value {
        json!({
            "lock": format!("{:#x}", now.lock),
            "since_unix_ns": now.since_unix_ns,
            "site": super::json::site(&self.site(now)),
        })
    }
}

#[cfg(test)]
pub(super) fn shown(reading: &ProfileSnapshot) -> [String; 2] {
    let view = ThreadsView::of(reading);
    [view.text(), view.json("x").to_string()]
}

fn title(thread: &ThreadNow) -> String {
    match &*thread.name {
        "" => format!("thread {}", thread.tid),
        name => format!("thread {} {name}", thread.tid),
    }
}

fn held_by(holders: &[u32]) -> String {
    match holders {
        [] => "holder unknown".to_owned(),
        [one] => format!("held by thread {one}"),
        many => match many.get(..HOLDERS_MAX).filter(|some| some.len() < many.len()) {
            Some(some) => {
                let others = many.len() - some.len();
                format!("held by threads {} and {others} more", joined(some, ", "))
            }
            None => format!("held by threads {}", joined(many, ", ")),
        },
    }
}

fn deadlock_line(cycle: &[u32]) -> String {
    match cycle {
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

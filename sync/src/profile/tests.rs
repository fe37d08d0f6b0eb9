//! Tests of recorders that write to words on the heap, and of snapshots of these words.

mod damage;
mod now;
mod page;
mod recording;
mod room;
mod samples;

use std::sync::atomic::AtomicU64;

use super::*;
use crate::words::boxed_words;

const STACKS: StackPlan = StackPlan { stacks: 8, frames: 4, samples: 8 };

const SMALL: ProfilePlan = ProfilePlan {
    sites: 16,
    frames: 4,
    modules: 2,
    text_bytes: 256,
    threads: 3,
    rows: 16,
    pairs: 16,
    stacks: STACKS,
};

const US: ProcessIdentity<'static> = ProcessIdentity {
    pid: 4711,
    start_ticks: 12,
    boot_id: [7; 16],
    unix_ns: 1_000_000_000,
    program: "a program",
    kind: SiteKind::Places,
};

/// A site of a test: its line is its key.
struct Line(u32);

impl ProfiledSite for Line {
    fn key(&self) -> u64 {
        self.0.into()
    }

    fn describe(&self) -> SiteDescription<'_> {
        SiteDescription {
            name: "test",
            place: "here.rs",
            line: self.0,
            column: 1,
            ..SiteDescription::default()
        }
    }
}

fn words(plan: &ProfilePlan) -> &'static [AtomicU64] {
    Box::leak(boxed_words(plan.word_count()))
}

/// A profile that is on.
fn profile(plan: ProfilePlan) -> &'static Profile {
    let profile = Profile::new(words(&plan), plan, Clock::SYSTEM, &US).expect("the plan is sound");
    profile.turn(true);
    Box::leak(Box::new(profile))
}

fn bytes(profile: &Profile) -> Vec<u8> {
    let words = profile.part(0, profile.plan().word_count());
    words
        .iter()
        .flat_map(|word| word.load(std::sync::atomic::Ordering::Relaxed).to_le_bytes())
        .collect()
}

fn read(profile: &Profile) -> ProfileSnapshot {
    ProfileSnapshot::of(&bytes(profile)[..]).expect("a whole profile")
}

fn thread(tid: u32) -> Option<ThreadIdentity> {
    Some(ThreadIdentity { tid, name: *b"a thread\0\0\0\0\0\0\0\0" })
}

/// Takes a free lock and releases it.
fn visit(profile: &Profile, recorder: &mut Recorder, tid: u32, line: u32) {
    if recorder.begin(profile, || thread(tid)) {
        let held =
            recorder.acquired(profile, &Line(line), &Acquisition::default()).expect("a block");
        recorder.released(profile, &held);
    }
}

/// The totals of all threads at a line. Line 0 stands for all lines that found no row.
fn total(reading: &ProfileSnapshot, line: u64) -> SiteTotals {
    let mut total = SiteTotals::default();
    for (_, row) in
        reading.threads.iter().flat_map(|thread| &thread.rows).filter(|(key, _)| *key == line)
    {
        total.add(row);
    }
    total
}

//! A profile of this process's locks, for tests that use the profile one after another.
#![allow(dead_code, reason = "each test program uses only some of these functions")]
#![expect(clippy::disallowed_types, reason = "the test's own locks must not be recorded")]

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex as PlainMutex, MutexGuard as PlainGuard, OnceLock, PoisonError};

use forebay_sync::profile::{
    Clock, ProcessIdentity, Profile, ProfilePlan, ProfileSnapshot, SiteKind, SiteTotals, StackPlan,
    install,
};
use forebay_sync::{LockClass, RwLock, boxed_words};

const PLAN: ProfilePlan = ProfilePlan {
    sites: 64,
    frames: 0,
    modules: 0,
    text_bytes: 1 << 14,
    threads: 80,
    rows: 32,
    pairs: 32,
    stacks: StackPlan { stacks: 64, frames: 32, samples: 32 },
};

/// The profile of this process, its words, and the turn of the test that uses it.
pub(crate) struct Turn {
    pub(crate) profile: &'static Profile,
    words: &'static [AtomicU64],
    /// The number of events that were lost before this turn. A reset does not clear this count.
    pub(crate) lost_before: u64,
    _turn: PlainGuard<'static, ()>,
}

static TURN: PlainMutex<()> = PlainMutex::new(());

/// Waits for a test's turn with the only profile of the process, and resets the profile.
pub(crate) fn turn() -> Turn {
    static WORDS: OnceLock<(&'static Profile, &'static [AtomicU64])> = OnceLock::new();
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (profile, words) = *WORDS.get_or_init(|| {
        let words: &[AtomicU64] = Box::leak(boxed_words(PLAN.word_count()));
        let us = ProcessIdentity {
            pid: std::process::id(),
            start_ticks: 0,
            boot_id: [0; 16],
            unix_ns: 0,
            program: "test",
            kind: SiteKind::Places,
        };
        let profile = Profile::new(words, PLAN, Clock::fastest(), &us).expect("the plan is sound");
        let profile = Box::leak(Box::new(profile));
        install(profile).expect("the process has no other profile and no observer");
        (profile, words)
    });
    profile.turn(true);
    profile.set_skip(0);
    profile.set_stack_sample(0);
    profile.reset(0);
    let mut turn = Turn { profile, words, lost_before: 0, _turn: turn };
    turn.lost_before = turn.read().counts.lost;
    turn
}

impl Turn {
    pub(crate) fn read(&self) -> ProfileSnapshot {
        let bytes = self.words.iter().flat_map(|word| word.load(Relaxed).to_le_bytes());
        ProfileSnapshot::of(&bytes.collect::<Vec<u8>>()[..]).expect("a whole profile")
    }
}

/// The totals of the locks that are taken at a line of the test.
pub(crate) fn at(reading: &ProfileSnapshot, line: u32) -> SiteTotals {
    let mut sum = SiteTotals::default();
    for (key, row) in reading.threads.iter().flat_map(|thread| &thread.rows) {
        if line_of(reading, *key) == Some(line) {
            sum.add(row);
        }
    }
    sum
}

pub(crate) fn line_of(reading: &ProfileSnapshot, key: u64) -> Option<u32> {
    let site = reading.sites.get(&key)?;
    assert!(&*site.name == "test" && site.place.contains("tests/profile"), "{site:?}");
    Some(site.line)
}

pub(crate) fn rwlock() -> RwLock<u64> {
    RwLock::new(LockClass::Test, 0)
}

/// The result of a call, and the line of the call.
macro_rules! at {
    ($call:expr) => {
        ($call, line!())
    };
}

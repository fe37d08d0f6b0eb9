//! Tests that reading a hostile profile neither panics nor allocates much more than the profile has
//! bytes.
//!
//! The allocations of the whole process are counted, so this file has only one test.

use std::alloc::System;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use forebay_sync::boxed_words;
use forebay_sync::profile::{
    Acquisition, Clock, LockWait, ProcessIdentity, Profile, ProfileBytes, ProfilePlan,
    ProfileSnapshot, ProfiledSite, Recorder, SiteDescription, SiteKind, StackPlan, ThreadIdentity,
    hash_words,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The number of words of the header.
const HEADER: usize = 128;
/// The index of the header's check.
const CHECK: usize = 15;

/// The file of a profile, of which only the first words are stored: all others are zero.
struct Holes {
    words: Vec<u64>,
    byte_count: u64,
}

impl ProfileBytes for Holes {
    fn byte_count(&self) -> u64 {
        self.byte_count
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        assert!(offset + out.len() as u64 <= self.byte_count, "read beyond the end of the profile");
        for (index, byte) in out.iter_mut().enumerate() {
            let at = offset as usize + index;
            *byte = self.words.get(at / 8).map_or(0, |word| word.to_le_bytes()[at % 8]);
        }
        Ok(())
    }
}

fn profile(plan: ProfilePlan, words: usize) -> (Profile, &'static [AtomicU64]) {
    let words: &'static [AtomicU64] = Box::leak(boxed_words(words));
    let us = ProcessIdentity::unknown("test", SiteKind::Stacks);
    let profile = Profile::new(words, plan, Clock::SYSTEM, &us).expect("the plan is sound");
    profile.turn(true);
    (profile, words)
}

fn copy(words: &[AtomicU64]) -> Vec<u64> {
    words.iter().map(|word| word.load(Relaxed)).collect()
}

/// Reads a profile. Returns the snapshot, and the number of bytes that were allocated for it, even
/// if they were freed again.
fn cost(read: &Holes) -> (Option<ProfileSnapshot>, usize) {
    let before = HEAP.stats();
    let reading = ProfileSnapshot::of(read).ok();
    let after = HEAP.stats();
    let grown = after.bytes_reallocated.max(0) - before.bytes_reallocated.max(0);
    (reading, after.bytes_allocated - before.bytes_allocated + grown.max(0) as usize)
}

/// A call site with return addresses, like those of other programs.
struct Stack(u64);

impl ProfiledSite for Stack {
    fn key(&self) -> u64 {
        hash_words(&[self.0])
    }

    fn describe(&self) -> SiteDescription<'_> {
        SiteDescription {
            name: "a lock",
            place: "x.c",
            frames: &[5, 6],
            ..SiteDescription::default()
        }
    }
}

/// The check of a row of the site table.
fn check(row: &[u64]) -> u64 {
    row[2..].iter().fold(hash_words(&row[..1]), |hash, word| hash_words(&[hash, *word]))
}

/// A profile whose sites all have a long name; `text` returns the text word for a row's number.
fn long_names(text: fn(u64) -> u64) -> (Holes, ProfilePlan) {
    let plan = ProfilePlan {
        sites: 1 << 14,
        frames: 0,
        modules: 0,
        text_bytes: 1 << 20,
        threads: 1,
        rows: 1,
        pairs: 1,
        stacks: StackPlan::NONE,
    };
    let mut words = copy(profile(plan, plan.word_count()).1);
    let (first, texts) = (plan.sites_start(), plan.text_start());
    words[texts..texts + plan.text_bytes as usize / 8].fill(u64::from_le_bytes(*b"aaaaaaaa"));
    for (number, row) in (1..).zip(words[first..texts].chunks_mut(8).take(plan.sites as usize)) {
        row.copy_from_slice(&[number, 0, text(number), text(number), 0, 0, 0, 0]);
        row[1] = check(row);
    }
    (Holes { words, byte_count: plan.bytes() }, plan)
}

fn one_text_for_all_is_kept_once() {
    const TEXT: u64 = 4096 << 32;
    let (file, plan) = long_names(|_| TEXT);
    let (reading, cost) = cost(&file);
    let reading = reading.expect("it is whole");
    assert_eq!(reading.sites.len(), plan.sites as usize);
    assert!(reading.sites.values().all(|site| site.name.len() == 4096));
    assert!(cost < 4 * file.words.len() * 8, "{cost} bytes");
}

fn texts_that_overlap_are_kept_while_there_could_be_so_many() {
    let (file, plan) = long_names(|number| (4096 << 32) | (number * 8));
    let (reading, cost) = cost(&file);
    let reading = reading.expect("it is whole");
    let kept: usize = reading.sites.values().map(|site| site.name.len()).sum();
    assert_eq!(kept, plan.text_bytes as usize);
    assert_eq!(reading.counts.texts_rejected, 2 * (u64::from(plan.sites) - 256));
    assert!(cost < 4 * file.words.len() * 8, "{cost} bytes");
}

fn a_file_of_four_gigabytes_that_is_empty_costs_little() {
    let plan = ProfilePlan {
        sites: 1 << 14,
        frames: 64,
        modules: 1 << 10,
        text_bytes: 1 << 28,
        threads: 80,
        rows: 1 << 16,
        pairs: 1 << 16,
        stacks: StackPlan::NONE,
    };
    assert!((3 << 30..=4 << 30).contains(&plan.bytes()), "{}", plan.bytes());
    // The header for this plan is made from the header of a small profile.
    let small = ProfilePlan { sites: 1, text_bytes: 8, threads: 1, rows: 1, pairs: 1, ..plan };
    let mut words = copy(profile(small, small.word_count()).1);
    words.truncate(HEADER);
    let halves = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    words[8..CHECK].copy_from_slice(&[
        plan.bytes(),
        halves(plan.sites, plan.frames),
        halves(plan.modules, plan.threads),
        plan.text_bytes.into(),
        halves(plan.rows, plan.pairs),
        halves(plan.stacks.stacks, plan.stacks.frames),
        plan.stacks.samples.into(),
    ]);
    words[CHECK] = hash_words(&words[..CHECK]);
    let (reading, cost) = cost(&Holes { words, byte_count: plan.bytes() });
    let reading = reading.expect("it is whole");
    assert_eq!((reading.sites.len(), reading.threads.len()), (0, 0));
    assert!(cost < 1 << 20, "{cost} bytes");
}

/// A profile in which everything is in use.
fn used() -> (Vec<u64>, ProfilePlan) {
    let plan = ProfilePlan {
        sites: 16,
        frames: 4,
        modules: 2,
        text_bytes: 256,
        threads: 2,
        rows: 16,
        pairs: 16,
        stacks: StackPlan { stacks: 16, frames: 4, samples: 16 },
    };
    let (profile, words) = profile(plan, plan.word_count());
    profile.set_stack_sample(1);
    profile.add_module(1, 200, 3, "/lib/library.so");
    for tid in 1..=2 {
        let mut recorder = Recorder::new();
        assert!(
            recorder.begin(&profile, || Some(ThreadIdentity { tid, name: *b"a thread, no end" }))
        );
        for number in 0..8 {
            let wait = Some(LockWait { since: profile.clock().now(), holder: number });
            let taken = Acquisition { wait, ..Acquisition::default() };
            let held = recorder.acquired(&profile, &Stack(number), &taken).expect("a block");
            recorder.released(&profile, &held);
            recorder.try_failed(&profile, &Stack(number), 64, number);
        }
    }
    (copy(words), plan)
}

fn no_change_of_its_words_makes_a_reader_panic_or_take_much() {
    let (whole, plan) = used();
    let byte_count = plan.bytes();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        random = hash_words(&[random]);
        random
    };
    let (mut read_count, mut site_count) = (0, 0);
    for round in 0..4000_u64 {
        let mut words = whole.clone();
        // The changed words lie in the header, after the header, or anywhere.
        let (from, to) = match round % 3 {
            0 => (2, HEADER),
            1 => (HEADER, words.len()),
            _ => (2, words.len()),
        };
        for _ in 0..=next() % 40 {
            let at = from + next() as usize % (to - from);
            let old = words[at];
            words[at] = match next() % 6 {
                0 => 0,
                1 => u64::MAX,
                2 => next(),
                3 => old ^ 1 << (next() % 64),
                4 => old.wrapping_add(next() % 3).wrapping_sub(1),
                _ => next() & 0xfff | (next() & 0x1fff) << 32,
            };
        }
        // An attacker can compute checks, so the checks match the changed words.
        for row in words[plan.sites_start()..].chunks_mut(plan.site_words()).take(16) {
            row[1] = check(row);
        }
        words[CHECK] = hash_words(&words[..CHECK]);
        let (reading, cost) = cost(&Holes { words, byte_count });
        assert!(cost < 8 * byte_count as usize + (1 << 18), "round {round}: {cost} bytes");
        read_count += usize::from(reading.is_some());
        site_count += reading.map_or(0, |reading| reading.sites.len());
    }
    // Many of the changed profiles can still be read, so the code after the header is tested too.
    assert!(read_count > 1000 && site_count > 8000, "{read_count} read, {site_count} sites");
}

#[test]
fn a_reader_allocates_for_contents_and_not_for_claimed_counts() {
    one_text_for_all_is_kept_once();
    texts_that_overlap_are_kept_while_there_could_be_so_many();
    a_file_of_four_gigabytes_that_is_empty_costs_little();
    no_change_of_its_words_makes_a_reader_panic_or_take_much();
}

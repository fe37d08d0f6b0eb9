//! Summarises a profile by the names of call sites: adds up the numbers of all threads, and merges
//! keys of the same call site.

use std::collections::BTreeMap;
use std::rc::Rc;

use forebay_sync::profile::{PairTotals, ProfileSnapshot, SiteTotals, ThreadRead};

use super::names::SiteNames;

/// A call site, by the names under which it is printed.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LockSite {
    /// The lock's class or kind.
    pub(super) lock: String,
    /// The call site and, if known, its callers; the innermost function first.
    pub(super) stack: Vec<Rc<str>>,
}

impl LockSite {
    /// Returns the name in a table: `file:line (class)`.
    pub(super) fn name(&self) -> String {
        match (self.stack.first(), &*self.lock) {
            (None, "") => "(unknown)".to_owned(),
            (None, lock) => lock.to_owned(),
            (Some(at), "") => at.to_string(),
            (Some(at), lock) => format!("{at} ({lock})"),
        }
    }

    /// Returns the name with the callers, if they are known. This name is unique among call sites.
    pub(super) fn full_name(&self) -> String {
        let way = self.stack.iter().skip(1).map(|frame| format!(" < {frame}"));
        std::iter::once(self.name()).chain(way).collect()
    }

    /// Returns the entry that stands for all call sites without rows of their own.
    pub(super) fn others() -> LockSite {
        LockSite { lock: "(others: the tables are full)".to_owned(), stack: Vec::new() }
    }
}

/// The numbers of a call site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SiteSummary {
    pub(super) totals: SiteTotals,
    /// Number of times another thread wanted the lock while this call site held it.
    pub(super) wanted_count: u64,
}

/// The call site that held a lock, and the call site that waited for the lock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LockPair {
    pub(super) holder: Rc<LockSite>,
    pub(super) waiter: Rc<LockSite>,
}

/// The use of the profile's tables, and the entries that exceeded their capacity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TableUsage {
    pub(super) records: u64,
    pub(super) maximum: u64,
    /// Number of entries that exceeded the capacity, by kind.
    pub(super) rejected: Vec<(&'static str, u64)>,
    pub(super) collisions: u64,
    pub(super) skipped: u64,
    /// Number of waits and failed try-locks with a sampled call stack.
    pub(super) samples: u64,
}

/// All numbers of a profile.
#[derive(Clone, Debug, Default)]
pub(super) struct Summary {
    pub(super) sites: BTreeMap<Rc<LockSite>, SiteSummary>,
    pub(super) pairs: BTreeMap<LockPair, PairTotals>,
    /// The numbers of each thread, in the order of the profile.
    pub(super) threads: Vec<BTreeMap<Rc<LockSite>, SiteTotals>>,
    pub(super) room: TableUsage,
}

impl Summary {
    pub(super) fn of(reading: &ProfileSnapshot) -> Summary {
        Summary::named(&mut SiteNames::of(reading))
    }

    /// Makes a summary. `names` resolves the call sites, and the caller can use it for other output
    /// too.
    pub(super) fn named(names: &mut SiteNames<'_>) -> Summary {
        let reading = names.reading;
        let mut summary = Summary { room: room(reading), ..Summary::default() };
        for thread in &reading.threads {
            let mut of_thread = BTreeMap::<_, SiteTotals>::new();
            for (key, totals) in &thread.rows {
                let site = names.site(*key);
                of_thread.entry(Rc::clone(&site)).or_default().add(totals);
                summary.at(site).totals.add(totals);
            }
            summary.threads.push(of_thread);
            for pair in &thread.pairs {
                let (holder, waiter) = (names.holder(pair.holder), names.site(pair.waiter));
                let wanted = pair.totals.count();
                if pair.holder != 0 {
                    let count = &mut summary.at(Rc::clone(&holder)).wanted_count;
                    *count = count.saturating_add(wanted);
                }
                summary.pairs.entry(LockPair { holder, waiter }).or_default().add(&pair.totals);
            }
        }
        summary
    }

    pub(super) fn at(&mut self, site: Rc<LockSite>) -> &mut SiteSummary {
        self.sites.entry(site).or_default()
    }
}

fn room(reading: &ProfileSnapshot) -> TableUsage {
    let sum = |count: fn(&ThreadRead) -> u64| {
        reading.threads.iter().fold(0_u64, |sum, thread| sum.saturating_add(count(thread)))
    };
    let counts = &reading.counts;
    let collisions =
        sum(|thread| thread.counts.row_collisions.saturating_add(thread.counts.pair_collisions));
    TableUsage {
        records: counts.sites_used,
        maximum: reading.about.plan.sites.into(),
        rejected: vec![
            ("call sites without a name", counts.sites_rejected),
            ("texts of names", counts.texts_rejected),
            ("modules", counts.modules_rejected),
            ("records counted as others", sum(|thread| thread.counts.rows_rejected)),
            ("pairs", sum(|thread| thread.counts.pairs_rejected)),
            ("stacks", counts.stacks_rejected),
            ("stack samples", sum(|thread| thread.counts.samples_rejected)),
            ("try-lock delays", sum(|thread| thread.counts.tries_forgotten)),
            ("attempts of threads without room", counts.lost),
            ("processes without a profile", counts.processes_refused),
        ],
        collisions: collisions
            .saturating_add(counts.site_collisions)
            .saturating_add(counts.stack_collisions)
            .saturating_add(sum(|thread| thread.counts.sample_collisions)),
        skipped: sum(|thread| thread.counts.skipped),
        samples: sum(samples_of),
    }
}

fn samples_of(thread: &ThreadRead) -> u64 {
    thread.samples.iter().fold(0, |sum, sample| sum.saturating_add(sample.totals.count()))
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use forebay_sync::boxed_words;
    use forebay_sync::profile::{
        Acquisition, Clock, LockWait, ProcessIdentity, Profile, ProfilePlan, ProfiledSite,
        Recorder, SiteDescription, SiteKind, StackPlan, ThreadIdentity,
    };

    use super::*;

    const PLAN: ProfilePlan = ProfilePlan {
        sites: 16,
        frames: 0,
        modules: 0,
        text_bytes: 1024,
        threads: 2,
        rows: 16,
        pairs: 16,
        stacks: StackPlan::NONE,
    };

    /// A call site whose key has the line as its last digit.
    struct Line(u64);

    impl ProfiledSite for Line {
        fn key(&self) -> u64 {
            self.0
        }

        fn describe(&self) -> SiteDescription<'_> {
            let line = (self.0 % 10) as u32;
            SiteDescription { name: "class", place: "x.rs", line, ..SiteDescription::default() }
        }
    }

    /// Returns the profile of two threads, each with waits and failed try-locks.
    pub(in super::super) fn reading() -> ProfileSnapshot {
        ProfileSnapshot::of(&bytes()[..]).expect("whole")
    }

    pub(in super::super) fn bytes() -> Vec<u8> {
        let words: &'static [AtomicU64] = Box::leak(boxed_words(PLAN.word_count()));
        let us = ProcessIdentity {
            pid: 1,
            start_ticks: 0,
            boot_id: [0; 16],
            unix_ns: 0,
            program: "test",
            kind: SiteKind::Places,
        };
        let profile = Profile::new(words, PLAN, Clock::SYSTEM, &us).expect("the plan is valid");
        profile.turn(true);
        let mut threads = [Recorder::new(), Recorder::new()];
        for (tid, recorder) in (1..).zip(&mut threads) {
            let thread = || Some(ThreadIdentity { tid, name: [0; 16] });
            assert!(recorder.begin(&profile, thread));
            // The keys 11 and 21 stand for the same call site, compiled twice.
            for key in [11, 21, 32] {
                let held = recorder.acquired(&profile, &Line(key), &Acquisition::default());
                recorder.released(&profile, &held.expect("a block"));
            }
            for holder in [11, 21, 0] {
                let wait = Some(LockWait { since: profile.clock().now(), holder });
                let _ = recorder.acquired(
                    &profile,
                    &Line(32),
                    &Acquisition { wait, ..Acquisition::default() },
                );
                recorder.try_failed(&profile, &Line(43), 64, holder);
            }
        }
        words.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).collect()
    }

    #[test]
    fn keys_of_one_call_site_are_merged_and_holders_are_counted() {
        let summary = Summary::of(&reading());
        let at = |line: u64| {
            let name = format!("x.rs:{line} (class)");
            let found = summary.sites.iter().find(|(site, _)| site.name() == name);
            *found.unwrap_or_else(|| panic!("no {name}: {:?}", summary.sites)).1
        };
        assert_eq!(summary.sites.len(), 3);
        assert_eq!((at(1).totals.count, at(1).wanted_count), (4, 8));
        assert_eq!((at(2).totals.count, at(2).totals.contended_count), (8, 6));
        assert_eq!((at(3).totals.count, at(3).totals.try_failed_count), (0, 6));
        let unknown = summary.pairs.iter().filter(|(pair, _)| *pair.holder == LockSite::default());
        let unblamed: u64 =
            unknown.map(|(_, totals)| totals.wait_count + totals.try_failed_count).sum();
        let sum = |of: fn(&SiteSummary) -> u64| summary.sites.values().map(of).sum::<u64>();
        assert_eq!(unblamed, 4);
        assert_eq!(
            sum(|site_summary| site_summary.wanted_count) + unblamed,
            sum(|site_summary| site_summary.totals.contended_count
                + site_summary.totals.try_failed_count)
        );
    }

    #[test]
    fn call_sites_without_a_name_or_a_row_are_counted() {
        let mut reading = reading();
        reading.sites.clear();
        for thread in &mut reading.threads {
            let totals = SiteTotals { count: 5, ..SiteTotals::default() };
            thread.rows.push((0, totals));
        }
        let summary = Summary::of(&reading);
        let others =
            summary.sites.get(&LockSite::others()).expect("the other call sites have a line");
        assert_eq!(others.totals.count, 10);
        let nameless = summary.sites.keys().filter(|site| site.name().contains("no room"));
        assert_eq!(nameless.count(), 4);
    }
}

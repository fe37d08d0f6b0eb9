//! What a profile says, by names: blocks added up, and keys of the same site taken for one.

use std::collections::BTreeMap;
use std::rc::Rc;

use forebay_sync::profile::{PairTotals, ProfileSnapshot, SiteTotals, ThreadRead};

use super::names::SiteNames;

/// Where a lock is taken, as people read it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LockSite {
    /// The lock's class or kind.
    pub(super) lock: String,
    /// Where it is taken; the innermost function first, if it is known how one came there.
    pub(super) stack: Vec<Rc<str>>,
}

impl LockSite {
    /// As one word of a table: `file:line (class)`.
    pub(super) fn name(&self) -> String {
        match (self.stack.first(), &*self.lock) {
            (None, "") => "(unknown)".to_owned(),
            (None, lock) => lock.to_owned(),
            (Some(at), "") => at.to_string(),
            (Some(at), lock) => format!("{at} ({lock})"),
        }
    }

    /// The same with the way that led there, if it is known: no two sites have the same.
    pub(super) fn full_name(&self) -> String {
        let way = self.stack.iter().skip(1).map(|frame| format!(" < {frame}"));
        std::iter::once(self.name()).chain(way).collect()
    }

    /// What found no row of its own.
    pub(super) fn others() -> LockSite {
        LockSite { lock: "(others: the tables are full)".to_owned(), stack: Vec::new() }
    }
}

/// What site_totals at a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SiteTotals {
    pub(super) totals: Totals,
    /// How often another wanted the lock while it was held from here.
    pub(super) wanted_count: u64,
}

/// Who held while whom waited.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LockPair {
    pub(super) holder: Rc<LockSite>,
    pub(super) waiter: Rc<LockSite>,
}

/// What went on for want of room, and how much was in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TableUsage {
    pub(super) records: u64,
    pub(super) maximum: u64,
    /// What found no room, by what it was.
    pub(super) rejected: Vec<(&'static str, u64)>,
    pub(super) collisions: u64,
    pub(super) skipped: u64,
    /// Waits and tries in vain of which the stack was taken.
    pub(super) samples: u64,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Summary {
    pub(super) sites: BTreeMap<Rc<LockSite>, SiteTotals>,
    pub(super) pairs: BTreeMap<LockPair, PairTotals>,
    /// What each of the threads did, in the order of the reading.
    pub(super) threads: Vec<BTreeMap<Rc<LockSite>, Totals>>,
    pub(super) room: TableUsage,
}

impl Summary {
    pub(super) fn of(reading: &Reading) -> Summary {
        Summary::named(&mut SiteNames::of(reading))
    }

    /// With names that others need as well.
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

    pub(super) fn at(&mut self, site: Rc<LockSite>) -> &mut SiteTotals {
        self.sites.entry(site).or_default()
    }
}

fn room(reading: &Reading) -> TableUsage {
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
            ("names without text", counts.texts_rejected),
            ("modules", counts.modules_rejected),
            ("records that count as others", sum(|thread| thread.counts.rows_rejected)),
            ("pairs", sum(|thread| thread.counts.pairs_rejected)),
            ("stacks", counts.stacks_rejected),
            ("samples of stacks", sum(|thread| thread.counts.samples_rejected)),
            ("delays of tries", sum(|thread| thread.counts.tries_forgotten)),
            ("attempts of threads without room", counts.lost),
            ("processes, which have no profile", counts.processes_refused),
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

    /// Keys of which the last digit is the line.
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

    /// What two threads did: one was waited for and tried for by the other.
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
        let profile = Profile::new(words, PLAN, Clock::SYSTEM, &us).expect("the plan is sound");
        profile.turn(true);
        let mut threads = [Recorder::new(), Recorder::new()];
        for (tid, recorder) in (1..).zip(&mut threads) {
            let thread = || Some(ThreadIdentity { tid, name: [0; 16] });
            assert!(recorder.begin(&profile, thread));
            // 11 and 21 are the same place, compiled twice.
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
    fn keys_of_one_place_are_one_line_and_holders_are_blamed() {
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
        let sum = |of: fn(&SiteTotals) -> u64| summary.sites.values().map(of).sum::<u64>();
        assert_eq!(unblamed, 4);
        assert_eq!(
            sum(|site_totals| site_totals.wanted_count) + unblamed,
            sum(|site_totals| site_totals.totals.contended_count
                + site_totals.totals.try_failed_count)
        );
    }

    #[test]
    fn what_has_no_name_or_no_row_is_counted_as_such() {
        let mut reading = reading();
        reading.sites.clear();
        for thread in &mut reading.threads {
            let totals = SiteTotals { count: 5, ..SiteTotals::default() };
            thread.rows.push((0, totals));
        }
        let summary = Summary::of(&reading);
        let others = summary.sites.get(&LockSite::others()).expect("a line for the others");
        assert_eq!(others.totals.count, 10);
        let nameless = summary.sites.keys().filter(|site| site.name().contains("no room"));
        assert_eq!(nameless.count(), 4);
    }
}

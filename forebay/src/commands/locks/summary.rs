//! What a profile says, by names: blocks added up, and keys of the same place taken for one.

use std::collections::BTreeMap;

use forebay_sync::profile::{
    ModuleRead, PairTotals, Reading, SiteKind, SiteRead, ThreadRead, Totals, plain_text,
};

use crate::symbols;

/// Where a lock is taken, as people read it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// The lock's class or kind.
    pub(super) lock: String,
    /// Where it is taken; the innermost function first, if it is known how one came there.
    pub(super) stack: Vec<String>,
}

impl Place {
    /// As one word of a table: `file:line (class)`.
    pub(super) fn name(&self) -> String {
        match (self.stack.first(), &*self.lock) {
            (None, "") => "(unknown)".to_owned(),
            (None, lock) => lock.to_owned(),
            (Some(at), "") => at.clone(),
            (Some(at), lock) => format!("{at} ({lock})"),
        }
    }

    /// The same with the way that led there, if it is known: no two places have the same.
    pub(super) fn full_name(&self) -> String {
        let way = self.stack.iter().skip(1).map(|frame| format!(" < {frame}"));
        std::iter::once(self.name()).chain(way).collect()
    }

    /// What found no row of its own.
    fn others() -> Place {
        Place { lock: "(others: the tables are full)".to_owned(), stack: Vec::new() }
    }
}

/// What happened at a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Happened {
    pub(super) totals: Totals,
    /// How often another wanted the lock while it was held from here.
    pub(super) wanted_count: u64,
}

/// Who held while whom waited.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pair {
    pub(super) holder: Place,
    pub(super) waiter: Place,
}

/// What went on for want of room, and how much was in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
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
    pub(super) places: BTreeMap<Place, Happened>,
    pub(super) pairs: BTreeMap<Pair, PairTotals>,
    pub(super) room: Room,
}

impl Summary {
    pub(super) fn of(reading: &Reading) -> Summary {
        let mut summary = Summary { room: room(reading), ..Summary::default() };
        for thread in &reading.threads {
            for (key, totals) in &thread.rows {
                summary.at(place_of(reading, *key)).totals.add(totals);
            }
            for pair in &thread.pairs {
                let (holder, waiter) =
                    (holder_of(reading, pair.holder), place_of(reading, pair.waiter));
                let wanted = pair.totals.count();
                if pair.holder != 0 {
                    let count = &mut summary.at(holder.clone()).wanted_count;
                    *count = count.saturating_add(wanted);
                }
                summary.pairs.entry(Pair { holder, waiter }).or_default().add(&pair.totals);
            }
        }
        summary
    }

    fn at(&mut self, place: Place) -> &mut Happened {
        self.places.entry(place).or_default()
    }
}

/// What one thread did, by place.
pub(super) fn of_thread(reading: &Reading, thread: &ThreadRead) -> BTreeMap<Place, Totals> {
    let mut places = BTreeMap::<_, Totals>::new();
    for (key, totals) in &thread.rows {
        places.entry(place_of(reading, *key)).or_default().add(totals);
    }
    places
}

pub(super) fn holder_of(reading: &Reading, key: u64) -> Place {
    match key {
        0 => Place::default(),
        key => place_of(reading, key),
    }
}

/// The place that a key stands for.
pub(super) fn place_of(reading: &Reading, key: u64) -> Place {
    match (key, reading.sites.get(&key)) {
        (0, _) => Place::others(),
        (_, Some(site)) => Place { lock: lock_of(site), stack: stack_of(reading, site) },
        (key, None) => {
            Place { lock: format!("(no room for its name: {key:016x})"), stack: Vec::new() }
        }
    }
}

fn lock_of(site: &SiteRead) -> String {
    match site.lock {
        0 => site.name.to_string(),
        lock => format!("{} {lock:#x}", site.name),
    }
}

fn stack_of(reading: &Reading, site: &SiteRead) -> Vec<String> {
    match reading.about.kind {
        SiteKind::Places => vec![format!("{}:{}", site.place, site.line)],
        SiteKind::Stacks => {
            let frames = site.frames.iter().flat_map(|frame| frames_of(reading, *frame));
            // Without optimisation each of them is a call.
            symbols::without_wrappers(frames.collect())
        }
    }
}

/// Where a call was made that returns to this address: several, if functions were put into one
/// another.
pub(super) fn frames_of(reading: &Reading, frame: u64) -> Vec<String> {
    let covers = |module: &&ModuleRead| (module.start..module.end).contains(&frame);
    let mut modules = reading.modules.iter().filter(covers).rev().peekable();
    let is_gone = modules.next_if(|last| last.path.is_empty()).is_some();
    let mut modules = modules.filter(|module| !module.path.is_empty());
    let Some(module) = modules.next() else {
        return vec![format!("{frame:#x}")];
    };
    let file_offset = (frame - module.start).saturating_add(module.file_offset);
    let mut callers = symbols::callers(&module.path, file_offset);
    // Which of them it was that took the lock there nobody has noted.
    let before = modules.find(|before| before.path != module.path);
    if let (Some(before), Some(first)) = (before, callers.first_mut()) {
        let name = before.path.rsplit('/').next().unwrap_or_default();
        *first += &format!(", or {} that lay there before", plain_text(name));
    }
    if let Some(first) = callers.first_mut().filter(|_| is_gone) {
        *first += ", taken out since";
    }
    callers
}

fn room(reading: &Reading) -> Room {
    let sum = |count: fn(&ThreadRead) -> u64| {
        reading.threads.iter().fold(0_u64, |sum, thread| sum.saturating_add(count(thread)))
    };
    let counts = &reading.counts;
    let collisions =
        sum(|thread| thread.counts.row_collisions.saturating_add(thread.counts.pair_collisions));
    Room {
        records: counts.sites_used,
        maximum: reading.about.plan.sites.into(),
        rejected: vec![
            ("places without a name", counts.sites_rejected),
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
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use forebay_sync::boxed_words;
    use forebay_sync::profile::{
        Clock, Description, Identity, ModuleRead, Plan, Profile, Recorder, Site, StackPlan, Taken,
        ThreadIdentity, Wait,
    };

    use super::*;

    const PLAN: Plan = Plan {
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

    impl Site for Line {
        fn key(&self) -> u64 {
            self.0
        }

        fn describe(&self) -> Description<'_> {
            let line = (self.0 % 10) as u32;
            Description { name: "class", place: "x.rs", line, ..Description::default() }
        }
    }

    /// What two threads did: one was waited for and tried for by the other.
    fn reading() -> Reading {
        let words: &'static [AtomicU64] = Box::leak(boxed_words(PLAN.word_count()));
        let us = Identity {
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
                let held = recorder.acquired(&profile, &Line(key), &Taken::default());
                recorder.released(&profile, &held.expect("a block"));
            }
            for holder in [11, 21, 0] {
                let wait = Some(Wait { since: profile.clock().now(), holder });
                let _ = recorder.acquired(&profile, &Line(32), &Taken { wait, ..Taken::default() });
                recorder.try_failed(&profile, &Line(43), 64, holder);
            }
        }
        let bytes: Vec<u8> =
            words.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
        Reading::of(&bytes[..]).expect("whole")
    }

    #[test]
    fn keys_of_one_place_are_one_line_and_holders_are_blamed() {
        let summary = Summary::of(&reading());
        let at = |line: u64| {
            let name = format!("x.rs:{line} (class)");
            let found = summary.places.iter().find(|(place, _)| place.name() == name);
            *found.unwrap_or_else(|| panic!("no {name}: {:?}", summary.places)).1
        };
        assert_eq!(summary.places.len(), 3);
        assert_eq!((at(1).totals.count, at(1).wanted_count), (4, 8));
        assert_eq!((at(2).totals.count, at(2).totals.contended_count), (8, 6));
        assert_eq!((at(3).totals.count, at(3).totals.try_failed_count), (0, 6));
        let unknown = summary.pairs.iter().filter(|(pair, _)| pair.holder == Place::default());
        let unblamed: u64 =
            unknown.map(|(_, totals)| totals.wait_count + totals.try_failed_count).sum();
        let sum = |of: fn(&Happened) -> u64| summary.places.values().map(of).sum::<u64>();
        assert_eq!(unblamed, 4);
        assert_eq!(
            sum(|happened| happened.wanted_count) + unblamed,
            sum(|happened| happened.totals.contended_count + happened.totals.try_failed_count)
        );
    }

    #[test]
    fn a_return_address_is_a_place_in_its_module() {
        let mut reading = reading();
        reading.about.kind = SiteKind::Stacks;
        reading.modules = vec![ModuleRead {
            start: 0x5000,
            end: 0x6000,
            file_offset: 0x1000,
            path: "/usr/lib/libx.so".into(),
        }];
        for (frame, expected) in
            [(0x5010, "libx.so+0x1010"), (0x6000, "0x6000"), (0x4fff, "0x4fff")]
        {
            let site = SiteRead { frames: vec![frame], ..SiteRead::default() };
            assert_eq!(stack_of(&reading, &site), [expected]);
        }
    }

    #[test]
    fn the_module_that_was_told_of_last_is_the_one_and_others_that_lay_there_are_said() {
        let mut reading = reading();
        reading.about.kind = SiteKind::Stacks;
        let module =
            |start, end, path: &str| ModuleRead { start, end, file_offset: 0, path: path.into() };
        reading.modules = vec![
            module(0x5000, 0x7000, "/lib/a\u{1b}.so"),
            module(0x6000, 0x8000, "/lib/b.so"),
            module(0x7000, 0x8000, "/lib/b.so"),
            module(0x7800, 0x8000, ""),
            module(0x8000, 0x9000, ""),
        ];
        for (frame, expected) in [
            (0x5010, "a\u{fffd}.so+0x10"),
            (0x6010, "b.so+0x10, or a\u{fffd}.so that lay there before"),
            (0x7010, "b.so+0x10"),
            (0x7810, "b.so+0x810, taken out since"),
            (0x8010, "0x8010"),
        ] {
            let site = SiteRead { frames: vec![frame], ..SiteRead::default() };
            assert_eq!(stack_of(&reading, &site), [expected]);
        }
    }

    #[test]
    fn what_has_no_name_or_no_row_is_counted_as_such() {
        let mut reading = reading();
        reading.sites.clear();
        for thread in &mut reading.threads {
            let totals = Totals { count: 5, ..Totals::default() };
            thread.rows.push((0, totals));
        }
        let summary = Summary::of(&reading);
        let others = summary.places.get(&Place::others()).expect("a line for the others");
        assert_eq!(others.totals.count, 10);
        let nameless = summary.places.keys().filter(|place| place.name().contains("no room"));
        assert_eq!(nameless.count(), 4);
    }
}

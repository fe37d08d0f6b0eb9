//! What a profile says, by names: blocks added up, and keys of the same place taken for one.

use std::collections::BTreeMap;

use forebay_sync::profile::{PairTotals, Reading, SiteKind, SiteRead, ThreadRead, Totals};

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
                let wanted = pair.totals.wait_count.saturating_add(pair.totals.try_failed_count);
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

fn holder_of(reading: &Reading, key: u64) -> Place {
    match key {
        0 => Place::default(),
        key => place_of(reading, key),
    }
}

fn place_of(reading: &Reading, key: u64) -> Place {
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
        0 => site.name.clone(),
        lock => format!("{} {lock:#x}", site.name),
    }
}

fn stack_of(reading: &Reading, site: &SiteRead) -> Vec<String> {
    match reading.about.kind {
        SiteKind::Places => vec![format!("{}:{}", site.place, site.line)],
        SiteKind::Stacks => {
            site.frames.iter().flat_map(|frame| frames_of(reading, *frame)).collect()
        }
    }
}

/// Where a call was made that returns to this address: several, if functions were put into one
/// another.
fn frames_of(reading: &Reading, frame: u64) -> Vec<String> {
    let module = reading.modules.iter().find(|module| (module.start..module.end).contains(&frame));
    let Some(module) = module else {
        return vec![format!("{frame:#x}")];
    };
    let file_offset = (frame - module.start).saturating_add(module.file_offset);
    symbols::callers(&module.path, file_offset)
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
            ("delays of tries", sum(|thread| thread.counts.tries_forgotten)),
            ("attempts of threads without room", counts.lost),
            ("locks whose holder is not known", counts.untracked),
        ],
        collisions: collisions.saturating_add(counts.site_collisions),
        skipped: sum(|thread| thread.counts.skipped),
    }
}

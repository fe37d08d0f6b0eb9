//! The counts of each site, in one worker. The control thread asks the workers for them and adds
//! them up.
//!
//! A worker counts in cells of its own, so counting needs no lock and no atomic access, and it
//! allocates nothing: the cells exist from the start, and a site gets some of them when its
//! configuration comes into use.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};

use forebay_http::policy::cache_status::{CacheOutcome, CacheStatus};
use forebay_http::policy::reuse::ForwardReason;

use crate::config::{Config, Sites};
use crate::limits::SITES_COUNTED_MAX;

/// The slot of requests without a site.
const NO_SITE: u16 = 0;

/// The slot of all sites beyond [`SITES_COUNTED_MAX`].
const FURTHER_SITES: u16 = 1;

/// The number of slots that are not those of single sites.
const SHARED_SLOTS: usize = 2;

/// The label of a site is its name, which has no spaces; these labels have one.
const SHARED_LABELS: [&str; SHARED_SLOTS] = ["no site", "further sites"];

/// The upper bounds of the buckets of [`SiteCount::waits`], in milliseconds; the last bucket has
/// none.
pub(crate) const WAIT_BOUNDS_MS: [u64; 8] = [1, 4, 16, 64, 256, 1024, 4096, 16_384];

/// The counts of the sites of one worker.
pub(crate) struct SiteCounts {
    cells: Box<[SiteCells]>,
    slots: RefCell<SlotAssignment>,
}

/// The assignment of slots to sites.
#[derive(Default)]
struct SlotAssignment {
    /// The slots of the sites of the current configuration, by name.
    of_names: HashMap<String, u16>,
    /// The number of slots that have been assigned at least once.
    used_count: usize,
    /// Slots whose sites have been removed from the configuration.
    released: Vec<u16>,
    /// Configurations that have been replaced, and may have requests in progress. A released slot
    /// is assigned again only after these requests, which count in it.
    replaced: Vec<Weak<Config>>,
}

/// The cells of one site. Those that a hit changes come first.
#[derive(Debug, Default)]
struct SiteCells {
    requests: Cell<u64>,
    body_bytes: Cell<u64>,
    hits: Cell<u64>,
    statuses: [Cell<u64>; 4],
    forwarded: Cell<u64>,
    bypasses: Cell<u64>,
    collapsed: Cell<u64>,
    broken: Cell<u64>,
    wait_us: Cell<u64>,
    waits: [Cell<u64>; WAIT_BOUNDS_MS.len() + 1],
}

/// The counts of one site, in one worker or summed over workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SiteCount {
    pub(crate) requests: u64,
    pub(crate) body_bytes: u64,
    pub(crate) hits: u64,
    pub(crate) forwarded: u64,
    pub(crate) bypasses: u64,
    pub(crate) collapsed: u64,
    pub(crate) answers_2xx: u64,
    pub(crate) answers_3xx: u64,
    pub(crate) answers_4xx: u64,
    pub(crate) answers_5xx: u64,
    pub(crate) broken: u64,
    /// The sum of the waits in microseconds.
    pub(crate) wait_us: u64,
    /// The number of waits in each bucket of [`WAIT_BOUNDS_MS`].
    pub(crate) waits: [u64; WAIT_BOUNDS_MS.len() + 1],
}

/// The counts of one site with its label.
#[derive(Clone, Debug)]
pub(crate) struct SiteLine {
    pub(crate) site: String,
    pub(crate) count: SiteCount,
}

/// The counts of the sites of a configuration, then of the requests without a site and of further
/// sites.
#[derive(Clone, Debug, Default)]
pub(crate) struct SiteReport(pub(crate) Vec<SiteLine>);

fn add(cell: &Cell<u64>, amount: u64) {
    cell.set(cell.get() + amount);
}

impl SiteCounts {
    pub(crate) fn new() -> SiteCounts {
        let cells = (0..SITES_COUNTED_MAX + SHARED_SLOTS).map(|_| SiteCells::default());
        SiteCounts { cells: cells.collect(), slots: RefCell::default() }
    }

    /// Gives each site of a new configuration its slot. A site keeps the slot that a site of the
    /// same name has in `replaced`, the configuration before.
    pub(crate) fn assign(&self, sites: &mut Sites, replaced: Option<&Rc<Config>>) {
        let mut slots = self.slots.borrow_mut();
        slots.replaced.retain(|config| config.strong_count() > 0);
        let mut free = match slots.replaced.is_empty() {
            true => std::mem::take(&mut slots.released),
            false => Vec::new(),
        };
        let mut before = std::mem::take(&mut slots.of_names);
        for site in sites.iter() {
            if let Some(kept) = before.remove(&site.name) {
                slots.of_names.insert(site.name.clone(), kept);
            }
        }
        slots.released.extend(before.into_values());
        let mut of_sites = Vec::new();
        for site in sites.iter() {
            let slot = slots.of_names.get(&site.name).copied();
            let slot = slot.or_else(|| self.unused_slot(&mut slots, &mut free, &site.name));
            of_sites.push(slot.unwrap_or(FURTHER_SITES));
        }
        slots.released.extend(free);
        slots.replaced.extend(replaced.map(Rc::downgrade));
        sites.set_count_slots(of_sites);
    }

    /// Returns a slot that no site has; `None` if there is none.
    fn unused_slot(
        &self,
        slots: &mut SlotAssignment,
        free: &mut Vec<u16>,
        name: &str,
    ) -> Option<u16> {
        let slot = match free.pop() {
            Some(slot) => slot,
            None if slots.used_count < SITES_COUNTED_MAX => {
                slots.used_count += 1;
                u16::try_from(SHARED_SLOTS + slots.used_count - 1).ok()?
            }
            None => return None,
        };
        self.cells.get(usize::from(slot))?.clear();
        slots.of_names.insert(name.to_owned(), slot);
        Some(slot)
    }

    /// Counts a request of the site with this slot, or of no site, and its response.
    #[inline]
    pub(crate) fn note_answer(
        &self,
        slot: Option<u16>,
        (status, body_bytes): (u16, u64),
        cache: &CacheStatus,
    ) {
        let Some(cells) = self.of(slot) else { return };
        add(&cells.requests, 1);
        add(&cells.body_bytes, body_bytes);
        let class = usize::from(status / 100);
        class.checked_sub(2).and_then(|class| cells.statuses.get(class)).inspect(|it| add(it, 1));
        match cache.outcome {
            CacheOutcome::Hit => add(&cells.hits, 1),
            outcome => cells.note_outcome(outcome, cache.collapsed),
        }
    }

    /// Counts a request whose response broke off.
    pub(crate) fn note_broken(&self, slot: Option<u16>, cache: &CacheStatus) {
        let Some(cells) = self.of(slot) else { return };
        add(&cells.requests, 1);
        add(&cells.broken, 1);
        match cache.outcome {
            CacheOutcome::Hit => add(&cells.hits, 1),
            outcome => cells.note_outcome(outcome, cache.collapsed),
        }
    }

    /// Counts the time for which a request waited for its response.
    pub(crate) fn note_wait(&self, slot: Option<u16>, wait_us: u64) {
        let Some(cells) = self.of(slot) else { return };
        add(&cells.wait_us, wait_us);
        let wait_ms = wait_us.div_ceil(1000);
        let bucket = WAIT_BOUNDS_MS.iter().position(|bound| wait_ms <= *bound);
        cells.waits.get(bucket.unwrap_or(WAIT_BOUNDS_MS.len())).inspect(|bucket| add(bucket, 1));
    }

    fn of(&self, slot: Option<u16>) -> Option<&SiteCells> {
        self.cells.get(usize::from(slot.unwrap_or(NO_SITE)))
    }

    /// Returns the counts of this worker.
    pub(crate) fn report(&self, config: &Config) -> SiteReport {
        let slots = self.slots.borrow();
        let of_sites = config.sites.iter().filter_map(|site| {
            let slot = slots.of_names.get(&site.name)?;
            Some((site.name.as_str(), *slot))
        });
        let shared = SHARED_LABELS.into_iter().zip([NO_SITE, FURTHER_SITES]);
        let line = |(site, slot): (&str, u16)| {
            let count = self.of(Some(slot))?.count();
            Some(SiteLine { site: site.to_owned(), count })
        };
        SiteReport(of_sites.chain(shared).filter_map(line).collect())
    }
}

impl SiteCells {
    fn note_outcome(&self, outcome: CacheOutcome, is_collapsed: bool) {
        let CacheOutcome::Forwarded(reason) = outcome else { return };
        add(&self.forwarded, 1);
        add(&self.collapsed, u64::from(is_collapsed));
        let bypasses = matches!(reason, ForwardReason::Bypass | ForwardReason::Method);
        add(&self.bypasses, u64::from(bypasses));
    }

    fn clear(&self) {
        let SiteCells { requests, body_bytes, hits, statuses, forwarded, .. } = self;
        let SiteCells { bypasses, collapsed, broken, wait_us, waits, .. } = self;
        let single = [requests, body_bytes, hits, forwarded, bypasses, collapsed, broken, wait_us];
        single.into_iter().chain(statuses).chain(waits).for_each(|cell| cell.set(0));
    }

    fn count(&self) -> SiteCount {
        let [answers_2xx, answers_3xx, answers_4xx, answers_5xx] =
            self.statuses.each_ref().map(Cell::get);
        SiteCount {
            requests: self.requests.get(),
            body_bytes: self.body_bytes.get(),
            hits: self.hits.get(),
            forwarded: self.forwarded.get(),
            bypasses: self.bypasses.get(),
            collapsed: self.collapsed.get(),
            answers_2xx,
            answers_3xx,
            answers_4xx,
            answers_5xx,
            broken: self.broken.get(),
            wait_us: self.wait_us.get(),
            waits: self.waits.each_ref().map(Cell::get),
        }
    }
}

impl SiteCount {
    fn merge(&mut self, other: SiteCount) {
        self.requests += other.requests;
        self.body_bytes += other.body_bytes;
        self.hits += other.hits;
        self.forwarded += other.forwarded;
        self.bypasses += other.bypasses;
        self.collapsed += other.collapsed;
        self.answers_2xx += other.answers_2xx;
        self.answers_3xx += other.answers_3xx;
        self.answers_4xx += other.answers_4xx;
        self.answers_5xx += other.answers_5xx;
        self.broken += other.broken;
        self.wait_us += other.wait_us;
        self.waits.iter_mut().zip(other.waits).for_each(|(sum, count)| *sum += count);
    }
}

impl SiteReport {
    /// Returns the sum of the workers' reports.
    pub(crate) fn sum(reports: Vec<SiteReport>) -> SiteReport {
        let (mut sum, mut places) = (SiteReport::default(), HashMap::new());
        for line in reports.into_iter().flat_map(|report| report.0) {
            let place = *places.entry(line.site.clone()).or_insert(sum.0.len());
            match sum.0.get_mut(place) {
                Some(known) => known.count.merge(line.count),
                None => sum.0.push(line),
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(names: &[&str]) -> Config {
        let site = |name: &&str| {
            format!("[[site]]\nname = \"{name}\"\nnames = [\"{name}\"]\norigin = \"http://o\"\n")
        };
        let text: String = names.iter().map(site).collect();
        Config::from_toml(&text, "test.toml").expect("it is right")
    }

    fn apply(counts: &SiteCounts, names: &[&str], replaced: Option<&Rc<Config>>) -> Rc<Config> {
        let mut config = config(names);
        counts.assign(&mut config.sites, replaced);
        Rc::new(config)
    }

    fn count(counts: &SiteCounts, config: &Config, site: &str) {
        let host = site.as_bytes();
        let route = config.sites.lookup(host).expect("it is served").routes()[0].number;
        counts.note_answer(Some(config.sites.count_slot(route)), (200, 5), &CacheStatus::hit(1));
    }

    fn requests(counts: &SiteCounts, config: &Config) -> Vec<(String, u64)> {
        let lines = counts.report(config).0.into_iter();
        lines.map(|line| (line.site, line.count.requests)).filter(|it| it.1 > 0).collect()
    }

    #[test]
    fn a_site_keeps_its_counts_and_its_slot_is_reused_after_its_last_request() {
        let counts = SiteCounts::new();
        let first = apply(&counts, &["a", "b"], None);
        count(&counts, &first, "a");
        count(&counts, &first, "b");
        let second = apply(&counts, &["b"], Some(&first));
        count(&counts, &second, "b");
        // A request of the first configuration ends.
        count(&counts, &first, "a");
        assert_eq!(requests(&counts, &second), [("b".to_owned(), 2)]);
        let third = apply(&counts, &["b", "c"], Some(&second));
        // The slot of `a` is not free yet.
        count(&counts, &first, "a");
        assert_eq!(requests(&counts, &third), [("b".to_owned(), 2)]);
        drop((first, second));
        let used = counts.slots.borrow().used_count;
        let fourth = apply(&counts, &["b", "c", "d"], Some(&third));
        assert_eq!(counts.slots.borrow().used_count, used, "the slot of `a` is free");
        assert_eq!(requests(&counts, &fourth), [("b".to_owned(), 2)]);
    }

    #[test]
    fn further_sites_share_their_counts() {
        let names: Vec<_> = (0..SITES_COUNTED_MAX + 2).map(|number| format!("s{number}")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let counts = SiteCounts::new();
        let config = apply(&counts, &names, None);
        names.iter().for_each(|name| count(&counts, &config, name));
        let found = requests(&counts, &config);
        assert_eq!(found.len(), SITES_COUNTED_MAX + 1);
        assert_eq!(found.last(), Some(&("further sites".to_owned(), 2)));
        // A later configuration without some sites has room for the others.
        let fewer = apply(&counts, &names[2..], Some(&config));
        drop(config);
        let fewer = apply(&counts, &names[2..], Some(&fewer));
        count(&counts, &fewer, names[SITES_COUNTED_MAX + 1]);
        let last = (names[SITES_COUNTED_MAX + 1].to_owned(), 1);
        assert!(requests(&counts, &fewer).contains(&last));
    }

    #[test]
    fn the_counts_of_workers_are_added_for_each_site() {
        let counts = SiteCounts::new();
        let config = apply(&counts, &["a"], None);
        let route = config.sites.lookup(b"a").expect("it is served").routes()[0].number;
        let slot = Some(config.sites.count_slot(route));
        let miss = CacheStatus::forwarded(ForwardReason::UriMiss);
        let bypass = CacheStatus::forwarded(ForwardReason::Bypass);
        counts.note_answer(slot, (200, 10), &CacheStatus::hit(1));
        counts.note_answer(slot, (304, 0), &CacheStatus { collapsed: true, ..miss });
        counts.note_answer(slot, (503, 2), &bypass);
        counts.note_broken(slot, &miss);
        counts.note_wait(slot, 1001);
        counts.note_wait(slot, 20_000_000);
        counts.note_answer(None, (421, 1), &CacheStatus::UNUSED);
        let sum = SiteReport::sum(vec![counts.report(&config), counts.report(&config)]).0;
        let of = |name: &str| sum.iter().find(|line| line.site == name).expect("a line").count;
        let mut waits = [0; WAIT_BOUNDS_MS.len() + 1];
        (waits[1], waits[WAIT_BOUNDS_MS.len()]) = (2, 2);
        let expected = SiteCount {
            requests: 8,
            body_bytes: 24,
            hits: 2,
            forwarded: 6,
            bypasses: 2,
            collapsed: 2,
            answers_2xx: 2,
            answers_3xx: 2,
            answers_4xx: 0,
            answers_5xx: 2,
            broken: 2,
            wait_us: 2 * 20_001_001,
            waits,
        };
        assert_eq!(of("a"), expected);
        assert_eq!((of("no site").requests, of("no site").answers_4xx), (2, 2));
    }
}

//! The oracle: the versions of each key that a lookup may find.

use std::collections::{BTreeMap, BTreeSet};

use forebay_cache::Stats;

use crate::store_common::{Label, Seen};

/// The versions that may be found under a key; a miss is always right.
#[derive(Clone, Debug, Default)]
pub(crate) struct Possible {
    /// The last stored response of each selector. A selector is the argument of `names` for the
    /// field names, or `None` if the response does not vary, and a value.
    stored: BTreeMap<(Option<u32>, u32), Label>,
    /// The number of purges of the key, including soft purges.
    pub(crate) purge_count: u32,
    /// The softly purged versions, each with its number of renewals at the time of the purge.
    soft: BTreeSet<(u32, u32)>,
}

impl Possible {
    pub(crate) fn stored(&mut self, names: Option<u32>, label: Label) {
        self.stored.insert((names, label.value), label);
    }

    pub(crate) fn purged(&mut self) {
        self.purge_count += 1;
        self.stored.clear();
        self.soft.clear();
    }

    pub(crate) fn purged_softly(&mut self) {
        self.purge_count += 1;
        self.soft.extend(self.stored.values().map(|label| (label.version, label.renewed)));
    }

    pub(crate) fn check(&self, names: Option<u32>, seen: &Seen) -> Result<(), String> {
        self.check_mark(seen)?;
        match self.stored.get(&(names, seen.label.value)) == Some(&seen.label) {
            true => Ok(()),
            false => Err(format!("names {names:?}, {seen:?} of {self:?}")),
        }
    }

    fn check_mark(&self, seen: &Seen) -> Result<(), String> {
        let is_soft = self.soft.contains(&(seen.label.version, seen.label.renewed));
        match seen.is_soft == is_soft {
            true => Ok(()),
            false => Err(format!("purged softly: {is_soft}, but {seen:?}")),
        }
    }
}

/// The totals of a run.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    counts: BTreeMap<&'static str, u64>,
}

impl Totals {
    pub(crate) fn count(&mut self, name: &'static str, count: u64) {
        *self.counts.entry(name).or_default() += count;
    }

    pub(crate) fn add(&mut self, other: &Totals) {
        other.counts.iter().for_each(|(name, count)| self.count(name, *count));
    }

    pub(crate) fn count_stats(&mut self, stats: &Stats) {
        let counts = [
            ("inserted", stats.inserted),
            ("evicted", stats.evicted),
            ("pushed out", stats.pushed_out),
            ("promoted", stats.promoted),
            ("ghost hits", stats.ghost_hits),
            ("segments freed", stats.segments_freed),
            ("declined", stats.declined),
            ("refused for size", stats.refused_large),
            ("refused for room", stats.refused_no_room),
            ("not stored", stats.not_stored),
            ("outgrown", stats.outgrown),
            ("copied out", stats.copied_out),
            ("lost", stats.bodies_revoked),
        ];
        counts.into_iter().for_each(|(name, count)| self.count(name, count));
    }

    /// The name of an event that never happened, if there is one.
    pub(crate) fn missing(&self) -> Option<&'static str> {
        self.counts.iter().find(|(_, count)| **count == 0).map(|(name, _)| *name)
    }
}

/// Checks that the accounts add up to the budget, and that the accounts of segments do not exceed
/// the segments.
pub(crate) fn check_sums(stats: &Stats) -> Result<(), String> {
    let is_enough = stats.free_bytes >= stats.free_segment_count * stats.segment_bytes;
    let in_segments = stats.live_bytes + stats.dead_bytes + stats.pinned_bytes;
    let segments = stats.segment_count - stats.free_segment_count;
    let fits = in_segments <= segments * stats.segment_bytes;
    if stats.sum_bytes() == stats.budget_bytes && is_enough && fits {
        return Ok(());
    }
    Err(format!("the accounts are wrong: {stats:?}"))
}

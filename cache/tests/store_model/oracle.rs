//! The oracle: the versions of each key that a lookup may find.

use std::collections::{BTreeMap, BTreeSet};

use forebay_cache::Stats;

use crate::store_common::{Label, Seen};

/// The versions that may be found under a key; a miss is always right.
#[derive(Clone, Debug, Default)]
pub(crate) struct Possible {
    /// A response for all requests.
    record: Option<Label>,
    /// Sets of variants by value, each with the number of its field names. There are several sets
    /// only after a variant with other names was not stored.
    bases: Vec<(u32, BTreeMap<u32, Label>)>,
    /// The number of purges of the key, including soft purges.
    pub(crate) purge_count: u32,
    /// Softly purged versions, and their renewals at that time.
    soft: BTreeSet<(u32, u32)>,
}

impl Possible {
    pub(crate) fn stored(&mut self, label: Label) {
        self.record = Some(label);
        self.bases.clear();
    }

    /// Notes that a variant was stored, or was not. A variant that was not stored is missing, and
    /// the record that it replaced may be gone.
    pub(crate) fn stored_variant(&mut self, names: u32, label: Label, is_stored: bool) {
        let same = self.bases.iter().position(|(number, _)| *number == names);
        if !is_stored {
            if same.is_none() {
                self.bases.push((names, BTreeMap::new()));
            }
            return;
        }
        let mut variants = same.map(|at| self.bases.swap_remove(at).1).unwrap_or_default();
        variants.insert(label.value, label);
        self.record = None;
        self.bases = vec![(names, variants)];
    }

    pub(crate) fn purged(&mut self) {
        self.purge_count += 1;
        self.record = None;
        self.bases.clear();
        self.soft.clear();
    }

    /// Notes a purge by a tag: a base may stay for other variants, or for evicted ones.
    pub(crate) fn purged_by_tag(&mut self) {
        self.purge_count += 1;
        self.record = None;
        self.bases.iter_mut().for_each(|(_, variants)| variants.clear());
        self.soft.clear();
    }

    pub(crate) fn purged_softly(&mut self) {
        self.purge_count += 1;
        let variants = self.bases.iter().flat_map(|(_, variants)| variants.values());
        let all = self.record.iter().chain(variants);
        self.soft.extend(all.map(|label| (label.version, label.renewed)));
    }

    /// Notes that a record that was found got another head.
    pub(crate) fn renewed(&mut self, label: Label, is_variant: bool) {
        if !is_variant {
            self.record = Some(label);
            return;
        }
        for (_, variants) in &mut self.bases {
            variants.entry(label.value).and_modify(|old| *old = label);
        }
    }

    pub(crate) fn check(&self, seen: &Seen) -> Result<(), String> {
        self.check_mark(seen)?;
        match self.record == Some(seen.label) {
            true => Ok(()),
            false => Err(format!("{seen:?} of {self:?}")),
        }
    }

    pub(crate) fn check_variant(&self, names: u32, seen: Option<&Seen>) -> Result<(), String> {
        seen.map_or(Ok(()), |seen| self.check_mark(seen))?;
        let mut possible = self.bases.iter().filter(|(number, _)| *number == names);
        let fits = |variants: &BTreeMap<u32, Label>| {
            seen.is_none_or(|seen| variants.get(&seen.label.value) == Some(&seen.label))
        };
        match possible.any(|(_, variants)| fits(variants)) {
            true => Ok(()),
            false => Err(format!("names {names}, {seen:?} of {self:?}")),
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

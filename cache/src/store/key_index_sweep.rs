//! Sweeping the order: what a death left in it, or damage, or a lock that could not be had, names
//! nothing in the index and is taken out, in slices.

use forebay_ordmap::MapError;
use forebay_sync::atomic::Relaxed;

use super::record_index::RecordIndex;
use super::stats::Events;
use super::variants::BaseBody;
use super::worker::WorkerInner;
use crate::key_index::{KeyMap, split_key_entry, split_tag_entry};
use crate::segment::HeaderKind;

/// Entries that one slice takes from a map, if that does not mean too many lookups.
const SLICE_ENTRIES: usize = 32;

/// Lookups of one slice, some 50 µs: for an entry of a tag there may be one for each variant.
const SLICE_LOOKUPS: usize = 64;

/// How far a sweep has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyIndexSweep {
    /// What was left when it began: what is left later is for the next sweep.
    left: u64,
    which: KeyMap,
    /// The last entry that was looked at.
    behind: Vec<u8>,
}

impl WorkerInner {
    /// The next entries of a sweep, if one is due; is there more to do?
    pub(crate) fn sweep_slice(&self) -> bool {
        let Some(sweep) = self.sweep.take().or_else(|| self.begin_sweep()) else {
            return false;
        };
        // Who cannot read the maps, or change them, begins anew in another turn.
        let next = self.sweep_from(sweep).unwrap_or_default();
        let goes_on = next.is_some();
        if !goes_on {
            self.shared.is_sweeping.store(false, Relaxed);
        }
        self.sweep.replace(next);
        goes_on
    }

    fn begin_sweep(&self) -> Option<KeyIndexSweep> {
        let left = self.shared.leftovers.due()?;
        let begins = !self.shared.is_sweeping.swap(true, Relaxed);
        begins.then(|| KeyIndexSweep { left, which: KeyMap::Keys, behind: Vec::new() })
    }

    /// Who was at it leaves: somebody else begins anew.
    pub(super) fn abandon_sweep(&self) {
        if self.sweep.take().is_some() {
            self.shared.is_sweeping.store(false, Relaxed);
        }
    }

    fn sweep_from(&self, sweep: KeyIndexSweep) -> Result<Option<KeyIndexSweep>, MapError> {
        let KeyIndexSweep { left, which, behind } = sweep;
        let mut entries = self.key_index.entries_behind(which, &behind, SLICE_ENTRIES)?;
        let mut lookups = 0;
        for (number, entry) in entries.iter().enumerate() {
            if self.is_left_over(which, entry, &mut lookups)
                && self.key_index.remove(which, entry)?
            {
                Events::one(&self.shared.events.order_tidied);
            }
            if lookups > SLICE_LOOKUPS {
                let behind = entries.swap_remove(number);
                return Ok(Some(KeyIndexSweep { left, which, behind }));
            }
        }
        let is_through = entries.len() < SLICE_ENTRIES;
        Ok(match (entries.pop(), which) {
            (Some(behind), _) if !is_through => Some(KeyIndexSweep { left, which, behind }),
            (_, KeyMap::Keys) => {
                Some(KeyIndexSweep { left, which: KeyMap::Tags, behind: Vec::new() })
            }
            (_, KeyMap::Tags) => {
                self.shared.leftovers.swept(left);
                None
            }
        })
    }

    /// Does an entry name nothing, and never will? The rows are read before the index: see
    /// [`key_index`](crate::key_index).
    /// Adds the lookups that it took.
    pub(super) fn is_left_over(&self, which: KeyMap, entry: &[u8], lookups: &mut usize) -> bool {
        let split = match which {
            KeyMap::Keys => split_key_entry(entry),
            KeyMap::Tags => split_tag_entry(entry),
        };
        let Some((primary, sequence)) = split else {
            return true;
        };
        if self.shared.pending_inserts.is_pending(sequence) {
            return false;
        }
        let mut variants = Vec::new();
        *lookups += 1;
        if self.records.has_sequence(primary, sequence, &mut variants) {
            return false;
        }
        // Only tags have entries of variants.
        if which == KeyMap::Keys {
            return true;
        }
        *lookups += variants.len();
        !variants.iter().any(|key| self.records.has_sequence(key, sequence, &mut Vec::new()))
    }
}

impl RecordIndex {
    /// Is the record of a key with this sequence in the index, in whatever state? Adds the keys of
    /// the variants that the record names. Unlike a lookup it misses none that is moved meanwhile.
    fn has_sequence(&self, key: &[u8], sequence: u64, variants: &mut Vec<Vec<u8>>) -> bool {
        let mut is_there = false;
        self.index.remove_if(&self.pins, &self.key(key), |hit| {
            if let Some(record) = self.access().record(hit.at()) {
                is_there |= record.header.sequence == sequence;
                if record.header.kind == HeaderKind::Base {
                    let base = BaseBody::decode(record.body());
                    variants.extend(
                        base.into_iter()
                            .flat_map(|base| base.named(key).keys().collect::<Vec<_>>()),
                    );
                }
            }
            false
        });
        is_there
    }
}

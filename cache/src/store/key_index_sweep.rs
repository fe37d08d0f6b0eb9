//! Sweeping the key index: removing entries without a record, in slices. Such entries remain after
//! a death, after damage, or if a thread does not get the lock of the key index in time.

use forebay_ordmap::MapError;
use forebay_sync::atomic::Relaxed;

use super::record_index::RecordIndex;
use super::record_keys::KeyIndexWriter;
use super::stats::Events;
use super::variants::BaseBody;
use crate::key_index::{KeyMap, split_key_entry, split_tag_entry};
use crate::segment::HeaderKind;

/// The most entries that one slice checks. A slice checks fewer if the entries need many lookups.
const SLICE_ENTRIES: usize = 32;

/// The number of lookups after which a slice ends: they take some 50 µs. An entry of a tag may need
/// one lookup for each variant.
const SLICE_LOOKUPS: usize = 64;

/// The position of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyIndexSweep {
    /// The count of leftovers when the sweep began. Later leftovers are for the next sweep.
    left: u64,
    which: KeyMap,
    /// The last entry that the sweep has read.
    behind: Vec<u8>,
}

impl KeyIndexWriter {
    /// Sweeps the next entries, if a sweep is due. Returns whether the sweep goes on.
    pub(crate) fn sweep_slice(&self, records: &RecordIndex) -> bool {
        let Some(sweep) = self.sweep.take().or_else(|| self.begin_sweep()) else {
            return false;
        };
        // After an error the sweep begins again in a later turn.
        let next = self.sweep_from(records, sweep).unwrap_or_default();
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

    fn sweep_from(
        &self,
        records: &RecordIndex,
        sweep: KeyIndexSweep,
    ) -> Result<Option<KeyIndexSweep>, MapError> {
        let KeyIndexSweep { left, which, behind } = sweep;
        let mut entries = self.handle.entries_behind(which, &behind, SLICE_ENTRIES)?;
        let mut lookups = 0;
        for (number, entry) in entries.iter().enumerate() {
            if self.is_left_over(records, which, entry, &mut lookups)
                && self.handle.remove(which, entry)?
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

    /// Whether an entry names no record and will never name one. This reads the rows of pending
    /// inserts before the index: see [`key_index`](crate::key_index). Adds the number of its
    /// lookups to `lookups`.
    pub(super) fn is_left_over(
        &self,
        records: &RecordIndex,
        which: KeyMap,
        entry: &[u8],
        lookups: &mut usize,
    ) -> bool {
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
        if records.has_sequence(primary, sequence, &mut variants) {
            return false;
        }
        // Only the map of tags has entries for variants.
        if which == KeyMap::Keys {
            return true;
        }
        *lookups += variants.len();
        !variants.iter().any(|key| records.has_sequence(key, sequence, &mut Vec::new()))
    }
}

impl Drop for KeyIndexWriter {
    fn drop(&mut self) {
        // Another thread starts an unfinished sweep from the beginning.
        if self.sweep.take().is_some() {
            self.shared.is_sweeping.store(false, Relaxed);
        }
    }
}

impl RecordIndex {
    /// Whether the index names a record of a key with this sequence, in any state. If the record is
    /// a base, adds the keys of its variants to `variants`. Unlike a lookup, this does not miss a
    /// record that is being moved.
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

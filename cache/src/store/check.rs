//! Checking a store while participants use it.

use super::record_index::RecordIndex;
use super::record_keys::{KeyIndexWriter, OwnedRecordKeys};
use super::select::KeyIndexDamaged;
use super::store::Store;
use super::worker::StoreWorker;
use crate::key_index::{KeyMap, key_entry, split_key_entry, split_tag_entry};
use crate::tool::view::RegionView;
use crate::tool::{CheckDepth, CheckProgress, StoreReadError, StoreReport, check};

impl Store {
    /// Checks the whole region and reports its faults. Other participants may change the store
    /// during the check; their unfinished steps are not reported. See `docs/format/store.md`,
    /// "Checking".
    ///
    /// # Errors
    /// The sizes in the region are damaged, so that it cannot be read.
    pub fn check(
        &self,
        depth: CheckDepth,
        progress: impl FnMut(CheckProgress),
    ) -> Result<StoreReport, StoreReadError> {
        let view = RegionView::of(self.shared.region.clone())?;
        Ok(check::check(&view, depth, progress))
    }
}

/// The result of a check of the key index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyIndexReport {
    /// The number of entries of keys and of tags.
    pub entries: u64,
    /// The number of entries without a record. A sweep removes such entries.
    pub left_over: u64,
    /// Descriptions of broken invariants.
    pub faults: Vec<String>,
}

impl StoreWorker {
    /// Checks that the key index has the entries of every stored record, and counts entries without
    /// a record. Other participants may change the store during the check, and entries that they
    /// are changing may be counted as left over. For tests and checks: one call reads the whole
    /// index.
    ///
    /// # Errors
    /// The key index cannot be read.
    pub fn check_key_index(&self) -> Result<KeyIndexReport, KeyIndexDamaged> {
        let mut report = KeyIndexReport::default();
        let (keys, records) = (&self.inner.keys, &self.inner.records);
        let maps = self.inner.keys.handle.check()?;
        report.faults.extend((!maps.is_sound()).then(|| maps.to_string()));
        keys.check_records(records, &mut report)?;
        keys.check_entries(records, KeyMap::Keys, &mut report)?;
        keys.check_entries(records, KeyMap::Tags, &mut report)?;
        Ok(report)
    }
}

impl KeyIndexWriter {
    /// Checks that each record in the index has its entries in the key index.
    fn check_records(
        &self,
        records: &RecordIndex,
        report: &mut KeyIndexReport,
    ) -> Result<(), KeyIndexDamaged> {
        let all = 0..records.index.bucket_count();
        let of = |hit: crate::index::IndexHit<'_>| {
            records.access().record(hit.at()).and_then(|record| OwnedRecordKeys::of(&record))
        };
        let named: Vec<_> = records.index.hits(&records.pins, all).filter_map(of).collect();
        for ordered in named {
            let ordered = ordered.borrowed();
            let key = ordered.has_key.then(|| key_entry(ordered.primary, ordered.sequence));
            let keys = key.into_iter().map(|entry| (KeyMap::Keys, entry));
            for (which, entry) in keys.chain(ordered.tag_entries().map(|tag| (KeyMap::Tags, tag))) {
                // The record may have been removed since.
                if !self.handle.contains(which, &entry)?
                    && !self.is_left_over(records, which, &entry, &mut 0)
                {
                    let text = entry.escape_ascii();
                    report.faults.push(format!(
                        "key index, {which:?}: a stored record lacks its entry {text}"
                    ));
                }
            }
        }
        Ok(())
    }

    fn check_entries(
        &self,
        records: &RecordIndex,
        which: KeyMap,
        report: &mut KeyIndexReport,
    ) -> Result<(), KeyIndexDamaged> {
        let mut behind = Vec::new();
        loop {
            let entries = self.handle.entries_behind(which, &behind, 256)?;
            let Some(last) = entries.last() else {
                return Ok(());
            };
            behind.clone_from(last);
            for entry in &entries {
                let split = match which {
                    KeyMap::Keys => split_key_entry(entry),
                    KeyMap::Tags => split_tag_entry(entry),
                };
                if split.is_none() {
                    let text = entry.escape_ascii();
                    report
                        .faults
                        .push(format!("key index, {which:?}: the entry {text} is malformed"));
                }
                report.entries += 1;
                report.left_over += u64::from(self.is_left_over(records, which, entry, &mut 0));
            }
        }
    }
}

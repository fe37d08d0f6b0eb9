//! Copies of rows in private memory, for owners of a lock, and the key ranges of shards according
//! to these rows.

use forebay_sync::atomic::{AtomicU64, Relaxed};

use super::{BOUND, BOUND_BYTES_MAX, DAMAGED, RouteTable, RouteVersion, SHARD, STAMP};
use crate::object::{ObjectReadError, copy_words, store_bytes};

/// A bound, and the shard that begins there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RouteRow {
    pub(crate) slot: usize,
    pub(crate) stamp: u64,
    pub(crate) bound: Vec<u8>,
}

/// The range of a shard's keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyRange {
    /// The lowest key; none in the first shard.
    pub(crate) low: Option<Vec<u8>>,
    /// The lowest key above the range; none in the last shard.
    pub(crate) high: Option<Vec<u8>>,
    /// The version that moved `low` last; 0 if none did.
    pub(crate) low_stamp: u64,
    /// The version that moved `high` last; 0 if none did.
    pub(crate) high_stamp: u64,
}

impl KeyRange {
    /// The range of a shard without keys. It is empty, because no key is below the empty key.
    fn nothing() -> KeyRange {
        KeyRange { high: Some(Vec::new()), ..KeyRange::default() }
    }

    pub(crate) fn has(&self, key: &[u8]) -> bool {
        let is_low = self.low.as_ref().is_some_and(|low| key < &low[..]);
        let is_high = self.high.as_ref().is_some_and(|high| key >= &high[..]);
        !is_low && !is_high
    }
}

impl RouteRow {
    fn load(words: &[AtomicU64]) -> RouteRow {
        let head = words[SHARD].load(Relaxed);
        let mut bound = Vec::new();
        let bytes = (head >> 8) as u16 as usize;
        copy_words(&words[BOUND..], bytes.min(BOUND_BYTES_MAX), &mut bound);
        RouteRow { slot: head as u8 as usize, stamp: words[STAMP].load(Relaxed), bound }
    }

    pub(super) fn store(&self, words: &[AtomicU64]) {
        assert!(self.bound.len() <= BOUND_BYTES_MAX, "a bound exceeds the maximum length");
        words[SHARD].store(self.slot as u64 | (self.bound.len() as u64) << 8, Relaxed);
        words[STAMP].store(self.stamp, Relaxed);
        store_bytes(&words[BOUND..], &self.bound);
    }
}

impl RouteTable<'_> {
    /// All rows of the current version, or an error if they cannot be valid.
    pub(crate) fn rows(self) -> Result<(RouteVersion, Vec<RouteRow>), ObjectReadError> {
        self.read(|version| {
            let row = |position| RouteRow::load(self.row(version, position));
            let rows: Vec<RouteRow> = (1..=version.count()).map(row).collect();
            let is_known = |row: &RouteRow| (1..=self.rows_max()).contains(&row.slot);
            let is_once =
                |row: &RouteRow| rows.iter().filter(|other| other.slot == row.slot).count() == 1;
            let is_right = rows.is_sorted_by(|low, high| low.bound < high.bound)
                && rows.iter().all(|row| is_known(row) && is_once(row) && !row.bound.is_empty());
            if is_right { Ok(rows) } else { Err(DAMAGED) }
        })
    }

    /// All shards with keys and their ranges, in key order.
    pub(crate) fn ranges(self) -> Result<(RouteVersion, Vec<(usize, KeyRange)>), ObjectReadError> {
        let (version, rows) = self.rows()?;
        let slots = std::iter::once(0).chain(rows.iter().map(|row| row.slot));
        Ok((version, slots.map(|slot| (slot, range_in(&rows, slot))).collect()))
    }

    /// The range of one shard.
    pub(crate) fn range_of(self, slot: usize) -> Result<KeyRange, ObjectReadError> {
        if self.is_single() {
            return Ok(KeyRange::default());
        }
        Ok(range_in(&self.rows()?.1, slot))
    }

    /// Copies the lower bound of the shard of this rank, which is not the first.
    pub(crate) fn copy_bound(self, version: RouteVersion, position: usize, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&RouteRow::load(self.row(version, position)).bound);
    }
}

/// The range of one shard according to these rows.
fn range_in(rows: &[RouteRow], slot: usize) -> KeyRange {
    let at = rows.iter().position(|row| row.slot == slot);
    let (low, above) = match at {
        Some(at) => (rows.get(at), rows.get(at + 1)),
        None if slot == 0 => (None, rows.first()),
        None => return KeyRange::nothing(),
    };
    KeyRange {
        low: low.map(|row| row.bound.clone()),
        high: above.map(|row| row.bound.clone()),
        low_stamp: low.map_or(0, |row| row.stamp),
        high_stamp: above.map_or(0, |row| row.stamp),
    }
}

//! The two maps of the key index, in the store's region.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::fmt;
use std::time::Duration;

use forebay_ordmap::{
    Map, MapError, MapId, MapOptions, MapParticipant, MapsError, OrdConfig, OrdConfigError,
    OrdRegion,
};
use forebay_shm::{AreaSpec, Dead, Participant, Region};
use forebay_sync::Barrier;

use super::entry::{RecordKeys, key_entry};
use crate::store::Stats;

/// The kind of the first area of the maps.
const FIRST_KIND: u32 = 32;

/// The expected memory of an entry, in bytes: about 64 for the key, and about 64 for all else.
const ENTRY_BYTES_EXPECTED: u64 = 128;

/// The number of leases of a participant. One is enough: walks copy entries, so no thread holds a
/// lease.
const LEASES_MAX: u32 = 1;

const KEYS: &str = "keys";
const TAGS: &str = "tags";

/// How long a worker waits for a thread that changes a map. A change is much shorter, even if that
/// thread has to wait for a processor; only a stopped process makes others wait so long.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// How long a worker waits if its last wait timed out. This time is far longer than a change, and
/// short enough that many such waits do no harm.
const BUSY_WAIT_MAX: Duration = Duration::from_micros(200);

/// How long a participant waits, at its start, for another one that creates the maps.
const JOIN_WAIT_MAX: Duration = Duration::from_secs(5);

/// The key index of a process.
pub(crate) struct KeyIndex {
    region: OrdRegion,
}

/// The key index of one participant.
pub(crate) struct KeyIndexHandle {
    participant: MapParticipant,
    keys: MapId,
    tags: MapId,
    /// Whether the last change timed out waiting for a lock.
    is_busy: Cell<bool>,
}

/// One of the two maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyMap {
    /// Primary keys.
    Keys,
    /// Tags.
    Tags,
}

/// The configuration of the maps for this many records and participants.
pub(crate) fn config(records: u64, rows: u32) -> OrdConfig {
    let bytes = records * ENTRY_BYTES_EXPECTED;
    let config = OrdConfig {
        bytes,
        maps_max: 2,
        participants_max: rows,
        leases_max: LEASES_MAX,
        hint_bytes: 0,
        splits_max: 0,
    };
    // The fixed cost of the maps comes on top.
    match OrdRegion::areas_within(&OrdConfig { bytes: 0, ..config }, FIRST_KIND) {
        Err(OrdConfigError::TooSmall { minimum_bytes }) => {
            OrdConfig { bytes: bytes + minimum_bytes, ..config }
        }
        _ => config,
    }
}

/// The areas of the maps in the region; `None` if they would be too large.
pub(crate) fn areas(config: &OrdConfig) -> Option<Vec<AreaSpec>> {
    OrdRegion::areas_within(config, FIRST_KIND).ok()
}

impl KeyIndex {
    /// Opens the maps in a region that was made with their [areas].
    pub(crate) fn within(
        region: &Region,
        config: &OrdConfig,
        barrier: Barrier,
    ) -> Result<KeyIndex, forebay_ordmap::OrdOpenError> {
        OrdRegion::within(region, config, FIRST_KIND, barrier).map(|region| KeyIndex { region })
    }

    /// Makes the handle of a participant of the region.
    ///
    /// # Errors
    /// The directory of the maps is damaged, or another process does not finish creating a map.
    ///
    /// # Safety
    /// - The participant is one of the region, and stays in it until the handle is dropped.
    /// - The participant has no other handle on the maps.
    pub(crate) unsafe fn join(
        &self,
        participant: &Participant,
    ) -> Result<KeyIndexHandle, MapsError> {
        // SAFETY: the caller keeps the contract. All processes pass the barrier of the region, and
        // participants join the maps only here.
        let participant = unsafe { self.region.join_embedded(participant) };
        // The maps have as many rows as the region has participants.
        let participant = participant.map_err(|_| MapsError::Damaged)?;
        // The first participant creates the maps, while others wait for it.
        participant.set_wait_max(Some(JOIN_WAIT_MAX));
        let keys = participant.map(KEYS, &MapOptions::default())?.id();
        let tags = participant.map(TAGS, &MapOptions::default())?.id();
        participant.set_wait_max(Some(WAIT_MAX));
        Ok(KeyIndexHandle { participant, keys, tags, is_busy: Cell::new(false) })
    }

    /// Writes the sizes of the maps into `stats`.
    pub(crate) fn add_stats(&self, stats: &mut Stats) {
        stats.order_bytes = self.region.config().bytes;
        let [keys, tags] = [KEYS, TAGS].map(|name| self.region.stats_of(name));
        // There are no maps before the first participant has created them.
        stats.ordered_keys = keys.map_or(0, |keys| keys.len);
        stats.ordered_tags = tags.map_or(0, |tags| tags.len);
        let used = [keys, tags].into_iter().flatten().map(|map| map.used_bytes);
        stats.order_used_bytes = used.sum();
    }

    /// Releases the locks and leases of a dead participant in the maps.
    pub(crate) fn take_back(&self, dead: &Dead) {
        self.region.take_back(dead);
    }
}

impl KeyIndexHandle {
    pub(super) fn map(&self, which: KeyMap) -> Result<Map<'_>, MapError> {
        let id = match which {
            KeyMap::Keys => self.keys,
            KeyMap::Tags => self.tags,
        };
        self.participant
            .map_of(id)
            .map_err(|_| MapError::Damaged { what: "a map of the key index is missing" })
    }

    /// Whether the maps are so full that records must be evicted: more than 15/16 of their memory
    /// is used. Free memory that a map owns fits only entries of certain sizes. So the limit is
    /// only 12/16 as soon as less than 1/64 of the memory belongs to no map.
    pub(crate) fn is_short(&self) -> bool {
        let memory_usage = self.participant.memory_usage(&[self.keys, self.tags]);
        let capacity = memory_usage.capacity_bytes;
        let unowned = capacity.saturating_sub(memory_usage.owned_bytes);
        let sixteenths = if unowned < capacity / 64 { 12 } else { 15 };
        memory_usage.used_bytes > capacity / 16 * sixteenths
    }

    /// After a change that timed out, shortens the waits of further changes, until a change does
    /// not time out: a stopped process may hold the lock.
    fn waited<T>(&self, result: Result<T, MapError>) -> Result<T, MapError> {
        let is_busy = matches!(result, Err(MapError::Busy));
        if self.is_busy.replace(is_busy) != is_busy {
            self.participant.set_wait_max(Some(if is_busy { BUSY_WAIT_MAX } else { WAIT_MAX }));
        }
        result
    }

    /// Inserts the entries of a record.
    ///
    /// # Errors
    /// [`MapError`]; then some of its entries may be in the maps, and
    /// [`remove_keys`](Self::remove_keys) removes them.
    pub(crate) fn insert_keys(&self, record: &RecordKeys<'_>) -> Result<(), MapError> {
        if record.has_key {
            let entry = key_entry(record.primary, record.sequence);
            self.waited(self.map(KeyMap::Keys)?.insert(&entry, &[]))?;
        }
        if !record.tags.is_empty() {
            let tags = self.map(KeyMap::Tags)?;
            for entry in record.tag_entries() {
                forebay_shm::crash_point!("order.entering");
                self.waited(tags.insert(&entry, &[]))?;
            }
        }
        Ok(())
    }

    /// Removes the entries of records from both maps. Removing neighbouring entries costs little
    /// more than removing one.
    ///
    /// # Errors
    /// [`MapError`]; then some entries may remain in the maps.
    pub(crate) fn remove_keys(&self, records: &[RecordKeys<'_>]) -> Result<(), MapError> {
        let with_key = records.iter().filter(|record| record.has_key);
        let keys = with_key.map(|record| key_entry(record.primary, record.sequence)).collect();
        self.remove_all(KeyMap::Keys, keys)?;
        let tags = records.iter().flat_map(RecordKeys::tag_entries).collect();
        self.remove_all(KeyMap::Tags, tags)
    }

    fn remove_all(&self, which: KeyMap, mut entries: Vec<Vec<u8>>) -> Result<(), MapError> {
        if entries.is_empty() {
            return Ok(());
        }
        entries.sort_unstable();
        let entries: Vec<&[u8]> = entries.iter().map(|entry| &entry[..]).collect();
        forebay_shm::crash_point!("order.leaving");
        self.waited(self.map(which)?.remove_all(&entries))?;
        Ok(())
    }

    /// Whether a map contains an entry.
    pub(crate) fn contains(&self, which: KeyMap, entry: &[u8]) -> Result<bool, MapError> {
        self.map(which)?.contains(entry)
    }

    /// Removes one entry from a map.
    pub(crate) fn remove(&self, which: KeyMap, entry: &[u8]) -> Result<bool, MapError> {
        self.waited(self.map(which)?.remove(entry))
    }

    /// At most `count` entries of a map after `behind`.
    ///
    /// # Errors
    /// [`MapError`].
    pub(crate) fn entries_behind(
        &self,
        which: KeyMap,
        behind: &[u8],
        count: usize,
    ) -> Result<Vec<Vec<u8>>, MapError> {
        use std::ops::Bound;
        let mut scan = self.map(which)?.scan((Bound::Excluded(behind), Bound::Unbounded));
        let mut entries = Vec::new();
        while entries.len() < count
            && let Some((entry, _)) = scan.next()?
        {
            entries.push(entry.to_vec());
        }
        Ok(entries)
    }

    /// Checks the structure of both maps, without comparing them with the records.
    pub(crate) fn check(&self) -> Result<forebay_ordmap::CheckReport, MapError> {
        self.participant.check()
    }
}

#[cfg(test)]
impl KeyIndexHandle {
    /// Calls `run` while this participant holds the locks of both maps.
    pub(crate) fn while_locked(&self, run: impl FnOnce()) {
        let maps =
            [KeyMap::Keys, KeyMap::Tags].map(|which| self.map(which).expect("the map exists"));
        let run = || maps[1].while_locked(run).expect("the lock of the map is free");
        maps[0].while_locked(run).expect("the lock of the map is free");
    }

    /// Damages both maps: they name entries that do not exist.
    pub(crate) fn damage(&self) {
        for which in [KeyMap::Keys, KeyMap::Tags] {
            self.map(which).expect("the map exists").damage();
        }
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy.get()
    }
}

impl fmt::Debug for KeyIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyIndex").finish_non_exhaustive()
    }
}

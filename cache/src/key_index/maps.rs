//! The two maps in the region.

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

/// What an entry takes in the mean: some 64 bytes beside the key, and keys of some 64 bytes.
const ENTRY_BYTES_EXPECTED: u64 = 128;

/// Nobody holds entries: walks copy them.
const LEASES_MAX: u32 = 1;

const KEYS: &str = "keys";
const TAGS: &str = "tags";

/// How long a worker waits for who changes a map: longer than that takes, also if who does so has
/// to wait for a processor. Only one that is stopped makes others wait so long.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// The same after one that was in vain: far longer than a change takes, and many of them are no
/// harm.
const BUSY_WAIT_MAX: Duration = Duration::from_micros(200);

/// The same for the making of the maps, at the start.
const JOIN_WAIT_MAX: Duration = Duration::from_secs(5);

/// The order as a process has it.
pub(crate) struct KeyIndex {
    region: OrdRegion,
}

/// The order as one participant uses it.
pub(crate) struct KeyIndexHandle {
    participant: MapParticipant,
    keys: MapId,
    tags: MapId,
    /// The last change found a lock that was not to be had.
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

/// How the maps are to be for so many records and participants.
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
    // What belongs to the maps whatever is in them comes on top.
    match OrdRegion::areas_within(&OrdConfig { bytes: 0, ..config }, FIRST_KIND) {
        Err(OrdConfigError::TooSmall { minimum_bytes }) => {
            OrdConfig { bytes: bytes + minimum_bytes, ..config }
        }
        _ => config,
    }
}

/// The areas of the region that the maps lie in; `None` if there can be none so large.
pub(crate) fn areas(config: &OrdConfig) -> Option<Vec<AreaSpec>> {
    OrdRegion::areas_within(config, FIRST_KIND).ok()
}

impl KeyIndex {
    /// The maps in a region that was made with their [areas].
    pub(crate) fn within(
        region: &Region,
        config: &OrdConfig,
        barrier: Barrier,
    ) -> Result<KeyIndex, forebay_ordmap::OrdOpenError> {
        OrdRegion::within(region, config, FIRST_KIND, barrier).map(|region| KeyIndex { region })
    }

    /// What a participant of the region uses them by.
    ///
    /// # Errors
    /// The directory of the maps is damaged, or somebody who makes a map does not end.
    ///
    /// # Safety
    /// - The participant is one of the region, and stays in it until the part is dropped.
    /// - It has no other part.
    pub(crate) unsafe fn join(
        &self,
        participant: &Participant,
    ) -> Result<KeyIndexHandle, MapsError> {
        // SAFETY: as the contract says; nobody joins the maps by themselves.
        let participant = unsafe { self.region.join_embedded(participant) };
        // There are as many rows as participants.
        let participant = participant.map_err(|_| MapsError::Damaged)?;
        // The first ones make them, and the others wait.
        participant.set_wait_max(Some(JOIN_WAIT_MAX));
        let keys = participant.map(KEYS, &MapOptions::default())?.id();
        let tags = participant.map(TAGS, &MapOptions::default())?.id();
        participant.set_wait_max(Some(WAIT_MAX));
        Ok(KeyIndexHandle { participant, keys, tags, is_busy: Cell::new(false) })
    }

    /// What the maps hold and take.
    pub(crate) fn add_stats(&self, stats: &mut Stats) {
        stats.order_bytes = self.region.config().bytes;
        let [keys, tags] = [KEYS, TAGS].map(|name| self.region.stats_of(name));
        // They are made by the first who joins.
        stats.ordered_keys = keys.map_or(0, |keys| keys.len);
        stats.ordered_tags = tags.map_or(0, |tags| tags.len);
        let used = [keys, tags].into_iter().flatten().map(|map| map.used_bytes);
        stats.order_used_bytes = used.sum();
    }

    /// Takes back what a dead participant held.
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
        self.participant.map_of(id).map_err(|_| MapError::Damaged { what: "a map is nowhere" })
    }

    /// Is so little room left that records are to leave? Memory that has belonged to entries of
    /// some size does not serve all others: if nothing else is left, more of it has to be free.
    pub(crate) fn is_short(&self) -> bool {
        let memory_usage = self.participant.memory_usage(&[self.keys, self.tags]);
        let capacity = memory_usage.capacity_bytes;
        let unowned = capacity.saturating_sub(memory_usage.owned_bytes);
        let sixteenths = if unowned < capacity / 64 { 12 } else { 15 };
        memory_usage.used_bytes > capacity / 16 * sixteenths
    }

    /// Who met a lock that a stopped process holds does not wait for it as long again, until it is
    /// free.
    fn waited<T>(&self, result: Result<T, MapError>) -> Result<T, MapError> {
        let is_busy = matches!(result, Err(MapError::Busy));
        if self.is_busy.replace(is_busy) != is_busy {
            self.participant.set_wait_max(Some(if is_busy { BUSY_WAIT_MAX } else { WAIT_MAX }));
        }
        result
    }

    /// Enters a record.
    ///
    /// # Errors
    /// [`MapError`]; then it is in neither map, or in some places that
    /// [`remove_keys`](Self::remove_keys) clears.
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

    /// Takes records out of both maps. Neighbours leave at little more than the cost of one.
    ///
    /// # Errors
    /// [`MapError`]; then something may be left.
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

    /// Is an entry in a map?
    pub(crate) fn contains(&self, which: KeyMap, entry: &[u8]) -> Result<bool, MapError> {
        self.map(which)?.contains(entry)
    }

    /// Takes one entry out of a map, as it was found there.
    pub(crate) fn remove(&self, which: KeyMap, entry: &[u8]) -> Result<bool, MapError> {
        self.waited(self.map(which)?.remove(entry))
    }

    /// Up to so many entries of a map behind one of them.
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

    /// What is wrong with the maps themselves.
    pub(crate) fn check(&self) -> Result<forebay_ordmap::CheckReport, MapError> {
        self.participant.check()
    }
}

#[cfg(test)]
impl KeyIndexHandle {
    /// Does something while this part holds the locks of both maps.
    pub(crate) fn while_locked(&self, run: impl FnOnce()) {
        let maps = [KeyMap::Keys, KeyMap::Tags].map(|which| self.map(which).expect("a map"));
        let run = || maps[1].while_locked(run).expect("its lock");
        maps[0].while_locked(run).expect("its lock");
    }

    /// Lets both maps name what is not there.
    pub(crate) fn damage(&self) {
        for which in [KeyMap::Keys, KeyMap::Tags] {
            self.map(which).expect("a map").damage();
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

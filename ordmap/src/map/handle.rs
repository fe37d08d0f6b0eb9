//! The handle of a map for one participant: reads of single keys, and statistics.

use std::fmt;

use forebay_shm::{Area, RobustLock, SystemFutex};

use super::cursor::Cursor;
use super::entry::Entry;
use super::estimate::len_of;
use super::reader::MapReader;
use crate::error::MapError;
use crate::hint_table::BUCKET_BYTES;
use crate::names::MapShards;
use crate::object::{CHUNK_UNITS, UNIT_WORDS};
use crate::region::{MapId, MapParticipant, SharedRegion};
use crate::route::RouteTable;
use crate::shard::{BUDGET, EVICTED, LIMBO_COUNT, REPAIRED, SEQUENCE, ShardWords};

/// The handle of a map for one participant of its region.
pub struct Map<'m> {
    pub(super) participant: &'m MapParticipant,
    pub(super) reader: MapReader<'m>,
    pub(super) shard: usize,
}

/// Statistics of a map. Other participants may change these numbers at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapStats {
    /// The number of entries.
    pub len: u64,
    /// Bytes of entries and nodes, including [waiting](MapStats::waiting_count) entries.
    pub used_bytes: u64,
    /// Bytes of the chunks that the map owns.
    pub owned_bytes: u64,
    /// The limit of `used_bytes`; 0: only the region limits the map.
    pub budget_bytes: u64,
    /// Bytes of the hint table, which are not among `owned_bytes`; 0 without a table.
    pub hint_bytes: u64,
    /// The number of waiting entries: they have left the map but are not freed, because a lease may
    /// hold them.
    pub waiting_count: u64,
    /// The number of entries evicted so far.
    pub evicted_count: u64,
    /// The number of changes since the map was created.
    pub change_count: u64,
    /// How often a shard was repaired after a process had died while it held the shard's lock.
    pub repair_count: u64,
    /// The number of shards.
    pub shard_count: u64,
}

impl<'m> Map<'m> {
    pub(crate) fn new(participant: &'m MapParticipant, shard: usize) -> Map<'m> {
        let reader = MapReader::new(participant, shard);
        Map { participant, shard, reader }
    }

    pub(crate) fn shards(&self) -> MapShards {
        self.reader.shards
    }

    pub(crate) fn routes(&self) -> RouteTable<'m> {
        self.reader.routes
    }

    /// The lock of one of the map's shards.
    pub(super) fn lock_of(&self, slot: usize) -> &'m RobustLock<Area, SystemFutex> {
        self.participant.shared().shard_lock(self.shards().number(slot))
    }

    /// The words of one of the map's shards.
    pub(super) fn words_of(&self, slot: usize) -> ShardWords<'m> {
        self.participant.shared().shard_words(self.shards().number(slot))
    }

    /// The number of the map in its region.
    #[must_use]
    pub fn id(&self) -> MapId {
        MapId(self.shard)
    }

    /// A copy of the value of a key.
    ///
    /// # Errors
    /// [`MapError::Damaged`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, MapError> {
        let mut value = Vec::new();
        Ok(self.read_into(key, &mut value)?.then_some(value))
    }

    /// Appends the value of a key to `out`; false if the key does not exist.
    ///
    /// # Errors
    /// [`MapError::Damaged`].
    #[inline]
    pub fn read_into(&self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, MapError> {
        let begin = out.len();
        let found = self.reader.look_up(key, |reader, hit| {
            // An earlier attempt may have copied an entry that was freed.
            out.truncate(begin);
            hit.lengths.copy_value(&hit.entry, out);
            hit.entry.settle(Ok(()))?;
            reader.mark(&hit.entry);
            Ok(())
        });
        if !matches!(found, Ok(Some(()))) {
            out.truncate(begin);
        }
        Ok(found?.is_some())
    }

    /// Whether a key exists.
    ///
    /// # Errors
    /// [`MapError::Damaged`].
    pub fn contains(&self, key: &[u8]) -> Result<bool, MapError> {
        Ok(self.reader.look_up(key, |_, _| Ok(()))?.is_some())
    }

    /// The entry of a key, to be read in place. The entry uses one of the participant's leases.
    ///
    /// # Errors
    /// [`MapError::TooManyLeases`], [`MapError::Damaged`].
    pub fn entry(&self, key: &[u8]) -> Result<Option<Entry<'m>>, MapError> {
        self.reader.hold(key)
    }

    /// A cursor that stands at no entry yet.
    #[must_use]
    pub fn cursor(&self) -> Cursor<'m> {
        Cursor::new(self.reader)
    }

    /// The number of entries. With one shard, the number was exact at some moment; with several
    /// shards, it is a sum of counts, each exact at a different moment.
    #[must_use]
    pub fn len(&self) -> u64 {
        len_of(self.participant.shared(), self.shards())
    }

    /// Whether the map has no entries, as counted by [`len`](Map::len).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The statistics of the map.
    #[must_use]
    pub fn stats(&self) -> MapStats {
        MapStats::of(self.participant.shared(), self.shard)
    }
}

impl MapStats {
    pub(crate) fn of(shared: &SharedRegion, shard: usize) -> MapStats {
        let hint_bytes = shared.hints(shard).bucket_count() * BUCKET_BYTES;
        let shards = shared.shards_of(shard);
        let words = || shards.numbers().map(|number| shared.shard_words(number));
        let sum =
            |word: usize| words().fold(0, |sum: u64, words| sum.wrapping_add(words.load(word)));
        let (mut units, mut chunks) = (0_u64, 0_u64);
        for allocator in shards.numbers().map(|number| shared.allocator(number)) {
            units = units.saturating_add(allocator.taken_units());
            chunks = chunks.saturating_add(allocator.chunks_owned());
        }
        let unit_bytes = (UNIT_WORDS * 8) as u64;
        MapStats {
            len: len_of(shared, shards),
            used_bytes: units.saturating_mul(unit_bytes),
            owned_bytes: chunks.saturating_mul(CHUNK_UNITS as u64 * unit_bytes),
            budget_bytes: shared.shard_words(shard).load(BUDGET),
            hint_bytes,
            waiting_count: sum(LIMBO_COUNT),
            evicted_count: sum(EVICTED),
            change_count: sum(SEQUENCE),
            repair_count: sum(REPAIRED),
            shard_count: shared.routes(shards).now().map_or(1, |now| now.count() as u64 + 1),
        }
    }
}

impl fmt::Debug for Map<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Map").field("shard", &self.shard).finish_non_exhaustive()
    }
}

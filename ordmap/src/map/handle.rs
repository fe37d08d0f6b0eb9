//! A map as one member of its region uses it: reading single keys, and what it takes.

use std::fmt;
use std::ops::RangeBounds;

use forebay_shm::{Area, RobustLock, SystemFutex};

use super::bounds::{Beginning, Bounds};
use super::cursor::Cursor;
use super::entry::Entry;
use super::reader::Reader;
use crate::error::MapError;
use crate::object::{CHUNK_UNITS, Stop, UNIT_WORDS};
use crate::region::{MapId, Member, Shared};
use crate::shard::{BUDGET, EVICTED, LEN, LIMBO_COUNT, REPAIRED, SEQUENCE};
use crate::tree::{Path, Tree, Way};

/// A map, as one member of its region uses it.
pub struct Map<'m> {
    pub(super) member: &'m Member,
    pub(super) reader: Reader<'m>,
    pub(super) shard: usize,
    pub(super) lock: &'m RobustLock<Area, SystemFutex>,
}

/// What a map holds and takes. A glance: others change it meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapStats {
    /// Entries.
    pub len: u64,
    /// Bytes of entries and nodes, with what waits for leases.
    pub used_bytes: u64,
    /// Bytes of the region that belong to the map.
    pub owned_bytes: u64,
    /// What `used_bytes` may be at most; 0: no limit but the region.
    pub budget_bytes: u64,
    /// Entries that wait until no lease can hold them.
    pub waiting_count: u64,
    /// Entries that were evicted.
    pub evicted_count: u64,
    /// Changes since the map was made.
    pub change_count: u64,
    /// How often a change of a dead process was finished or undone.
    pub repair_count: u64,
}

impl<'m> Map<'m> {
    pub(crate) fn new(member: &'m Member, shard: usize) -> Map<'m> {
        let lock = member.shared().shard_lock(shard);
        Map { member, reader: Reader::new(member, shard), shard, lock }
    }

    /// Which map of its region it is.
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

    /// Appends the value of a key to `out`; no, if it is not there.
    ///
    /// # Errors
    /// [`MapError::Damaged`].
    #[inline]
    pub fn read_into(&self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, MapError> {
        let begin = out.len();
        let found = self.reader.read(|| {
            // What a try before this one has copied was freed meanwhile.
            out.truncate(begin);
            let Some(hit) = self.reader.tree.find(key)? else { return Ok(false) };
            hit.lengths.copy_value(&hit.entry, out);
            hit.entry.settle(Ok(()))?;
            self.reader.mark(&hit.entry);
            Ok(true)
        });
        if found.is_err() {
            out.truncate(begin);
        }
        found
    }

    /// Is there an entry of this key?
    ///
    /// # Errors
    /// [`MapError::Damaged`].
    pub fn contains(&self, key: &[u8]) -> Result<bool, MapError> {
        self.reader.read(|| Ok(self.reader.tree.find(key)?.is_some()))
    }

    /// The entry of a key, to be read where it lies. It takes one of the member's leases.
    ///
    /// # Errors
    /// [`MapError::TooManyLeases`], [`MapError::Damaged`].
    pub fn entry(&self, key: &[u8]) -> Result<Option<Entry<'m>>, MapError> {
        self.reader.hold(key)
    }

    /// A cursor that stands nowhere yet.
    #[must_use]
    pub fn cursor(&self) -> Cursor<'m> {
        Cursor::new(self.reader)
    }

    /// How many entries there are. It was right at some moment.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.reader.shard.load(LEN)
    }

    /// About how many entries have keys in a range: exact up to a hundred or more, else
    /// off by a quarter at most where keys come and go at random, and mostly by less. It reads some
    /// hundred nodes at most, whatever lies between.
    ///
    /// # Errors
    /// [`MapError::Damaged`].
    pub fn estimate<'k>(&self, keys: impl RangeBounds<&'k [u8]>) -> Result<u64, MapError> {
        let (bounds, tree) = (Bounds::of(&keys), self.reader.tree);
        self.reader.read(|| {
            let Some((low, _)) = place_of(tree, bounds.beginning(Way::Up), Way::Up)? else {
                return Ok(0);
            };
            let Some((high, end)) = place_of(tree, bounds.beginning(Way::Down), Way::Down)? else {
                return Ok(0);
            };
            Ok(tree.estimate(&low, &high, end)?)
        })
    }

    /// Is there no entry?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the map holds and takes.
    #[must_use]
    pub fn stats(&self) -> MapStats {
        MapStats::of(self.member.shared(), self.shard)
    }
}

impl MapStats {
    pub(crate) fn of(shared: &Shared, shard: usize) -> MapStats {
        let (shard, allocator) = (shared.shard_words(shard), shared.allocator(shard));
        let unit_bytes = (UNIT_WORDS * 8) as u64;
        MapStats {
            len: shard.load(LEN),
            used_bytes: allocator.taken_units().saturating_mul(unit_bytes),
            owned_bytes: allocator.chunks_owned().saturating_mul(CHUNK_UNITS as u64 * unit_bytes),
            budget_bytes: shard.load(BUDGET),
            waiting_count: shard.load(LIMBO_COUNT),
            evicted_count: shard.load(EVICTED),
            change_count: shard.load(SEQUENCE),
            repair_count: shard.load(REPAIRED),
        }
    }
}

/// The way to where a range begins, or ends; and the index of the first entry there that is not
/// below, for `Up`, or above, for `Down`. None: the map is empty.
fn place_of(
    tree: Tree<'_>,
    beginning: Beginning<'_>,
    way: Way,
) -> Result<Option<(Path, usize)>, Stop> {
    let (key, passes_equal) = match beginning {
        Beginning::At(key) => (key, way == Way::Down),
        Beginning::Beyond(key) => (key, way == Way::Up),
        Beginning::End => {
            let Some(path) = tree.descend_to_end(way)? else { return Ok(None) };
            let index = path.index() + usize::from(way == Way::Down);
            return Ok(Some((path, index)));
        }
    };
    let Some((mut path, spot)) = tree.descend(key)? else { return Ok(None) };
    let index = spot.index + usize::from(passes_equal && spot.entry.is_some());
    path.set_index(path.depth - 1, index);
    Ok(Some((path, index)))
}

impl fmt::Debug for Map<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Map").field("shard", &self.shard).finish_non_exhaustive()
    }
}

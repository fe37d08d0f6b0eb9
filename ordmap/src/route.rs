//! Routes keys to the shards of a map.
//!
//! A map begins with one shard, which has all keys. When a map has several shards, each of them
//! except the lowest has a row with its bound: the lowest key that the shard can have. The rows are
//! in key order. There are two copies of the rows; the route word tells which copy is valid, how
//! many rows it has, and its version. To move a bound, the writer fills the other copy and
//! publishes it by one store into the word.
//!
//! | bits of the word | meaning |
//! |---|---|
//! | 0–7 | number of rows |
//! | 8–63 | version; the second copy is valid if the version is odd |
//!
//! | word of a row | meaning |
//! |---|---|
//! | 0 | bits 0–7: the shard's slot in the map; 8–23: bytes of the bound |
//! | 1 | the version that moved the bound last |
//! | 2–31 | the bound |
//!
//! | field | written by | read by |
//! |---|---|---|
//! | route word, rows | owner of the map's lock for moves | all |
//!
//! An entry is in the map if it lies within the bounds of its shard. So entries are copied into
//! another shard before its bound moves over them, and are removed from their old shard afterwards.
//! At the end of a read, the reader checks that the route word is unchanged.

mod rows;

#[cfg(all(test, loom))]
mod loom_hints;
#[cfg(all(test, loom))]
mod loom_tests;

use forebay_sync::atomic::{AtomicU64, Relaxed, acquire, acquire_fence, release, release_fence};

use crate::object::{ObjectReadError, compare_words};
pub(crate) use rows::{KeyRange, RouteRow};

/// The number of words of a row.
pub(crate) const ROUTE_ROW_WORDS: usize = if cfg!(loom) { 3 } else { 32 };
const SHARD: usize = 0;
const STAMP: usize = 1;
const BOUND: usize = 2;

/// The longest bound, in bytes. Keys with a common prefix of this length or more stay in one shard.
pub(crate) const BOUND_BYTES_MAX: usize = (ROUTE_ROW_WORDS - BOUND) * 8;

/// The largest number of shards of a map.
pub(crate) const SHARDS_MAX: usize = 16;

/// The most attempts of a reader to read rows. More attempts could fail only if bounds moved as
/// fast as rows are read, and no writer is that fast.
const TRIES_MAX: u32 = 1 << 16;

const DAMAGED: ObjectReadError = ObjectReadError::Damaged("the bounds of the shards are damaged");

/// The bounds of a map's shards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RouteTable<'a> {
    word: &'a AtomicU64,
    /// The words of both copies; each copy has room for the largest number of rows.
    rows: &'a [AtomicU64],
}

/// A value of the route word: the number of bounds, and their version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RouteVersion(u64);

impl RouteVersion {
    /// The number of bounds.
    pub(crate) fn count(self) -> usize {
        self.0 as u8 as usize
    }

    fn number(self) -> u64 {
        self.0 >> 8
    }

    /// The stamp of the next published version.
    pub(crate) fn next_stamp(self) -> u64 {
        self.number() + 1
    }
}

impl<'a> RouteTable<'a> {
    /// Makes the table from the route word and the rows. `rows` has the words of both copies of the
    /// map's rows; it is empty if the map can have only one shard.
    pub(crate) fn new(word: &'a AtomicU64, rows: &'a [AtomicU64]) -> RouteTable<'a> {
        RouteTable { word, rows }
    }

    /// Whether the map can have only one shard.
    #[inline]
    pub(crate) fn is_single(self) -> bool {
        self.rows.is_empty()
    }

    /// The largest number of rows.
    pub(crate) fn rows_max(self) -> usize {
        self.rows.len() / (2 * ROUTE_ROW_WORDS)
    }

    /// The current version of the bounds.
    #[inline]
    pub(crate) fn now(self) -> Result<RouteVersion, ObjectReadError> {
        // ORDER: pairs with `ordmap.routed`: we see the rows, and the entries that were copied into
        // a shard before the bound moved over them.
        let version = RouteVersion(self.word.load(acquire("ordmap.route")));
        if version.count() > self.rows_max() { Err(DAMAGED) } else { Ok(version) }
    }

    /// Whether the version is still current, after all reads.
    #[inline]
    pub(crate) fn is_now(self, version: RouteVersion) -> bool {
        // ORDER: pairs with `ordmap.reroute`: if we have read a row that was being rewritten, we
        // see that its copy is no longer valid.
        acquire_fence("ordmap.rerouted");
        self.word.load(Relaxed) == version.0
    }

    /// The rank of the shard that has a key, in key order.
    #[inline]
    pub(crate) fn position(self, version: RouteVersion, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, version.count());
        while low < high {
            let middle = (low + high) / 2;
            if self.is_below(version, middle + 1, key) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// Whether a key is below the bound of the shard of this rank, which is not the first.
    #[inline]
    fn is_below(self, version: RouteVersion, position: usize, key: &[u8]) -> bool {
        let row = self.row(version, position);
        let bytes = (row[SHARD].load(Relaxed) >> 8) as u16 as usize;
        compare_words(&row[BOUND..], bytes.min(BOUND_BYTES_MAX), key, 0).is_gt()
    }

    /// Whether the shard of this rank can have a key.
    #[inline]
    pub(crate) fn has(self, version: RouteVersion, position: usize, key: &[u8]) -> bool {
        let is_low = position > 0 && self.is_below(version, position, key);
        let is_high = position < version.count() && !self.is_below(version, position + 1, key);
        !is_low && !is_high
    }

    /// The slot of the shard of this rank. Like everything that is read from rows, the slot may be
    /// nonsense until the reader has checked that the version is still current.
    #[inline]
    pub(crate) fn slot(
        self,
        version: RouteVersion,
        position: usize,
    ) -> Result<usize, ObjectReadError> {
        if position == 0 {
            return Ok(0);
        }
        let slot = self.row(version, position)[SHARD].load(Relaxed) as u8 as usize;
        if (1..=self.rows_max()).contains(&slot) { Ok(slot) } else { Err(DAMAGED) }
    }

    /// The shard that has a key now.
    #[inline]
    pub(crate) fn find(self, key: &[u8]) -> Result<(RouteVersion, usize), ObjectReadError> {
        self.read(|version| self.slot(version, self.position(version, key)))
    }

    /// Repeats a read of rows until the version was current all the time.
    #[inline]
    pub(crate) fn read<T>(
        self,
        mut read: impl FnMut(RouteVersion) -> Result<T, ObjectReadError>,
    ) -> Result<(RouteVersion, T), ObjectReadError> {
        for _ in 0..TRIES_MAX {
            let version = self.now()?;
            let found = read(version);
            if self.is_now(version) {
                return Ok((version, found?));
            }
        }
        Err(DAMAGED)
    }

    /// The row of the shard of a rank other than the first.
    #[inline]
    fn row(self, version: RouteVersion, position: usize) -> &'a [AtomicU64] {
        let copy = (version.number() % 2) as usize * self.rows_max();
        &self.rows[(copy + position - 1) * ROUTE_ROW_WORDS..][..ROUTE_ROW_WORDS]
    }

    /// Writes the rows of the next version into the copy that is not valid now.
    fn write(self, next: RouteVersion, rows: &[RouteRow]) {
        // ORDER: pairs with `ordmap.rerouted`: a reader of a word that is written here sees that
        // the copy is no longer valid.
        release_fence("ordmap.reroute");
        for (index, row) in rows.iter().enumerate() {
            row.store(self.row(next, index + 1));
        }
    }

    /// Makes these bounds current. The caller holds the lock for moves, and the locks of the shards
    /// at both sides of each bound that changes.
    pub(crate) fn publish(self, version: RouteVersion, rows: &[RouteRow]) {
        let next = RouteVersion((version.number() + 1) << 8 | rows.len() as u64);
        self.write(next, rows);
        crate::step!("move.written");
        // ORDER: pairs with `ordmap.route`.
        self.word.store(next.0, release("ordmap.routed"));
        crate::step!("move.published");
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

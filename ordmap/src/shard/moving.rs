//! Moves entries from a shard to its neighbour, a batch at a time.
//!
//! Entries are copied first; then one store moves the bound between the shards over them; then the
//! originals are removed. Before and after that store some entries lie outside of the bounds of
//! their shard: these entries are not in the map, and are not counted. A word in each of the two
//! shards records the move in case of a death, and the next owner of each shard removes the entries
//! outside of its bounds. The bound's row has the version of its last move, and so shows whether
//! the bound was moved.

use super::intent::ChangeError;
use super::words::{LEN, LEN_MOVED, LIMBO_BATCH, LIMBO_SPARE, MOVING, ShardWords};
use super::writer::ShardWriter;
use crate::hint_table::HintBucket;
use crate::object::{EntryKind, EntryLengths, ObjectRef};
use crate::route::{BOUND_BYTES_MAX, KeyRange, RouteRow, RouteTable};
use crate::tree::{AdvanceResult, Direction, common_bytes, copy_key_of};

/// The most entries that move under one hold of both locks.
pub(crate) const MOVED_AT_ONCE: usize = 32;
/// The most bytes that move under one hold of both locks, unless one entry has more.
const MOVED_BYTES: usize = 32 << 10;
// The originals of all moved entries go to limbo.
const _: () = assert!(cfg!(loom) || LIMBO_BATCH + MOVED_AT_ONCE <= LIMBO_SPARE);

/// Two adjacent shards. The caller holds both their locks and the lock for moves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NeighbourShards<'a> {
    pub(crate) lower: ShardWriter<'a>,
    pub(crate) upper: ShardWriter<'a>,
    /// The slots of both shards in the map.
    pub(crate) slots: (usize, usize),
}

/// Entries at one end of a shard, outermost first, and the bound between them and the other entries
/// of the shard.
struct MoveBatch {
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    bound: Vec<u8>,
}

impl NeighbourShards<'_> {
    /// Moves some entries across the bound, up or down; returns the number of moved entries, which
    /// is 0 if no bound is short enough.
    pub(crate) fn move_some(
        &self,
        routes: RouteTable<'_>,
        direction: Direction,
    ) -> Result<u64, ChangeError> {
        let (from, into) = match direction {
            Direction::Up => (&self.lower, &self.upper),
            Direction::Down => (&self.upper, &self.lower),
        };
        let Some(MoveBatch { entries, bound }) = from.batch_for(direction)? else { return Ok(0) };
        let count = entries.len() as u64;
        let (version, rows) = routes.rows()?;
        let stamp = version.next_stamp();
        from.shard.store(LEN_MOVED, from.shard.load(LEN).saturating_sub(count));
        into.shard.store(LEN_MOVED, into.shard.load(LEN).wrapping_add(count));
        crate::step!("move.begun");
        self.upper.shard.store(MOVING, stamp << 1 | 1);
        crate::step!("move.announced");
        self.lower.shard.store(MOVING, stamp << 1);
        crate::step!("move.armed");
        let copied = into.copy_in(&entries);
        match copied {
            Ok(()) => {
                // The hint table names only entries that are in the map: the originals leave it
                // before the bound moves, and their copies enter it afterwards.
                from.for_hints(&entries, |bucket, entry| bucket.take_out(entry))?;
                routes.publish(version, &self.rows_with(rows, stamp, bound));
                into.for_hints(&entries, |bucket, entry| bucket.put(entry))?;
            }
            Err(ChangeError::Full) => {}
            Err(error) => return Err(error),
        }
        settle_move(&self.lower, &routes.range_of(self.slots.0)?)?;
        crate::step!("move.settled");
        settle_move(&self.upper, &routes.range_of(self.slots.1)?)?;
        copied.map(|()| count)
    }

    /// The rows with the new bound between both shards, which may be a new row.
    fn rows_with(&self, mut rows: Vec<RouteRow>, stamp: u64, bound: Vec<u8>) -> Vec<RouteRow> {
        let (lower, upper) = self.slots;
        let row = RouteRow { slot: upper, stamp, bound };
        match rows.iter().position(|row| row.slot == upper) {
            Some(at) => rows[at] = row,
            None => {
                let below = rows.iter().position(|row| row.slot == lower);
                rows.insert(below.map_or(0, |at| at + 1), row);
            }
        }
        rows
    }
}

impl ShardWriter<'_> {
    /// A copy of this writer that changes entries outside of the shard's bounds.
    fn hidden(&self) -> Self {
        ShardWriter { is_hidden: true, ..*self }
    }

    /// The next entries to move up or down, such that at least one entry stays in the shard; `None`
    /// if no bound is short enough.
    fn batch_for(&self, direction: Direction) -> Result<Option<MoveBatch>, ChangeError> {
        // The entries from the end of the shard on, up to the first one that stays.
        let mut entries = Vec::new();
        let mut bytes = 0;
        self.walk(direction.opposite(), |entry| {
            let (key, value) = self.copy_of(entry)?;
            bytes += key.len() + value.len();
            entries.push((key, value));
            let is_enough = bytes > MOVED_BYTES && entries.len() > 1;
            Ok(entries.len() <= MOVED_AT_ONCE && !is_enough)
        })?;
        for count in (1..entries.len()).rev() {
            let (moved, stays) = (&entries[count - 1].0, &entries[count].0);
            let (below, above) =
                if direction == Direction::Up { (stays, moved) } else { (moved, stays) };
            let bound = &above[..above.len().min(common_bytes(below, above) + 1)];
            if bound.len() <= BOUND_BYTES_MAX {
                let bound = bound.to_vec();
                entries.truncate(count);
                return Ok(Some(MoveBatch { entries, bound }));
            }
        }
        Ok(None)
    }

    /// Visits the entries from one end on, in this direction, until `see` returns false.
    fn walk(
        &self,
        direction: Direction,
        mut see: impl FnMut(ObjectRef) -> Result<bool, ChangeError>,
    ) -> Result<(), ChangeError> {
        let Some(mut path) = self.tree.descend_to_end(direction)? else { return Ok(()) };
        loop {
            let leaf = self.tree.leaf_of(&path)?;
            let entry = leaf.slot(path.index())?;
            if !see(entry)?
                || self.tree.advance(&leaf, &mut path, direction)? == AdvanceResult::Nowhere
            {
                return Ok(());
            }
        }
    }

    fn copy_of(&self, entry: ObjectRef) -> Result<(Vec<u8>, Vec<u8>), ChangeError> {
        let object = self.tree.view.begin(entry)?;
        let lengths = object.settle(EntryLengths::of(&object, EntryKind::Entry))?;
        let (mut key, mut value) = (Vec::new(), Vec::new());
        lengths.copy_key(&object, &mut key);
        lengths.copy_value(&object, &mut value);
        Ok((key, value))
    }

    /// Stores copies that are not in the map yet.
    fn copy_in(&self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), ChangeError> {
        let writer = self.hidden();
        for (key, value) in entries {
            if !writer.allocator.reserve_nodes()? {
                return Err(ChangeError::Full);
            }
            writer.put(&writer.look(key)?, key, value)?;
            crate::step!("move.copied");
        }
        Ok(())
    }

    /// Runs a function with each of these entries and the bucket of its key.
    fn for_hints(
        &self,
        entries: &[(Vec<u8>, Vec<u8>)],
        run: impl Fn(HintBucket<'_>, ObjectRef),
    ) -> Result<(), ChangeError> {
        for (key, _) in entries {
            let Some(bucket) = self.hints.bucket(key) else { return Ok(()) };
            if let Some(entry) = self.look(key)?.entry {
                run(bucket, entry);
            }
        }
        Ok(())
    }

    /// Removes the entries outside of the bounds.
    fn trim(&self, range: &KeyRange) -> Result<(), ChangeError> {
        for direction in [Direction::Up, Direction::Down] {
            let mut keys = self.keys_outside(range, direction)?;
            keys.sort_unstable();
            let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
            let mut rest = &keys[..];
            while !rest.is_empty() {
                let run = self.hidden().remove_run(rest)?;
                if run.removed == 0 {
                    return Err(ChangeError::Damaged("a key is no longer where it was found"));
                }
                rest = rest.get(run.looked_at..).unwrap_or_default();
                crate::step!("move.trimmed");
            }
        }
        Ok(())
    }

    /// The keys outside of the bounds, from one end on.
    fn keys_outside(
        &self,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<Vec<Vec<u8>>, ChangeError> {
        let mut keys = Vec::new();
        self.walk(direction, |entry| {
            let mut key = Vec::new();
            copy_key_of(self.tree.view, entry, EntryKind::Entry, &mut key)?;
            if range.has(&key) {
                return Ok(false);
            }
            keys.push(key);
            if keys.len() > MOVED_AT_ONCE {
                return Err(ChangeError::Damaged(
                    "too many entries lie outside of a shard's bounds",
                ));
            }
            Ok(true)
        })?;
        Ok(keys)
    }
}

/// Whether entries are being moved from or to this shard, or were when the mover died.
pub(crate) fn is_moving(shard: ShardWords<'_>) -> bool {
    shard.load(MOVING) != 0
}

/// Whether the bound was moved over the entries.
fn is_moved(shard: ShardWords<'_>, range: &KeyRange) -> bool {
    let moving = shard.load(MOVING);
    let stamp = if moving % 2 == 1 { range.low_stamp } else { range.high_stamp };
    moving != 0 && moving >> 1 == stamp
}

/// How many entries of a shard are in the map.
pub(crate) fn shown_len(shard: ShardWords<'_>, range: &KeyRange) -> u64 {
    let moving = shard.load(MOVING);
    let moved = is_moved(shard, range).then(|| shard.load(LEN_MOVED));
    // The next move overwrites the count only after this move was settled.
    moved.filter(|_| shard.load(MOVING) == moving).unwrap_or_else(|| shard.load(LEN))
}

/// Ends a move in one of its two shards, even if another process began the move. The call may be
/// repeated.
pub(crate) fn settle_move(writer: &ShardWriter<'_>, range: &KeyRange) -> Result<(), ChangeError> {
    let shard = writer.shard;
    if is_moved(shard, range) {
        shard.store(LEN, shard.load(LEN_MOVED));
        crate::step!("move.counted");
    }
    writer.trim(range)?;
    crate::step!("move.ending");
    shard.store(MOVING, 0);
    Ok(())
}

//! Repeats reads until they are consistent.

use forebay_shm::Area;
use forebay_sync::atomic::spin_loop;
use forebay_sync::leases::LeaseRow;

use super::entry::{Entry, HoldError};
use crate::error::MapError;
use crate::hint_table::HintTable;
use crate::names::MapShards;
use crate::object::{EntryKind, EntryLengths, ObjectReadError, ObjectView};
use crate::region::MapParticipant;
use crate::route::RouteTable;
use crate::shard::{EPOCH, EPOCHS_MAX, IS_FULL, ROOT, SEQUENCE, ShardWords};
use crate::tree::{MapTree, TreeHit};

/// The most attempts of a read while no writer changes anything. If more attempts fail, the shard
/// is damaged.
const QUIET_TRIES_MAX: u32 = 1000;

/// The most attempts of a read in total. An attempt takes about as long as a change, and fails only
/// if a change was on its path, so this many failures in a row mean damage. Without this limit, one
/// damaged slot could hold a reader for as long as others write.
const TRIES_MAX: u32 = 1 << 16;

/// One shard of a map as a thread reads it, and the routes to the map's other shards.
#[derive(Clone, Copy, Debug)]
pub(super) struct MapReader<'m> {
    pub(super) tree: MapTree<'m>,
    pub(super) hints: HintTable<'m>,
    pub(super) shard: ShardWords<'m>,
    pub(super) participant: &'m MapParticipant,
    /// The map's shards, and which of them has which keys.
    pub(super) shards: MapShards,
    pub(super) routes: RouteTable<'m>,
}

/// Distinguishes reads that fail because of changes from reads that fail because of damage.
#[derive(Debug, Default)]
pub(super) struct DamageDetector {
    change_count: u64,
    tries: u32,
}

impl DamageDetector {
    /// Records a failed attempt and the current number of changes; returns true if too many
    /// attempts in a row failed without a change.
    pub(super) fn is_damage(&mut self, change_count: u64) -> bool {
        let is_quiet = change_count == self.change_count;
        self.tries = if is_quiet { self.tries + 1 } else { 0 };
        self.change_count = change_count;
        self.tries > QUIET_TRIES_MAX
    }
}

impl<'m> MapReader<'m> {
    /// A reader of the first shard of a map.
    pub(super) fn new(participant: &'m MapParticipant, shard: usize) -> MapReader<'m> {
        let shared = participant.shared();
        let shards = shared.shards_of(shard);
        let words = shared.shard_words(shard);
        let tree = MapTree { view: shared.view(shard), root: words.word(ROOT) };
        let (hints, routes) = (shared.hints(shard), shared.routes(shards));
        MapReader { tree, hints, shard: words, participant, shards, routes }
    }

    /// A reader of another shard of the map.
    pub(super) fn at(&self, slot: usize) -> MapReader<'m> {
        let (shared, number) = (self.participant.shared(), self.shards.number(slot));
        let words = shared.shard_words(number);
        let tree = MapTree { view: shared.view(number), root: words.word(ROOT) };
        MapReader { tree, shard: words, ..*self }
    }

    /// Reads in the shard that has a key, and repeats the read until the bounds did not move during
    /// it.
    #[inline]
    pub(super) fn read_for<T>(
        &self,
        key: &[u8],
        mut attempt: impl FnMut(&MapReader<'m>) -> Result<T, HoldError>,
    ) -> Result<T, MapError> {
        if self.routes.is_single() {
            return self.read(|| attempt(self));
        }
        for _ in 0..TRIES_MAX {
            let (version, slot) = self.routes.find(key)?;
            let reader = self.at(slot);
            let read = reader.read(|| attempt(&reader));
            // If the bounds did not move, no entry of the shard has been moved away: entries leave
            // their old shard only after the new bound is published.
            if self.routes.is_now(version) {
                return read;
            }
            spin_loop();
        }
        Err(MapError::Damaged { what: "the bounds of the shards keep moving" })
    }

    /// Repeats a read until no object that it met was freed during the read.
    ///
    /// A reader that was stopped for very long starts again too, before a generation can wrap
    /// around.
    #[inline]
    pub(super) fn read<T>(
        &self,
        mut attempt: impl FnMut() -> Result<T, HoldError>,
    ) -> Result<T, MapError> {
        let mut quiet = DamageDetector::default();
        for _ in 0..TRIES_MAX {
            match self.while_young(self.epoch(), &mut attempt) {
                Err(HoldError::Read(ObjectReadError::Changed)) => {}
                settled => return Ok(settled?),
            }
            if quiet.is_damage(self.shard.load(SEQUENCE)) {
                break;
            }
            spin_loop();
        }
        Err(MapError::Damaged { what: "a reference leads to no object" })
    }

    /// The participant's row of leases.
    #[inline]
    pub(super) fn row(&self) -> Result<&'m LeaseRow<Area>, HoldError> {
        if self.participant.is_ours() { Ok(self.participant.row()) } else { Err(HoldError::Forked) }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.shard.load(EPOCH)
    }

    /// The number of changes in all shards of the map.
    pub(super) fn change_count(&self) -> u64 {
        let shared = self.participant.shared();
        let counts = self.shards.numbers().map(|shard| shared.shard_words(shard).load(SEQUENCE));
        counts.fold(0, u64::wrapping_add)
    }

    /// The result of a step, unless so much was changed since this epoch that a generation may have
    /// wrapped around: then the step may have followed a reference to another object.
    #[inline]
    pub(super) fn while_young<T>(
        &self,
        epoch: u64,
        step: impl FnOnce() -> Result<T, HoldError>,
    ) -> Result<T, HoldError> {
        let found = step();
        if self.is_young(epoch) { found } else { Err(ObjectReadError::Changed.into()) }
    }

    fn is_young(&self, epoch: u64) -> bool {
        self.epoch().wrapping_sub(epoch) <= EPOCHS_MAX
    }

    /// Marks an entry as used, if the map evicts entries.
    #[inline]
    pub(super) fn mark(&self, object: &ObjectView<'_>) {
        if self.shard.load(IS_FULL) != 0 {
            let row = self.row();
            row.into_iter().for_each(|row| object.mark(row));
        }
    }

    /// Marks a held entry as used, if the map evicts entries.
    #[inline]
    pub(super) fn mark_held(&self, entry: &Entry<'_>) {
        if self.shard.load(IS_FULL) != 0 {
            entry.object().set_used(true);
        }
    }

    /// The entry of a key, held.
    pub(super) fn hold(&self, key: &[u8]) -> Result<Option<Entry<'m>>, MapError> {
        self.look_up(key, |reader, hit| {
            let entry = Entry::hold(reader, hit.entry.reference())?;
            reader.mark_held(&entry);
            Ok(entry)
        })
    }

    /// Returns the result of `take` for the entry of a key; `None` if the key does not exist.
    /// `take` must check with [`ObjectView::settle`] that the entry did not change while it was
    /// read. `take` may be called several times.
    #[inline]
    pub(super) fn look_up<T>(
        &self,
        key: &[u8],
        mut take: impl FnMut(&MapReader<'m>, &TreeHit<'m>) -> Result<T, HoldError>,
    ) -> Result<Option<T>, MapError> {
        self.read_for(key, |reader| {
            if let Some(found) = reader.look_in_hints(key, &mut take)? {
                return Ok(Some(found));
            }
            match reader.tree.find(key)? {
                Some(hit) => take(reader, &hit).map(Some),
                None => Ok(None),
            }
        })
    }

    /// Looks up a key in the hint table. `None` does not mean that the key does not exist.
    #[inline]
    fn look_in_hints<T>(
        &self,
        key: &[u8],
        take: &mut impl FnMut(&MapReader<'m>, &TreeHit<'m>) -> Result<T, HoldError>,
    ) -> Result<Option<T>, HoldError> {
        let Some(bucket) = self.hints.bucket(key) else { return Ok(None) };
        for named in bucket.named() {
            let Ok(entry) = self.tree.view.begin(named) else { continue };
            entry.prefetch();
            let Ok(lengths) = EntryLengths::of(&entry, EntryKind::Entry) else { continue };
            if !lengths.is_key(&entry, key) || !entry.is_same() {
                continue;
            }
            match take(self, &TreeHit { entry, lengths }) {
                // The entry has left the map during the read: search the tree.
                Err(HoldError::Read(_)) => {}
                taken => return taken.map(Some),
            }
        }
        Ok(None)
    }
}

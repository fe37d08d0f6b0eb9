//! The operations of the owner of a shard's lock: lookup, replacement, and the slots that publish
//! changes.

use super::intent::{ChangeError, PendingChange, SlotLocation};
use super::words::{LEN, ROOT, ShardWords};
use crate::hint_table::HintTable;
use crate::object::{Allocator, EntryKind, ObjectRef};
use crate::tree::{MapTree, NodeImage, NodeView, TreePath};

/// The owner of a shard's lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardWriter<'a> {
    pub(crate) tree: MapTree<'a>,
    pub(crate) allocator: Allocator<'a>,
    pub(crate) shard: ShardWords<'a>,
    pub(crate) hints: HintTable<'a>,
    /// Whether the writer changes entries outside of the shard's bounds. Such entries are not
    /// counted.
    pub(super) is_hidden: bool,
}

/// The position of a key that is or would be in the tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyPosition {
    /// The path to the position; `None` if the tree is empty.
    path: Option<TreePath>,
    /// The entry of the key, if there is one.
    pub(crate) entry: Option<ObjectRef>,
}

/// How many keys of a list were looked up, and how many of these were removed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RemovedRun {
    pub(crate) looked_at: usize,
    pub(crate) removed: usize,
}

impl<'a> ShardWriter<'a> {
    pub(crate) fn new(
        allocator: Allocator<'a>,
        shard: ShardWords<'a>,
        hints: HintTable<'a>,
    ) -> ShardWriter<'a> {
        let tree = MapTree { view: allocator.view, root: shard.word(ROOT) };
        ShardWriter { tree, allocator, shard, hints, is_hidden: false }
    }

    pub(crate) fn look(&self, key: &[u8]) -> Result<KeyPosition, ChangeError> {
        let Some((path, spot)) = self.tree.descend(key)? else {
            return Ok(KeyPosition { path: None, entry: None });
        };
        let entry = spot.entry.map(|(object, _)| object.reference());
        Ok(KeyPosition { path: Some(path), entry })
    }

    /// Stores an entry at its position.
    pub(crate) fn put(
        &self,
        at: &KeyPosition,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), ChangeError> {
        let mut change = PendingChange::begin(self.allocator, self.shard);
        let entry = change.make_entry(EntryKind::Entry, key, value)?;
        let len = self.shard.load(LEN);
        let more = if self.is_hidden { len } else { len.wrapping_add(1) };
        match (&at.path, at.entry) {
            (None, _) => {
                let mut leaf = NodeImage::empty(0, ObjectRef::NONE);
                leaf.insert(0, key, entry)?;
                let root = change.make_node(&leaf)?;
                change.publish(SlotLocation::Root, root, ObjectRef::NONE, more)?;
            }
            (Some(path), Some(old)) => {
                let place = self.slot_of_item(path, path.depth - 1)?;
                self.take_out(key, old);
                change.publish(place, entry, old, len)?;
            }
            (Some(path), None) => {
                let depth = path.depth - 1;
                let (leaf, index) = path.step(depth);
                let mut image = NodeImage::load(self.tree.view, leaf)?;
                image.insert(index, key, entry)?;
                self.grow(change, path, image, more)?;
            }
        }
        if let Some(bucket) = self.hints.bucket(key).filter(|_| !self.is_hidden) {
            bucket.put(entry);
        }
        Ok(())
    }

    /// Removes the entry of a key at this position; false if there is none.
    pub(crate) fn remove(&self, at: &KeyPosition, key: &[u8]) -> Result<bool, ChangeError> {
        let (Some(path), Some(entry)) = (&at.path, at.entry) else { return Ok(false) };
        let change = PendingChange::begin(self.allocator, self.shard);
        let (leaf, index) = path.step(path.depth - 1);
        let mut image = NodeImage::load(self.tree.view, leaf)?;
        image.remove(index);
        let len = self.len_without(1);
        self.take_out(key, entry);
        self.shrink(change, path, image, entry, len)?;
        Ok(true)
    }

    /// Removes the first of these keys, if it exists, and in the same change those next keys in the
    /// list that directly follow it in its leaf.
    pub(crate) fn remove_run(&self, keys: &[&[u8]]) -> Result<RemovedRun, ChangeError> {
        let Some(first) = keys.first() else { return Ok(RemovedRun::default()) };
        let at = self.look(first)?;
        let (Some(path), Some(entry)) = (&at.path, at.entry) else {
            return Ok(RemovedRun { looked_at: 1, removed: 0 });
        };
        let mut change = PendingChange::begin(self.allocator, self.shard);
        let (leaf, index) = path.step(path.depth - 1);
        let mut image = NodeImage::load(self.tree.view, leaf)?;
        change.retire(entry)?;
        self.take_out(first, entry);
        image.remove(index);
        let (mut count, mut key) = (1, Vec::new());
        while let Some(wanted) = keys.get(count)
            && index < image.count
        {
            key.clear();
            image.copy_key(self.tree.view, index, &mut key)?;
            if key != *wanted {
                break;
            }
            change.retire(image.slot(index))?;
            self.take_out(&key, image.slot(index));
            image.remove(index);
            count += 1;
        }
        let len = self.len_without(count as u64);
        self.shrink(change, path, image, ObjectRef::NONE, len)?;
        Ok(RemovedRun { looked_at: count, removed: count })
    }

    /// Removes the word of an entry from the hint table, before the tree loses the entry.
    pub(super) fn take_out(&self, key: &[u8], entry: ObjectRef) {
        if let Some(bucket) = self.hints.bucket(key) {
            bucket.take_out(entry);
        }
    }

    /// The number of entries after this many were removed.
    fn len_without(&self, count: u64) -> u64 {
        self.shard.load(LEN).saturating_sub(if self.is_hidden { 0 } else { count })
    }

    /// The slot that names the node at this depth of a path.
    pub(super) fn slot_of(
        &self,
        path: &TreePath,
        depth: usize,
    ) -> Result<SlotLocation, ChangeError> {
        match depth.checked_sub(1) {
            None => Ok(SlotLocation::Root),
            Some(above) => self.slot_of_item(path, above),
        }
    }

    fn slot_of_item(&self, path: &TreePath, depth: usize) -> Result<SlotLocation, ChangeError> {
        let (node, index) = path.step(depth);
        let node = NodeView::begin(self.tree.view, node, None)?;
        let number =
            node.slot_number(index).ok_or(ChangeError::Damaged("a slot has no address"))?;
        Ok(SlotLocation::Word(number))
    }
}

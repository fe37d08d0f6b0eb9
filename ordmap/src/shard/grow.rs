//! Inserts an item into a tree: copies the leaf, and splits full nodes, up to the first one that
//! has room.

use super::intent::{ChangeError, PendingChange, SlotLocation};
use super::writer::ShardWriter;
use crate::object::{EntryKind, ObjectRef};
use crate::tree::{ITEMS_MAX, NodeImage, TreePath, common_bytes, copy_key_of, separator_of};

/// The two halves of a node that was split.
struct SplitNode {
    left: ObjectRef,
    right: ObjectRef,
    separator: Vec<u8>,
}

impl ShardWriter<'_> {
    /// Publishes a leaf with one more item.
    pub(super) fn grow(
        &self,
        mut change: PendingChange<'_>,
        path: &TreePath,
        leaf: NodeImage,
        len_after: u64,
    ) -> Result<(), ChangeError> {
        let mut image = leaf;
        let mut depth = path.depth - 1;
        // The index of the new item in the node.
        let mut index = path.step(depth).1;
        loop {
            if image.count <= ITEMS_MAX {
                change.retire(path.step(depth).0)?;
                let node = change.make_node(&image)?;
                return change.publish(
                    self.slot_of(path, depth)?,
                    node,
                    ObjectRef::NONE,
                    len_after,
                );
            }
            let level = image.level;
            let halves = self.split(&mut change, path, depth, image, index)?;
            let Some(above) = depth.checked_sub(1) else {
                let mut root = NodeImage::empty(level + 1, ObjectRef::NONE);
                root.push_first(halves.left);
                root.insert(1, &halves.separator, halves.right)?;
                let root = change.make_node(&root)?;
                return change.publish(SlotLocation::Root, root, ObjectRef::NONE, len_after);
            };
            depth = above;
            let (parent, at) = path.step(depth);
            image = NodeImage::load(self.tree.view, parent)?;
            image.set_slot(at, halves.left);
            image.insert(at + 1, &halves.separator, halves.right)?;
            index = at + 1;
        }
    }

    fn split(
        &self,
        change: &mut PendingChange<'_>,
        path: &TreePath,
        depth: usize,
        mut image: NodeImage,
        index: usize,
    ) -> Result<SplitNode, ChangeError> {
        let view = self.tree.view;
        let old = path.step(depth).0;
        let middle = middle_of(&image, index);
        let (low, separator) = if image.level == 0 {
            let separator = self.shortest_between(&image, middle)?;
            (change.make_entry(EntryKind::Separator, &separator, &[])?, separator)
        } else {
            let low = separator_of(view, image.slot(middle))?;
            let mut separator = Vec::new();
            copy_key_of(view, low, EntryKind::Separator, &mut separator)?;
            (low, separator)
        };
        let high = self.tree.high_of(path, depth)?;
        let mut right = image.split_off(middle, low);
        right.retune(view, high)?;
        let right = change.make_node(&right)?;
        // The left node is made again even if only the new item moves to the right: a cursor at the
        // last item of the old leaf has to notice that an item was inserted after its own.
        image.retune(view, low)?;
        change.retire(old)?;
        Ok(SplitNode { left: change.make_node(&image)?, right, separator })
    }

    /// The shortest key that is above the key of the item before `index` and not above that of the
    /// item at `index`.
    fn shortest_between(&self, image: &NodeImage, index: usize) -> Result<Vec<u8>, ChangeError> {
        let (mut below, mut key) = (Vec::new(), Vec::new());
        image.copy_key(self.tree.view, index - 1, &mut below)?;
        image.copy_key(self.tree.view, index, &mut key)?;
        key.truncate(common_bytes(&below, &key) + 1);
        Ok(key)
    }
}

/// Returns the index at which a node with one item too many is split.
///
/// If the new item is the first or the last, the split is next to it, so that inserts in descending
/// or ascending order leave nodes (almost) full. Otherwise the split is in the middle.
///
/// A node in which some items have equal heads (the eight key bytes that a search compares first)
/// is instead split, near the middle, between the neighbours whose heads have the fewest leading
/// bytes in common: then both halves get longer prefixes, and searches compare fewer whole keys.
fn middle_of(image: &NodeImage, index: usize) -> usize {
    let (least, middle) = (if image.level == 0 { 1 } else { 2 }, image.count / 2);
    match index {
        0 => least,
        last if last + 1 == image.count => image.count - least,
        _ if !image.has_equal_heads() => middle,
        _ => (image.count / 4..=image.count - image.count / 4)
            .min_by_key(|at| (image.common_head_bytes(*at), at.abs_diff(middle)))
            .unwrap_or(middle),
    }
}

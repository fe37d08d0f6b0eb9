//! Removes an item from a tree: copies the leaf, and joins nodes that have few items with a
//! sibling, up to the first one that has enough.

use super::intent::{ChangeError, PendingChange, SlotLocation};
use super::writer::ShardWriter;
use crate::object::{EntryKind, ObjectRef};
use crate::tree::{ITEMS_MAX, NodeImage, TreePath, copy_key_of, separator_of};

/// A node with fewer items is joined with a sibling, if the result is not nearly full.
const ITEMS_MIN: usize = 7;
const JOINED_MAX: usize = 21;
// Two nodes with few items can always be joined, and the result has room for inserts.
const _: () = assert!(2 * ITEMS_MIN < JOINED_MAX && JOINED_MAX < ITEMS_MAX);

/// Two adjacent nodes with the same parent.
struct SiblingNodes {
    parent: NodeImage,
    /// The index of the left node in the parent.
    at: usize,
    left: NodeImage,
    right: NodeImage,
    sibling: ObjectRef,
    /// The separator above both.
    high: ObjectRef,
}

impl ShardWriter<'_> {
    /// Publishes `leaf`, from which the caller has removed items, and joins nodes that have too few
    /// items.
    pub(super) fn shrink(
        &self,
        mut change: PendingChange<'_>,
        path: &TreePath,
        leaf: NodeImage,
        old_entry: ObjectRef,
        len_after: u64,
    ) -> Result<(), ChangeError> {
        let mut image = leaf;
        let mut depth = path.depth - 1;
        loop {
            change.retire(path.step(depth).0)?;
            if depth == 0 {
                let root = match (image.level, image.count) {
                    (_, 0) => ObjectRef::NONE,
                    (1.., 1) => image.slot(0),
                    _ => change.make_node(&image)?,
                };
                return change.publish(SlotLocation::Root, root, old_entry, len_after);
            }
            let least = if image.level == 0 { 1 } else { 2 };
            let (count, must_change) = (image.count, image.count < least);
            if count < ITEMS_MIN {
                let pair = self.pair(path, depth, image.clone())?;
                let joined = pair.left.count + pair.right.count;
                if joined <= JOINED_MAX || (must_change && joined <= ITEMS_MAX) {
                    image = self.join(&mut change, pair)?;
                    depth -= 1;
                    continue;
                }
                if must_change {
                    image = self.level_out(&mut change, pair)?;
                    depth -= 1;
                    change.retire(path.step(depth).0)?;
                }
            }
            let node = change.make_node(&image)?;
            return change.publish(self.slot_of(path, depth)?, node, old_entry, len_after);
        }
    }

    /// The node of a path at this depth, in its new form, with a sibling.
    fn pair(
        &self,
        path: &TreePath,
        depth: usize,
        image: NodeImage,
    ) -> Result<SiblingNodes, ChangeError> {
        let view = self.tree.view;
        let (above, index) = path.step(depth - 1);
        let parent = NodeImage::load(view, above)?;
        if parent.count < 2 {
            return Err(ChangeError::Damaged("a node has no sibling"));
        }
        let at = if index + 1 < parent.count { index } else { index - 1 };
        let high = if at + 2 < parent.count {
            separator_of(view, parent.slot(at + 2))?
        } else {
            self.tree.high_of(path, depth - 1)?
        };
        let sibling = parent.slot(if at == index { at + 1 } else { at });
        let other = NodeImage::load(view, sibling)?;
        let (left, right) = if at == index { (image, other) } else { (other, image) };
        Ok(SiblingNodes { parent, at, left, right, sibling, high })
    }

    /// Makes one node of two, and returns their parent.
    fn join(
        &self,
        change: &mut PendingChange<'_>,
        pair: SiblingNodes,
    ) -> Result<NodeImage, ChangeError> {
        let SiblingNodes { mut parent, at, mut left, right, sibling, high } = pair;
        left.append(&right);
        left.retune(self.tree.view, high)?;
        change.retire(sibling)?;
        if left.level == 0 {
            // The separators of inner nodes belong to the leaves below them.
            change.retire(right.low)?;
        }
        parent.set_slot(at, change.make_node(&left)?);
        parent.remove(at + 1);
        Ok(parent)
    }

    /// Divides the items of two inner nodes evenly, and returns their parent.
    fn level_out(
        &self,
        change: &mut PendingChange<'_>,
        pair: SiblingNodes,
    ) -> Result<NodeImage, ChangeError> {
        let view = self.tree.view;
        let SiblingNodes { mut parent, at, mut left, right, sibling, high } = pair;
        left.append(&right);
        let middle = left.count / 2;
        let low = separator_of(view, left.slot(middle))?;
        let mut right = left.split_off(middle, low);
        left.retune(view, low)?;
        right.retune(view, high)?;
        change.retire(sibling)?;
        let mut separator = Vec::new();
        copy_key_of(view, low, EntryKind::Separator, &mut separator)?;
        parent.set_slot(at, change.make_node(&left)?);
        parent.remove(at + 1);
        parent.insert(at + 1, &separator, change.make_node(&right)?)?;
        Ok(parent)
    }
}

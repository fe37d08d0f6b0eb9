//! Descends the tree to a key, and walks along the key order.
//!
//! Each step reads a node and then checks that the node was not freed during the read. A node that
//! was replaced but not yet freed has the state at its replacement, which happened after the reader
//! began. So a reader finds a state of the key that was current at some moment during the call.

use forebay_sync::atomic::AtomicU64;

use super::node::{LEVELS_MAX, LeafPosition, NODE_WORDS, NodeView};
use crate::object::{EntryLengths, ObjectReadError, ObjectRef, ObjectView, ShardView, follow};

/// The number of entries that a cursor prefetches.
const PREFETCHED: usize = 8;
/// The number of cache lines that are prefetched of each entry: enough for a usual key and a short
/// value.
const ENTRY_LINES: usize = 3;

/// An entry that a lookup found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeHit<'a> {
    /// The entry. Every read of the entry has to be settled.
    pub(crate) entry: ObjectView<'a>,
    pub(crate) lengths: EntryLengths,
}

/// The nodes from the root to a leaf, and the chosen item in each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreePath {
    nodes: [ObjectRef; LEVELS_MAX],
    indices: [u8; LEVELS_MAX],
    pub(crate) depth: usize,
}

/// A direction along the key order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Towards higher keys.
    Up,
    /// Towards lower keys.
    Down,
}

impl Direction {
    pub(crate) fn opposite(self) -> Direction {
        match self {
            Direction::Up => Direction::Down,
            Direction::Down => Direction::Up,
        }
    }
}

/// How far a step moved a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdvanceResult {
    /// The path leads to another item of the same leaf.
    Within,
    /// The path leads into another leaf.
    Beyond,
    /// The path did not move, because there are no more items.
    Nowhere,
}

/// The item next to a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeekResult {
    /// The path to the position of the key.
    pub(crate) before: TreePath,
    /// The path to the item next to the key.
    pub(crate) path: TreePath,
    /// The step from `before` to `path`.
    pub(crate) advanced: AdvanceResult,
}

/// A tree, given by the slot of its root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MapTree<'a> {
    pub(crate) view: ShardView<'a>,
    pub(crate) root: &'a AtomicU64,
}

impl TreePath {
    pub(crate) fn new() -> TreePath {
        TreePath { nodes: [ObjectRef::NONE; LEVELS_MAX], indices: [0; LEVELS_MAX], depth: 0 }
    }

    pub(crate) fn step(&self, level: usize) -> (ObjectRef, usize) {
        (self.nodes[level], usize::from(self.indices[level]))
    }

    /// The index of the item of the leaf at which the path ends.
    #[inline]
    pub(crate) fn index(&self) -> usize {
        self.step(self.depth - 1).1
    }

    pub(crate) fn set_index(&mut self, level: usize, index: usize) {
        self.indices[level] = index as u8;
    }

    fn push(&mut self, node: ObjectRef, index: usize) -> Result<(), ObjectReadError> {
        let place = self.nodes.get_mut(self.depth);
        *place.ok_or(ObjectReadError::Damaged("the tree is too high"))? = node;
        self.indices[self.depth] = index as u8;
        self.depth += 1;
        Ok(())
    }
}

impl<'a> MapTree<'a> {
    /// The root, unless the tree is empty.
    fn begin(self) -> Result<Option<NodeView<'a>>, ObjectReadError> {
        let root = follow(self.root);
        if root.is_none() {
            return Ok(None);
        }
        NodeView::begin(self.view, root, None).map(Some)
    }

    /// The child at an index of a node that has not been freed.
    #[inline]
    fn child(
        self,
        node: &NodeView<'a>,
        index: Result<usize, ObjectReadError>,
    ) -> Result<(usize, NodeView<'a>), ObjectReadError> {
        let child = index.and_then(|index| Ok((index, node.slot(index)?)));
        let (index, child) = node.settle(child)?;
        let child = NodeView::begin(self.view, child, node.level.checked_sub(1))?;
        child.prefetch();
        Ok((index, child))
    }

    /// The entry of a key.
    #[inline]
    pub(crate) fn find(self, key: &[u8]) -> Result<Option<TreeHit<'a>>, ObjectReadError> {
        let Some(mut node) = self.begin()? else { return Ok(None) };
        while node.level > 0 {
            node = self.child(&node, node.child_index(self.view, key))?.1;
        }
        let spot = node.settle(node.find(self.view, key))?;
        Ok(spot.entry.map(|(entry, lengths)| TreeHit { entry, lengths }))
    }

    /// The path to the position of a key in its leaf; `None` if the tree is empty.
    pub(crate) fn descend(
        self,
        key: &[u8],
    ) -> Result<Option<(TreePath, LeafPosition<'a>)>, ObjectReadError> {
        let Some(mut node) = self.begin()? else { return Ok(None) };
        let mut path = TreePath::new();
        while node.level > 0 {
            let (index, child) = self.child(&node, node.child_index(self.view, key))?;
            path.push(node.reference(), index)?;
            node = child;
        }
        let spot = node.settle(node.find(self.view, key))?;
        path.push(node.reference(), spot.index)?;
        Ok(Some((path, spot)))
    }

    /// The path to the end of the tree at which a walk in this direction begins: to the first item
    /// for `Up`, to the last one for `Down`.
    pub(crate) fn descend_to_end(
        self,
        direction: Direction,
    ) -> Result<Option<TreePath>, ObjectReadError> {
        let Some(root) = self.begin()? else { return Ok(None) };
        let mut path = TreePath::new();
        self.descend_edge(root, direction.opposite(), &mut path)?;
        Ok(Some(path))
    }

    /// Extends the path from a node down to a leaf: through the last item of each node for `Up`,
    /// through the first one for `Down`.
    fn descend_edge(
        self,
        from: NodeView<'a>,
        to: Direction,
        path: &mut TreePath,
    ) -> Result<(), ObjectReadError> {
        let mut node = from;
        loop {
            let index = if to == Direction::Up { node.count - 1 } else { 0 };
            path.push(node.reference(), index)?;
            if node.level == 0 {
                return node.settle(Ok(()));
            }
            node = self.child(&node, Ok(index))?.1;
        }
    }

    /// The leaf where a path ends.
    #[inline]
    pub(crate) fn leaf_of(self, path: &TreePath) -> Result<NodeView<'a>, ObjectReadError> {
        NodeView::begin(self.view, path.step(path.depth - 1).0, Some(0))
    }

    /// Prefetches the next entries: several when a leaf is entered, one more with each step.
    #[inline]
    pub(crate) fn prefetch(
        self,
        leaf: &NodeView<'a>,
        path: &TreePath,
        direction: Direction,
        is_entered: bool,
    ) {
        let index = path.index();
        let nearest = if is_entered { 1 } else { PREFETCHED };
        for distance in nearest..=PREFETCHED {
            let next = match direction {
                Direction::Up => Some(index + distance),
                Direction::Down => index.checked_sub(distance),
            };
            let Some(Ok(entry)) = next.map(|next| leaf.slot(next)) else {
                let left = if direction == Direction::Up { leaf.count - 1 - index } else { index };
                return self.prefetch_beyond(path, direction, left);
            };
            self.view.prefetch(entry, ENTRY_LINES);
        }
    }

    /// Prefetches the next leaf of the same parent when few entries of the current leaf are left,
    /// and entries of the next leaf when fewer are left. The choice is only a guess.
    fn prefetch_beyond(self, path: &TreePath, direction: Direction, left: usize) {
        let is_next = left == PREFETCHED / 2;
        let Some(above) = path.depth.checked_sub(2) else { return };
        if !is_next && left != PREFETCHED - 1 {
            return;
        }
        let (parent, index) = path.step(above);
        let Ok(parent) = NodeView::begin(self.view, parent, Some(1)) else { return };
        let next = next_index(index, parent.count, direction);
        let Some(Ok(leaf)) = next.map(|next| parent.slot(next)) else { return };
        if !is_next {
            return self.view.prefetch(leaf, NODE_WORDS / 8);
        }
        let Ok(leaf) = NodeView::begin(self.view, leaf, Some(0)) else { return };
        for step in 0..PREFETCHED / 2 {
            let next =
                if direction == Direction::Up { step } else { leaf.count.wrapping_sub(1 + step) };
            let Ok(entry) = leaf.slot(next) else { return };
            self.view.prefetch(entry, ENTRY_LINES);
        }
    }

    /// Moves a path by one item within its leaf; false if the leaf has no more items.
    #[inline]
    pub(crate) fn advance_within(
        self,
        leaf: &NodeView<'a>,
        path: &mut TreePath,
        direction: Direction,
    ) -> bool {
        let next = next_index(path.index(), leaf.count, direction);
        if let Some(next) = next {
            path.set_index(path.depth - 1, next);
        }
        next.is_some()
    }

    /// Moves a path by one item; `leaf` is the leaf at which the path ends. After the caller has
    /// read the new item, it checks with [`is_adjacent`](MapTree::is_adjacent) that no key was
    /// inserted between both items.
    #[inline]
    pub(crate) fn advance(
        self,
        leaf: &NodeView<'a>,
        path: &mut TreePath,
        direction: Direction,
    ) -> Result<AdvanceResult, ObjectReadError> {
        if self.advance_within(leaf, path, direction) {
            return Ok(AdvanceResult::Within);
        }
        leaf.settle(self.advance_above(path, path.depth - 1, direction))
    }

    /// Moves to the item next to a key, or to the key itself if it `may_equal`; `None` if the tree
    /// is empty.
    pub(crate) fn seek(
        self,
        key: &[u8],
        direction: Direction,
        may_equal: bool,
    ) -> Result<Option<SeekResult>, ObjectReadError> {
        let Some((mut path, spot)) = self.descend(key)? else { return Ok(None) };
        let before = path;
        let leaf = self.leaf_of(&path)?;
        let is_found = spot.entry.is_some();
        let advanced = match direction {
            _ if is_found && may_equal => AdvanceResult::Within,
            Direction::Up if !is_found && spot.index < leaf.count => AdvanceResult::Within,
            Direction::Up if !is_found => {
                path.set_index(path.depth - 1, leaf.count - 1);
                self.advance(&leaf, &mut path, direction)?
            }
            _ => self.advance(&leaf, &mut path, direction)?,
        };
        leaf.settle(Ok(Some(SeekResult { before, path, advanced })))
    }

    /// Moves to the item at which a walk through the whole tree in this direction begins; `None` if
    /// the tree is empty.
    pub(crate) fn seek_end(
        self,
        direction: Direction,
    ) -> Result<Option<SeekResult>, ObjectReadError> {
        let path = self.descend_to_end(direction)?;
        Ok(path.map(|path| SeekResult { before: path, path, advanced: AdvanceResult::Within }))
    }

    /// Whether both paths are still current; otherwise a change on them may have put a key between
    /// the items where they end.
    ///
    /// A replaced node never comes back: if the second path is current and the first one still is
    /// afterwards, both were current at one moment.
    pub(crate) fn is_adjacent(
        self,
        before: &TreePath,
        after: &TreePath,
        advanced: AdvanceResult,
    ) -> Result<bool, ObjectReadError> {
        let is_after = advanced != AdvanceResult::Beyond || self.is_current(after)?;
        Ok(is_after && self.is_current(before)?)
    }

    /// Whether the tree still has each node of the path at its place. It is not enough that no node
    /// was freed: a writer that was stopped may have replaced a node without freeing it.
    pub(crate) fn is_current(self, path: &TreePath) -> Result<bool, ObjectReadError> {
        let mut named = follow(self.root);
        for level in 0..path.depth {
            let (at, index) = path.step(level);
            if named != at {
                return Ok(false);
            }
            if level + 1 < path.depth {
                let node = NodeView::begin(self.view, at, None)?;
                named = node.settle(node.slot(index))?;
            }
        }
        Ok(true)
    }

    fn advance_above(
        self,
        path: &mut TreePath,
        leaf_level: usize,
        direction: Direction,
    ) -> Result<AdvanceResult, ObjectReadError> {
        for level in (0..leaf_level).rev() {
            let (at, index) = path.step(level);
            let node = NodeView::begin(self.view, at, None)?;
            let Some(next) = next_index(index, node.count, direction) else {
                node.settle(Ok(()))?;
                continue;
            };
            let (_, child) = self.child(&node, Ok(next))?;
            path.set_index(level, next);
            path.depth = level + 1;
            self.descend_edge(child, direction.opposite(), path)?;
            return node.settle(Ok(AdvanceResult::Beyond));
        }
        Ok(AdvanceResult::Nowhere)
    }

    /// The separator above the node at this depth of a path; `NONE` at the right edge of the tree.
    pub(crate) fn high_of(
        self,
        path: &TreePath,
        depth: usize,
    ) -> Result<ObjectRef, ObjectReadError> {
        for above in (0..depth).rev() {
            let (at, index) = path.step(above);
            let node = NodeView::begin(self.view, at, None)?;
            if index + 1 < node.count {
                return super::node::separator_of(self.view, node.slot(index + 1)?);
            }
        }
        Ok(ObjectRef::NONE)
    }
}

fn next_index(index: usize, count: usize, direction: Direction) -> Option<usize> {
    match direction {
        Direction::Up => (index + 1 < count).then_some(index + 1),
        Direction::Down => index.checked_sub(1),
    }
}

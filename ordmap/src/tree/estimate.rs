//! Estimates how many entries lie between two positions, without visiting all of them.
//!
//! Nodes between the two paths are counted level by level. If a level has few of them, all are read
//! and the number is exact; otherwise an evenly chosen sample represents all.

use super::node::NodeView;
use super::walk::{MapTree, TreePath};
use crate::object::{ObjectReadError, ObjectRef};

/// The most nodes of a level that are read.
const READ_MAX: usize = 32;

/// A node of a sample, and the number of nodes that it represents.
type WeightedNode = (ObjectRef, f64);

impl MapTree<'_> {
    /// Estimates the number of entries from the end of the path `low` up to, but not including,
    /// index `end` in the leaf of the path `high`.
    pub(crate) fn estimate(
        self,
        low: &TreePath,
        high: &TreePath,
        end: usize,
    ) -> Result<u64, ObjectReadError> {
        if low.depth != high.depth {
            return Err(ObjectReadError::Changed);
        }
        let (leaf_depth, begin) = (low.depth - 1, low.index());
        let Some(fork) = (0..leaf_depth).find(|depth| low.step(*depth).1 != high.step(*depth).1)
        else {
            return self.same(low, high, leaf_depth, end.saturating_sub(begin) as u64);
        };
        let (left, right) = (low.step(fork).1, high.step(fork).1);
        if left > right {
            return self.same(low, high, fork, 0);
        }
        let mut between = Vec::new();
        self.add_slots(&mut between, low.step(fork).0, 1.0, left + 1..right)?;
        for depth in fork + 1..leaf_depth {
            let mut below = Vec::new();
            let (node, index) = low.step(depth);
            self.add_slots(&mut below, node, 1.0, index + 1..usize::MAX)?;
            for (node, weight) in between {
                self.add_slots(&mut below, node, weight, 0..usize::MAX)?;
            }
            let (node, index) = high.step(depth);
            self.add_slots(&mut below, node, 1.0, 0..index)?;
            between = thinned(below);
        }
        let mut sum = end as f64;
        sum += self.count_of(low.step(leaf_depth).0)?.saturating_sub(begin) as f64;
        for (leaf, weight) in between {
            sum += self.count_of(leaf)? as f64 * weight;
        }
        self.same(low, high, fork, sum.round() as u64)
    }

    /// Returns `number` if both paths are the same down to their fork: otherwise the tree was
    /// changed between the descents that found the paths.
    fn same(
        self,
        low: &TreePath,
        high: &TreePath,
        fork: usize,
        number: u64,
    ) -> Result<u64, ObjectReadError> {
        let is_same = (0..=fork).all(|depth| low.step(depth).0 == high.step(depth).0);
        if is_same { Ok(number) } else { Err(ObjectReadError::Changed) }
    }

    fn count_of(self, node: ObjectRef) -> Result<usize, ObjectReadError> {
        let node = NodeView::begin(self.view, node, None)?;
        node.settle(Ok(node.count))
    }

    fn add_slots(
        self,
        to: &mut Vec<WeightedNode>,
        node: ObjectRef,
        weight: f64,
        indices: std::ops::Range<usize>,
    ) -> Result<(), ObjectReadError> {
        let node = NodeView::begin(self.view, node, None)?;
        for index in indices.start..indices.end.min(node.count) {
            to.push((node.slot(index)?, weight));
        }
        node.settle(Ok(()))
    }
}

/// A sample that represents all of these nodes.
fn thinned(nodes: Vec<WeightedNode>) -> Vec<WeightedNode> {
    if nodes.len() <= READ_MAX {
        return nodes;
    }
    let whole: f64 = nodes.iter().map(|(_, weight)| weight).sum();
    let chosen = (0..READ_MAX).map(|index| nodes[(2 * index + 1) * nodes.len() / (2 * READ_MAX)]);
    let chosen: Vec<WeightedNode> = chosen.collect();
    let part: f64 = chosen.iter().map(|(_, weight)| weight).sum();
    chosen.into_iter().map(|(node, weight)| (node, weight * whole / part)).collect()
}

//! The tree: nodes of 28 items, copied on change.
//!
//! A slot names a node or an entry. A store into a slot of a node publishes a change; all other
//! words of a node stay as they were written. So a reader of a node that has been replaced reads
//! the state at the time of the replacement.
//!
//! Invariants:
//! - Keys below a node are at or above its low separator, and below the next separator on its
//!   right.
//! - An inner node has at least two children, all on the level below.
//! - A separator is named by the leaf above it and by the inner nodes whose left edge that leaf is.

mod estimate;
mod image;
mod node;
mod walk;

pub(crate) use image::{NodeImage, common_bytes, copy_key_of};
pub(crate) use node::{ITEMS_MAX, NODE_WORDS, NodeView, separator_of};
pub(crate) use walk::{AdvanceResult, Direction, MapTree, SeekResult, TreeHit, TreePath};

//! The tree: nodes of 28 items, copied when they change.
//!
//! A slot names a node or an entry, and is stored into in place: that is how a change is published.
//! All else of a node stays as it was written. So who reads a node that has been replaced reads
//! what was true when it was.
//!
//! Invariants:
//! - Keys below a node are not below its low separator, and are below the next one on its right.
//! - An inner node has two children at least, all of the level below.
//! - A separator is named by the leaf above it and by the inner nodes whose left edge that leaf is.

mod estimate;
mod image;
mod node;
mod walk;

pub(crate) use image::{NodeImage, common_bytes, copy_key_of};
pub(crate) use node::{ITEMS_MAX, NODE_WORDS, NodeView, separator_of};
pub(crate) use walk::{AdvanceResult, Direction, MapTree, SeekResult, TreeHit, TreePath};

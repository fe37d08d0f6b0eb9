//! Audits the tree: every node, every key, every separator.

use super::ShardAudit;
use crate::object::{EntryKind, ObjectReadError, ObjectRef, follow, head_of};
use crate::route::KeyRange;
use crate::shard::words::{LEN, ROOT};
use crate::tree::{ITEMS_MAX, NodeImage, NodeView, copy_key_of};

/// A node that is still to be visited, and the separators around it.
struct PendingNode {
    node: ObjectRef,
    level: Option<usize>,
    low: ObjectRef,
    low_key: Option<Vec<u8>>,
    high_key: Option<Vec<u8>>,
}

impl ShardAudit<'_> {
    pub(super) fn nodes(&mut self, range: &KeyRange) {
        let root = follow(self.shard.word(ROOT));
        let mut ahead = Vec::new();
        if !root.is_none() {
            ahead.push(PendingNode {
                node: root,
                level: None,
                low: ObjectRef::NONE,
                low_key: range.low.clone(),
                high_key: range.high.clone(),
            });
        }
        while let Some(next) = ahead.pop() {
            let at = next.node.word();
            if let Err(error) = self.node(next, &mut ahead) {
                self.find(
                    match error {
                        ObjectReadError::Damaged(what) => what,
                        ObjectReadError::Changed => "a reference leads to a freed object",
                    },
                    at,
                );
            }
        }
        if self.shard.load(LEN) != self.audited.entries {
            self.find("the shard's count of its entries is wrong", self.shard.load(LEN));
        }
    }

    fn node(
        &mut self,
        this: PendingNode,
        ahead: &mut Vec<PendingNode>,
    ) -> Result<(), ObjectReadError> {
        let view = self.allocator.view;
        let node = NodeView::begin(view, this.node, this.level)?;
        node.settle(Ok(()))?;
        if !self.name(this.node) {
            // The children of this node were visited already. Without this check, damage could make
            // each level repeat the visit as often as it has nodes.
            return Ok(());
        }
        self.audited.nodes += 1;
        if node.low() != this.low {
            self.find("a node has the wrong low separator", this.node.word());
        }
        if node.level > 0 && node.count < 2 {
            self.find("an inner node has only one child", this.node.word());
        }
        if node.level == 0 && !this.low.is_none() {
            // Each leaf has a separator of its own; inner nodes name those of their leftmost
            // leaves.
            self.name(this.low);
        }
        let image = NodeImage::load(view, this.node)?;
        let keys = self.keys(&image, &this)?;
        self.order(&node, &keys, &this);
        for index in 0..node.count {
            let slot = node.slot(index)?;
            if node.level == 0 {
                self.entry(slot)?;
                continue;
            }
            let low = if index == 0 { this.low } else { crate::tree::separator_of(view, slot)? };
            let low_key = if index == 0 { this.low_key.clone() } else { keys[index].clone() };
            let high_key = match keys.get(index + 1) {
                Some(key) => key.clone(),
                None => this.high_key.clone(),
            };
            let level = node.level.checked_sub(1);
            ahead.push(PendingNode { node: slot, level, low, low_key, high_key });
        }
        Ok(())
    }

    /// The keys of all items; none for the first item of an inner node.
    fn keys(
        &mut self,
        image: &NodeImage,
        this: &PendingNode,
    ) -> Result<Vec<Option<Vec<u8>>>, ObjectReadError> {
        let mut keys = Vec::new();
        for index in 0..image.count {
            if image.level > 0 && index == 0 {
                keys.push(None);
                continue;
            }
            let mut key = Vec::new();
            image.copy_key(self.allocator.view, index, &mut key)?;
            let is_inside = this.low_key.as_ref().is_none_or(|low| key >= *low)
                && this.high_key.as_ref().is_none_or(|high| key < *high);
            if !is_inside {
                self.find("a key is outside of its node's range", this.node.word());
            }
            keys.push(Some(key));
        }
        Ok(keys)
    }

    /// Checks that keys are in order, and that heads and prefix match the keys.
    fn order(&mut self, node: &NodeView<'_>, keys: &[Option<Vec<u8>>], this: &PendingNode) {
        let known: Vec<&Vec<u8>> = keys.iter().flatten().collect();
        if !known.is_sorted_by(|left, right| left < right) {
            self.find("keys are out of order", this.node.word());
        }
        let is_alike = |key: &Vec<u8>| {
            let low = this.low_key.as_deref().unwrap_or_default();
            node.skip == 0 || key.get(..node.skip) == low.get(..node.skip)
        };
        if !known.iter().all(|key| is_alike(key)) {
            self.find("a node skips bytes in which its keys differ", this.node.word());
        }
        if (node.count..ITEMS_MAX).any(|index| node.head(index) != u64::MAX) {
            self.find("a head after the last item is not the maximum", this.node.word());
        }
        let prefix = node.prefix();
        for (index, key) in keys.iter().enumerate() {
            let Some(suffix) = key.as_ref().and_then(|key| key.get(node.skip..)) else {
                continue;
            };
            let begins = suffix.starts_with(&prefix[..node.prefix_bytes]);
            let head = suffix.get(node.prefix_bytes..).map_or(0, head_of);
            if !begins || head != node.head(index) {
                self.find("a head does not match its key", this.node.word());
            }
        }
    }

    fn entry(&mut self, entry: ObjectRef) -> Result<(), ObjectReadError> {
        copy_key_of(self.allocator.view, entry, EntryKind::Entry, &mut Vec::new())?;
        self.name(entry);
        self.audited.entries += 1;
        Ok(())
    }
}

//! A node in private memory, where it is changed before it is written.

use forebay_sync::atomic::{AtomicU64, Relaxed};

use super::node::{
    HEADS, ITEMS_MAX, LOW, META, NODE_WORDS, NodeView, PREFIX, PREFIX_BYTES_MAX, SLOTS,
    separator_of,
};
use crate::object::{
    EntryKind, EntryLengths, ObjectHeader, ObjectKind, ObjectReadError, ObjectRef, ShardView,
    head_of,
};

const TOO_SHORT: ObjectReadError = ObjectReadError::Damaged("a key is too short for its node");

/// A node that is not written yet; it may have one item too many.
#[derive(Clone, Debug)]
pub(crate) struct NodeImage {
    pub(crate) level: usize,
    pub(crate) low: ObjectRef,
    pub(crate) count: usize,
    skip: usize,
    prefix: [u8; PREFIX_BYTES_MAX],
    prefix_bytes: usize,
    heads: [u64; ITEMS_MAX + 1],
    slots: [ObjectRef; ITEMS_MAX + 1],
}

impl NodeImage {
    /// A node without items.
    pub(crate) fn empty(level: usize, low: ObjectRef) -> NodeImage {
        NodeImage {
            level,
            low,
            count: 0,
            skip: 0,
            prefix: [0; PREFIX_BYTES_MAX],
            prefix_bytes: 0,
            heads: [0; ITEMS_MAX + 1],
            slots: [ObjectRef::NONE; ITEMS_MAX + 1],
        }
    }

    /// A copy of a node.
    pub(crate) fn load(view: ShardView<'_>, at: ObjectRef) -> Result<NodeImage, ObjectReadError> {
        let node = NodeView::begin(view, at, None)?;
        let mut image = NodeImage::empty(node.level, node.low());
        (image.count, image.skip) = (node.count, node.skip);
        (image.prefix, image.prefix_bytes) = (node.prefix(), node.prefix_bytes);
        for index in 0..node.count {
            image.heads[index] = node.head(index);
            image.slots[index] = node.slot(index)?;
        }
        node.settle(Ok(image))
    }

    /// Writes the node into memory that nothing names yet.
    pub(crate) fn store(&self, words: &[AtomicU64], reference: ObjectRef) {
        assert!(
            self.count <= ITEMS_MAX && words.len() >= NODE_WORDS,
            "a node has too many items or its object is too small"
        );
        let meta = self.count as u64
            | (self.prefix_bytes as u64) << 8
            | (self.skip as u64) << 16
            | (self.level as u64) << 32;
        words[META].store(meta, Relaxed);
        words[LOW].store(self.low.word(), Relaxed);
        for (word, bytes) in words[PREFIX..HEADS].iter().zip(self.prefix.as_chunks().0) {
            word.store(u64::from_le_bytes(*bytes), Relaxed);
        }
        for index in 0..self.count {
            words[HEADS + index].store(self.heads[index], Relaxed);
            words[SLOTS + index].store(self.slots[index].word(), Relaxed);
        }
        for word in &words[HEADS + self.count..SLOTS] {
            word.store(u64::MAX, Relaxed);
        }
        let kind = if self.level == 0 { ObjectKind::Leaf } else { ObjectKind::Inner };
        words[0].store(ObjectHeader::new(reference.generation(), kind, 0).word(), Relaxed);
    }

    pub(crate) fn slot(&self, index: usize) -> ObjectRef {
        self.slots[index]
    }

    /// Whether some items have equal heads.
    pub(crate) fn has_equal_heads(&self) -> bool {
        self.heads[self.first_keyed()..self.count].windows(2).any(|pair| pair[0] == pair[1])
    }

    /// The number of equal leading bytes in the heads of an item and the item before, which must
    /// have a head too.
    pub(crate) fn common_head_bytes(&self, index: usize) -> u32 {
        (self.heads[index] ^ self.heads[index - 1]).leading_zeros() / 8
    }

    pub(crate) fn set_slot(&mut self, index: usize, slot: ObjectRef) {
        self.slots[index] = slot;
    }

    /// The first item that has a key.
    fn first_keyed(&self) -> usize {
        usize::from(self.level > 0)
    }

    /// Appends the first item of an inner node, which has no head.
    pub(crate) fn push_first(&mut self, slot: ObjectRef) {
        assert_eq!(self.count, 0, "the node already has items");
        self.slots[0] = slot;
        self.count = 1;
    }

    /// Inserts an item before the item at `index`.
    pub(crate) fn insert(
        &mut self,
        index: usize,
        key: &[u8],
        slot: ObjectRef,
    ) -> Result<(), ObjectReadError> {
        let suffix = key.get(self.skip..).ok_or(TOO_SHORT)?;
        if self.count <= self.first_keyed() {
            self.set_prefix(&suffix[..suffix.len().min(PREFIX_BYTES_MAX)]);
        } else {
            self.shorten_prefix(common_bytes(&self.prefix[..self.prefix_bytes], suffix));
        }
        assert!(self.count <= ITEMS_MAX, "a node already has one item too many");
        assert!(
            (self.first_keyed()..=self.count).contains(&index),
            "an item is inserted outside of the keyed items of a node"
        );
        self.heads.copy_within(index..self.count, index + 1);
        self.slots.copy_within(index..self.count, index + 1);
        self.heads[index] = head_of(&suffix[self.prefix_bytes..]);
        self.slots[index] = slot;
        self.count += 1;
        Ok(())
    }

    pub(crate) fn remove(&mut self, index: usize) {
        assert!(index < self.count, "a node has no such item");
        self.heads.copy_within(index + 1..self.count, index);
        self.slots.copy_within(index + 1..self.count, index);
        self.count -= 1;
    }

    fn set_prefix(&mut self, prefix: &[u8]) {
        self.prefix = [0; PREFIX_BYTES_MAX];
        self.prefix[..prefix.len()].copy_from_slice(prefix);
        self.prefix_bytes = prefix.len();
    }

    /// Moves bytes from the end of the prefix to the front of each head, which loses as many bytes
    /// at its end.
    fn shorten_prefix(&mut self, prefix_bytes: usize) {
        let gone = self.prefix_bytes - prefix_bytes;
        if gone == 0 {
            return;
        }
        let begin = head_of(&self.prefix[prefix_bytes..self.prefix_bytes]);
        for head in &mut self.heads[..self.count] {
            *head = begin | head.checked_shr(8 * gone as u32).unwrap_or(0);
        }
        self.prefix[prefix_bytes..].fill(0);
        self.prefix_bytes = prefix_bytes;
    }

    /// Appends the key of an item to `out`: the key of its entry, or the separator below its child.
    pub(crate) fn copy_key(
        &self,
        view: ShardView<'_>,
        index: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), ObjectReadError> {
        let slot = self.slots[index];
        match self.level {
            0 => copy_key_of(view, slot, EntryKind::Entry, out),
            _ => copy_key_of(view, separator_of(view, slot)?, EntryKind::Separator, out),
        }
    }

    /// Recomputes `skip`, the prefix and the heads of a node; `high` is the separator above it.
    pub(crate) fn retune(
        &mut self,
        view: ShardView<'_>,
        high: ObjectRef,
    ) -> Result<(), ObjectReadError> {
        self.skip = common_of(view, self.low, high)?;
        let first = self.first_keyed();
        if self.count <= first {
            self.prefix_bytes = 0;
            return Ok(());
        }
        let (mut key, mut last) = (Vec::new(), Vec::new());
        self.copy_key(view, first, &mut key)?;
        self.copy_key(view, self.count - 1, &mut last)?;
        let skip = self.skip;
        let (begin, end) = (key.get(skip..).ok_or(TOO_SHORT)?, last.get(skip..).ok_or(TOO_SHORT)?);
        let prefix_bytes = common_bytes(begin, end).min(PREFIX_BYTES_MAX);
        let prefix = begin[..prefix_bytes].to_vec();
        self.set_prefix(&prefix);
        for index in first..self.count {
            key.clear();
            self.copy_key(view, index, &mut key)?;
            self.heads[index] = head_of(key.get(skip + prefix_bytes..).ok_or(TOO_SHORT)?);
        }
        Ok(())
    }

    /// Moves the items from `index` on into a new node. Both nodes have to be retuned.
    pub(crate) fn split_off(&mut self, index: usize, low: ObjectRef) -> NodeImage {
        let mut right = NodeImage::empty(self.level, low);
        assert!(0 < index && index < self.count, "a half of a split node is empty");
        right.count = self.count - index;
        right.slots[..right.count].copy_from_slice(&self.slots[index..self.count]);
        self.count = index;
        right
    }

    /// Appends the items of the next node; the result has to be retuned.
    pub(crate) fn append(&mut self, right: &NodeImage) {
        self.slots[self.count..][..right.count].copy_from_slice(&right.slots[..right.count]);
        self.count += right.count;
    }
}

/// Appends the key of an entry or a separator to `out`.
pub(crate) fn copy_key_of(
    view: ShardView<'_>,
    at: ObjectRef,
    text: EntryKind,
    out: &mut Vec<u8>,
) -> Result<(), ObjectReadError> {
    let object = view.begin(at)?;
    let copied = EntryLengths::of(&object, text).map(|lengths| lengths.copy_key(&object, out));
    object.settle(copied)
}

/// The number of common leading bytes of two separators; 0 if one is missing.
fn common_of(
    view: ShardView<'_>,
    low: ObjectRef,
    high: ObjectRef,
) -> Result<usize, ObjectReadError> {
    if low.is_none() || high.is_none() {
        return Ok(0);
    }
    let (mut below, mut above) = (Vec::new(), Vec::new());
    copy_key_of(view, low, EntryKind::Separator, &mut below)?;
    copy_key_of(view, high, EntryKind::Separator, &mut above)?;
    Ok(common_bytes(&below, &above))
}

pub(crate) fn common_bytes(left: &[u8], right: &[u8]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

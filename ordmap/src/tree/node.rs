//! A node as readers see it, and the search in it.
//!
//! A node has 64 words, 512 bytes:
//!
//! | word | meaning |
//! |---|---|
//! | 0 | header |
//! | 1 | bits 0–7: number of items; 8–15: prefix bytes; 16–31: `skip`; 32–39: level (0: leaf) |
//! | 2 | the separator below all keys of the node; none on the left edge of the tree |
//! | 3–7 | prefix: common bytes of the keys of the node's items, behind the first `skip` bytes |
//! | 8–35 | heads: eight bytes of each key behind skip and prefix, comparable as numbers |
//! | 36–63 | slots: they name entries in a leaf, and nodes in an inner node |
//!
//! The first `skip` bytes are equal in all keys that the node can ever have, because the separators
//! at both sides of the node share these bytes; searches skip them. The key of an inner node's item
//! is the separator below its child, which lies in the child's word 2; item 0 has no key, and its
//! head is ignored.
//!
//! Heads behind the last item have all bits set, so that a search need not treat them differently.
//!
//! Once a node is named, only its slots change.

use std::cmp::Ordering;
use std::hint::select_unpredictable;

use forebay_sync::atomic::{AtomicU64, Relaxed};

use crate::object::{
    EntryKind, EntryLengths, ObjectKind, ObjectReadError, ObjectRef, ObjectView, ShardView,
    compare_words, equals_words, follow, head_of, prefetch,
};

pub(crate) const NODE_WORDS: usize = 64;
pub(crate) const META: usize = 1;
pub(crate) const LOW: usize = 2;
pub(crate) const PREFIX: usize = 3;
pub(crate) const HEADS: usize = 8;
pub(crate) const SLOTS: usize = 36;
/// The number of items of a full node.
pub(crate) const ITEMS_MAX: usize = 28;
pub(crate) const PREFIX_BYTES_MAX: usize = (HEADS - PREFIX) * 8;
/// The most levels of a tree. No tree needs more, because inner nodes have at least two children.
pub(crate) const LEVELS_MAX: usize = 32;
// Heads and slots have room for a full node, and the words of a node end with its slots.
const _: () = assert!(HEADS + ITEMS_MAX == SLOTS && SLOTS + ITEMS_MAX == NODE_WORDS);

/// A node that is being read. Until a read is settled the contents may be nonsense, but no access
/// leaves the memory of the node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeView<'a> {
    object: ObjectView<'a>,
    words: &'a [AtomicU64; NODE_WORDS],
    pub(crate) level: usize,
    pub(crate) count: usize,
    pub(crate) skip: usize,
    pub(crate) prefix_bytes: usize,
}

/// The position of a key in a leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeafPosition<'a> {
    /// The index of the first item whose key is at or above the key.
    pub(crate) index: usize,
    /// The entry of the key, if it exists; not settled.
    pub(crate) entry: Option<(ObjectView<'a>, EntryLengths)>,
}

impl<'a> NodeView<'a> {
    /// Begins to read a node, of this level if it is known.
    #[inline]
    pub(crate) fn begin(
        view: ShardView<'a>,
        at: ObjectRef,
        level: Option<usize>,
    ) -> Result<NodeView<'a>, ObjectReadError> {
        let object = view.begin(at)?;
        let words = object.words().first_chunk();
        let words = words.ok_or(ObjectReadError::Damaged("a node is too short"));
        let node = words.and_then(|words| NodeView::of(object, words, level));
        match node {
            Ok(node) => Ok(node),
            Err(_) => object.settle(node),
        }
    }

    #[inline]
    fn of(
        object: ObjectView<'a>,
        words: &'a [AtomicU64; NODE_WORDS],
        expected: Option<usize>,
    ) -> Result<NodeView<'a>, ObjectReadError> {
        let meta = words[META].load(Relaxed);
        let (count, prefix_bytes) = (meta as u8 as usize, (meta >> 8) as u8 as usize);
        let (skip, level) = ((meta >> 16) as u16 as usize, (meta >> 32) as u8 as usize);
        object.header_of(if level == 0 { ObjectKind::Leaf } else { ObjectKind::Inner })?;
        if expected.is_some_and(|expected| level != expected) || level >= LEVELS_MAX {
            return Err(ObjectReadError::Damaged("a node is on the wrong level"));
        }
        if count == 0 || count > ITEMS_MAX || prefix_bytes > PREFIX_BYTES_MAX {
            return Err(ObjectReadError::Damaged("a node has a wrong number of items"));
        }
        Ok(NodeView { object, words, level, count, skip, prefix_bytes })
    }

    /// Prefetches all cache lines of the node, so that they arrive together.
    #[inline]
    pub(crate) fn prefetch(&self) {
        self.words.iter().skip(8).step_by(8).for_each(prefetch);
    }

    pub(crate) fn reference(&self) -> ObjectRef {
        self.object.reference()
    }

    /// The result of a read, if the node was not freed during the read.
    #[inline]
    pub(crate) fn settle<T>(&self, read: Result<T, ObjectReadError>) -> Result<T, ObjectReadError> {
        self.object.settle(read)
    }

    /// The separator below all keys of the node.
    pub(crate) fn low(&self) -> ObjectRef {
        ObjectRef::of_word(self.words[LOW].load(Relaxed))
    }

    /// The slot of an existing item.
    #[inline]
    pub(crate) fn slot(&self, index: usize) -> Result<ObjectRef, ObjectReadError> {
        match self.words[SLOTS..].get(index) {
            Some(slot) if index < self.count => Ok(follow(slot)),
            _ => Err(ObjectReadError::Damaged("a slot index is outside of its node")),
        }
    }

    pub(crate) fn head(&self, index: usize) -> u64 {
        self.words[HEADS + index].load(Relaxed)
    }

    pub(crate) fn prefix(&self) -> [u8; PREFIX_BYTES_MAX] {
        let mut prefix = [0; PREFIX_BYTES_MAX];
        for (bytes, word) in prefix.chunks_exact_mut(8).zip(&self.words[PREFIX..HEADS]) {
            bytes.copy_from_slice(&word.load(Relaxed).to_le_bytes());
        }
        prefix
    }

    /// The index of an item's slot among the words of all objects.
    pub(crate) fn slot_number(&self, index: usize) -> Option<usize> {
        Some(self.reference().unit()? * 2 + SLOTS + index)
    }

    /// The number of items from `first` on whose head is lower than the head of the key, and the
    /// number of items with an equal head.
    #[inline]
    fn rank(&self, key: &[u8], first: usize) -> Result<(usize, usize), ObjectReadError> {
        let suffix = key
            .get(self.skip..)
            .ok_or(ObjectReadError::Damaged("a key is too short for its node"))?;
        let prefix = &self.words[PREFIX..HEADS];
        let beginning = &suffix[..self.prefix_bytes.min(suffix.len())];
        let is_usual = beginning.len() == self.prefix_bytes && equals_words(prefix, beginning);
        let order = if is_usual {
            Ordering::Equal
        } else {
            compare_words(prefix, self.prefix_bytes, beginning, 0)
        };
        match order {
            Ordering::Greater => return Ok((0, 0)),
            Ordering::Less => return Ok((self.count - first, 0)),
            Ordering::Equal => {}
        }
        let head = head_of(&suffix[self.prefix_bytes..]);
        let heads = &self.words[HEADS..SLOTS];
        Ok(if first == 0 {
            count_heads(heads, self.count, head)
        } else {
            count_heads(&heads[1..], self.count - 1, head)
        })
    }

    /// The number of leading bytes that two keys have in common if their heads in this node are
    /// equal.
    fn known_bytes(&self) -> usize {
        self.skip + self.prefix_bytes + 8
    }

    /// The child whose range contains the key.
    #[inline]
    pub(crate) fn child_index(
        &self,
        view: ShardView<'a>,
        key: &[u8],
    ) -> Result<usize, ObjectReadError> {
        let (less, equal) = self.rank(key, 1)?;
        let (mut low, mut high) = (less, less + equal);
        // Separators up to `low` are at or below the key, and those beyond `high` are above the
        // key.
        while low < high {
            let middle = (low + high).div_ceil(2);
            let separator = separator_of(view, self.slot(middle)?)?;
            match compare_separator(view, separator, key, self.known_bytes())? {
                Ordering::Greater => high = middle - 1,
                Ordering::Less | Ordering::Equal => low = middle,
            }
        }
        Ok(low)
    }

    /// The position of the key among the entries of a leaf.
    #[inline]
    pub(crate) fn find(
        &self,
        view: ShardView<'a>,
        key: &[u8],
    ) -> Result<LeafPosition<'a>, ObjectReadError> {
        let (less, equal) = self.rank(key, 0)?;
        let (mut low, mut high) = (less, less + equal);
        while low < high {
            let middle = (low + high) / 2;
            let object = view.begin(self.slot(middle)?)?;
            object.prefetch();
            let compared = EntryLengths::of(&object, EntryKind::Entry)
                .map(|lengths| (lengths, lengths.compare(&object, key, self.known_bytes())));
            let (lengths, order) = object.settle(compared)?;
            match order {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => {
                    return Ok(LeafPosition { index: middle, entry: Some((object, lengths)) });
                }
            }
        }
        Ok(LeafPosition { index: low, entry: None })
    }
}

/// The number of the first `count` heads that are lower than `head`, and the number that are equal
/// to it.
///
/// The search has no branch that could be mispredicted: it always takes the same number of steps,
/// since the heads behind the last item are the highest.
#[inline]
fn count_heads(heads: &[AtomicU64], count: usize, head: u64) -> (usize, usize) {
    let (mut base, mut size) = (0, heads.len());
    while size > 1 {
        let half = size / 2;
        let is_lower = heads[base + half - 1].load(Relaxed) < head;
        base = select_unpredictable(is_lower, base + half, base);
        size -= half;
    }
    base += usize::from(heads[base].load(Relaxed) < head);
    let less = base.min(count);
    let same = heads[less..count].iter().take_while(|other| other.load(Relaxed) == head).count();
    (less, same)
}

/// The separator below a node.
pub(crate) fn separator_of(
    view: ShardView<'_>,
    node: ObjectRef,
) -> Result<ObjectRef, ObjectReadError> {
    let object = view.begin(node)?;
    let low = object.word(LOW).map(ObjectRef::of_word);
    object.settle(low)
}

fn compare_separator(
    view: ShardView<'_>,
    separator: ObjectRef,
    key: &[u8],
    known_bytes: usize,
) -> Result<Ordering, ObjectReadError> {
    let object = view.begin(separator)?;
    let compared = EntryLengths::of(&object, EntryKind::Separator)
        .map(|lengths| lengths.compare(&object, key, known_bytes));
    object.settle(compared)
}

//! What is kept: a head and a body of fragments.
//!
//! The memory of heads and fragments carries its own charge: it is given back when the last clone
//! is dropped, wherever that clone is.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use bytes::Bytes;

use crate::budget::{ALLOCATION_BYTES, Charge};
use crate::evict::NODE_OVERHEAD_BYTES;

/// The largest use count: it is two bits wide.
const USES_MAX: u8 = 3;

/// The owner behind a `Bytes`: the memory and its owner (whose count and drop function are two
/// words).
const HELD_BYTES: u64 = (size_of::<Held>() + 2 * size_of::<usize>()) as u64 + 2 * ALLOCATION_BYTES;

/// Beside its bytes, a fragment costs its owner, its place in the body, and as much again in the
/// growing record, whose list may be half empty.
pub(crate) const FRAGMENT_OVERHEAD_BYTES: u64 = HELD_BYTES + 3 * size_of::<Fragment>() as u64;

/// Beside its head, body and key, a record costs itself and its list of fragments, each with two
/// reference counts, the owner of its head, and its place in the queues.
pub(crate) const RECORD_OVERHEAD_BYTES: u64 = (size_of::<Record>() + 4 * size_of::<usize>()) as u64
    + 2 * ALLOCATION_BYTES
    + HELD_BYTES
    + NODE_OVERHEAD_BYTES;

/// A fragment's memory and the receipt for it.
struct Held {
    bytes: Box<[u8]>,
    _charge: Charge,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Copies `parts` one after another into one exactly sized allocation.
///
/// Cloning the result never allocates: it has an owner with a reference count from the start.
pub(crate) fn hold(parts: &[Bytes], last: &[u8], charge: Charge) -> Bytes {
    let bytes_count = parts.iter().map(Bytes::len).sum::<usize>() + last.len();
    let mut bytes = Vec::with_capacity(bytes_count);
    for part in parts {
        bytes.extend_from_slice(part);
    }
    bytes.extend_from_slice(last);
    Bytes::from_owner(Held { bytes: bytes.into_boxed_slice(), _charge: charge })
}

/// What a fragment of `bytes` costs.
pub(crate) fn fragment_cost(bytes: u64) -> u64 {
    bytes.saturating_add(FRAGMENT_OVERHEAD_BYTES)
}

/// A piece of a body.
#[derive(Clone, Debug)]
pub(crate) struct Fragment {
    /// Its bytes; never empty.
    pub(crate) bytes: Bytes,
    /// Offset in the body of the first byte after it.
    pub(crate) end: u64,
}

impl Fragment {
    /// Offset in the body of its first byte.
    pub(crate) fn start(&self) -> u64 {
        self.end - self.bytes.len() as u64
    }

    /// What it costs.
    pub(crate) fn cost(&self) -> u64 {
        fragment_cost(self.bytes.len() as u64)
    }
}

/// A complete body: fragments one after another. Cloning shares them.
#[derive(Clone, Debug)]
pub struct Body {
    fragments: Arc<[Fragment]>,
}

impl Body {
    pub(crate) fn new(fragments: Vec<Fragment>) -> Self {
        Self { fragments: fragments.into() }
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.fragments.last().map_or(0, |fragment| fragment.end)
    }

    /// True if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// The pieces of memory that hold the bytes of `range`, in order; what lies outside of the
    /// body is left out. Finding the first takes a binary search, and nothing is allocated.
    pub fn fragments(&self, range: Range<u64>) -> impl Iterator<Item = &[u8]> {
        self.pieces(range).map(|(bytes, piece)| &bytes[piece])
    }

    /// The same pieces, shared: each keeps its memory alive until it is dropped. Nothing is
    /// allocated.
    pub fn shared(&self, range: Range<u64>) -> impl Iterator<Item = Bytes> {
        self.pieces(range).map(|(bytes, piece)| bytes.slice(piece))
    }

    /// The fragments that have bytes of `range`, each with the part of it that they are; no part
    /// is empty or reversed, also where `range` is.
    fn pieces(&self, range: Range<u64>) -> impl Iterator<Item = (&Bytes, Range<usize>)> {
        let first = self.fragments.partition_point(|fragment| fragment.end <= range.start);
        self.fragments[first..]
            .iter()
            .take_while(move |fragment| fragment.start() < range.end)
            .map(move |fragment| {
                let from = range.start.saturating_sub(fragment.start());
                let to = range.end.min(fragment.end) - fragment.start();
                (&fragment.bytes, from as usize..to as usize)
            })
            .filter(|(_, piece)| !piece.is_empty())
    }

    /// What the body costs.
    pub(crate) fn cost(&self) -> u64 {
        self.len() + self.fragments.len() as u64 * FRAGMENT_OVERHEAD_BYTES
    }
}

/// A stored response: head and body, and how often it was used.
#[derive(Debug)]
pub struct Record {
    head: Bytes,
    body: Body,
    uses: AtomicU8,
    charge: Charge,
}

impl Record {
    /// `charge` is for the record itself and the key bytes that belong to it alone.
    pub(crate) fn new(head: Bytes, body: Body, charge: Charge) -> Arc<Self> {
        Arc::new(Self { head, body, uses: AtomicU8::new(0), charge })
    }

    /// The head, as it was given to `begin` or `validated`.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// The body.
    pub fn body(&self) -> &Body {
        &self.body
    }

    /// Bytes that are charged for head and bookkeeping.
    pub(crate) fn metadata_cost(&self) -> u64 {
        self.charge.bytes() + self.head.len() as u64
    }

    /// All bytes that are charged for this record.
    pub(crate) fn cost(&self) -> u64 {
        self.metadata_cost() + self.body.cost()
    }

    /// Counts a use. A record whose count is full is not written, so a hot one stays clean; a use
    /// that is lost between two threads does not matter.
    pub(crate) fn touch(&self) {
        let uses = self.uses.load(Relaxed);
        if uses < USES_MAX {
            self.uses.store(uses + 1, Relaxed);
        }
    }

    pub(crate) fn uses(&self) -> u8 {
        self.uses.load(Relaxed)
    }

    pub(crate) fn set_uses(&self, uses: u8) {
        self.uses.store(uses, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;

    fn body(parts: &[&[u8]]) -> Body {
        let budget = Budget::new(u64::MAX);
        let mut end = 0;
        let fragment = |part: &&[u8]| {
            end += part.len() as u64;
            Fragment { bytes: hold(&[], part, budget.unbilled()), end }
        };
        Body::new(parts.iter().map(fragment).collect())
    }

    #[test]
    fn a_range_is_lent_from_the_fragments_that_hold_it() {
        let parts: &[&[u8]] = &[b"ab", b"cde", b"f"];
        let cases: &[(Range<u64>, &[&[u8]])] = &[
            (0..6, &[b"ab", b"cde", b"f"]),
            (0..2, &[b"ab"]),
            (1..3, &[b"b", b"c"]),
            (2..5, &[b"cde"]),
            (3..4, &[b"d"]),
            (5..99, &[b"f"]),
            (6..9, &[]),
            (3..3, &[]),
            (Range { start: 4, end: 3 }, &[]),
            (0..u64::MAX, &[b"ab", b"cde", b"f"]),
        ];
        for (range, expected) in cases {
            let body = body(parts);
            let lent: Vec<&[u8]> = body.fragments(range.clone()).collect();
            assert_eq!(&lent, expected, "{range:?}");
            let shared: Vec<Bytes> = body.shared(range.clone()).collect();
            assert_eq!(&shared, expected, "{range:?} shared");
        }
        assert_eq!(body(&[]).fragments(0..1).count(), 0);
        assert_eq!((body(parts).len(), body(&[]).len()), (6, 0));
    }

    #[test]
    fn uses_saturate_at_two_bits() {
        let budget = Budget::new(100);
        let record = Record::new(Bytes::new(), body(&[]), budget.unbilled());
        for expected in [1, 2, 3, 3, 3] {
            record.touch();
            assert_eq!(record.uses(), expected);
        }
    }

    #[test]
    fn held_bytes_are_exact_and_give_their_charge_back_with_the_last_clone() {
        let budget = Budget::new(100);
        let first = hold(&[], b"abc", budget.charge(3).unwrap());
        let both = hold(std::slice::from_ref(&first), b"de", budget.charge(5).unwrap());
        assert_eq!(&both[..], b"abcde");
        drop(first);
        let part = both.slice(1..2);
        drop(both);
        assert_eq!(budget.used_bytes(), 5, "a slice keeps the whole allocation");
        drop(part);
        assert_eq!(budget.used_bytes(), 0);
    }
}

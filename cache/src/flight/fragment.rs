//! Fragments of a body in flight, and their cost.
//!
//! Each piece of memory carries its own charge. The charge is given back when the last clone of the
//! piece is dropped, on whatever thread that is.

use bytes::Bytes;

use super::budget::{ALLOCATION_BYTES, Charge};
use super::growing_record::JOINED_BYTES_MAX;

/// The cost of a `Bytes` with an owner: one allocation for the memory, and one for the owner with
/// its reference count and drop function (two words).
const HELD_BYTES: u64 = (size_of::<Held>() + 2 * size_of::<usize>()) as u64 + 2 * ALLOCATION_BYTES;

/// The cost of a fragment besides its bytes: the owner of its memory, and two slots in the list of
/// the growing record, since the list may be half empty.
pub(super) const FRAGMENT_OVERHEAD_BYTES: u64 = HELD_BYTES + 2 * size_of::<Fragment>() as u64;

/// A fragment's memory and its charge. The memory is dropped first.
struct Held {
    bytes: Box<[u8]>,
    _charge: Charge,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Copies `parts` and then `last` into one exactly sized allocation, which carries the charge.
///
/// Cloning the result never allocates, because it has an owner with a reference count from the
/// start.
pub(super) fn hold(parts: &[Bytes], last: &[u8], charge: Charge) -> Bytes {
    let bytes_count = parts.iter().map(Bytes::len).sum::<usize>() + last.len();
    let mut bytes = Vec::with_capacity(bytes_count);
    for part in parts {
        bytes.extend_from_slice(part);
    }
    bytes.extend_from_slice(last);
    Bytes::from_owner(Held { bytes: bytes.into_boxed_slice(), _charge: charge })
}

/// The cost of a fragment of `bytes` bytes.
pub(super) fn fragment_cost(bytes: u64) -> u64 {
    bytes.saturating_add(FRAGMENT_OVERHEAD_BYTES)
}

/// The room that is reserved for a body of `bytes` bytes: the bytes, the overhead of fragments of
/// half of [`JOINED_BYTES_MAX`] on average, and the copy that joining makes. If an origin sends
/// smaller pieces that cannot be joined, the reserve may not cover the rest of their cost.
pub(super) fn body_cost(bytes: u64) -> u64 {
    let fragment_count = 1 + bytes.div_ceil(JOINED_BYTES_MAX / 2);
    let copied_bytes = bytes.min(JOINED_BYTES_MAX);
    let overhead_bytes = fragment_count * FRAGMENT_OVERHEAD_BYTES;
    bytes.saturating_add(copied_bytes).saturating_add(overhead_bytes)
}

/// A fragment of a body.
#[derive(Clone, Debug)]
pub(super) struct Fragment {
    /// The bytes of the fragment; never empty.
    pub(super) bytes: Bytes,
    /// The offset in the body of the first byte after the fragment.
    pub(super) end: u64,
}

impl Fragment {
    /// The offset in the body of the fragment's first byte.
    pub(super) fn start(&self) -> u64 {
        self.end - self.bytes.len() as u64
    }

    /// The cost of the fragment.
    pub(super) fn cost(&self) -> u64 {
        fragment_cost(self.bytes.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::budget::Budget;
    use super::*;

    #[test]
    fn held_bytes_are_exact_and_give_their_charge_back_with_the_last_clone() {
        let budget = Budget::new(100);
        let account = budget.open(0, None).unwrap();
        let first = hold(&[], b"abc", account.charge(3).unwrap());
        let both = hold(std::slice::from_ref(&first), b"de", account.charge(5).unwrap());
        assert_eq!(&both[..], b"abcde");
        drop(first);
        let part = both.slice(1..2);
        drop(both);
        assert_eq!(budget.taken_bytes(), 5, "a slice keeps the whole allocation");
        drop(part);
        assert_eq!(budget.taken_bytes(), 0);
    }
}

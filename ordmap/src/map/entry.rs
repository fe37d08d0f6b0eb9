//! A held entry: key and value, read in place.

use std::cmp::Ordering;
use std::fmt;
use std::mem::ManuallyDrop;

use forebay_shm::Area;
use forebay_sync::atomic::AtomicU64;
use forebay_sync::leases::{Lease, NotLeased};

use super::reader::MapReader;
use crate::error::MapError;
use crate::object::{EntryKind, EntryLengths, ObjectReadError, ObjectRef, ObjectView};
use crate::region::MapParticipant;

// Words are stored as numbers and read as bytes in place, so a number must have its lowest byte
// first.
const _: () = assert!(cfg!(target_endian = "little"));

/// A key with its value at the time of the read. Both stay readable until the `Entry` is dropped,
/// even if the key is replaced, removed or evicted in its map.
pub struct Entry<'m> {
    /// The lease, which only the process that took it may drop: a forked child must not.
    lease: ManuallyDrop<Lease<'m, Area>>,
    participant: &'m MapParticipant,
    object: ObjectView<'m>,
    lengths: EntryLengths,
}

/// Why an entry could not be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HoldError {
    Read(ObjectReadError),
    NoLease,
    Forked,
}

impl From<ObjectReadError> for HoldError {
    fn from(error: ObjectReadError) -> HoldError {
        HoldError::Read(error)
    }
}

impl From<HoldError> for MapError {
    fn from(not: HoldError) -> MapError {
        match not {
            HoldError::Read(error) => error.into(),
            HoldError::NoLease => MapError::TooManyLeases,
            HoldError::Forked => MapError::Forked,
        }
    }
}

impl<'m> Entry<'m> {
    /// Holds an entry, unless it was freed or is about to be.
    #[inline]
    pub(super) fn hold(reader: &MapReader<'m>, entry: ObjectRef) -> Result<Entry<'m>, HoldError> {
        let object = reader.tree.view.begin(entry)?;
        let lease = match reader.row()?.take(entry.word(), || object.is_same()) {
            Ok(lease) => lease,
            Err(NotLeased::NoSlot) => return Err(HoldError::NoLease),
            Err(NotLeased::Gone | NotLeased::NoPlace) => {
                return Err(ObjectReadError::Changed.into());
            }
        };
        // The entry cannot be freed any more, so its contents are stable.
        let lengths = EntryLengths::of(&object, EntryKind::Entry);
        let lengths = match lengths {
            // A reclaim may have raised the generation since; then nothing names the entry any
            // more.
            Err(_) => object.settle(lengths)?,
            Ok(lengths) => lengths,
        };
        let lease = ManuallyDrop::new(lease);
        Ok(Entry { lease, participant: reader.participant, object, lengths })
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        // SAFETY: see `bytes`; the lease is held as long as `self`.
        unsafe { bytes(self.lengths.key_words(&self.object), self.lengths.key_bytes) }
    }

    /// The value; its address is a multiple of 8.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        // SAFETY: see `bytes`; the lease is held as long as `self`.
        unsafe { bytes(self.lengths.value_words(&self.object), self.lengths.value_bytes) }
    }

    /// Whether both are the same stored entry, and not only equal. A value that is stored again
    /// makes another entry, and so does a split that moves the entry. Entries of different maps are
    /// never the same.
    #[must_use]
    pub fn is_same(&self, other: &Entry<'_>) -> bool {
        self.is_at(other.participant, other.reference())
    }

    /// Whether this is the entry that the reference names in the participant's region. A held entry
    /// is not freed, so no other map of the region uses its memory.
    pub(super) fn is_at(&self, participant: &MapParticipant, reference: ObjectRef) -> bool {
        let (ours, theirs) = (self.participant.shared().data(), participant.shared().data());
        self.reference() == reference && ours.is_same(theirs)
    }

    fn reference(&self) -> ObjectRef {
        ObjectRef::of_word(self.lease.place())
    }

    pub(super) fn object(&self) -> &ObjectView<'m> {
        &self.object
    }
}

impl Drop for Entry<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.participant.is_ours() {
            // SAFETY: the lease is dropped only here, and is not used again, because `self` is gone
            // afterwards.
            unsafe { ManuallyDrop::drop(&mut self.lease) };
        }
    }
}

impl fmt::Debug for Entry<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, value) = (self.key().escape_ascii(), self.value().len());
        write!(out, "Entry {{ key: \"{key}\", value: {value} bytes }}")
    }
}

impl PartialEq for Entry<'_> {
    fn eq(&self, other: &Self) -> bool {
        (self.key(), self.value()) == (other.key(), other.value())
    }
}

impl Eq for Entry<'_> {}

impl PartialOrd for Entry<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.key(), self.value()).cmp(&(other.key(), other.value()))
    }
}

/// The first `count` bytes of these words.
///
/// # Safety
/// - While the result lives, a lease of the entry that the words belong to is held, so no thread
///   writes them.
/// - The words have at least that many bytes.
unsafe fn bytes(words: &[AtomicU64], count: usize) -> &[u8] {
    assert!(count <= words.len() * 8, "the lengths of a held entry exceed its words");
    // SAFETY:
    // - The words are initialised, and live as long as the mapping.
    // - Key and value are written before their entry is named, and not again before the entry is
    //   freed, which a lease prevents (contract). The header, which does change, is not among these
    //   words.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), count) }
}

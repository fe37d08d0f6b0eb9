//! Long bodies. Each fragment of a long body is a record of its own, and a head record names the
//! fragments.

use std::ops::Range;

use super::body_handle::{BodyHandle, ConnectionTag};
use super::record_access::Orphans;
use super::record_index::RecordIndex;
use super::record_keys::OwnedRecordKeys;
use super::worker::{StoreWorker, WorkerInner};
use crate::key_index::RecordKeys;
use crate::segment::{Geometry, HeaderKind};

/// The first byte of every fragment's key. No other key begins with it: other keys begin with the
/// name of a site, which is printable.
pub(crate) const FRAGMENT_KEY_FIRST: u8 = 0xff;

const FRAGMENT_KEY_BYTES: usize = 1 + 8 + 4;

/// The length of a long head's body: body id, length of the body, size of its fragments.
pub(crate) const LONG_BODY_BYTES: usize = 8 + 8 + 4;

/// The largest fragment. Larger fragments would need more memory for each slow client; smaller ones
/// would need more lookups.
const FRAGMENT_BYTES_MAX: u32 = 256 * 1024;

/// The least ratio of a segment's size to a fragment's size, so that no more than about an eighth
/// of a segment is left unused at its end.
const FRAGMENTS_IN_SEGMENT: u32 = 8;

/// The longest body that is stored in one record with its head.
const WHOLE_BYTES_MAX: u32 = 64 * 1024;

/// The most fragments of a body: 8 GiB in the smallest fragments, 256 GiB in the largest. Without
/// this limit, a damaged head could cause lookups of fragments for minutes.
pub(crate) const FRAGMENTS_MAX: u64 = 1 << 20;

/// The most fragments that are looked up before a body is sent, which takes about 100 µs. If a body
/// has more (256 MiB in the largest fragments), a missing fragment may be noticed only when it is
/// to be sent.
const SOUGHT_MAX: usize = 1024;

/// The number of fragments whose use counts one cleanup resets.
const RESETS_AT_ONCE: u32 = 128;

/// The cost of removing one entry of the key index, as a number of fragments: a change of a map
/// takes some 2 µs.
const ENTRY_COST: u32 = 8;

/// The number of records whose entries are removed from the key index together.
const ORDERED_AT_ONCE: usize = 16;

/// A body that is too long for one record: its id, its length, and the size of its fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongBody {
    id: u64,
    bytes: u64,
    fragment_bytes: u32,
}

/// The sizes by which a region divides bodies into records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Division {
    /// The longest body that is stored in one record.
    pub(crate) whole_bytes_max: u32,
    pub(crate) fragment_bytes: u32,
}

impl Division {
    pub(crate) fn of(geometry: Geometry) -> Division {
        let segment_bytes = geometry.segment_bytes();
        // Even with a head of 64 KiB, a whole record is much shorter than most segments.
        let whole_bytes_max = (segment_bytes / 4).min(WHOLE_BYTES_MAX);
        let fragment_bytes = (segment_bytes / FRAGMENTS_IN_SEGMENT).min(FRAGMENT_BYTES_MAX);
        Division { whole_bytes_max, fragment_bytes }
    }
}

impl LongBody {
    pub(crate) fn new(id: u64, bytes: u64, fragment_bytes: u32) -> LongBody {
        LongBody { id, bytes, fragment_bytes }
    }

    /// Decodes the body of a long head; `None` if the bytes are not such a body.
    pub(crate) fn decode(body: &[u8]) -> Option<LongBody> {
        let body: &[u8; LONG_BODY_BYTES] = body.try_into().ok()?;
        let (id, rest) = body.split_first_chunk()?;
        let (bytes, rest) = rest.split_first_chunk()?;
        let fragment_bytes = u32::from_le_bytes(rest.try_into().ok()?);
        let long = LongBody {
            id: u64::from_le_bytes(*id),
            bytes: u64::from_le_bytes(*bytes),
            fragment_bytes,
        };
        let is_sound = fragment_bytes > 0 && long.bytes / u64::from(fragment_bytes) < FRAGMENTS_MAX;
        is_sound.then_some(long)
    }

    pub(crate) fn encode(&self) -> [u8; LONG_BODY_BYTES] {
        let mut body = [0; LONG_BODY_BYTES];
        body[..8].copy_from_slice(&self.id.to_le_bytes());
        body[8..16].copy_from_slice(&self.bytes.to_le_bytes());
        body[16..].copy_from_slice(&self.fragment_bytes.to_le_bytes());
        body
    }

    /// The body id. The keys of the fragments contain it.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The length of the body in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The numbers of the fragments that hold a part of the body.
    pub fn fragments(&self, part: Range<u64>) -> Range<u32> {
        let fragment_bytes = u64::from(self.fragment_bytes);
        let first = part.start / fragment_bytes;
        let end = part.end.min(self.bytes).div_ceil(fragment_bytes);
        first as u32..end as u32
    }

    /// The range of bytes within a fragment that belongs to a part of the body.
    pub fn part_of(&self, number: u32, part: &Range<u64>) -> Range<u32> {
        let start = u64::from(number) * u64::from(self.fragment_bytes);
        let end = (start + u64::from(self.fragment_bytes)).min(self.bytes);
        let within = |offset: u64| (offset.clamp(start, end) - start) as u32;
        within(part.start)..within(part.end)
    }

    /// The size of the fragments, except the last.
    pub(crate) fn fragment_bytes(&self) -> u32 {
        self.fragment_bytes
    }

    /// The range of bytes of the body that these fragments hold.
    pub fn bytes_of_all(&self, numbers: &Range<u32>) -> Range<u64> {
        let start =
            |number: u32| (u64::from(number) * u64::from(self.fragment_bytes)).min(self.bytes);
        start(numbers.start)..start(numbers.end)
    }

    /// The unit that contains a fragment: the body is divided into units of `unit_bytes`, rounded
    /// down to whole fragments, but at least one.
    pub fn unit_of(&self, number: u32, unit_bytes: u64) -> Range<u32> {
        let count = fragments_in(unit_bytes, self.fragment_bytes);
        let start = number / count * count;
        let end = self.fragments(0..self.bytes).end;
        start..start.saturating_add(count).min(end)
    }

    /// The length of a fragment.
    fn bytes_of(&self, number: u32) -> u64 {
        let start = u64::from(number) * u64::from(self.fragment_bytes);
        self.bytes.saturating_sub(start).min(u64::from(self.fragment_bytes))
    }
}

/// The number of fragments in a unit.
pub(crate) fn fragments_in(unit_bytes: u64, fragment_bytes: u32) -> u32 {
    u32::try_from(unit_bytes / u64::from(fragment_bytes)).unwrap_or(u32::MAX).max(1)
}

/// The key of a fragment.
pub(crate) fn fragment_key(id: u64, number: u32) -> [u8; FRAGMENT_KEY_BYTES] {
    let mut key = [FRAGMENT_KEY_FIRST; FRAGMENT_KEY_BYTES];
    key[1..9].copy_from_slice(&id.to_le_bytes());
    key[9..].copy_from_slice(&number.to_le_bytes());
    key
}

/// The body id and the number of the fragment with this key; `None` for keys of other records.
pub(crate) fn split_fragment_key(key: &[u8]) -> Option<(u64, u32)> {
    let (id, number) = key.strip_prefix(&[FRAGMENT_KEY_FIRST])?.split_first_chunk()?;
    Some((u64::from_le_bytes(*id), u32::from_le_bytes(number.try_into().ok()?)))
}

impl StoreWorker {
    /// Pins a part of a fragment; `None` if the fragment is no longer stored.
    pub fn pin_fragment(
        &self,
        long: &LongBody,
        number: u32,
        part: Range<u32>,
        tag: ConnectionTag,
    ) -> Option<BodyHandle> {
        let pinned = self.inner.records.look(&fragment_key(long.id, number))?;
        let record = pinned.record();
        let is_it = record.header.kind == HeaderKind::Fragment
            && u64::from(record.header.body_bytes) == long.bytes_of(number);
        is_it.then(|| {
            self.inner.records.index.count_use(&pinned.hit);
            BodyHandle::new(&self.inner, &pinned.hit, record, part, tag)
        })
    }

    /// Whether the fragments of a part of the body are stored. They may be evicted at any time
    /// afterwards. If there are very many fragments, only some are looked up, including the first
    /// and the last.
    ///
    /// Only the first fragment is verified, if the slices have not yet verified it: to verify all
    /// would read the whole body before its first byte is sent. So
    /// [`pin_fragment`](Self::pin_fragment) may find damage in a later one.
    pub fn has_fragments(&self, long: &LongBody, part: Range<u64>) -> bool {
        let records = &self.inner.records;
        let numbers = long.fragments(part);
        let is_undamaged = |number| records.look(&fragment_key(long.id, number)).is_some();
        if !numbers.clone().next().is_none_or(is_undamaged) {
            return false;
        }
        let step = numbers.len().div_ceil(SOUGHT_MAX).max(1);
        let last = numbers.clone().next_back();
        numbers.step_by(step).skip(1).chain(last).all(|number| {
            let key = fragment_key(long.id, number);
            records.index.lookup(&records.pins, &records.key(&key)).is_some()
        })
    }
}

impl WorkerInner {
    /// Cleans up after removed records: removes their entries from the key index, and the variants
    /// that removed bases named. The fragments of long bodies are not removed, because a response
    /// that began before a purge may still send them; only their use counts are reset, so that they
    /// are evicted soon. Returns whether more orphans are left than one call cleans up.
    pub(crate) fn clean_up_orphans(&self) -> bool {
        let mut left = RESETS_AT_ONCE;
        while left > 0 {
            let Some(orphans) = self.records.access().next_orphans() else {
                return false;
            };
            match orphans {
                Orphans::Fragments(long, next) => {
                    let end = long.fragments(0..long.bytes).end;
                    let to = end.min(next.saturating_add(left));
                    self.records.reset_fragment_uses(&long, next..to);
                    if to < end {
                        self.records.access().put_back(Orphans::Fragments(long, to));
                        return true;
                    }
                    left -= to - next;
                }
                Orphans::Variants(variants) => {
                    for key in variants.keys() {
                        self.records.index.remove(&self.records.pins, &self.records.key(&key));
                        left = left.saturating_sub(1);
                    }
                }
                Orphans::Keys(first) => {
                    let all = self.records.access().with_next_keys(first, ORDERED_AT_ONCE);
                    let all: Vec<_> = all.iter().map(OwnedRecordKeys::borrowed).collect();
                    self.keys.remove(&all);
                    let entries: u32 = all.iter().map(RecordKeys::entry_count).sum();
                    left = left.saturating_sub(entries * ENTRY_COST);
                }
            }
        }
        self.records.access().has_orphans()
    }
}

impl RecordIndex {
    fn reset_fragment_uses(&self, long: &LongBody, numbers: Range<u32>) {
        for number in numbers {
            let key = fragment_key(long.id, number);
            if let Some(hit) = self.index.lookup(&self.pins, &self.key(&key)) {
                self.index.reset_uses(&hit);
            }
        }
    }

    /// Removes the first `count` fragments of the body with this id.
    pub(crate) fn remove_fragments(&self, id: u64, count: u32) {
        for number in 0..count {
            self.index.remove(&self.pins, &self.key(&fragment_key(id, number)));
        }
    }
}

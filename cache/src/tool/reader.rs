//! A store as a tool in another process sees it: read-only, and not a participant.

use std::collections::HashSet;
use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;

use forebay_shm::{Listed, Region, RegionError, RegionReader};

use super::check::{self, CheckDepth};
use super::records::{CopiedRecord, ListedRecord};
use super::report::{CheckProgress, StoreReport};
use super::view::{ATTEMPTS_MAX, RegionView};
use crate::index::{BUCKET_WORDS, IndexWord, KeyHash, WordState};
use crate::segment::{CopyError, ScannedRecord, SegmentPhase};
use crate::store::layout::{STORE_VERSION, word};
use crate::store::long::{LongBody, fragment_key};
use crate::store::{Accounts, accounts};

/// A store that is read from outside. Each result was true at some moment during the call.
#[derive(Debug)]
pub struct StoreReader {
    view: RegionView<RegionReader>,
}

/// Why a store cannot be read.
#[derive(Debug)]
pub enum StoreReadError {
    /// The region cannot be read.
    Region(RegionError),
    /// Another version of the program made the store.
    OtherVersion {
        /// The version of the store.
        found: u32,
    },
    /// The store is damaged, or not complete yet: the first process that opens a store writes its
    /// sizes.
    Damaged(&'static str),
}

/// The use of a region's memory: those numbers of [`Stats`](crate::Stats) that can be read from the
/// region.
///
/// `region = free + live + dead + metadata + pinned`; the bytes of a segment of unknown state are
/// missing in this sum. Arriving responses and copies for slow clients are in the server's own
/// memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionStats {
    /// The size of the region.
    pub region_bytes: u64,
    /// The bytes of free segments, and of the unfilled parts of other segments.
    pub free_bytes: u64,
    /// The bytes of records that lookups can find.
    pub live_bytes: u64,
    /// The filled bytes of segments that belong to no live record.
    pub dead_bytes: u64,
    /// The bytes of the region outside its segments: header, index, pins, ghosts, purges, key
    /// index. Their number is fixed.
    pub metadata_bytes: u64,
    /// The bytes of drained segments that readers still pin, or that are not freed yet.
    pub pinned_bytes: u64,
    /// The number of all segments.
    pub segment_count: u64,
    /// The size of a segment.
    pub segment_bytes: u64,
    /// The segments by state.
    pub segments: SegmentCounts,
    /// The number of words in the index.
    pub index_word_count: u64,
    /// The last sequence that was assigned. Each record, each long body and each id of a variant
    /// gets a sequence.
    pub sequence: u64,
    /// The number of purges since the store was created.
    pub purge_count: u64,
    /// The number of participants, including dead ones that were not swept.
    pub participant_count: u64,
}

/// The number of segments in each state: see `docs/format/store.md`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentCounts {
    /// The number of free segments.
    pub free: u64,
    /// The number of open segments, to which their owners append.
    pub open: u64,
    /// The number of sealed segments, which are complete.
    pub sealed: u64,
    /// The number of draining segments: their words are being removed, or readers still pin them.
    pub draining: u64,
    /// The number of suspect segments, which were open when their owner died.
    pub suspect: u64,
    /// The number of segments whose state is damaged or changed at each read.
    pub unknown: u64,
}

impl SegmentCounts {
    fn add(&mut self, phase: Option<SegmentPhase>) {
        *match phase {
            Some(SegmentPhase::Free) => &mut self.free,
            Some(SegmentPhase::Open) => &mut self.open,
            Some(SegmentPhase::Sealed) => &mut self.sealed,
            Some(SegmentPhase::Draining) => &mut self.draining,
            Some(SegmentPhase::Suspect) => &mut self.suspect,
            None => &mut self.unknown,
        } += 1;
    }
}

impl StoreReader {
    /// Opens the store in the region file at this path.
    ///
    /// # Errors
    /// See [`StoreReadError`].
    pub fn open(path: &Path) -> Result<StoreReader, StoreReadError> {
        let region = Region::attach_read_only(path).map_err(StoreReadError::Region)?;
        Ok(StoreReader { view: RegionView::of(region)? })
    }

    /// Copies the live record of a key; `None` if there is none. The key is a primary key, or any
    /// whole key that [`list`](StoreReader::list) has shown.
    ///
    /// The call may miss a record that is replaced or moved at each read.
    pub fn get(&self, key: &[u8]) -> Option<CopiedRecord> {
        self.view.find(key).map(|(word, copied)| CopiedRecord::new(word, copied))
    }

    /// Copies a fragment of a long body.
    pub fn fragment(&self, long: &LongBody, number: u32) -> Option<CopiedRecord> {
        self.get(&fragment_key(long.id(), number))
    }

    /// Shows the live records, bucket by bucket, until `show` returns `Break`.
    ///
    /// A key that stays in the index is shown, and no key is shown twice. If a key has several live
    /// records, the first record that the listing reaches is shown, and the others are left out. A
    /// key has a second live record if the first one is replaced during the listing, or after the
    /// death of an inserter.
    ///
    /// Keys are told apart by their 64-bit hash: of keys with equal hashes only one is shown.
    pub fn list(&self, mut show: impl FnMut(&ListedRecord<'_>) -> ControlFlow<()>) {
        let mut key = Vec::new();
        let mut listed = ListedKeys::default();
        for slot in 0..self.view.slot_count() {
            let Some((word, scanned)) = self.live_record(slot, &mut key) else {
                continue;
            };
            let is_new = listed.insert(self.view.hash(&key), slot, self.view.bucket_count);
            if is_new && show(&ListedRecord::of(word, &scanned, &key)).is_break() {
                return;
            }
        }
    }

    /// The live record of a slot; leaves its key in `key`.
    fn live_record(&self, slot: usize, key: &mut Vec<u8>) -> Option<(IndexWord, ScannedRecord)> {
        for _ in 0..ATTEMPTS_MAX {
            let word = self.view.word(slot);
            if !word.is_in_memory() || word.state() != WordState::Live {
                return None;
            }
            match self.view.copy_header((slot, word), false, key) {
                Ok(scanned) => return Some((word, scanned)),
                Err(CopyError::Gone) => {}
                Err(CopyError::Damaged(_) | CopyError::BadChecksum) => return None,
            }
        }
        None
    }

    /// The use of the region's memory.
    pub fn stats(&self) -> RegionStats {
        let view = &self.view;
        let outside = view.unpinned();
        let segment_bytes = u64::from(view.geometry.segment_bytes());
        let mut segments = SegmentCounts::default();
        // A segment that changes during a read is read again.
        let described = (0..view.geometry.segment_count()).filter_map(|segment| {
            let found = (0..ATTEMPTS_MAX).find_map(|_| outside.snapshot(segment));
            segments.add(found.map(|found| found.state.phase));
            let found = found?;
            Some((Some(found.state), found.filled_bytes, found.live_bytes))
        });
        let Accounts { free_bytes, live_bytes, dead_bytes, pinned_bytes, .. } =
            accounts(segment_bytes, described);
        let region_bytes = view.region.bytes();
        let metadata_bytes = region_bytes.saturating_sub(view.geometry.data_bytes());
        RegionStats {
            region_bytes,
            free_bytes,
            live_bytes,
            dead_bytes,
            metadata_bytes,
            pinned_bytes,
            segment_count: u64::from(view.geometry.segment_count()),
            segment_bytes,
            segments,
            index_word_count: view.slot_count() as u64,
            sequence: view.shared(word::SEQUENCE),
            purge_count: view.shared(word::PURGE_SEQ),
            participant_count: self.participants().len() as u64,
        }
    }

    /// The attached participants.
    pub fn participants(&self) -> Vec<Listed> {
        self.view.region.list()
    }

    /// Checks everything and reports findings: see [`Store::check`](crate::Store::check).
    pub fn check(&self, depth: CheckDepth, progress: impl FnMut(CheckProgress)) -> StoreReport {
        check::check(&self.view, depth, progress)
    }
}

/// The hashes of the keys that a listing has shown and may meet again. A key has two buckets, so it
/// cannot occur behind the second one.
#[derive(Debug, Default)]
struct ListedKeys {
    bucket: usize,
    /// The keys that were shown in the current bucket.
    here: Vec<KeyHash>,
    /// The keys that were shown in an earlier bucket, and whose other bucket came later.
    earlier: HashSet<u64>,
}

impl ListedKeys {
    /// Notes the key that a slot names; slots come in ascending order. Returns whether it is new.
    fn insert(&mut self, hash: KeyHash, slot: usize, bucket_count: usize) -> bool {
        let bucket = slot / BUCKET_WORDS;
        if self.bucket != bucket {
            self.bucket = bucket;
            self.here.clear();
        }
        if self.here.contains(&hash) || self.earlier.contains(&hash.value()) {
            return false;
        }
        self.here.push(hash);
        if hash.buckets(bucket_count).iter().any(|other| *other > bucket) {
            self.earlier.insert(hash.value());
        }
        true
    }
}

impl fmt::Display for StoreReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreReadError::Region(error) => error.fmt(f),
            StoreReadError::OtherVersion { found } => {
                write!(
                    f,
                    "the store has version {found}, but this program reads version \
                     {STORE_VERSION}; use the version of the program that made the store"
                )
            }
            StoreReadError::Damaged(what) => {
                write!(
                    f,
                    "the store is damaged or not complete yet: {what}; try again once its server \
                     has started"
                )
            }
        }
    }
}

impl std::error::Error for StoreReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StoreReadError::Region(error) => Some(error),
            StoreReadError::OtherVersion { .. } | StoreReadError::Damaged(_) => None,
        }
    }
}

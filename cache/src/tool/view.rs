//! A view of the areas of a store, for reading without a pin.

use forebay_shm::{Area, Listed, ReadOnlyArea, Region, RegionReader};
use forebay_sync::atomic::AtomicU64;
use forebay_sync::pins::Pins;

use super::reader::StoreReadError;
use crate::index::{BUCKET_WORDS, IndexWord, KeyHash, words_needed};
use crate::segment::{
    CopyError, Geometry, LoadWords, Location, RecordCopy, SEGMENT_WORDS, ScannedRecord,
    UnpinnedReader,
};
use crate::store::hash::Hasher;
use crate::store::layout::{ROW_WORDS, STORE_VERSION, kind, word};

/// The number of attempts to read a word that other threads keep changing.
pub(super) const ATTEMPTS_MAX: usize = 16;

/// A region that is read by a participant or by a read-only tool.
pub(crate) trait RegionAccess {
    /// The words of an area.
    type Words: LoadWords;

    /// The area of this kind, and its version; `None` if the region has no such area.
    fn area(&self, kind: u32) -> Option<(Self::Words, u32)>;

    fn seed(&self) -> [u8; 16];

    /// The number of rows for participants.
    fn participants_max(&self) -> u32;

    /// The participants of the rows that are in use.
    fn participants(&self) -> Vec<Listed>;
}

impl RegionAccess for Region {
    type Words = Area;

    fn area(&self, kind: u32) -> Option<(Area, u32)> {
        Region::area(self, kind).map(|area| (area.clone(), area.version()))
    }

    fn seed(&self) -> [u8; 16] {
        Region::seed(self)
    }

    fn participants_max(&self) -> u32 {
        Region::participants_max(self)
    }

    fn participants(&self) -> Vec<Listed> {
        self.list()
    }
}

impl RegionAccess for RegionReader {
    type Words = ReadOnlyArea;

    fn area(&self, kind: u32) -> Option<(ReadOnlyArea, u32)> {
        RegionReader::area(self, kind).map(|area| (area.clone(), area.version()))
    }

    fn seed(&self) -> [u8; 16] {
        RegionReader::seed(self)
    }

    fn participants_max(&self) -> u32 {
        RegionReader::participants_max(self)
    }

    fn participants(&self) -> Vec<Listed> {
        self.list()
    }
}

/// The areas of a store. All sizes were checked, so every index below them exists.
#[derive(Debug)]
pub(crate) struct RegionView<R: RegionAccess> {
    pub(super) region: R,
    store: R::Words,
    segments: R::Words,
    index: R::Words,
    pins: R::Words,
    data: R::Words,
    pub(super) geometry: Geometry,
    pub(super) bucket_count: usize,
    /// The distance between two rows of pins, in words.
    pin_row_words: usize,
    hasher: Hasher,
}

impl<R: RegionAccess> RegionView<R> {
    /// Makes a view of the store in a region. Checks that the areas have the sizes that the store
    /// states.
    pub(crate) fn of(region: R) -> Result<RegionView<R>, StoreReadError> {
        let area = |kind| match region.area(kind) {
            None => Err(StoreReadError::Damaged("an area of the store is missing")),
            Some((_, found)) if found != STORE_VERSION => {
                Err(StoreReadError::OtherVersion { found })
            }
            Some((words, _)) => Ok(words),
        };
        let too_few = || {
            StoreReadError::Damaged("an area of the store is smaller than its stated sizes need")
        };
        let store = area(kind::STORE)?;
        if store.word_count() < word::COUNT {
            return Err(StoreReadError::Damaged("the area with the sizes is too small"));
        }
        let (segments, data) = (area(kind::SEGMENTS)?, area(kind::DATA)?);
        let geometry =
            Geometry::of(store.load(word::SEGMENT_BYTES), store.load(word::SEGMENT_COUNT))
                .map_err(|_| StoreReadError::Damaged("the stated segment sizes are impossible"))?;
        UnpinnedReader::new(&segments, &data, geometry).map_err(|_| too_few())?;
        let index = area(kind::INDEX)?;
        let bucket_count = bucket_count(store.load(word::BUCKET_COUNT), index.word_count())?;
        let (pins, rows) = (area(kind::PINS)?, area(kind::ROWS)?);
        let row_count = region.participants_max() as usize;
        let pin_row_words = pin_row_words(geometry).ok_or_else(too_few)?;
        if pins.word_count() / pin_row_words < row_count
            || rows.word_count() / ROW_WORDS < row_count
        {
            return Err(too_few());
        }
        let hasher = Hasher::of_seed(region.seed());
        Ok(RegionView {
            store,
            segments,
            index,
            pins,
            data,
            geometry,
            bucket_count,
            pin_row_words,
            hasher,
            region,
        })
    }

    pub(super) fn unpinned(&self) -> UnpinnedReader<'_, R::Words, R::Words> {
        // `of` has checked their sizes.
        UnpinnedReader::over(&self.segments, &self.data, self.geometry)
    }

    pub(super) fn slot_count(&self) -> usize {
        self.bucket_count * BUCKET_WORDS
    }

    /// Loads the index word of a slot, with relaxed ordering.
    pub(super) fn word(&self, slot: usize) -> IndexWord {
        IndexWord::from_bits(self.index.load(slot))
    }

    /// Loads the word with this index from the area `store`, with relaxed ordering.
    pub(super) fn shared(&self, number: usize) -> u64 {
        self.store.load(number)
    }

    /// Loads the state word of a segment without decoding it.
    pub(super) fn state_word(&self, segment: u32) -> u64 {
        self.segments.load(segment as usize * SEGMENT_WORDS)
    }

    /// The number of pins of a row on a segment.
    pub(super) fn pin_count(&self, row: u32, segment: u32) -> u64 {
        self.pins.load(row as usize * self.pin_row_words + segment as usize)
    }

    pub(super) fn hash(&self, key: &[u8]) -> KeyHash {
        self.hasher.key(key)
    }

    /// The slots that may hold the word of a key.
    pub(super) fn slots(&self, hash: KeyHash) -> impl Iterator<Item = usize> + use<R> {
        let buckets = hash.buckets(self.bucket_count);
        buckets.into_iter().flat_map(|bucket| bucket * BUCKET_WORDS..(bucket + 1) * BUCKET_WORDS)
    }

    /// Copies the header and the key of the record that a slot names, if the slot's word still
    /// names the same record.
    pub(super) fn copy_header(
        &self,
        (slot, word): (usize, IndexWord),
        is_checked: bool,
        key: &mut Vec<u8>,
    ) -> Result<ScannedRecord, CopyError> {
        let is_there = || self.word(slot).is_same_record(word);
        self.unpinned().copy_header(Location(word.location()), is_checked, key, is_there)
    }

    /// Copies the whole record that a slot names, if the slot's word still names the same record.
    pub(super) fn copy(&self, (slot, word): (usize, IndexWord)) -> Result<RecordCopy, CopyError> {
        let is_there = || self.word(slot).is_same_record(word);
        self.unpinned().copy(Location(word.location()), is_there)
    }

    /// Calls `look` on each live word that may name the record of a key, until a call returns
    /// `Some`. A word whose record is gone is read again.
    fn find_by<T>(
        &self,
        key: &[u8],
        mut look: impl FnMut((usize, IndexWord)) -> Result<Option<T>, CopyError>,
    ) -> Option<T> {
        let hash = self.hash(key);
        for slot in self.slots(hash) {
            for _ in 0..ATTEMPTS_MAX {
                let word = self.word(slot);
                if !word.is_live_of(hash.fingerprint()) {
                    break;
                }
                match look((slot, word)) {
                    Ok(None) | Err(CopyError::Damaged(_) | CopyError::BadChecksum) => break,
                    Ok(found) => return found,
                    Err(CopyError::Gone) => {}
                }
            }
        }
        None
    }

    /// The live record of a key, and its word.
    pub(super) fn find(&self, key: &[u8]) -> Option<(IndexWord, RecordCopy)> {
        self.find_by(key, |(slot, word)| {
            let copied = self.copy((slot, word))?;
            Ok((copied.record().key() == key).then_some((word, copied)))
        })
    }

    /// Whether there is a live record of a key.
    pub(super) fn has(&self, key: &[u8]) -> bool {
        let mut found_key = Vec::new();
        let found = self.find_by(key, |named| {
            self.copy_header(named, false, &mut found_key)?;
            Ok((found_key == key).then_some(()))
        });
        found.is_some()
    }

    /// Whether a word of the index names this location, for a key with this hash.
    pub(super) fn is_named(&self, hash: KeyHash, location: Location) -> bool {
        self.slots(hash).any(|slot| {
            let word = self.word(slot);
            word.is_in_memory()
                && word.location() == location.0
                && word.fingerprint() == hash.fingerprint()
        })
    }
}

fn bucket_count(found: u64, word_count: usize) -> Result<usize, StoreReadError> {
    let damaged = StoreReadError::Damaged("the stated size of the index is impossible");
    let Ok(count) = usize::try_from(found) else {
        return Err(damaged);
    };
    match words_needed(count) {
        Some(needed) if count >= 2 && needed <= word_count => Ok(count),
        _ => Err(damaged),
    }
}

fn pin_row_words(geometry: Geometry) -> Option<usize> {
    Pins::<Box<[AtomicU64]>>::words_needed(1, geometry.segment_count() as usize)
}

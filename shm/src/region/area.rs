//! Access to the words of one area of a region.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_sync::Words;

use super::layout::AreaPlace;
use crate::map;
use crate::participant::RegionId;

/// The words of one area of a [`Region`](super::Region). An `Area` keeps the mapping alive.
#[derive(Clone, Debug)]
pub struct Area {
    map: Arc<map::Words>,
    first: usize,
    count: usize,
    version: u32,
    region: RegionId,
}

impl Area {
    /// The area at `place`, which was checked against the size of the mapping.
    pub(super) fn new(map: &Arc<map::Words>, place: &AreaPlace, region: RegionId) -> Area {
        let words = place.words();
        assert!(
            words.end <= map.all().len(),
            "an area of the region ends beyond the region's mapping"
        );
        Area {
            map: Arc::clone(map),
            first: words.start,
            count: words.len(),
            version: place.version,
            region,
        }
    }

    /// The version of the area's content.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The region of the area.
    pub fn region_id(&self) -> RegionId {
        self.region
    }

    /// Whether this and `other` are the same area of the same region, even in different mappings.
    pub fn is_same(&self, other: &Area) -> bool {
        (self.region, self.first, self.count) == (other.region, other.first, other.count)
    }
}

impl Words for Area {
    #[inline]
    fn word_count(&self) -> usize {
        self.count
    }

    #[inline]
    fn word(&self, index: usize) -> &AtomicU64 {
        let count = self.count;
        assert!(index < count, "the area has {count} words, so there is no word {index}");
        &self.map.all()[self.first + index]
    }

    #[inline]
    fn all(&self) -> &[AtomicU64] {
        &self.map.all()[self.first..][..self.count]
    }
}

/// The words of one area of a region that is mapped read-only.
#[derive(Clone, Debug)]
pub struct ReadOnlyArea {
    area: Area,
}

impl ReadOnlyArea {
    pub(super) fn new(area: Area) -> ReadOnlyArea {
        ReadOnlyArea { area }
    }

    /// The number of words.
    pub fn word_count(&self) -> usize {
        self.area.count
    }

    /// The version of the area's content.
    pub fn version(&self) -> u32 {
        self.area.version
    }

    /// Loads a word, relaxed: the only load that is guaranteed to work on read-only memory. A
    /// caller that needs an ordering adds an acquire fence.
    ///
    /// # Panics
    /// If there is no such word.
    pub fn load(&self, index: usize) -> u64 {
        self.area.word(index).load(Ordering::Relaxed)
    }
}

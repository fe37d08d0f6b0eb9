//! One area's words.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_sync::Words;

use super::layout::AreaPlace;
use crate::map;
use crate::participant::RegionId;

/// The words of one area of a [`Region`](super::Region); keeps the mapping.
#[derive(Clone, Debug)]
pub struct Area {
    map: Arc<map::Words>,
    first: usize,
    count: usize,
    version: u32,
    region: RegionId,
}

impl Area {
    /// `place` was checked against the size of the mapping.
    pub(super) fn new(map: &Arc<map::Words>, place: &AreaPlace, region: RegionId) -> Area {
        let words = place.words();
        assert!(words.end <= map.all().len(), "the area lies in the region");
        Area {
            map: Arc::clone(map),
            first: words.start,
            count: words.len(),
            version: place.version,
            region,
        }
    }

    /// Version of what lies there.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The region that it is a part of.
    pub fn region_id(&self) -> RegionId {
        self.region
    }

    /// Is it the same area of the same region, in whatever mapping?
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
        assert!(index < self.count, "there is no word {index}");
        &self.map.all()[self.first + index]
    }

    #[inline]
    fn all(&self) -> &[AtomicU64] {
        &self.map.all()[self.first..][..self.count]
    }
}

/// The words of one area of a region that is only read.
#[derive(Clone, Debug)]
pub struct ReadOnlyArea {
    area: Area,
}

impl ReadOnlyArea {
    pub(super) fn new(area: Area) -> ReadOnlyArea {
        ReadOnlyArea { area }
    }

    /// How many words there are.
    pub fn word_count(&self) -> usize {
        self.area.count
    }

    /// Version of what lies there.
    pub fn version(&self) -> u32 {
        self.area.version
    }

    /// A word as it is now, relaxed: the only load that is promised to work on memory that may not
    /// be written. Who needs an order puts an acquire fence behind it.
    ///
    /// # Panics
    /// If there is no such word.
    pub fn load(&self, index: usize) -> u64 {
        self.area.word(index).load(Ordering::Relaxed)
    }
}

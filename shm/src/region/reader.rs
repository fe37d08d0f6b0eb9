//! A region as read-only tools open it.

use std::path::Path;
use std::sync::Arc;

use super::area::{Area, ReadOnlyArea};
use super::error::{RegionError, RegionErrorKind};
use super::layout::{BarrierCode, Layout, NotUsable};
use super::open::rows_of;
use super::place::read_head;
use crate::file::{self, Access};
use crate::map;
use crate::participant::{FileLocks, Listed, Table, describe};
use crate::process::boot_id;

/// A region that is mapped read-only. A reader cannot pin memory, so the content may change while
/// it is read.
#[derive(Debug)]
pub struct RegionReader {
    map: Arc<map::Words>,
    layout: Layout,
    rows: Area,
    locks: FileLocks,
}

impl RegionReader {
    pub(super) fn open(path: &Path) -> Result<RegionReader, RegionError> {
        let (file, file_bytes) = file::open(path, Access::Read)?;
        let io = |doing| move |error| RegionError::io(Some(path), doing, error);
        let head = read_head(&file).map_err(io("read the file"))?;
        let unusable = |what| RegionError::at(Some(path), RegionErrorKind::Unusable { what });
        let layout = Layout::decode(&head, file_bytes).map_err(|why| match why {
            NotUsable::OtherLayout { .. } => {
                unusable("another version of this program made the region")
            }
            NotUsable::Damaged { what } => unusable(what),
        })?;
        if layout.boot_id != boot_id() {
            return Err(unusable("the region was made before the last boot of the machine"));
        }
        let map = map::Words::of_file_read_only(&file, layout.region_bytes as usize)
            .and_then(|words| words.leave_out_of_dumps().map(|()| Arc::new(words)))
            .map_err(io("map the file"))?;
        let (rows, locks) = rows_of(&map, file, &layout);
        Ok(RegionReader { map, layout, rows, locks })
    }

    /// The size of the file.
    pub fn bytes(&self) -> u64 {
        self.layout.region_bytes
    }

    /// Whether participants order publish-then-check by `membarrier`, rather than by fences.
    pub fn needs_membarrier(&self) -> bool {
        self.layout.barrier == BarrierCode::Membarrier
    }

    /// The region's random seed, on which the hashes of keys depend.
    pub fn seed(&self) -> [u8; 16] {
        self.layout.seed
    }

    /// The largest number of participants at one time.
    pub fn participants_max(&self) -> u32 {
        self.layout.participants_max
    }

    /// The area of this kind; `None` if the plan has none.
    pub fn area(&self, kind: u32) -> Option<ReadOnlyArea> {
        let place = self.layout.area(kind)?;
        Some(ReadOnlyArea::new(Area::new(&self.map, place, self.layout.id())))
    }

    /// All participants, including dead ones that were not swept yet.
    pub fn list(&self) -> Vec<Listed> {
        let row_count = self.participants_max();
        let table = Table { words: &self.rows, bytes: &self.locks, row_count };
        table.list().into_iter().map(describe).collect()
    }
}

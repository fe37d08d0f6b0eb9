//! Making a region or finding it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_sync::Barrier;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::rand::GetRandomFlags;

use super::area::Area;
use super::error::{RegionError, RegionErrorKind};
use super::layout::{BarrierCode, Layout, PARTICIPANTS_KIND};
use super::place::{self, Found, Place};
use super::reader::RegionReader;
use super::spec::RegionSpec;
use crate::map;
use crate::participant::{
    FileLocks, JoinError, Listed, Participant, ParticipantId, Table, describe,
};
use crate::process;

/// Memory that several processes share. Cloning gives another hold on the same memory.
#[derive(Clone, Debug)]
pub struct Region {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    map: Arc<map::Words>,
    layout: Layout,
    opened: Opened,
    rows: Area,
    locks: FileLocks,
}

/// How a region came to be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    /// Nothing was there.
    Created,
    /// It was there, made by another process of this boot.
    Attached,
    /// Something else was there; what was in it is lost to this program.
    Replaced {
        /// What was wrong with it.
        why: ReplacedWhy,
    },
}

/// Why the file that was there is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplacedWhy {
    /// It was made before the machine was started again.
    OtherBoot,
    /// A program with another format made it.
    OtherLayout {
        /// Its layout version.
        found: u32,
    },
    /// It has another size, other areas or another number of participants than was asked for.
    OtherPlan,
    /// It is no region, or it is broken.
    Damaged {
        /// What is wrong.
        what: &'static str,
        /// Where the old file is now.
        kept: PathBuf,
    },
}

impl Region {
    /// The region under this name; made if there is none of this plan and of this boot.
    ///
    /// Any number of processes may do this at the same instant: all get the same region. If they
    /// have different plans, the last one's is under the name and the others keep theirs.
    ///
    /// # Errors
    /// The plan is impossible, the file system is full, the directory or the file is another
    /// user's or no such thing, or the region needs `membarrier`, which this version does not use.
    pub fn open_or_create(path: &Path, spec: &RegionSpec) -> Result<Region, RegionError> {
        let mut plan = plan(Some(path), spec)?;
        let place = Place::open(path)?;
        if !place.has_left_over()
            && let Found::Usable(file, layout) = place.look(&plan)?
        {
            return Region::attach(path, file, layout);
        }
        place.lock()?;
        let opened = match place.look(&plan)? {
            Found::Usable(file, layout) => return Region::attach(path, file, layout),
            Found::Nothing => Opened::Created,
            Found::Unusable(why) => {
                place.clear(&why)?;
                Opened::Replaced { why }
            }
        };
        complete(Some(path), &mut plan)?;
        let (file, map) = place.make(&plan)?;
        Ok(Region::new(map, file, plan, opened))
    }

    /// A region without a name, gone with the last process that has it.
    ///
    /// # Errors
    /// The plan is impossible, there is not enough memory, or the system refuses.
    pub fn anonymous(spec: &RegionSpec) -> Result<Region, RegionError> {
        let mut plan = plan(None, spec)?;
        complete(None, &mut plan)?;
        let io = |doing| move |error: rustix::io::Errno| RegionError::io(None, doing, error);
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd: OwnedFd =
            rustix::fs::memfd_create("forebay-region", flags).map_err(io("make a memory file"))?;
        let file = File::from(fd);
        let map = place::fill(None, &file, &plan)?;
        // Shorter, it would be a bus error for everyone who maps it.
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)
            .map_err(io("seal the memory file"))?;
        Ok(Region::new(map, file, plan, Opened::Created))
    }

    /// The region under this name as a tool sees it, which cannot write and takes no part.
    ///
    /// # Errors
    /// There is no region of this boot and of a known layout, it is another user's, or the system
    /// refuses.
    pub fn attach_read_only(path: &Path) -> Result<RegionReader, RegionError> {
        RegionReader::open(path)
    }

    fn attach(path: &Path, file: File, layout: Layout) -> Result<Region, RegionError> {
        // This version makes no such region: see `forebay_sync::Barrier`.
        if layout.barrier == BarrierCode::Membarrier {
            return Err(RegionError::at(Some(path), RegionErrorKind::NoMembarrier));
        }
        let map = place::map_whole(Some(path), &file, &layout)?;
        Ok(Region::new(map, file, layout, Opened::Attached))
    }

    fn new(map: Arc<map::Words>, file: File, layout: Layout, opened: Opened) -> Region {
        let (rows, locks) = rows_of(&map, file, &layout);
        Region { shared: Arc::new(Shared { map, layout, opened, rows, locks }) }
    }

    /// How it came to be there.
    pub fn opened(&self) -> &Opened {
        &self.shared.opened
    }

    /// Size of the file.
    pub fn bytes(&self) -> u64 {
        self.shared.layout.region_bytes
    }

    /// How many participants there can be at one time; their rows are below this number.
    pub fn participants_max(&self) -> u32 {
        self.shared.layout.participants_max
    }

    /// How publish-then-check is kept in order by all who take part.
    pub fn barrier(&self) -> Barrier {
        // Whatever else the header may say, we have not attached.
        Barrier::fence()
    }

    /// Random bytes that all processes share, for hashes of keys that strangers choose.
    pub fn seed(&self) -> [u8; 16] {
        self.shared.layout.seed
    }

    /// The area of this kind; `None` if the plan has none.
    pub fn area(&self, kind: u32) -> Option<Area> {
        let place = self.shared.layout.area(kind)?;
        Some(Area::new(&self.shared.map, place))
    }

    /// Takes part.
    ///
    /// # Errors
    /// All rows are taken, or the system refuses.
    pub fn join(&self) -> Result<Participant, JoinError> {
        Participant::join(self)
    }

    /// Cleans up after each participant that is dead; gives their number. Sweeps may run at the
    /// same time in any thread: each dead participant is cleaned up by one of them.
    ///
    /// `clean_up` takes back what the dead one owned: its rows, its pins, its leases, its locks. It
    /// runs again for the same participant if its sweeper dies before it is done.
    ///
    /// # Errors
    /// The system refuses to lock a row; what was cleaned up until then is.
    pub fn sweep(&self, clean_up: impl FnMut(ParticipantId)) -> io::Result<u32> {
        self.table().sweep(clean_up)
    }

    /// All participants, the dead ones too that nobody has swept yet.
    pub fn list(&self) -> Vec<Listed> {
        self.table().list().into_iter().map(describe).collect()
    }

    pub(crate) fn table(&self) -> Table<'_, Area, FileLocks> {
        let row_count = self.participants_max();
        Table { words: &self.shared.rows, bytes: &self.shared.locks, row_count }
    }
}

/// The participants' rows and their locks; `check` saw that the area is there.
pub(super) fn rows_of(map: &Arc<map::Words>, file: File, layout: &Layout) -> (Area, FileLocks) {
    #[expect(clippy::expect_used, reason = "a layout without participants is never made")]
    let place = layout.area(PARTICIPANTS_KIND).expect("every layout has participants");
    (Area::new(map, place), FileLocks { file, rows_offset: place.offset })
}

fn plan(path: Option<&Path>, spec: &RegionSpec) -> Result<Layout, RegionError> {
    let mut plan = Layout::plan(spec).map_err(|kind| RegionError::at(path, kind))?;
    plan.boot_id = process::boot_id();
    if plan.boot_id == [0; 16] {
        let source = io::Error::from(io::ErrorKind::NotFound);
        return Err(RegionError::io(path, "tell this boot from another one", source));
    }
    Ok(plan)
}

/// Fills in what is different in each region that is made.
fn complete(path: Option<&Path>, plan: &mut Layout) -> Result<(), RegionError> {
    // Sixteen bytes come whole or not at all.
    rustix::rand::getrandom(&mut plan.seed, GetRandomFlags::empty())
        .map_err(|error| RegionError::io(path, "get random bytes", error))?;
    Ok(())
}

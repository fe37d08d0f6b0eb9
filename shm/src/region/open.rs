//! Making or opening a region.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use forebay_sync::Barrier;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::rand::GetRandomFlags;

use super::area::Area;
use super::error::{RegionError, RegionErrorKind};
use super::layout::{BarrierCode, FIRST_PROGRAM_KIND, Layout, PARTICIPANTS_KIND};
use super::place::{self, FoundFile, RegionPath};
use super::reader::RegionReader;
use super::spec::RegionSpec;
use super::unnamed::UnnamedRegion;
use crate::map;
use crate::participant::{
    Dead, FileLocks, JoinError, Listed, Participant, RegionId, Table, describe,
};
use crate::process;

/// The longest wait for another process that makes a region. Making some gigabytes takes a second,
/// so a process that needs longer than this is stopped or hangs.
const DIR_LOCK_WAIT: Duration = Duration::from_secs(10);

/// Memory that several processes share. A clone is another handle on the same memory.
#[derive(Clone, Debug)]
pub struct Region {
    shared: Arc<RegionMemory>,
}

#[derive(Debug)]
struct RegionMemory {
    map: Arc<map::Words>,
    layout: Layout,
    opened: Opened,
    rows: Area,
    locks: FileLocks,
}

/// How a region was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    /// There was no region.
    Created,
    /// Another process had made the region since the last boot.
    Attached,
    /// There was another file, which was replaced. Its content was not used.
    Replaced {
        /// The reason why the file was not used.
        why: ReplacedWhy,
    },
}

/// Why an existing file is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplacedWhy {
    /// The file was made before the last boot.
    OtherBoot,
    /// A program with another layout version made the file.
    OtherLayout {
        /// The layout version of the file.
        found: u32,
    },
    /// The region has another size, other areas or another number of participants than requested.
    OtherPlan,
    /// The file is not a region, or is damaged.
    Damaged {
        /// The damage.
        what: &'static str,
        /// The path of the old file now; `None` if it was removed to make room for the new one.
        kept: Option<PathBuf>,
    },
}

impl Region {
    /// Opens the region under this name, or makes it if there is no region of this plan and of this
    /// boot.
    ///
    /// Any number of processes may do this at the same time: all get the same region. If they have
    /// different plans, the region of the last process has the name, and the other processes keep
    /// their own regions. If there is no space for a new region beside an old region of another
    /// plan, the old region stays, and the call fails.
    ///
    /// A process that wants to change its user must do so before: the directory, the file and each
    /// [`join`](Region::join) belong to that user.
    ///
    /// # Errors
    /// The plan is impossible, the file system is full, the directory or the file is another user's
    /// or of another type, another process has been making a region in the directory for ten
    /// seconds, or the region needs `membarrier`, which this version does not use.
    pub fn open_or_create(path: &Path, spec: &RegionSpec) -> Result<Region, RegionError> {
        let mut plan = plan(Some(path), spec)?;
        let place = RegionPath::open(path)?;
        if let FoundFile::Usable(file, layout) = place.look(&plan)? {
            return Region::attach(path, file, layout);
        }
        let _lock = place.lock(DIR_LOCK_WAIT)?;
        let mut opened = match place.look(&plan)? {
            FoundFile::Usable(file, layout) => return Region::attach(path, file, layout),
            FoundFile::Nothing => Opened::Created,
            FoundFile::Unusable(why) => Opened::Replaced { why },
        };
        complete(Some(path), &mut plan)?;
        let (file, map) = replace(&place, &plan, &mut opened)?;
        Ok(Region::new(map, file, plan, opened))
    }

    /// Does the same as [`open_or_create`](Region::open_or_create), but a new region gets its name
    /// only by [`UnnamedRegion::name`], and the file that has the name stays until then. This is
    /// for a successor that may still fail, and must then leave the file to the process that uses
    /// it.
    ///
    /// # Errors
    /// The errors of [`open_or_create`](Region::open_or_create).
    pub fn prepare(path: &Path, spec: &RegionSpec) -> Result<(Region, UnnamedRegion), RegionError> {
        let mut plan = plan(Some(path), spec)?;
        let place = RegionPath::open(path)?;
        let lock = place.lock(DIR_LOCK_WAIT)?;
        let mut opened = match place.look(&plan)? {
            FoundFile::Usable(file, layout) => {
                // A killed process may have left a new file, which occupies as much space as the
                // region.
                place.give_up();
                return Ok((Region::attach(path, file, layout)?, UnnamedRegion::has_its_name()));
            }
            FoundFile::Nothing => Opened::Created,
            FoundFile::Unusable(why) => Opened::Replaced { why },
        };
        complete(Some(path), &mut plan)?;
        let (file, map) = place.make(&plan).map_err(|error| match opened {
            Opened::Replaced { .. } => error.beside_the_old(),
            _ => error,
        })?;
        let mut keep_damaged = false;
        if let Opened::Replaced { why: ReplacedWhy::Damaged { kept, .. } } = &mut opened {
            *kept = Some(place.kept_path());
            keep_damaged = true;
        }
        let unnamed = UnnamedRegion::made(&place, keep_damaged, lock);
        Ok((Region::new(map, file, plan, opened), unnamed))
    }

    /// Makes a region without a name, which ends with the last process that has it open.
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
        // A shorter file would be a bus error for every process that maps it.
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)
            .map_err(io("seal the memory file"))?;
        Ok(Region::new(map, file, plan, Opened::Created))
    }

    /// Opens the region under this name for a tool, which cannot write and is not a participant.
    ///
    /// # Errors
    /// There is no region of this boot and of a known layout, it is another user's, or the system
    /// refuses.
    pub fn attach_read_only(path: &Path) -> Result<RegionReader, RegionError> {
        RegionReader::open(path)
    }

    fn attach(path: &Path, file: File, layout: Layout) -> Result<Region, RegionError> {
        // This version makes no region with `membarrier`: see `forebay_sync::Barrier`.
        if layout.barrier == BarrierCode::Membarrier {
            return Err(RegionError::at(Some(path), RegionErrorKind::NoMembarrier));
        }
        let map = place::map_whole(Some(path), &file, &layout)?;
        Ok(Region::new(map, file, layout, Opened::Attached))
    }

    fn new(map: Arc<map::Words>, file: File, layout: Layout, opened: Opened) -> Region {
        let (rows, locks) = rows_of(&map, file, &layout);
        Region { shared: Arc::new(RegionMemory { map, layout, opened, rows, locks }) }
    }

    /// How the region was opened.
    pub fn opened(&self) -> &Opened {
        &self.shared.opened
    }

    /// The size of the file.
    pub fn bytes(&self) -> u64 {
        self.shared.layout.region_bytes
    }

    /// The largest number of participants at one time, which is the number of rows. The indexes of
    /// the rows are lower.
    pub fn participants_max(&self) -> u32 {
        self.shared.layout.participants_max
    }

    /// The barrier by which all participants order publish-then-check.
    pub fn barrier(&self) -> Barrier {
        // A region whose header names another barrier was refused when it was opened.
        Barrier::fence()
    }

    /// Random bytes that all processes share, for hashes of keys that attackers choose.
    pub fn seed(&self) -> [u8; 16] {
        self.shared.layout.seed
    }

    /// The identity of the region.
    pub fn id(&self) -> RegionId {
        self.shared.layout.id()
    }

    /// The program's area of this kind; `None` if the plan has none. The region does not hand out
    /// its own areas.
    pub fn area(&self, kind: u32) -> Option<Area> {
        if kind < FIRST_PROGRAM_KIND {
            return None;
        }
        let place = self.shared.layout.area(kind)?;
        Some(Area::new(&self.shared.map, place, self.id()))
    }

    #[cfg(test)]
    pub(super) fn rows(&self) -> &Area {
        &self.shared.rows
    }

    /// Joins the region as a participant. This opens the file once more, through `/proc/self/fd`.
    /// So `/proc` is needed, and a process that has changed its user since it opened the region
    /// cannot join any more.
    ///
    /// # Errors
    /// All rows are taken, or the system refuses.
    pub fn join(&self) -> Result<Participant, JoinError> {
        Participant::join(self)
    }

    /// Cleans up after each dead participant. Returns the number of these participants. Sweeps may
    /// run at the same time in any thread: only one sweep cleans up after each dead participant.
    ///
    /// `clean_up` releases everything that the dead participant owned: rows, pins, leases, locks.
    /// If the sweeper dies before the clean-up is done, another sweep runs `clean_up` again for the
    /// same participant.
    ///
    /// # Errors
    /// The system refuses to lock a row; the rows before it are cleaned up.
    pub fn sweep(&self, mut clean_up: impl FnMut(&Dead)) -> io::Result<u32> {
        self.table().sweep(|id| clean_up(&Dead::new(id, self.id())))
    }

    /// All participants, including dead ones that were not swept yet.
    pub fn list(&self) -> Vec<Listed> {
        self.table().list().into_iter().map(describe).collect()
    }

    pub(crate) fn table(&self) -> Table<'_, Area, FileLocks> {
        let row_count = self.participants_max();
        Table { words: &self.shared.rows, bytes: &self.shared.locks, row_count }
    }
}

/// Makes the new file and gives it the name of the old file. The old file is removed only after the
/// new file exists, or if no process can use the old file and its space is needed.
fn replace(
    place: &RegionPath,
    plan: &Layout,
    opened: &mut Opened,
) -> Result<(File, Arc<map::Words>), RegionError> {
    let mut made = place.make(plan);
    let mut may_be_kept = true;
    if let (Err(error), Opened::Replaced { why }) = (&made, &*opened)
        && let RegionErrorKind::NoSpace { .. } = &error.kind
    {
        if *why == ReplacedWhy::OtherPlan {
            made = made.map_err(RegionError::beside_the_old);
        } else {
            place.clear()?;
            may_be_kept = false;
            made = place.make(plan);
        }
    }
    let made = made?;
    match opened {
        Opened::Replaced { why: ReplacedWhy::Damaged { kept, .. } } => {
            *kept = place.name_it(may_be_kept)?;
        }
        _ => _ = place.name_it(false)?,
    }
    Ok(made)
}

/// The participants' rows and their locks. `Layout::check` has checked that the area of the rows
/// exists.
pub(super) fn rows_of(map: &Arc<map::Words>, file: File, layout: &Layout) -> (Area, FileLocks) {
    #[expect(clippy::expect_used, reason = "a layout without participants is never made")]
    let place = layout.area(PARTICIPANTS_KIND).expect("every layout has an area of participants");
    (Area::new(map, place, layout.id()), FileLocks { file, rows_offset: place.offset })
}

fn plan(path: Option<&Path>, spec: &RegionSpec) -> Result<Layout, RegionError> {
    let mut plan = Layout::plan(spec).map_err(|kind| RegionError::at(path, kind))?;
    plan.boot_id = process::boot_id();
    if plan.boot_id == [0; 16] {
        let source = io::Error::from(io::ErrorKind::NotFound);
        return Err(RegionError::io(path, "read the id of this boot of the machine", source));
    }
    Ok(plan)
}

thread_local! {
    static FIXED_SEED: Cell<Option<[u8; 16]>> = const { Cell::new(None) };
}

/// Sets the seed of all regions that this thread creates from now on, in place of random bytes.
/// This is for simulations, which must be repeatable. Regions in files need different seeds.
pub fn fix_seed_of_thread(seed: [u8; 16]) {
    FIXED_SEED.set(Some(seed));
}

/// Sets the seed of a new layout: the fixed seed of this thread, if any, or else random bytes.
fn complete(path: Option<&Path>, plan: &mut Layout) -> Result<(), RegionError> {
    if let Some(seed) = FIXED_SEED.get() {
        plan.seed = seed;
        return Ok(());
    }
    // Sixteen bytes are returned completely or not at all.
    rustix::rand::getrandom(&mut plan.seed, GetRandomFlags::empty())
        .map_err(|error| RegionError::io(path, "get random bytes", error))?;
    Ok(())
}

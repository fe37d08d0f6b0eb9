//! Making a region or finding it.

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
use super::place::{self, Found, Place};
use super::reader::RegionReader;
use super::spec::RegionSpec;
use super::unnamed::UnnamedRegion;
use crate::map;
use crate::participant::{
    Dead, FileLocks, JoinError, Listed, Participant, RegionId, Table, describe,
};
use crate::process;

/// Making a region takes a second for some gigabytes; who needs longer is stopped or hangs.
const DIR_LOCK_WAIT: Duration = Duration::from_secs(10);

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
        /// Where the old file is now; `None` if it had to make room for the new one.
        kept: Option<PathBuf>,
    },
}

impl Region {
    /// The region under this name; made if there is none of this plan and of this boot.
    ///
    /// Any number of processes may do this at the same instant: all get the same region. If they
    /// have different plans, the last one's is under the name and the others keep theirs. If there
    /// is no room for a new region beside one of another plan, the old one stays, and this fails.
    ///
    /// Who wants to become another user does so before: the directory, the file and each
    /// [`join`](Region::join) are that user's.
    ///
    /// # Errors
    /// The plan is impossible, the file system is full, the directory or the file is another
    /// user's or no such thing, another process has been making a region in the directory for ten
    /// seconds, or the region needs `membarrier`, which this version does not use.
    pub fn open_or_create(path: &Path, spec: &RegionSpec) -> Result<Region, RegionError> {
        let mut plan = plan(Some(path), spec)?;
        let place = Place::open(path)?;
        if let Found::Usable(file, layout) = place.look(&plan)? {
            return Region::attach(path, file, layout);
        }
        let _lock = place.lock(DIR_LOCK_WAIT)?;
        let mut opened = match place.look(&plan)? {
            Found::Usable(file, layout) => return Region::attach(path, file, layout),
            Found::Nothing => Opened::Created,
            Found::Unusable(why) => Opened::Replaced { why },
        };
        complete(Some(path), &mut plan)?;
        let (file, map) = replace(&place, &plan, &mut opened)?;
        Ok(Region::new(map, file, plan, opened))
    }

    /// As [`open_or_create`](Region::open_or_create), but a region that is made gets its name by
    /// [`UnnamedRegion::name`] only, and nothing is removed before, whatever it is: for who may
    /// still have to leave all to the process that uses what is there.
    ///
    /// # Errors
    /// As [`open_or_create`](Region::open_or_create).
    pub fn prepare(path: &Path, spec: &RegionSpec) -> Result<(Region, UnnamedRegion), RegionError> {
        let mut plan = plan(Some(path), spec)?;
        let place = Place::open(path)?;
        let lock = place.lock(DIR_LOCK_WAIT)?;
        let mut opened = match place.look(&plan)? {
            Found::Usable(file, layout) => {
                // What one that was killed has left behind takes as much room.
                place.give_up();
                return Ok((Region::attach(path, file, layout)?, UnnamedRegion::has_its_name()));
            }
            Found::Nothing => Opened::Created,
            Found::Unusable(why) => Opened::Replaced { why },
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

    /// Which region it is.
    pub fn id(&self) -> RegionId {
        self.shared.layout.id()
    }

    /// The program's area of this kind; `None` if the plan has none. What the region keeps for
    /// itself is not handed out.
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

    /// Takes part. This opens the file once more, through `/proc/self/fd`: `/proc` is needed, and a
    /// process that became another user since it opened the region can take part no more.
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
    pub fn sweep(&self, mut clean_up: impl FnMut(&Dead)) -> io::Result<u32> {
        self.table().sweep(|id| clean_up(&Dead::new(id, self.id())))
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

/// Makes the file and puts it in the place of what was found; what that was may be lost only when
/// it is known that there is a new one, or when nobody can use it and it takes up the room.
fn replace(
    place: &Place,
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

/// The participants' rows and their locks; `check` saw that the area is there.
pub(super) fn rows_of(map: &Arc<map::Words>, file: File, layout: &Layout) -> (Area, FileLocks) {
    #[expect(clippy::expect_used, reason = "a layout without participants is never made")]
    let place = layout.area(PARTICIPANTS_KIND).expect("every layout has participants");
    (Area::new(map, place, layout.id()), FileLocks { file, rows_offset: place.offset })
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

//! The file at a region's path: examining it, making a new file, and giving the new file the
//! region's name.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::error::{RegionError, RegionErrorKind};
use super::layout::{HEAD_BYTES_MAX, Layout, NotUsable};
use super::open::ReplacedWhy;
use crate::crash_point;
use crate::file;
use crate::map;
use crate::process;
use crate::robust_lock::{Futex, SystemFutex};

/// The shortest and the longest pause between two attempts to lock the directory. A process that
/// makes a region holds the lock for as long as the kernel takes to clear the pages.
const LOCK_PAUSE_MIN: Duration = Duration::from_micros(200);
const LOCK_PAUSE_MAX: Duration = Duration::from_millis(20);

/// The suffixes of a file that is being made, and of a damaged file that is kept.
const NEW: &str = ".new";
const DAMAGED: &str = ".damaged";

/// The path of a region, in a private directory that is open.
pub(super) struct RegionPath<'a> {
    path: &'a Path,
    parent: &'a Path,
    pub(super) dir: Arc<OwnedFd>,
    name: &'a OsStr,
}

/// The file at the region's path: none, a usable region, or a file that must be replaced.
pub(super) enum FoundFile {
    Nothing,
    Usable(File, Layout),
    Unusable(ReplacedWhy),
}

/// The right to make and to replace files in a directory. It is released explicitly, except in a
/// forked child, since a child has a copy of the descriptor.
#[derive(Debug)]
pub(super) struct DirLock {
    dir: Arc<OwnedFd>,
    pid: u32,
}

impl Drop for DirLock {
    fn drop(&mut self) {
        if self.pid == std::process::id() {
            // If the call fails, the lock is released with the last copy of the descriptor.
            let _ = rustix::fs::flock(&self.dir, FlockOperation::Unlock);
        }
    }
}

impl<'a> RegionPath<'a> {
    pub(super) fn open(path: &'a Path) -> Result<RegionPath<'a>, RegionError> {
        let (parent, name) = file::split(path)?;
        if [NEW, DAMAGED].iter().any(|suffix| name.as_bytes().ends_with(suffix.as_bytes())) {
            let what = format!(
                "names that end in {NEW} or {DAMAGED} belong to files beside a region; choose \
                 another name"
            );
            return Err(RegionError::at(Some(path), RegionErrorKind::Spec { what }));
        }
        Ok(RegionPath { path, parent, dir: Arc::new(file::open_private_dir(parent)?), name })
    }

    /// The path of a region whose directory is open already.
    pub(super) fn again(path: &'a Path, dir: &Arc<OwnedFd>) -> Result<RegionPath<'a>, RegionError> {
        let (parent, name) = file::split(path)?;
        Ok(RegionPath { path, parent, dir: Arc::clone(dir), name })
    }

    pub(super) fn path(&self) -> &'a Path {
        self.path
    }

    /// The path at which a damaged file is kept.
    pub(super) fn kept_path(&self) -> PathBuf {
        self.path.with_file_name(self.suffixed(DAMAGED))
    }

    /// Examines the file at the path: whether there is one, and whether it is a region of this plan
    /// and of this boot.
    pub(super) fn look(&self, plan: &Layout) -> Result<FoundFile, RegionError> {
        let Some((file, stat)) = self.open_file()? else {
            return Ok(FoundFile::Nothing);
        };
        let file_bytes = u64::try_from(stat.st_size).unwrap_or(0);
        let head = read_head(&file).map_err(|error| self.io("read the file", error))?;
        let why = match Layout::decode(&head, file_bytes).and_then(|layout| whole(layout, &stat)) {
            Ok(layout) if layout.boot_id != plan.boot_id => ReplacedWhy::OtherBoot,
            Ok(layout) if !layout.is_same_plan(plan) => ReplacedWhy::OtherPlan,
            Ok(layout) => return Ok(FoundFile::Usable(file, layout)),
            Err(NotUsable::OtherLayout { found }) => ReplacedWhy::OtherLayout { found },
            Err(NotUsable::Damaged { what }) => ReplacedWhy::Damaged { what, kept: None },
        };
        Ok(FoundFile::Unusable(why))
    }

    /// Locks the directory against other processes that make or replace files in it. Waits at most
    /// `at_most` for the lock: a stopped process would otherwise block all others.
    pub(super) fn lock(&self, at_most: Duration) -> Result<DirLock, RegionError> {
        let deadline = SystemFutex.now().saturating_add(at_most);
        let mut pause = LOCK_PAUSE_MIN;
        loop {
            match rustix::fs::flock(&self.dir, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::INTR) => continue,
                Err(Errno::WOULDBLOCK) => {}
                Err(error) => return Err(self.io("lock the directory", error)),
            }
            if SystemFutex.now() >= deadline {
                let kind = RegionErrorKind::Busy { waited: at_most };
                return Err(RegionError::at(Some(self.parent), kind));
            }
            pause_for(pause);
            pause = (pause * 2).min(LOCK_PAUSE_MAX);
        }
        let lock = DirLock { dir: Arc::clone(&self.dir), pid: std::process::id() };
        crash_point!("region.dir_locked");
        Ok(lock)
    }

    /// Makes and fills a new file under a temporary name. The file keeps this name until
    /// [`name_it`](RegionPath::name_it). The caller holds the lock. After an error there is no new
    /// file.
    pub(super) fn make(&self, layout: &Layout) -> Result<(File, Arc<map::Words>), RegionError> {
        self.remove(NEW, "remove the file that a dead process left")?;
        let made = self.make_temp(layout);
        if made.is_err() {
            // The file may not exist at all.
            self.give_up();
        }
        made
    }

    /// Removes the old file, and a damaged file that was kept earlier, to free their space.
    pub(super) fn clear(&self) -> Result<(), RegionError> {
        self.remove_named()?;
        crash_point!("region.cleared");
        self.remove(DAMAGED, "remove an older file")
    }

    /// Removes the file at the path.
    pub(super) fn remove_named(&self) -> Result<(), RegionError> {
        self.remove("", "remove the old file")
    }

    /// Removes the new file, which still has its temporary name. The caller holds the lock.
    pub(super) fn give_up(&self) {
        // If the file stays, the next process that makes a region removes it.
        let _ = self.remove(NEW, "");
    }

    /// Gives the new file the region's name, which replaces the old file. With `keep_damaged`, the
    /// old file is kept under another name. Returns the path at which the old file is kept.
    pub(super) fn name_it(&self, keep_damaged: bool) -> Result<Option<PathBuf>, RegionError> {
        let kept = if keep_damaged { self.keep_damaged().map(Some) } else { Ok(None) };
        let named = kept.and_then(|kept| {
            rustix::fs::renameat(&self.dir, self.suffixed(NEW), &self.dir, self.name)
                .map_err(|error| self.io("give the file its name", error))?;
            Ok(kept)
        });
        crash_point!("region.named");
        if named.is_err() {
            self.give_up();
        }
        named
    }

    fn keep_damaged(&self) -> Result<PathBuf, RegionError> {
        rustix::fs::renameat(&self.dir, self.name, &self.dir, self.suffixed(DAMAGED)).map_err(
            |error| self.in_the_way(DAMAGED, "move the damaged file to this name", error),
        )?;
        crash_point!("region.moved");
        Ok(self.kept_path())
    }

    fn remove(&self, suffix: &'static str, doing: &'static str) -> Result<(), RegionError> {
        match rustix::fs::unlinkat(&self.dir, self.suffixed(suffix), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(self.in_the_way(suffix, doing, error)),
        }
    }

    /// The error about the file with this suffix beside the region's file.
    fn in_the_way(&self, suffix: &str, doing: &'static str, error: Errno) -> RegionError {
        let path = self.path.with_file_name(self.suffixed(suffix));
        match error {
            Errno::ISDIR => RegionError::at(Some(&path), RegionErrorKind::NotAFile),
            other => RegionError::io(Some(&path), doing, other),
        }
    }

    fn make_temp(&self, layout: &Layout) -> Result<(File, Arc<map::Words>), RegionError> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.dir, self.suffixed(NEW), flags, Mode::RUSR | Mode::WUSR)
            .map_err(|error| self.io("make the file", error))?;
        let file = File::from(fd);
        crash_point!("region.file_made");
        let words = fill(Some(self.path), &file, layout)?;
        Ok((file, words))
    }

    fn open_file(&self) -> Result<Option<(File, Stat)>, RegionError> {
        // NONBLOCK: if the file is a pipe, opening it must not wait for the other end.
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = match rustix::fs::openat(&self.dir, self.name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO) => {
                return Err(self.at(RegionErrorKind::NotAFile));
            }
            Err(error) => return Err(self.io("open the file", error)),
        };
        let stat = rustix::fs::fstat(&fd)
            .map_err(|error| self.io("read the status of the file", error))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(self.at(RegionErrorKind::NotAFile));
        }
        if stat.st_uid != geteuid().as_raw() {
            return Err(self.at(RegionErrorKind::NotOurs { owner: stat.st_uid }));
        }
        Ok(Some((File::from(fd), stat)))
    }

    fn suffixed(&self, suffix: &str) -> OsString {
        let mut name = self.name.to_owned();
        name.push(suffix);
        name
    }

    fn at(&self, kind: RegionErrorKind) -> RegionError {
        RegionError::at(Some(self.path), kind)
    }

    fn io(&self, doing: &'static str, error: impl Into<std::io::Error>) -> RegionError {
        RegionError::io(Some(self.path), doing, error)
    }
}

/// Refuses a file with holes, such as a sparse copy: a store into a hole causes a bus error when
/// the disk is full.
fn whole(layout: Layout, stat: &Stat) -> Result<Layout, NotUsable> {
    if has_holes(&layout, stat) {
        return Err(NotUsable::Damaged { what: "it has holes" });
    }
    Ok(layout)
}

fn has_holes(layout: &Layout, stat: &Stat) -> bool {
    let allocated = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
    allocated < layout.region_bytes
}

/// The first bytes of a file, up to the longest header with its directory.
pub(super) fn read_head(file: &File) -> std::io::Result<Vec<u8>> {
    let mut head = vec![0; HEAD_BYTES_MAX];
    let mut filled = 0;
    while filled < head.len() {
        match file.read_at(&mut head[filled..], filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    head.truncate(filled);
    Ok(head)
}

/// Allocates all bytes of a new file, writes header and directory, and maps the file.
pub(super) fn fill(
    path: Option<&Path>,
    mut file: &File,
    layout: &Layout,
) -> Result<Arc<map::Words>, RegionError> {
    let need = layout.region_bytes;
    let room = || if path.is_some() { free_bytes(file) } else { process::available_memory() };
    let no_space =
        |have| RegionError::at(path, RegionErrorKind::NoSpace { need, have, old_is_kept: false });
    // The free space is checked first. An allocation that fills it harms other processes before it
    // fails: if the region is in memory, the system may kill them.
    if let Some(have) = room().filter(|have| *have < need) {
        return Err(no_space(have));
    }
    // With a sparse file, a later store on a full disk would end this process with SIGBUS.
    file::allocate(file, need).map_err(|error| match error {
        Errno::NOSPC | Errno::DQUOT | Errno::NOMEM => no_space(room().unwrap_or(0)),
        other => RegionError::io(path, "allocate the file", other),
    })?;
    // If the file system leaves holes nevertheless, every process would call this region damaged.
    let stat = rustix::fs::fstat(file)
        .map_err(|error| RegionError::io(path, "read the status of the file", error))?;
    if has_holes(layout, &stat) {
        let source = std::io::Error::from(std::io::ErrorKind::Unsupported);
        return Err(RegionError::io(
            path,
            "allocate the file without holes on its file system",
            source,
        ));
    }
    crash_point!("region.allocated");
    file.write_all(&layout.encode())
        .map_err(|error| RegionError::io(path, "write the file", error))?;
    crash_point!("region.written");
    map_whole(path, file, layout)
}

/// Maps a region whose file has the length that its layout states.
pub(super) fn map_whole(
    path: Option<&Path>,
    file: &File,
    layout: &Layout,
) -> Result<Arc<map::Words>, RegionError> {
    let mapped = map::Words::of_file(file, layout.region_bytes as usize)
        .and_then(|words| words.leave_out_of_dumps().map(|()| words));
    mapped.map(Arc::new).map_err(|error| RegionError::io(path, "map the file", error))
}

fn pause_for(time: Duration) {
    let request = rustix::thread::Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    };
    // A signal may end the sleep early, but the caller checks again anyway.
    let _ = rustix::thread::nanosleep(&request);
}

/// The free bytes of a file system; `None` if unknown, as for a tmpfs without a limit.
fn free_bytes(file: &File) -> Option<u64> {
    let stat = rustix::fs::fstatvfs(file).ok().filter(|stat| stat.f_blocks > 0)?;
    Some(stat.f_bfree.saturating_mul(stat.f_frsize))
}

//! The file under its name: looking at it, making it, putting it in its place.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::error::{RegionError, RegionErrorKind};
use super::layout::{HEAD_BYTES_MAX, Layout, NotUsable};
use super::open::ReplacedWhy;
use crate::crash_point;
use crate::file;
use crate::map;
use crate::robust_lock::{Futex, SystemFutex};

/// How often the directory's lock is tried while another process makes a region: that takes as long
/// as the kernel needs to clear its pages.
const LOCK_PAUSE_MIN: Duration = Duration::from_micros(200);
const LOCK_PAUSE_MAX: Duration = Duration::from_millis(20);

/// A name in a private directory.
pub(super) struct Place<'a> {
    path: &'a Path,
    parent: &'a Path,
    pub(super) dir: OwnedFd,
    name: &'a OsStr,
}

/// What lies under the name.
pub(super) enum Found {
    Nothing,
    Usable(File, Layout),
    Unusable(ReplacedWhy),
}

/// The right to make and to replace files in a directory. Released by hand, since a child that was
/// forked off meanwhile has a copy of the descriptor; but not by the child.
pub(super) struct DirLock<'a> {
    dir: &'a OwnedFd,
    pid: u32,
}

impl Drop for DirLock<'_> {
    fn drop(&mut self) {
        if self.pid == std::process::id() {
            // If it fails, the lock goes with the last copy of the descriptor.
            let _ = rustix::fs::flock(self.dir, FlockOperation::Unlock);
        }
    }
}

impl<'a> Place<'a> {
    pub(super) fn open(path: &'a Path) -> Result<Place<'a>, RegionError> {
        let (parent, name) = file::split(path)?;
        Ok(Place { path, parent, dir: file::open_private_dir(parent)?, name })
    }

    /// What is there, and is it a region of this plan and of this boot?
    pub(super) fn look(&self, plan: &Layout) -> Result<Found, RegionError> {
        let Some((file, file_bytes)) = self.open_file()? else {
            return Ok(Found::Nothing);
        };
        let head = read_head(&file).map_err(|error| self.io("read the file", error))?;
        let why = match Layout::decode(&head, file_bytes) {
            Ok(layout) if layout.boot_id != plan.boot_id => ReplacedWhy::OtherBoot,
            Ok(layout) if !layout.is_same_plan(plan) => ReplacedWhy::OtherPlan,
            Ok(layout) => return Ok(Found::Usable(file, layout)),
            Err(NotUsable::OtherLayout { found }) => ReplacedWhy::OtherLayout { found },
            Err(NotUsable::Damaged { what }) => ReplacedWhy::Damaged {
                what,
                kept: self.path.with_file_name(self.suffixed("damaged")),
            },
        };
        Ok(Found::Unusable(why))
    }

    /// Did somebody die while making the file?
    pub(super) fn has_left_over(&self) -> bool {
        rustix::fs::statat(&self.dir, self.suffixed("new"), AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Waits until nobody else makes or replaces files in this directory, but not longer than
    /// `at_most`: one that is stopped would hold up all others.
    pub(super) fn lock(&self, at_most: Duration) -> Result<DirLock<'_>, RegionError> {
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
        let lock = DirLock { dir: &self.dir, pid: std::process::id() };
        crash_point!("region.dir_locked");
        match rustix::fs::unlinkat(&self.dir, self.suffixed("new"), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(lock),
            Err(error) => Err(self.io("remove what a dead process left", error)),
        }
    }

    /// Takes what is under the name out of the way; the caller holds the lock.
    pub(super) fn clear(&self, why: &ReplacedWhy) -> Result<(), RegionError> {
        let cleared = match why {
            ReplacedWhy::Damaged { .. } => {
                rustix::fs::renameat(&self.dir, self.name, &self.dir, self.suffixed("damaged"))
            }
            _ => rustix::fs::unlinkat(&self.dir, self.name, AtFlags::empty()),
        };
        crash_point!("region.cleared");
        cleared.map_err(|error| self.io("take away the old file", error))
    }

    /// Makes the file and gives it its name; the caller holds the lock and the name is free.
    pub(super) fn make(&self, layout: &Layout) -> Result<(File, Arc<map::Words>), RegionError> {
        let temp_name = self.suffixed("new");
        let made = self.make_temp(&temp_name, layout).and_then(|made| {
            rustix::fs::renameat(&self.dir, &temp_name, &self.dir, self.name)
                .map_err(|error| self.io("give the file its name", error))?;
            Ok(made)
        });
        if made.is_err() {
            // It may not have been made at all; there is nothing better to do if this fails.
            let _ = rustix::fs::unlinkat(&self.dir, &temp_name, AtFlags::empty());
        }
        crash_point!("region.named");
        made
    }

    fn make_temp(
        &self,
        temp_name: &OsStr,
        layout: &Layout,
    ) -> Result<(File, Arc<map::Words>), RegionError> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.dir, temp_name, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|error| self.io("make the file", error))?;
        let file = File::from(fd);
        crash_point!("region.file_made");
        let words = fill(Some(self.path), &file, layout)?;
        Ok((file, words))
    }

    fn open_file(&self) -> Result<Option<(File, u64)>, RegionError> {
        // NONBLOCK: a pipe in the file's place must not keep us waiting for its other end.
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = match rustix::fs::openat(&self.dir, self.name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO) => {
                return Err(self.at(RegionErrorKind::NotAFile));
            }
            Err(error) => return Err(self.io("open the file", error)),
        };
        let stat = rustix::fs::fstat(&fd).map_err(|error| self.io("look at the file", error))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(self.at(RegionErrorKind::NotAFile));
        }
        if stat.st_uid != geteuid().as_raw() {
            return Err(self.at(RegionErrorKind::NotOurs { owner: stat.st_uid }));
        }
        Ok(Some((File::from(fd), u64::try_from(stat.st_size).unwrap_or(0))))
    }

    fn suffixed(&self, suffix: &str) -> OsString {
        let mut name = self.name.to_owned();
        name.push(".");
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

/// The first bytes of a file, as many as a header and a directory can have.
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

/// Allocates a new file whole, writes header and directory, maps it.
pub(super) fn fill(
    path: Option<&Path>,
    mut file: &File,
    layout: &Layout,
) -> Result<Arc<map::Words>, RegionError> {
    // A sparse file would end this process with SIGBUS when the disk is full, at some later store.
    file::allocate(file, layout.region_bytes).map_err(|error| match error {
        Errno::NOSPC | Errno::DQUOT | Errno::NOMEM => {
            let (need, have) = (layout.region_bytes, free_bytes(file));
            RegionError::at(path, RegionErrorKind::NoSpace { need, have })
        }
        other => RegionError::io(path, "allocate the file", other),
    })?;
    crash_point!("region.allocated");
    file.write_all(&layout.encode())
        .map_err(|error| RegionError::io(path, "write the file", error))?;
    crash_point!("region.written");
    map_whole(path, file, layout)
}

/// Maps a region that is known to be as long as its layout says.
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
    // Interrupted, it was shorter: the caller looks again anyway.
    let _ = rustix::thread::nanosleep(&request);
}

fn free_bytes(file: &File) -> u64 {
    rustix::fs::fstatvfs(file).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize))
}

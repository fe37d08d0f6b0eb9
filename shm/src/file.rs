//! Creating and opening files, so that no other user can put another file in their place.
//!
//! A file is created and named relative to a directory that was opened and checked once, so
//! renaming that directory at the same time has no effect. A link in place of a file or of its
//! directory is not followed.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FallocateFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, geteuid, getrlimit};

use crate::error::{CounterError, CounterErrorKind};
use crate::map::Words;

/// Makes the last directory of `path` with mode 0700 if it does not exist, and checks that it
/// belongs to this user and that no other user is allowed to enter it.
///
/// # Errors
/// The directory cannot be made, is a link, belongs to another user, or may be entered by other
/// users.
pub fn create_private_dir(path: &Path) -> Result<(), CounterError> {
    open_private_dir(path).map(drop)
}

/// Checks an existing directory as [`create_private_dir`] does. Makes no directory.
///
/// # Errors
/// The directory does not exist, is a link, belongs to another user, or may be entered by other
/// users.
pub fn check_private_dir(path: &Path) -> Result<(), CounterError> {
    open_checked_dir(path).map(drop)
}

pub(crate) fn open_private_dir(path: &Path) -> Result<OwnedFd, CounterError> {
    match rustix::fs::mkdir(path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(CounterError::io(path, "make the directory", error)),
    }
    open_checked_dir(path)
}

fn open_checked_dir(path: &Path) -> Result<OwnedFd, CounterError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::open(path, flags, Mode::empty())
        .map_err(|error| CounterError::io(path, "open the directory", error))?;
    let stat = rustix::fs::fstat(&dir)
        .map_err(|error| CounterError::io(path, "read the status of the directory", error))?;
    if stat.st_uid != geteuid().as_raw() {
        return Err(CounterError::at(path, CounterErrorKind::NotOurs { owner: stat.st_uid }));
    }
    let mode = stat.st_mode & 0o7777;
    if mode & 0o077 != 0 {
        return Err(CounterError::at(path, CounterErrorKind::NotPrivate { mode }));
    }
    Ok(dir)
}

/// Splits a path into the directory and the name of the file.
pub(crate) fn split(path: &Path) -> Result<(&Path, &OsStr), CounterError> {
    let Some(name) = path.file_name() else {
        return Err(CounterError::at(path, CounterErrorKind::NotAFile));
    };
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => Ok((parent, name)),
        _ => Ok((Path::new("."), name)),
    }
}

/// A complete file that still has its temporary name. Dropping the `TempName` removes the file.
#[derive(Debug)]
pub(crate) struct TempName {
    dir: OwnedFd,
    temp_name: OsString,
    path: PathBuf,
    is_named: bool,
}

impl TempName {
    /// Gives the file its name, and replaces an older file of that name.
    pub(crate) fn name(mut self) -> Result<(), CounterError> {
        let (_, name) = split(&self.path)?;
        rustix::fs::renameat(&self.dir, &self.temp_name, &self.dir, name)
            .map_err(|error| CounterError::io(&self.path, "give the file its name", error))?;
        self.is_named = true;
        Ok(())
    }
}

impl Drop for TempName {
    fn drop(&mut self) {
        if !self.is_named {
            // The file may not exist at all, and a failure has no remedy.
            let _ = rustix::fs::unlinkat(&self.dir, &self.temp_name, AtFlags::empty());
        }
    }
}

/// Makes a file of `bytes` bytes that starts with `head`, and maps it for reading and writing.
pub(crate) fn make(
    path: &Path,
    head: &[u8],
    bytes: usize,
) -> Result<(Words, TempName), CounterError> {
    let (parent, name) = split(path)?;
    let dir = open_private_dir(parent)?;
    let mut temp_name = name.to_owned();
    temp_name.push(format!(".{}.new", std::process::id()));
    let temp = TempName { dir, temp_name, path: path.to_owned(), is_named: false };
    let file = make_temp(&temp.dir, Path::new(&temp.temp_name))
        .map_err(|error| CounterError::io(path, "make the file", error))?;
    Ok((fill(path, file, head, bytes)?, temp))
}

/// Makes the file under its temporary name, and replaces an existing file of that name. A dead
/// process with this process's number may have left such a file. No living process uses the name,
/// since the directory belongs to this user alone.
fn make_temp(dir: &OwnedFd, temp_name: &Path) -> Result<File, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let make = || rustix::fs::openat(dir, temp_name, flags, Mode::RUSR | Mode::WUSR);
    let made = match make() {
        Err(Errno::EXIST) => {
            rustix::fs::unlinkat(dir, temp_name, AtFlags::empty())?;
            make()
        }
        other => other,
    };
    made.map(File::from)
}

fn fill(path: &Path, mut file: File, head: &[u8], bytes: usize) -> Result<Words, CounterError> {
    // With a sparse file, the first count on a full disk would end this process with SIGBUS.
    allocate(&file, bytes as u64).map_err(|error| match error {
        Errno::NOSPC | Errno::DQUOT => {
            CounterError::at(path, CounterErrorKind::NoSpace { bytes: bytes as u64 })
        }
        other => CounterError::io(path, "allocate the file", other),
    })?;
    file.write_all(head).map_err(|error| CounterError::io(path, "write the file", error))?;
    Words::of_file(&file, bytes).map_err(|error| CounterError::io(path, "map the file", error))
}

/// The number of bytes that one system call allocates. Some kernels undo a whole allocation that a
/// signal interrupts, so a large allocation would never finish in a process with a periodic timer.
const SLICE_BYTES: u64 = 64 << 20;

/// Allocates all bytes of a file, so that no later store can find the disk full.
pub(crate) fn allocate(file: &File, bytes: u64) -> Result<(), Errno> {
    // Beyond its limit, the process would be killed by SIGXFSZ instead of getting an error.
    if getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < bytes) {
        return Err(Errno::FBIG);
    }
    for (offset, slice_bytes) in slices(bytes) {
        loop {
            match rustix::fs::fallocate(file, FallocateFlags::empty(), offset, slice_bytes) {
                Err(Errno::INTR) => continue,
                other => break other?,
            }
        }
    }
    Ok(())
}

fn slices(bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let offsets = (0..bytes.div_ceil(SLICE_BYTES)).map(|index| index * SLICE_BYTES);
    offsets.map(move |offset| (offset, SLICE_BYTES.min(bytes - offset)))
}

/// The identity of a file, whatever its name. No other file gets the same identity while this file
/// is open or mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub(crate) fn of(found: &Metadata) -> FileId {
        FileId { device: found.dev(), inode: found.ino() }
    }
}

/// The purpose for which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    /// For reading and writing.
    Write,
}

/// Opens an existing file of this user; returns the file and its length. The superuser may open
/// files of any user.
pub(crate) fn open(path: &Path, access: Access) -> Result<(File, u64), CounterError> {
    // NONBLOCK: if the file is a pipe, opening it must not wait for the other end.
    let kept_out = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let flags = kept_out
        | match access {
            Access::Read => OFlags::RDONLY,
            Access::Write => OFlags::RDWR,
        };
    let fd = rustix::fs::open(path, flags, Mode::empty())
        .map_err(|error| CounterError::io(path, "open the file", error))?;
    let stat = rustix::fs::fstat(&fd)
        .map_err(|error| CounterError::io(path, "read the status of the file", error))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(CounterError::at(path, CounterErrorKind::NotAFile));
    }
    let us = geteuid();
    if stat.st_uid != us.as_raw() && !us.is_root() {
        return Err(CounterError::at(path, CounterErrorKind::NotOurs { owner: stat.st_uid }));
    }
    Ok((File::from(fd), u64::try_from(stat.st_size).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_cover_everything_once() {
        for bytes in [1, 4096, SLICE_BYTES - 1, SLICE_BYTES, SLICE_BYTES + 1, 3 * SLICE_BYTES] {
            let mut end = 0;
            for (offset, slice_bytes) in slices(bytes) {
                assert_eq!(offset, end, "of {bytes}");
                assert!((1..=SLICE_BYTES).contains(&slice_bytes), "of {bytes}");
                end += slice_bytes;
            }
            assert_eq!(end, bytes);
        }
    }
}

//! A directory that one server owns alone, and can hand over without a gap.
//!
//! The guard is a write lock of the open file description of `server.lock` in the directory. The
//! kernel releases it with the last descriptor of that description, however the process ends. A
//! successor that receives such a descriptor (over a Unix socket) holds the same lock, so no third
//! process can get the lock during the handover.
//!
//! The file holds the owner's process number, for messages only. The file is never removed:
//! otherwise one server could lock the old file, which it still has open, while another server
//! locks a new file of the same name.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use rustix::fs::{AtFlags, Mode, OFlags};

use crate::error::CounterError;
use crate::file::open_private_dir;

const NAME: &str = "server.lock";

/// The number of bytes of `server.lock` that are read. A process number has at most ten digits.
const PID_BYTES_MAX: usize = 16;

/// The exclusive right to use a directory. It lasts as long as the guard lives in this process, or
/// in a process to which the guard's descriptor was handed over.
///
/// The lock is not released explicitly, because that would release it for the successor, too. So
/// the holder must not fork children that live on without executing another program.
#[derive(Debug)]
pub struct DirGuard {
    dir: PathBuf,
    id: DirId,
    file: File,
}

/// The identity of a directory, whatever its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirId {
    /// The device of the directory.
    pub device: u64,
    /// The inode number of the directory on that device.
    pub inode: u64,
}

/// Why a directory cannot be taken.
#[derive(Debug)]
pub enum GuardError {
    /// The directory cannot be made or opened, or other users may enter it.
    Dir(CounterError),
    /// Another process owns the directory.
    Held {
        /// The directory.
        dir: PathBuf,
        /// The owner's process number, as the file states it.
        pid: Option<u32>,
    },
    /// The descriptor that was handed over is not the lock of this directory.
    NotItsLock {
        /// The directory.
        dir: PathBuf,
    },
    /// The system refused.
    Io {
        /// The directory.
        dir: PathBuf,
        /// The failed action, to be read after "cannot".
        doing: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

impl DirId {
    /// The directory at a path; `None` if there is none.
    pub fn of(dir: &Path) -> Option<DirId> {
        let found = std::fs::metadata(dir).ok()?;
        Some(DirId { device: found.dev(), inode: found.ino() })
    }
}

impl DirGuard {
    /// Takes a directory. Makes it first, with mode 0700, if it does not exist.
    ///
    /// # Errors
    /// See [`GuardError`].
    pub fn take(dir: &Path) -> Result<DirGuard, GuardError> {
        let opened = open_private_dir(dir).map_err(GuardError::Dir)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&opened, NAME, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|error| io_error(dir, "open server.lock", error))?;
        let guard = DirGuard::locked(dir, &opened, file.into())?;
        guard.sign()?;
        Ok(guard)
    }

    /// Takes over a directory from the process that handed over `descriptor`. The file holds the
    /// number of that process until [`DirGuard::sign`] is called.
    ///
    /// # Errors
    /// See [`GuardError`].
    pub fn adopt(dir: &Path, descriptor: OwnedFd) -> Result<DirGuard, GuardError> {
        let opened = open_private_dir(dir).map_err(GuardError::Dir)?;
        let passed = rustix::fs::fstat(&descriptor);
        let found = rustix::fs::statat(&opened, NAME, AtFlags::SYMLINK_NOFOLLOW);
        let is_same = passed.is_ok_and(|passed| {
            let of_passed = (passed.st_dev, passed.st_ino);
            found.is_ok_and(|found| (found.st_dev, found.st_ino) == of_passed)
        });
        if !is_same {
            return Err(GuardError::NotItsLock { dir: dir.to_owned() });
        }
        DirGuard::locked(dir, &opened, descriptor.into())
    }

    /// Locks `file`, and makes the guard. If the lock is already held through the same description,
    /// the lock does not change.
    fn locked(dir: &Path, opened: &OwnedFd, file: File) -> Result<DirGuard, GuardError> {
        let all = libc::flock {
            l_type: libc::F_WRLCK as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: 0,
            l_len: 0,
            l_pid: 0,
        };
        match fcntl(&file, FcntlArg::F_OFD_SETLK(&all)) {
            Ok(_) => {}
            Err(Errno::EAGAIN | Errno::EACCES) => {
                return Err(GuardError::Held { dir: dir.to_owned(), pid: owner(&file) });
            }
            Err(error) => return Err(io_error(dir, "lock server.lock", error)),
        }
        let stat = rustix::fs::fstat(opened)
            .map_err(|error| io_error(dir, "read the status of the directory", error))?;
        let id = DirId { device: stat.st_dev, inode: stat.st_ino };
        Ok(DirGuard { dir: dir.to_owned(), id, file })
    }

    /// Writes this process's number into the file.
    ///
    /// # Errors
    /// The system refuses, such as on a full disk.
    pub fn sign(&self) -> Result<(), GuardError> {
        let text = format!("{}\n", std::process::id());
        let written = self.file.write_all_at(text.as_bytes(), 0);
        written
            .and_then(|()| self.file.set_len(text.len() as u64))
            .map_err(|error| io_error(&self.dir, "write server.lock", error))
    }

    /// Whether the directory, or the lock's file in it, was deleted since the guard was taken. Then
    /// no other process can find the lock that this guard holds.
    pub fn is_deleted(&self) -> bool {
        rustix::fs::fstat(&self.file).is_ok_and(|stat| stat.st_nlink == 0)
    }

    /// The path of the directory, as given.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The identity of the directory.
    pub fn id(&self) -> DirId {
        self.id
    }
}

impl AsFd for DirGuard {
    /// The descriptor to hand over to a successor.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The owner's process number, as the file states it; `None` if it is not written yet.
fn owner(file: &File) -> Option<u32> {
    let mut text = [0; PID_BYTES_MAX];
    let count = file.read_at(&mut text, 0).ok()?;
    str::from_utf8(text.get(..count)?).ok()?.trim_end().parse().ok()
}

fn io_error(dir: &Path, doing: &'static str, source: impl Into<io::Error>) -> GuardError {
    GuardError::Io { dir: dir.to_owned(), doing, source: source.into() }
}

impl fmt::Display for GuardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GuardError::Dir(error) => error.fmt(f),
            GuardError::Held { dir, pid: Some(pid) } => {
                write!(
                    f,
                    "{}: the directory is in use by process {pid}; stop that process, or choose \
                     another directory",
                    dir.display()
                )
            }
            GuardError::Held { dir, pid: None } => {
                write!(
                    f,
                    "{}: the directory is in use by another process, which `fuser {NAME}` in the \
                     directory names; stop that process, or choose another directory",
                    dir.display()
                )
            }
            GuardError::NotItsLock { dir } => {
                write!(
                    f,
                    "{}: the old process handed over the lock of another directory; the new \
                     process must use the directory of the old process",
                    dir.display()
                )
            }
            GuardError::Io { dir, doing, source } => {
                write!(f, "{}: cannot {doing}: {source}", dir.display())
            }
        }
    }
}

impl std::error::Error for GuardError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            GuardError::Dir(error) => Some(error),
            GuardError::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn fresh() -> (tempfile::TempDir, PathBuf) {
        let outer = tempfile::tempdir().unwrap();
        let dir = outer.path().join("cache");
        (outer, dir)
    }

    #[test]
    fn a_directory_has_one_owner_until_its_last_descriptor_is_closed() {
        let (_outer, dir) = fresh();
        let first = DirGuard::take(&dir).unwrap();
        assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o7777, 0o700);
        assert_eq!(DirId::of(&dir), Some(first.id()));
        let refused = DirGuard::take(&dir).unwrap_err().to_string();
        let ours = format!("in use by process {}", std::process::id());
        assert!(refused.contains(&ours), "{refused}");

        let passed_on = first.as_fd().try_clone_to_owned().unwrap();
        let second = DirGuard::adopt(&dir, passed_on).unwrap();
        second.sign().unwrap();
        drop(first);
        assert!(
            matches!(DirGuard::take(&dir), Err(GuardError::Held { .. })),
            "the directory was free during the handover"
        );
        drop(second);
        DirGuard::take(&dir).unwrap();
    }

    #[test]
    fn only_the_lock_of_the_directory_itself_is_adopted() {
        let (_outer, dir) = fresh();
        let (_other_outer, other_dir) = fresh();
        let other = DirGuard::take(&other_dir).unwrap();
        let passed_on = other.as_fd().try_clone_to_owned().unwrap();
        let refused = DirGuard::adopt(&dir, passed_on).unwrap_err();
        assert!(matches!(refused, GuardError::NotItsLock { .. }), "{refused}");

        let held = DirGuard::take(&dir).unwrap();
        let not_locked = fs::File::open(dir.join(NAME)).unwrap();
        assert!(
            DirGuard::adopt(&dir, not_locked.into()).is_err(),
            "adopted an unlocked file while {held:?} is held"
        );
    }

    #[test]
    fn what_others_could_have_put_there_is_refused() {
        let (outer, dir) = fresh();
        fs::create_dir(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(
            matches!(DirGuard::take(&dir), Err(GuardError::Dir(_))),
            "took a directory that other users may enter"
        );
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        let link = outer.path().join("link");
        symlink(&dir, &link).unwrap();
        assert!(
            matches!(DirGuard::take(&link), Err(GuardError::Dir(_))),
            "took a link to the directory"
        );
        symlink(outer.path().join("elsewhere"), dir.join(NAME)).unwrap();
        assert!(
            matches!(DirGuard::take(&dir), Err(GuardError::Io { .. })),
            "opened a link in place of the lock file"
        );
        assert!(!outer.path().join("elsewhere").exists());
    }
}

//! Locks on bytes of the region's file, held by open file descriptions.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use super::table::{ByteLocks, ROW_WORDS};
use crate::map::WORD_BYTES;

/// The lockable bytes of all rows. The file is an open file description that never locks a byte
/// itself.
#[derive(Debug)]
pub(crate) struct FileLocks {
    pub(crate) file: File,
    /// The offset of the first row in the file.
    pub(crate) rows_offset: u64,
}

impl FileLocks {
    fn byte_of(&self, row: u32, kind: libc::c_int) -> libc::flock {
        let offset = self.rows_offset + u64::from(row) * (ROW_WORDS * WORD_BYTES) as u64;
        libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            // The size of the file is a number that the system can represent.
            l_start: offset as libc::off_t,
            l_len: 1,
            l_pid: 0,
        }
    }
}

/// A locked byte, unlocked explicitly on drop, except in a forked child. Closing the file would not
/// be enough: a child that has not yet executed another program has a copy of the descriptor, and
/// the lock lasts until the last copy is closed. An explicit unlock counts for all copies.
#[derive(Debug)]
pub(crate) struct HeldByte {
    file: File,
    unlock: libc::flock,
    pid: u32,
}

impl HeldByte {
    /// Whether this process locked the byte; false in a child of that process.
    pub(crate) fn is_ours(&self) -> bool {
        self.pid == std::process::id()
    }
}

impl Drop for HeldByte {
    fn drop(&mut self) {
        if self.is_ours() {
            // If the call fails, the lock is released with the last copy of the descriptor.
            let _ = fcntl(&self.file, FcntlArg::F_OFD_SETLK(&self.unlock));
        }
    }
}

impl ByteLocks for FileLocks {
    type Held = HeldByte;

    fn try_lock(&self, row: u32) -> io::Result<Option<HeldByte>> {
        let file = open_again(&self.file)?;
        match fcntl(&file, FcntlArg::F_OFD_SETLK(&self.byte_of(row, libc::F_WRLCK))) {
            Ok(_) => {
                let unlock = self.byte_of(row, libc::F_UNLCK);
                Ok(Some(HeldByte { file, unlock, pid: std::process::id() }))
            }
            Err(Errno::EAGAIN | Errno::EACCES) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn is_locked(&self, row: u32) -> bool {
        let mut byte = self.byte_of(row, libc::F_WRLCK);
        let asked = fcntl(&self.file, FcntlArg::F_OFD_GETLK(&mut byte));
        if asked.is_err() || byte.l_type != libc::F_UNLCK as libc::c_short {
            return true;
        }
        // If no byte of the file is locked, the kernel may have answered without taking its own
        // lock. Unlocking a byte that this description never locked changes nothing, but takes the
        // kernel's lock. So this thread sees everything that the dead participant did.
        let nothing = self.byte_of(row, libc::F_UNLCK);
        fcntl(&self.file, FcntlArg::F_OFD_SETLK(&nothing)).is_err()
    }
}

/// Opens another description of the same file, even if the file has no name any more. The
/// descriptor is closed on exec, as with all files that the standard library opens. The open fails
/// if the process has changed its user and is no longer allowed to open the file.
fn open_again(file: &File) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    File::options().read(true).write(true).open(&path).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot open the region again as {path}: {error}"))
    })
}

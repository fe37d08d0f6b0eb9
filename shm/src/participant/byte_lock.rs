//! Locks on bytes of the region's file, held by open file descriptions.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use super::table::{ByteLocks, ROW_WORDS};
use crate::map::WORD_BYTES;

/// The bytes of all rows, seen through a description that never locks any of them itself.
#[derive(Debug)]
pub(crate) struct FileLocks {
    pub(crate) file: File,
    /// Where the first row lies in the file.
    pub(crate) rows_offset: u64,
}

impl FileLocks {
    fn byte_of(&self, row: u32, kind: libc::c_int) -> libc::flock {
        let offset = self.rows_offset + u64::from(row) * (ROW_WORDS * WORD_BYTES) as u64;
        libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            // The file's size is a number that the system could represent.
            l_start: offset as libc::off_t,
            l_len: 1,
            l_pid: 0,
        }
    }
}

impl ByteLocks for FileLocks {
    type Held = File;

    fn try_lock(&self, row: u32) -> io::Result<Option<File>> {
        let own = open_again(&self.file)?;
        match fcntl(&own, FcntlArg::F_OFD_SETLK(&self.byte_of(row, libc::F_WRLCK))) {
            Ok(_) => Ok(Some(own)),
            Err(Errno::EAGAIN | Errno::EACCES) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn is_locked(&self, row: u32) -> bool {
        let mut byte = self.byte_of(row, libc::F_WRLCK);
        let asked = fcntl(&self.file, FcntlArg::F_OFD_GETLK(&mut byte));
        asked.is_err() || byte.l_type != libc::F_UNLCK as libc::c_short
    }
}

/// Another description of the same file, whatever name that has now, or none. Closed on exec, as
/// all files that the standard library opens.
fn open_again(file: &File) -> io::Result<File> {
    File::options().read(true).write(true).open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

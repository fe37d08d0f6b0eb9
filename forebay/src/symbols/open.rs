//! Opens programs for reading. A profile may name any path, so each file is checked before it is
//! read.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use addr2line::Loader;
use rustix::fs::{Mode, OFlags, open};

/// Size in bytes of the largest file that is read. No program is larger, even with debug
/// information.
pub(super) const FILE_BYTES_MAX: u64 = 8 << 30;

/// Opens a regular file of a plausible size. Device files may never end, and opening a pipe may
/// block forever.
pub(super) fn plain_file(path: &Path) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = File::from(open(path, flags, Mode::empty()).ok()?);
    let found = file.metadata().ok()?;
    (found.is_file() && found.len() <= FILE_BYTES_MAX).then_some(file)
}

/// Loads the symbols of an open file, and of its shared debug file, if there is one.
pub(super) fn load(file: &File, shared: Option<&File>) -> Option<Loader> {
    Loader::new_with_sup(path_of(file), shared.map(path_of)).ok()
}

/// Returns a path to the open descriptor, because the original path may now lead to another file.
fn path_of(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

//! Opens programs: a profile may name anything.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use addr2line::Loader;
use rustix::fs::{Mode, OFlags, open};

/// Larger files are not looked at: no program is so large, with all that a compiler has to say.
pub(super) const FILE_BYTES_MAX: u64 = 8 << 30;

/// Opens a plain file of a likely size. Others need not end, and what opens a pipe may wait for its
/// other end for ever.
pub(super) fn plain_file(path: &Path) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = File::from(open(path, flags, Mode::empty()).ok()?);
    let found = file.metadata().ok()?;
    (found.is_file() && found.len() <= FILE_BYTES_MAX).then_some(file)
}

/// What a file that is open says, with what several have in common.
pub(super) fn load(file: &File, shared: Option<&File>) -> Option<Loader> {
    Loader::new_with_sup(path_of(file), shared.map(path_of)).ok()
}

/// Not by its own path: that could lead to another file by now.
fn path_of(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

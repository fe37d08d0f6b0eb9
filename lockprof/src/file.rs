//! The file of a profile: made whole, then given a name that nobody has.

use std::ffi::CStr;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicU64;

use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::process::{Resource, getrlimit};

use crate::proc::Buffer;

/// A path with a zero behind it, put together without allocating.
struct Path {
    buffer: Buffer,
}

impl Path {
    /// `base`, and what `suffix` writes behind it; `None` if there is no room.
    fn new(base: &[u8], suffix: std::fmt::Arguments<'_>) -> Option<Path> {
        let mut buffer = Buffer::new()?;
        let (_, mut rest) = buffer.bytes().split_last_mut()?;
        rest.write_all(base).ok()?;
        rest.write_fmt(suffix).ok()?;
        Some(Path { buffer })
    }

    fn text(&mut self) -> Option<&CStr> {
        CStr::from_bytes_until_nul(self.buffer.bytes()).ok()
    }
}

/// Profiles of programs that a process has become one after another, by `exec`.
const LIVES_MAX: u32 = 100;

/// Makes a file of zeros, has it filled, and names it: `base` if it is the first, or the number of
/// the process is put behind it, or that and the number of its life.
pub(crate) fn make<T>(
    base: &[u8],
    bytes: u64,
    fill: impl FnOnce(&'static [AtomicU64]) -> Option<T>,
) -> Option<T> {
    let pid = std::process::id();
    let mut unnamed = Path::new(base, format_args!(".{pid}.new"))?;
    let unnamed = unnamed.text()?;
    let made = create(unnamed, bytes).and_then(fill).filter(|_| name(unnamed, base, pid).is_some());
    // It has another name now, or is not wanted.
    let _ = rustix::fs::unlink(unnamed);
    made
}

fn create(path: &CStr, bytes: u64) -> Option<&'static [AtomicU64]> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).ok()?;
    allocate(&file, bytes)?;
    let count = usize::try_from(bytes / 8).ok()?;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, which replaces none.
    let start = unsafe {
        let none = std::ptr::null_mut();
        rustix::mm::mmap(none, count * 8, protection, MapFlags::SHARED, file.as_fd(), 0)
    };
    // SAFETY: mapped for good; the words are for everybody who may write the file, and atomic.
    start.ok().map(|start| unsafe { std::slice::from_raw_parts(start.cast::<AtomicU64>(), count) })
}

/// Some kernels undo all of an allocation that a signal interrupts: with a timer, a large one would
/// never end.
const SLICE_BYTES: u64 = 16 << 20;

/// All of it is allocated now: a full disk later would kill the program.
fn allocate(file: &OwnedFd, bytes: u64) -> Option<()> {
    // Beyond its limit a process is killed, instead of told.
    if getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < bytes) {
        return None;
    }
    let mut offset = 0;
    while offset < bytes {
        let slice = SLICE_BYTES.min(bytes - offset);
        match rustix::fs::fallocate(file, FallocateFlags::empty(), offset, slice) {
            Ok(()) => offset += slice,
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    Some(())
}

/// Gives it the first name that nobody has.
fn name(unnamed: &CStr, base: &[u8], pid: u32) -> Option<()> {
    for life in 0..LIVES_MAX {
        let mut path = match life {
            0 => Path::new(base, format_args!(""))?,
            1 => Path::new(base, format_args!(".{pid}"))?,
            _ => Path::new(base, format_args!(".{pid}.{life}"))?,
        };
        match rustix::fs::linkat(CWD, unnamed, CWD, path.text()?, AtFlags::empty()) {
            Ok(()) => return Some(()),
            Err(Errno::EXIST) => {}
            Err(_) => return None,
        }
    }
    None
}

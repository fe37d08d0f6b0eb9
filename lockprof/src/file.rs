//! The file of a profile. The file is completed under a temporary name, then gets its final name.

use std::ffi::CStr;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicU64;

use forebay_sync::profile::{COUNTED_BYTES, count_process};
use rustix::fs::{AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::param::page_size;
use rustix::process::{Resource, getrlimit};
use rustix::rand::GetRandomFlags;

use crate::proc::ScratchBuffer;

/// A path with a terminating zero, built without allocating.
struct PathBuffer {
    buffer: ScratchBuffer,
}

impl PathBuffer {
    /// The path `base` followed by `suffix`; `None` if the path is too long or no memory can be
    /// mapped.
    fn new(base: &[u8], suffix: std::fmt::Arguments<'_>) -> Option<PathBuffer> {
        let mut buffer = ScratchBuffer::new()?;
        let (_, mut rest) = buffer.bytes().split_last_mut()?;
        rest.write_all(base).ok()?;
        rest.write_fmt(suffix).ok()?;
        Some(PathBuffer { buffer })
    }

    fn text(&mut self) -> Option<&CStr> {
        CStr::from_bytes_until_nul(self.buffer.bytes()).ok()
    }
}

/// The number of final names that are tried for a profile. A process that becomes one program after
/// another, by `exec`, needs a name for each program.
const LIVES_MAX: u32 = 100;

/// The number of names that are tried for a temporary file.
const NAMES_MAX: u32 = 100;

/// A mapped file.
pub(crate) struct MappedFile {
    pub(crate) words: &'static [AtomicU64],
    /// Whether the whole file is allocated. If not, the part after the head must be
    /// [allocated](populate) before it is written: on a full disk a write would kill the program.
    pub(crate) is_whole: bool,
}

/// Whether this process may have a profile. Counts the process in the first profile of the
/// recording, if there is one.
pub(crate) fn is_wanted(base: &[u8], processes_max: u64) -> bool {
    // Without a first profile, or without the right to write to it, the number has no limit.
    count_in(base, processes_max).unwrap_or(true)
}

fn count_in(base: &[u8], processes_max: u64) -> Option<bool> {
    let mut path = PathBuffer::new(base, format_args!(""))?;
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = rustix::fs::open(path.text()?, flags, Mode::empty()).ok()?;
    let found = rustix::fs::fstat(&file).ok()?;
    // The file must belong to our user: another user could truncate it while we write to it.
    let is_ours = found.st_uid == rustix::process::geteuid().as_raw();
    let is_file = FileType::from_raw_mode(found.st_mode).is_file();
    if !is_ours || !is_file || (found.st_size as usize) < COUNTED_BYTES {
        return None;
    }
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let (none, shared) = (std::ptr::null_mut(), MapFlags::SHARED);
    // SAFETY: a new mapping, which replaces none.
    let start = unsafe { rustix::mm::mmap(none, COUNTED_BYTES, protection, shared, &file, 0) };
    let start = start.ok()?;
    // SAFETY: the words are atomic, and are mapped until `munmap` below. The file belongs to our
    // user, and no other user can truncate it.
    let words = unsafe { &*start.cast::<[AtomicU64; COUNTED_BYTES / 8]>() };
    let is_wanted = count_process(words, processes_max);
    // SAFETY: we mapped it, and no reference is left.
    let _ = unsafe { rustix::mm::munmap(start, COUNTED_BYTES) };
    Some(is_wanted)
}

/// Makes a file of zeros with its head allocated, fills it with `fill`, and names it. The file gets
/// the first free name of `base`, `base.PID`, `base.PID.2`, `base.PID.3` and so on. The numbers
/// tell the programs apart that one process becomes by `exec`.
pub(crate) fn make<T>(
    base: &[u8],
    head_bytes: u64,
    bytes: u64,
    fill: impl FnOnce(MappedFile) -> Option<T>,
) -> Option<T> {
    let pid = std::process::id();
    let (mut unnamed, file) = create(base, pid)?;
    let unnamed = unnamed.text()?;
    let made =
        map(&file, head_bytes, bytes).and_then(fill).filter(|_| name(unnamed, base, pid).is_some());
    // By now the file has its final name too, or is not needed.
    let _ = rustix::fs::unlink(unnamed);
    made
}

/// Makes an empty file with an unpredictable name that no file has yet. So files that other users
/// put into the directory are neither opened nor removed.
fn create(base: &[u8], pid: u32) -> Option<(PathBuffer, OwnedFd)> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    for _ in 0..NAMES_MAX {
        let mut path = PathBuffer::new(base, format_args!(".{pid}.{:016x}.new", random()?))?;
        match rustix::fs::open(path.text()?, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => return Some((path, file)),
            Err(Errno::EXIST | Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    None
}

fn random() -> Option<u64> {
    let mut bytes = [0; 8];
    // Soon after boot the kernel has no random numbers yet; the program must not wait for them.
    let count = rustix::rand::getrandom(&mut bytes, GetRandomFlags::NONBLOCK).ok()?;
    (count == bytes.len()).then(|| u64::from_le_bytes(bytes))
}

fn map(file: &OwnedFd, head_bytes: u64, bytes: u64) -> Option<MappedFile> {
    // The kernel kills a process that exceeds its file size limit.
    if getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < bytes) {
        return None;
    }
    allocate(file, head_bytes)?;
    rustix::fs::ftruncate(file, bytes).ok()?;
    let count = usize::try_from(bytes / 8).ok()?;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, which replaces none.
    let start = unsafe {
        let none = std::ptr::null_mut();
        rustix::mm::mmap(none, count * 8, protection, MapFlags::SHARED, file.as_fd(), 0)
    };
    // SAFETY: mapped for good; the words are atomic, since every process that may write the file
    // can change them.
    let words = unsafe { std::slice::from_raw_parts(start.ok()?.cast::<AtomicU64>(), count) };
    // Linux before 5.14 cannot allocate parts of the mapping later, so all of it is allocated now.
    let is_whole = populate(&words[..1]).is_none();
    if is_whole {
        allocate(file, bytes)?;
    }
    Some(MappedFile { words, is_whole })
}

/// Allocates the part of a mapped file that contains these words. Their contents do not change.
/// Returns `None` if the disk is full, or if the kernel cannot allocate parts of a mapping.
pub(crate) fn populate(words: &'static [AtomicU64]) -> Option<()> {
    let start = words.as_ptr().map_addr(|address| address & !(page_size() - 1));
    let bytes = words.as_ptr_range().end.addr() - start.addr();
    // SAFETY: the pages belong to a mapping that stays, and their contents do not change.
    unsafe { rustix::mm::madvise(start.cast_mut().cast(), bytes, Advice::LinuxPopulateWrite).ok() }
}

/// The first size of the slices in which a file is allocated. The slices shrink with each
/// interruption by a signal: some kernels then undo the whole allocation, so a large one would
/// never end in a program with a periodic timer.
const SLICE_BYTES: u64 = 16 << 20;
/// The smallest size of a slice.
const SLICE_BYTES_MIN: u64 = 1 << 16;

/// The largest number of interruptions, of all slices of a file together.
const INTERRUPTIONS_MAX: u32 = 1000;

/// The largest number of zero bytes that are written if the file system cannot allocate.
const ZEROS_MAX: u64 = 256 << 20;

/// Allocates the first `bytes` bytes of a file. Otherwise the kernel would kill the program if the
/// disk is full when the program writes to the mapping.
fn allocate(file: &OwnedFd, bytes: u64) -> Option<()> {
    let (mut offset, mut slice, mut interruptions) = (0, SLICE_BYTES, 0);
    while offset < bytes {
        let count = slice.min(bytes - offset);
        match rustix::fs::fallocate(file, FallocateFlags::empty(), offset, count) {
            Ok(()) => offset += count,
            Err(Errno::INTR) if interruptions < INTERRUPTIONS_MAX => {
                interruptions += 1;
                slice = (slice / 2).max(SLICE_BYTES_MIN);
            }
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return write_zeros(file, offset, bytes),
            Err(_) => return None,
        }
    }
    Some(())
}

/// Writes zeros into a file from the offset `start` to the offset `end`.
fn write_zeros(file: &OwnedFd, start: u64, end: u64) -> Option<()> {
    if end - start > ZEROS_MAX {
        return None;
    }
    let mut zeros = ScratchBuffer::new()?;
    let zeros = zeros.bytes();
    let (mut offset, mut interruptions) = (start, 0);
    while offset < end {
        let count = (zeros.len() as u64).min(end - offset) as usize;
        match rustix::io::pwrite(file, &zeros[..count], offset) {
            Ok(count) if count > 0 => offset += count as u64,
            Err(Errno::INTR) if interruptions < INTERRUPTIONS_MAX => interruptions += 1,
            _ => return None,
        }
    }
    Some(())
}

/// Gives the file its final name, the first name that is free. See [`make`] for the names.
fn name(unnamed: &CStr, base: &[u8], pid: u32) -> Option<()> {
    for life in 0..LIVES_MAX {
        let mut path = match life {
            0 => PathBuffer::new(base, format_args!(""))?,
            1 => PathBuffer::new(base, format_args!(".{pid}"))?,
            _ => PathBuffer::new(base, format_args!(".{pid}.{life}"))?,
        };
        match rustix::fs::linkat(CWD, unnamed, CWD, path.text()?, AtFlags::empty()) {
            Ok(()) => return Some(()),
            Err(Errno::EXIST) => {}
            Err(_) => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn existing_files_and_links_are_neither_followed_nor_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let base = dir.path().join("profile");
        fs::write(dir.path().join("precious"), "precious").expect("written");
        let planted = dir.path().join(format!("profile.{}.new", std::process::id()));
        symlink("precious", &planted).expect("a link");
        symlink("nothing", &base).expect("a link");
        make(base.as_os_str().as_bytes(), 4096, 4096, |made| Some(made.words.len()))
            .expect("a file");
        let named = dir.path().join(format!("profile.{}", std::process::id()));
        let made = fs::symlink_metadata(named).expect("the file has the next free name");
        assert_eq!((made.len(), made.permissions().mode() & 0o777), (4096, 0o600));
        assert_eq!(fs::read(dir.path().join("precious")).expect("there"), b"precious");
        assert!(planted.is_symlink() && base.is_symlink(), "both links still exist");
        assert_eq!(fs::read_dir(dir.path()).expect("entries").count(), 4);
    }

    #[test]
    fn no_name_can_be_foreseen() {
        let dir = tempfile::tempdir().expect("a directory");
        let base = dir.path().join("profile");
        let name = || {
            let (mut path, _) = create(base.as_os_str().as_bytes(), 7).expect("a file");
            path.text().expect("a path").to_owned()
        };
        assert_ne!(name(), name());
    }

    #[test]
    fn zeros_are_written_from_where_to_where_they_are_wanted_within_a_limit() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        fs::write(&path, [7; 10]).expect("written");
        let file = OwnedFd::from(fs::OpenOptions::new().write(true).open(&path).expect("open"));
        write_zeros(&file, 4, 200_000).expect("written");
        let found = fs::read(&path).expect("there");
        assert_eq!(
            (found.len(), &found[..5], found[5..].iter().max()),
            (200_000, &[7, 7, 7, 7, 0][..], Some(&0))
        );
        assert!(write_zeros(&file, 0, ZEROS_MAX + 1).is_none());
        assert_eq!(fs::metadata(&path).expect("there").len(), 200_000);
    }

    #[test]
    fn an_unwanted_profile_leaves_no_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let base = dir.path().join("profile");
        let made = make(base.as_os_str().as_bytes(), 4096, 4096, |_| None::<()>);
        assert!(made.is_none());
        assert_eq!(fs::read_dir(dir.path()).expect("entries").count(), 0);
    }
}

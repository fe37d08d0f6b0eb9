//! Opening a file below a directory. Every function here blocks, so it runs on a reading thread.
//!
//! The kernel resolves a path with `RESOLVE_BENEATH`: `..` and symbolic links work as long as they
//! stay below the directory, and absolute links do not. A race with a rename cannot lead out of it.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
use rustix::io::Errno;

use crate::clock;
use crate::config::ContentCoding;
use crate::fault::Fault;
use crate::limits::{FILE_COARSE_MS, FILE_PIECE_BYTES, FILE_TICK_MS};

/// A file to open.
#[derive(Clone, Debug)]
pub(super) struct FileRequest {
    pub(super) directory: Arc<Path>,
    /// The path below the directory.
    pub(super) path: Vec<u8>,
    /// Whether the path ends in `/`, so that an index file answers.
    pub(super) is_directory: bool,
    pub(super) index: Arc<[Box<str>]>,
    /// The path below the directory of the file that answers if this one is missing.
    pub(super) fallback: Option<Arc<str>>,
    /// The codings of the client, if compressed files may answer.
    pub(super) codings: Vec<ContentCoding>,
    /// Whether to read the first piece at once.
    pub(super) reads: bool,
}

/// The result of a request for a file.
pub(super) enum FileLookup {
    File(Box<OpenFile>),
    /// The path without `/` at its end is a directory.
    Directory,
    /// A directory without an index file.
    NoIndex,
    Missing,
    /// The file is missing, and so is the one that answers in its place. Contains the cause for the
    /// log.
    NoFallback(&'static str),
    /// The file exists, but must not be served. Contains the cause for the log.
    Denied(String),
    /// The file was changed in this moment, so a further change might not be noticed.
    Unsettled,
}

/// A regular file that is open.
pub(super) struct OpenFile {
    pub(super) file: Arc<File>,
    pub(super) version: FileVersion,
    /// The path below the directory, without the extension of a compressed file.
    pub(super) path: Vec<u8>,
    pub(super) coding: Option<ContentCoding>,
    /// Whether the file answers in place of the one that was requested.
    pub(super) is_fallback: bool,
    /// The first bytes of the file, if they were to be read.
    pub(super) first: Bytes,
}

/// The properties that change when a file changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileVersion {
    pub(super) bytes: u64,
    /// The time of the last modification: seconds since 1970, and nanoseconds.
    pub(super) modified: (i64, i64),
    /// The device and the number of the inode.
    inode: (u64, u64),
    /// The time of the last change of the inode, which no program can set.
    changed: (i64, i64),
    /// The number of names of the file. A rename of another file over one of them lowers it.
    link_count: u64,
    /// Whether any further change gives the inode another time of change.
    pub(super) is_settled: bool,
}

impl FileVersion {
    /// `now_ns` is the time of day in nanoseconds, not later than the call that returned the
    /// metadata.
    fn new(metadata: &Metadata, now_ns: u64) -> FileVersion {
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        let changed_ns = i128::from(changed.0) * 1_000_000_000 + i128::from(changed.1);
        let tick_ms = if changed.1 == 0 { FILE_COARSE_MS } else { FILE_TICK_MS };
        let age_ns = i128::from(now_ns) - changed_ns;
        FileVersion {
            bytes: metadata.size(),
            modified,
            inode: (metadata.dev(), metadata.ino()),
            changed,
            link_count: metadata.nlink(),
            is_settled: age_ns.unsigned_abs() > u128::from(tick_ms) * 1_000_000,
        }
    }

    /// Whether the content of the file may be another one than in this version. The time of
    /// modification may have been set back after a write, so any change of the inode counts, unless
    /// the file has lost or got a name: it may have been replaced, which leaves its content as it
    /// is.
    fn differs(&self, metadata: &Metadata) -> bool {
        let is_changed = self.changed != (metadata.ctime(), metadata.ctime_nsec());
        self.bytes != metadata.size()
            || self.modified != (metadata.mtime(), metadata.mtime_nsec())
            || is_changed && self.link_count == metadata.nlink()
    }

    /// Returns the numbers that together identify the version.
    pub(super) fn identity(&self) -> [[u8; 8]; 7] {
        let ((device, inode), (changed_s, changed_ns)) = (self.inode, self.changed);
        let (modified_s, modified_ns) = self.modified;
        [
            self.bytes.to_le_bytes(),
            device.to_le_bytes(),
            inode.to_le_bytes(),
            modified_s.to_le_bytes(),
            modified_ns.to_le_bytes(),
            changed_s.to_le_bytes(),
            changed_ns.to_le_bytes(),
        ]
    }
}

/// A fault, and its cause for the log.
pub(super) type FileFault = (Fault, String);

/// Finds and opens a file.
///
/// # Errors
/// The directory or the file cannot be opened or read, for a reason that is not the client's.
pub(super) fn find(request: &FileRequest) -> Result<FileLookup, FileFault> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open(&*request.directory, flags, Mode::empty());
    let root = root.map_err(|error| fault_of(error, "the directory"))?;
    let found = match request.is_directory {
        true => find_index(&root, request, &request.path),
        false => find_file(&root, request, &request.path),
    };
    match (found?, &request.fallback) {
        (FileLookup::Missing, Some(path)) => find_fallback(&root, request, path.as_bytes()),
        (found, _) => Ok(found),
    }
}

/// Opens the file that answers in place of a missing one; if the path is that of a directory, its
/// index file.
fn find_fallback(
    root: &OwnedFd,
    request: &FileRequest,
    path: &[u8],
) -> Result<FileLookup, FileFault> {
    let found = match find_file(root, request, path)? {
        FileLookup::Directory => find_index(root, request, path)?,
        found => found,
    };
    Ok(match found {
        FileLookup::File(open) => {
            FileLookup::File(Box::new(OpenFile { is_fallback: true, ..*open }))
        }
        FileLookup::Missing => FileLookup::NoFallback("there is no such file"),
        FileLookup::NoIndex | FileLookup::Directory => {
            FileLookup::NoFallback("it is a directory without an index file")
        }
        found => found,
    })
}

/// Opens the file at this path.
fn find_file(root: &OwnedFd, request: &FileRequest, path: &[u8]) -> Result<FileLookup, FileFault> {
    match open_below(root, path)? {
        OpenResult::File(file, version) => {
            read_first(root, request, OpenFile::new(file, version, path.to_vec()))
        }
        OpenResult::Other(found) => Ok(found),
    }
}

/// Opens the index file of the directory at this path.
fn find_index(
    root: &OwnedFd,
    request: &FileRequest,
    directory: &[u8],
) -> Result<FileLookup, FileFault> {
    let slash: &[u8] = if directory.is_empty() { b"" } else { b"/" };
    for name in request.index.iter() {
        let path = [directory, slash, name.as_bytes()].concat();
        match open_below(root, &path)? {
            OpenResult::File(file, version) => {
                return read_first(root, request, OpenFile::new(file, version, path));
            }
            OpenResult::Other(FileLookup::Missing | FileLookup::Directory) => {}
            OpenResult::Other(found) => return Ok(found),
        }
    }
    let path = if directory.is_empty() { b"." } else { directory };
    match resolve(root, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC) {
        Ok(_) => Ok(FileLookup::NoIndex),
        Err(error) => refusal_of(error),
    }
}

enum OpenResult {
    File(File, FileVersion),
    Other(FileLookup),
}

/// Opens a file below `root` if it is regular. Anything else is not even opened: opening a FIFO or
/// a device could block or have effects.
fn open_below(root: &OwnedFd, path: &[u8]) -> Result<OpenResult, FileFault> {
    let path = if path.is_empty() { b"." } else { path };
    let found = match resolve(root, path, OFlags::PATH | OFlags::CLOEXEC) {
        Ok(found) => File::from(found),
        Err(error) => return refusal_of(error).map(OpenResult::Other),
    };
    let kind = found.metadata().map_err(fault_of_io)?.file_type();
    if kind.is_dir() {
        return Ok(OpenResult::Other(FileLookup::Directory));
    }
    let not_regular =
        || OpenResult::Other(FileLookup::Denied("it is not a regular file".to_owned()));
    if !kind.is_file() {
        return Ok(not_regular());
    }
    // The path may name another file by now. Without O_NONBLOCK, opening a FIFO would block.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match resolve(root, path, flags) {
        Ok(file) => File::from(file),
        Err(error) => return refusal_of(error).map(OpenResult::Other),
    };
    let now_ns = clock::unix_coarse_ns();
    let metadata = file.metadata().map_err(fault_of_io)?;
    match metadata.is_file() {
        true => Ok(OpenResult::File(file, FileVersion::new(&metadata, now_ns))),
        false => Ok(not_regular()),
    }
}

impl OpenFile {
    fn new(file: File, version: FileVersion, path: Vec<u8>) -> OpenFile {
        let file = Arc::new(file);
        OpenFile { file, version, path, coding: None, is_fallback: false, first: Bytes::new() }
    }
}

/// Replaces the file by its compressed form, if the client accepts one, and reads its first piece.
fn read_first(
    root: &OwnedFd,
    request: &FileRequest,
    mut open: OpenFile,
) -> Result<FileLookup, FileFault> {
    for coding in &request.codings {
        let path = [&open.path, extension_of(*coding)].concat();
        let found = match open_below(root, &path) {
            Err(busy @ (Fault::FilesBusy, _)) => return Err(busy),
            found => found,
        };
        // A compressed file that cannot be read is as good as none.
        if let Ok(OpenResult::File(file, version)) = found
            && version.modified >= open.version.modified
        {
            (open.file, open.version, open.coding) = (Arc::new(file), version, Some(*coding));
            break;
        }
    }
    if !open.version.is_settled {
        return Ok(FileLookup::Unsettled);
    }
    if request.reads {
        match read_piece(&open.file, &open.version, 0, open.version.bytes) {
            Ok(first) => open.first = first,
            Err((Fault::FileChanged, _)) => return Ok(FileLookup::Unsettled),
            Err(fault) => return Err(fault),
        }
    }
    Ok(FileLookup::File(Box::new(open)))
}

/// Returns the extension of files with this coding.
fn extension_of(coding: ContentCoding) -> &'static [u8] {
    match coding {
        ContentCoding::Brotli => b".br",
        ContentCoding::Zstd => b".zst",
        ContentCoding::Gzip => b".gz",
    }
}

/// Reads the bytes from `offset` to `end`, or as many as one piece has.
///
/// The version is checked after the bytes have been read. A write changes the times before it
/// changes the bytes, and the version was settled, so bytes of another version never pass this
/// check.
///
/// # Errors
/// [`Fault::FileChanged`], or the file cannot be read.
pub(super) fn read_piece(
    file: &File,
    version: &FileVersion,
    offset: u64,
    end: u64,
) -> Result<Bytes, FileFault> {
    let left = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX);
    let mut bytes = vec![0; left.min(FILE_PIECE_BYTES)];
    let changed = |what: &str| (Fault::FileChanged, what.to_owned());
    match file.read_exact_at(&mut bytes, offset) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(changed("it became shorter"));
        }
        Err(error) => return Err(fault_of_io(error)),
    }
    match version.differs(&file.metadata().map_err(fault_of_io)?) {
        true => Err(changed("its length or one of its times changed")),
        false => Ok(bytes.into()),
    }
}

fn resolve(root: &OwnedFd, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let mut found = Err(Errno::AGAIN);
    // The kernel gives up when something is renamed while it follows `..`.
    for _ in 0..RESOLUTIONS_MAX {
        found = openat2(root.as_fd(), path, flags, Mode::empty(), beneath);
        if !matches!(found, Err(Errno::AGAIN | Errno::INTR)) {
            break;
        }
    }
    found
}

/// How often a path is resolved while renames disturb it.
const RESOLUTIONS_MAX: usize = 16;

/// Returns the result for an error of a path, or the fault if the path is not to blame.
fn refusal_of(error: Errno) -> Result<FileLookup, FileFault> {
    let denied = |cause: &str| Ok(FileLookup::Denied(cause.to_owned()));
    match error {
        // The last two: the file system permits no such name.
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ => {
            Ok(FileLookup::Missing)
        }
        Errno::ACCESS | Errno::PERM => denied("permission denied"),
        Errno::XDEV => denied("a symbolic link leads out of the directory, or is absolute"),
        Errno::LOOP => denied("too many symbolic links"),
        Errno::NXIO => denied("it is not a regular file"),
        error => Err(fault_of(error, "the file")),
    }
}

fn fault_of(error: Errno, what: &str) -> FileFault {
    let fault = match error {
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN => Fault::FilesBusy,
        _ => Fault::FilesFailed,
    };
    (fault, format!("{what}: {error}"))
}

fn fault_of_io(error: io::Error) -> FileFault {
    match Errno::from_io_error(&error) {
        Some(errno) => fault_of(errno, "the file"),
        None => (Fault::FilesFailed, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lack_of_the_path_is_the_clients_fault() {
        let refused = |error| match refusal_of(error) {
            Ok(FileLookup::Missing) => "missing".to_owned(),
            Ok(FileLookup::Denied(cause)) => cause,
            Ok(_) => panic!("{error}: it is neither missing nor denied"),
            Err((fault, _)) => fault.reason().to_owned(),
        };
        for (error, expected) in [
            (Errno::NOENT, "missing"),
            (Errno::NOTDIR, "missing"),
            (Errno::NAMETOOLONG, "missing"),
            (Errno::ILSEQ, "missing"),
            (Errno::ACCESS, "permission denied"),
            (Errno::XDEV, "a symbolic link leads out of the directory, or is absolute"),
            (Errno::LOOP, "too many symbolic links"),
            (Errno::MFILE, "this server cannot open more files now; try again"),
            (Errno::NFILE, "this server cannot open more files now; try again"),
            (Errno::NOMEM, "this server cannot open more files now; try again"),
            (Errno::IO, "the file cannot be read"),
            (Errno::STALE, "the file cannot be read"),
        ] {
            assert_eq!(refused(error), expected, "{error}");
        }
    }

    #[test]
    fn a_file_is_settled_once_a_change_would_give_it_another_time() {
        let metadata = std::env::current_exe().and_then(|path| path.metadata()).expect("a file");
        let changed = FileVersion::new(&metadata, 0).changed;
        let nanoseconds = changed.0 * 1_000_000_000 + changed.1;
        let tick_ms = if changed.1 == 0 { FILE_COARSE_MS } else { FILE_TICK_MS };
        for (age_ms, expected) in [(0, false), (-1, false), (1, false), (2, true), (-2, true)] {
            let age_ns = i64::try_from(tick_ms).expect("small") * 1_000_000 * age_ms;
            let now_ns = u64::try_from(nanoseconds + age_ns).expect("a time after 1970");
            let version = FileVersion::new(&metadata, now_ns);
            assert_eq!(version.is_settled, expected, "{age_ms}");
            assert!(!version.differs(&metadata));
        }
    }
}

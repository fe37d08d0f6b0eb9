//! Finds function names and lines for addresses in programs and libraries of other processes.
//!
//! Names are read from the current files. A file that has been replaced gives wrong names;
//! [`file_change_since`] detects that.

mod debug;
mod names;
mod open;

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use addr2line::{Loader, demangle_auto};
use forebay_sync::profile::plain_text;
use object::{Object as _, ObjectSegment as _, ReadCache};

use self::names::plain_cpp;
pub(crate) use self::names::{is_wrapper, without_wrappers};

/// Largest number of characters of a name. The middle of a longer name is omitted.
const NAME_CHARS_MAX: usize = 512;

/// Largest number of characters of a symbol before its common C++ parts are removed. The middle of
/// a longer symbol is omitted.
const RAW_CHARS_MAX: usize = 16 * NAME_CHARS_MAX;

/// Largest number of inlined functions of one call. Further functions are omitted.
const INLINED_MAX: usize = 64;

/// Largest number of files that are opened. Addresses in further files have no names.
const FILES_MAX: usize = 1024;

thread_local! {
    /// The files that were opened; `None` for a file that could not be opened.
    static FILES: RefCell<Files> = const { RefCell::new(BTreeMap::new()) };
}

type Files = BTreeMap<PathBuf, Option<Rc<BinaryFile>>>;

/// An opened program or library.
struct BinaryFile {
    /// The parts of the file that are loaded, with their addresses in memory.
    segments: Vec<FileSegment>,
    symbols: Loader,
    /// The debug information in a separate file, if there is one.
    debug: Option<Loader>,
}

struct FileSegment {
    file_offset: u64,
    byte_count: u64,
    address: u64,
}

/// Returns the function that contains the call before a return address. If calls were inlined,
/// returns several functions, the innermost first. `file_offset` is the return address as an offset
/// in the file. The result is never empty and contains no terminal control characters.
pub(crate) fn callers(path: &str, file_offset: u64) -> Vec<String> {
    let module = path.rsplit('/').next().unwrap_or_default();
    let found = binary(Path::new(path)).and_then(|binary| {
        // The return address is after the call, so the address before it belongs to the call.
        let address = binary.address_of(file_offset.checked_sub(1)?)?;
        let lines = without_wrappers(binary.lines(address));
        match lines.is_empty() {
            true => binary.symbol(address, module).map(|symbol| vec![symbol]),
            false => Some(lines),
        }
    });
    let names = found.unwrap_or_else(|| vec![format!("{module}+{file_offset:#x}")]);
    // The names come from a foreign file.
    names.iter().map(|name| plain(name)).collect()
}

fn plain(name: &str) -> String {
    plain_text(&shortened(&plain_cpp(&truncated(name, RAW_CHARS_MAX))))
}

/// Shortens a name that is too long: keeps its beginning and its end.
pub(crate) fn shortened(name: &str) -> Cow<'_, str> {
    truncated(name, NAME_CHARS_MAX)
}

fn truncated(name: &str, chars_max: usize) -> Cow<'_, str> {
    // A character has at least one byte.
    if name.len() <= chars_max || name.chars().count() <= chars_max {
        return Cow::Borrowed(name);
    }
    let half = chars_max / 2;
    let from = name.char_indices().nth(half);
    let to = name.char_indices().rev().nth(half - 2);
    let first = from.and_then(|(from, _)| name.get(..from)).unwrap_or_default();
    let last = to.and_then(|(to, _)| name.get(to..)).unwrap_or_default();
    Cow::Owned(format!("{first}\u{2026}{last}"))
}

/// A change of a program or library since it was mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileChange {
    /// The file was modified or replaced.
    Changed,
    /// The file does not exist or is not readable.
    Missing,
}

/// Returns the change of a file since it was mapped, as far as the file system shows it; `None` if
/// the file is unchanged.
///
/// The function compares the change time of the inode, because package managers set the
/// modification time to that of the build. So new links and permissions count as changes too.
pub(crate) fn file_change_since(path: &str, unix_ns: u64) -> Option<FileChange> {
    let Ok(found) = fs::metadata(path) else {
        return Some(FileChange::Missing);
    };
    let ns = i128::from(found.ctime()) * 1_000_000_000 + i128::from(found.ctime_nsec());
    (ns > i128::from(unix_ns)).then_some(FileChange::Changed)
}

fn binary(path: &Path) -> Option<Rc<BinaryFile>> {
    FILES.with_borrow_mut(|files| {
        if let Some(known) = files.get(path) {
            return known.clone();
        }
        let opened_count = files.values().flatten().count();
        let binary =
            (opened_count < FILES_MAX).then(|| BinaryFile::open(path)).flatten().map(Rc::new);
        files.insert(path.to_owned(), binary.clone());
        binary
    })
}

impl BinaryFile {
    fn open(path: &Path) -> Option<BinaryFile> {
        let file = open::plain_file(path)?;
        // The cache reads only the parts that are needed.
        let cache = ReadCache::new(&file);
        let object = object::File::parse(&cache).ok()?;
        let segments = object.segments().map(|segment| {
            let (file_offset, byte_count) = segment.file_range();
            FileSegment { file_offset, byte_count, address: segment.address() }
        });
        let segments = segments.collect();
        let debug = debug::load(Path::new(debug::ROOT), path, &object);
        Some(BinaryFile { segments, symbols: open::load(&file, None)?, debug })
    }

    fn address_of(&self, file_offset: u64) -> Option<u64> {
        let inside = |segment: &&FileSegment| {
            file_offset.checked_sub(segment.file_offset).is_some_and(|at| at < segment.byte_count)
        };
        let segment = self.segments.iter().find(inside)?;
        segment.address.checked_add(file_offset - segment.file_offset)
    }

    /// Returns the functions at an address with their lines; empty without debug information.
    fn lines(&self, address: u64) -> Vec<String> {
        let mut lines = Vec::new();
        let loader = self.debug.as_ref().unwrap_or(&self.symbols);
        let Ok(mut frames) = loader.find_frames(address) else {
            return lines;
        };
        while let Ok(Some(frame)) = frames.next() {
            if lines.len() == INLINED_MAX {
                break;
            }
            let function = frame.function.as_ref().and_then(|name| name.demangle().ok());
            let place = frame.location.as_ref().and_then(|at| {
                let file = file_name(at.file?);
                Some(format!("{file}:{}", at.line.unwrap_or(0)))
            });
            match (function, place) {
                (Some(function), Some(place)) => lines.push(format!("{function} {place}")),
                (Some(function), None) => lines.push(function.into_owned()),
                (None, Some(place)) => lines.push(place),
                (None, None) => {}
            }
        }
        lines
    }

    fn symbol(&self, address: u64, module: &str) -> Option<String> {
        let loaders = self.debug.iter().chain([&self.symbols]);
        let symbol = loaders.filter_map(|loader| loader.find_symbol_info(address)).next()?;
        let name = demangle_auto(symbol.name().into(), None);
        Some(format!("{name}+{:#x} {module}", address.checked_sub(symbol.address())?))
    }
}

/// Returns the end of a path, which suffices to tell files apart. A file of Rust keeps the path
/// from its crate on, because names such as `mod.rs` are common. A private header of the C and C++
/// libraries keeps its directory, whose name no program uses. Any other file keeps only its name.
fn file_name(path: &str) -> &str {
    let last = path.rfind('/').map_or(0, |at| at + 1);
    let in_crate = path.ends_with(".rs").then(|| path.rfind("/src/")).flatten();
    let begin = in_crate.map(|at| path.get(..at).and_then(|before| before.rfind('/')));
    let begin = begin.map_or(last, |slash| slash.map_or(0, |at| at + 1));
    let before = path.get(..last.saturating_sub(1)).unwrap_or_default();
    let folder = before.rsplit('/').next().unwrap_or_default();
    let begin = match folder == "bits" || folder.starts_with("__") {
        true => last - 1 - folder.len(),
        false => begin,
    };
    path.get(begin..).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_of_ours_has_its_name_and_line() {
        let us = std::env::current_exe().expect("a path");
        let name = "a_function_of_ours_has_its_name_and_line";
        let file_offset = file_offset_of(&us, name);
        let callers = callers(&us.display().to_string(), file_offset + 1);
        assert!(callers.iter().any(|line| line.contains(name)), "{callers:?}");
        assert!(callers.iter().any(|line| line.contains("symbols.rs:")), "{callers:?}");
    }

    #[test]
    fn a_name_has_nothing_that_a_terminal_xyz_obeys() {
        let us = std::env::current_exe().expect("a path");
        let (before, after) = (&b"a_terminal_xyz_obeys"[..], "a_terminal_\u{202e}\x1bobeys");
        let file_offset = file_offset_of(&us, "has_nothing_that_a_terminal_xyz_obeys");
        let mut bytes = fs::read(&us).expect("readable");
        let found = bytes.windows(before.len()).enumerate().filter(|(_, part)| *part == before);
        for at in found.map(|(at, _)| at).collect::<Vec<_>>() {
            bytes[at..][..before.len()].copy_from_slice(after.as_bytes());
        }
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("program");
        fs::write(&path, bytes).expect("written");
        let callers = callers(path.to_str().expect("text"), file_offset + 1);
        let plain = "a_terminal_\u{fffd}\u{fffd}obeys";
        assert!(callers.iter().any(|line| line.contains(plain)), "{callers:?}");
        assert!(!callers.concat().contains(['\x1b', '\u{202e}']), "{callers:?}");
    }

    fn file_offset_of(path: &Path, name: &str) -> u64 {
        let binary = BinaryFile::open(path).expect("a program");
        let bytes = fs::read(path).expect("readable");
        let object = object::File::parse(&*bytes).expect("a program");
        let symbols = object.symbol_map();
        let symbol = symbols.symbols().iter().find(|symbol| symbol.name().contains(name));
        let address = symbol.expect("tests have symbols").address();
        let segment = binary
            .segments
            .iter()
            .find(|segment| {
                (segment.address..segment.address + segment.byte_count).contains(&address)
            })
            .expect("its code lies in the file");
        address - segment.address + segment.file_offset
    }

    #[test]
    fn special_files_and_huge_files_are_not_opened() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = |name: &str| dir.path().join(name).display().to_string();
        let pipe = path("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.is_ok_and(|status| status.success()));
        assert_eq!(callers(&pipe, 7), ["pipe+0x7"], "opening it would wait for a writer");
        assert_eq!(callers(&path(""), 7), ["+0x7"]);
        let us = std::env::current_exe().expect("a path");
        let name = "special_files_and_huge_files_are_not_opened";
        let file_offset = file_offset_of(&us, name) + 1;
        let (small, huge) = (path("program"), path("huge"));
        fs::copy(&us, &small).expect("there is room");
        assert!(callers(&small, file_offset).concat().contains(name));
        fs::rename(&small, &huge).expect("it is ours");
        let open = fs::File::options().write(true).open(&huge).expect("it is ours");
        open.set_len(open::FILE_BYTES_MAX + 1).expect("a file with a hole");
        assert_eq!(callers(&huge, file_offset), [format!("huge+{file_offset:#x}")]);
    }

    #[test]
    fn a_long_name_keeps_its_beginning_and_its_end() {
        for (name, expected) in [
            ("x".repeat(NAME_CHARS_MAX), "x".repeat(NAME_CHARS_MAX)),
            ("\u{e9}".repeat(NAME_CHARS_MAX), "\u{e9}".repeat(NAME_CHARS_MAX)),
            (
                format!("{}{}", "a".repeat(999), "\u{e9}".repeat(999)),
                format!("{}\u{2026}{}", "a".repeat(256), "\u{e9}".repeat(255)),
            ),
        ] {
            assert_eq!(shortened(&name), expected, "{name}");
            assert!(shortened(&name).chars().count() <= NAME_CHARS_MAX);
        }
        let module = format!("/{}", "y".repeat(4000));
        let callers = callers(&module, 7);
        assert!(callers[0].starts_with("yyy") && callers[0].ends_with("yy+0x7"), "{callers:?}");
        assert!(callers[0].chars().count() <= NAME_CHARS_MAX);
    }

    #[test]
    fn files_of_rust_are_named_with_their_crates() {
        for (path, name) in [
            ("/home/a/forebay/cache/src/store/mod.rs", "cache/src/store/mod.rs"),
            ("/home/a/registry/src/index/tokio-1.5/src/park.rs", "tokio-1.5/src/park.rs"),
            ("/rustc/1234/library/core/src/ops/function.rs", "core/src/ops/function.rs"),
            ("cache/src/lib.rs", "cache/src/lib.rs"),
            ("/src/lib.rs", "/src/lib.rs"),
            ("src/lib.rs", "lib.rs"),
            ("/a/b/tests/x.rs", "x.rs"),
            ("/usr/src/redis/src/server.c", "server.c"),
            ("server.c", "server.c"),
            ("/usr/include/c++/12/mutex", "mutex"),
            ("/usr/include/c++/12/bits/unique_lock.h", "bits/unique_lock.h"),
            ("/usr/include/c++/v1/__mutex/unique_lock.h", "__mutex/unique_lock.h"),
            ("/home/a/unique_lock.h", "unique_lock.h"),
            ("/a.c", "a.c"),
            ("", ""),
        ] {
            assert_eq!(file_name(path), name, "{path}");
        }
    }

    #[test]
    fn a_replaced_file_has_changed() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("program");
        let name = path.to_str().expect("text");
        assert_eq!(file_change_since(name, 0), Some(FileChange::Missing));
        fs::write(&path, "").expect("written");
        let found = fs::metadata(&path).expect("it is there");
        let ns = found.ctime() as u64 * 1_000_000_000 + found.ctime_nsec() as u64;
        assert_eq!(file_change_since(name, ns), None);
        assert_eq!(file_change_since(name, ns - 1), Some(FileChange::Changed));
        // Package managers set the modification time to that of the build.
        let file = fs::File::open(&path).expect("it is there");
        file.set_modified(std::time::UNIX_EPOCH).expect("ours");
        assert_eq!(file_change_since(name, ns - 1), Some(FileChange::Changed));
    }

    #[test]
    fn an_address_without_a_symbol_is_an_offset_in_its_file() {
        assert_eq!(callers("/no/such/lib.so", 0x1234), ["lib.so+0x1234"]);
        assert_eq!(callers("/dev/zero", 7), ["zero+0x7"]);
        assert_eq!(callers("", 0), ["+0x0"]);
    }
}

//! The contents of `/proc` about this process, read without allocating.

use std::ffi::CStr;
use std::ops::Range;

use forebay_sync::profile::hash_words;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::calls::CallPermit;

/// The number of bytes that are read at a time. It is larger than any line, since paths are
/// shorter.
const BUFFER_BYTES: usize = 1 << 16;

/// A temporary buffer. It is mapped, since the stacks of the program's threads may be small.
pub(crate) struct ScratchBuffer {
    start: *mut u8,
}

impl ScratchBuffer {
    pub(crate) fn new() -> Option<ScratchBuffer> {
        let start = map_zeros(BUFFER_BYTES)?;
        Some(ScratchBuffer { start })
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the memory is mapped for us alone, initially zeros, as long as `self` lives.
        unsafe { std::slice::from_raw_parts_mut(self.start, BUFFER_BYTES) }
    }
}

impl Drop for ScratchBuffer {
    fn drop(&mut self) {
        // SAFETY: we mapped it, and no reference is left.
        let unmapped = unsafe { rustix::mm::munmap(self.start.cast(), BUFFER_BYTES) };
        debug_assert!(unmapped.is_ok());
    }
}

/// Maps private memory of zeros, which occupies no physical memory before it is written.
pub(crate) fn map_zeros(bytes: usize) -> Option<*mut u8> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping, which replaces none.
    let start =
        unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags) };
    start.ok().map(<*mut _>::cast)
}

/// A line of `/proc/self/maps`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mapping<'a> {
    pub(crate) range: Range<usize>,
    pub(crate) is_code: bool,
    /// Whether the memory can be neither read nor written nor executed.
    pub(crate) is_guard: bool,
    pub(crate) file_offset: u64,
    /// The device and the inode number of the file.
    file: (&'a [u8], &'a [u8]),
    /// The path as the system writes it; empty for memory without a file.
    pub(crate) path: &'a [u8],
}

impl<'a> Mapping<'a> {
    fn parse(line: &'a [u8]) -> Option<Mapping<'a>> {
        let mut fields = line.splitn(6, |byte| *byte == b' ');
        let mut range = fields.next()?.splitn(2, |byte| *byte == b'-');
        let range = hex(range.next()?)? as usize..hex(range.next()?)? as usize;
        let rights = fields.next()?;
        let is_code = rights.get(2) == Some(&b'x');
        let is_guard = rights.starts_with(b"---");
        let file_offset = hex(fields.next()?)?;
        let file = (fields.next()?, fields.next()?);
        let path = fields.next().unwrap_or_default().trim_ascii_start();
        Some(Mapping { range, is_code, is_guard, file_offset, file, path })
    }

    /// A hash that identifies the mapped file and the part of it that is mapped. It does not
    /// include the path, which changes when the file is removed.
    pub(crate) fn identity(&self) -> u64 {
        let (device, number) = self.file;
        [device, number].iter().fold(self.file_offset, |hash, text| {
            text.iter().fold(hash_words(&[hash]), |hash, byte| hash_words(&[hash, (*byte).into()]))
        })
    }
}

/// Calls `each` for each mapping of this process, until `each` returns `false`. Returns whether
/// `each` has seen all mappings.
pub(crate) fn mappings(_calls: &CallPermit, each: impl FnMut(&Mapping<'_>) -> bool) -> bool {
    let mut each = each;
    lines(c"/proc/self/maps", |line| Mapping::parse(line).is_none_or(|found| each(&found)))
}

/// Calls `each` for each line of a file, until `each` returns `false`. Returns whether `each` has
/// seen all lines.
fn lines(path: &CStr, mut each: impl FnMut(&[u8]) -> bool) -> bool {
    let Some(mut buffer) = ScratchBuffer::new() else {
        return false;
    };
    let Ok(file) = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else {
        return false;
    };
    let bytes = buffer.bytes();
    let mut filled = 0;
    loop {
        let count = match rustix::io::read(&file, &mut bytes[filled..]) {
            Ok(0) => return true,
            Ok(count) => count,
            Err(Errno::INTR) => continue,
            Err(_) => return false,
        };
        filled += count;
        let mut start = 0;
        while let Some(end) = bytes[start..filled].iter().position(|byte| *byte == b'\n') {
            if !each(&bytes[start..start + end]) {
                return false;
            }
            start += end + 1;
        }
        bytes.copy_within(start..filled, 0);
        filled -= start;
        if filled == bytes.len() {
            filled = 0;
        }
    }
}

/// Fills `out` from the beginning of a file, and returns the number of bytes that were read; 0 if
/// the file cannot be opened.
pub(crate) fn head_of(path: &CStr, out: &mut [u8]) -> usize {
    let Ok(file) = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else {
        return 0;
    };
    let mut filled = 0;
    while filled < out.len() {
        match rustix::io::read(&file, &mut out[filled..]) {
            Ok(count) if count > 0 => filled += count,
            Err(Errno::INTR) => {}
            _ => break,
        }
    }
    filled
}

/// The start of this process, in clock ticks since boot: field 22 of its `stat`; 0 if unknown.
pub(crate) fn start_ticks() -> u64 {
    let mut bytes = [0; 1024];
    let count = head_of(c"/proc/self/stat", &mut bytes);
    start_ticks_in(&bytes[..count]).unwrap_or(0)
}

fn start_ticks_in(stat: &[u8]) -> Option<u64> {
    // The second field is the program's name in parentheses and may contain anything.
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 2;
    let field = stat.get(after_name..)?.split(|byte| *byte == b' ').nth(19)?;
    str::from_utf8(field).ok()?.parse().ok()
}

/// The kernel's random id of this boot; zeros if unknown.
pub(crate) fn boot_id() -> [u8; 16] {
    let mut bytes = [0; 40];
    let count = head_of(c"/proc/sys/kernel/random/boot_id", &mut bytes);
    boot_id_in(&bytes[..count]).unwrap_or_default()
}

fn boot_id_in(text: &[u8]) -> Option<[u8; 16]> {
    let mut digits = text.trim_ascii_end().iter().filter(|byte| **byte != b'-');
    let mut id = [0; 16];
    for byte in &mut id {
        *byte = hex(&[*digits.next()?, *digits.next()?])? as u8;
    }
    digits.next().is_none().then_some(id)
}

fn hex(digits: &[u8]) -> Option<u64> {
    u64::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps_are_understood() {
        let mapping = |range, rights: &str, file_offset, file, path: &'static str| Mapping {
            range,
            is_code: rights == "x",
            is_guard: rights.is_empty(),
            file_offset,
            file,
            path: path.as_bytes(),
        };
        let (disk, none) = ((&b"fe:01"[..], &b"12345"[..]), (&b"00:00"[..], &b"0"[..]));
        for (line, expected) in [
            (
                "7f00a000-7f00b000 r-xp 00001000 fe:01 12345                      /usr/lib/a b.so",
                Some(mapping(0x7f00_a000..0x7f00_b000, "x", 0x1000, disk, "/usr/lib/a b.so")),
            ),
            ("1000-2000 rw-p 00000000 00:00 0 ", Some(mapping(0x1000..0x2000, "w", 0, none, ""))),
            ("1000-2000 ---p 00000000 00:00 0", Some(mapping(0x1000..0x2000, "", 0, none, ""))),
            ("1000 rw-p 00000000 00:00 0", None),
            ("", None),
        ] {
            assert_eq!(Mapping::parse(line.as_bytes()), expected, "{line:?}");
        }
    }

    #[test]
    fn another_file_or_another_part_of_it_has_another_identity() {
        let identity = |line: &str| Mapping::parse(line.as_bytes()).unwrap().identity();
        let lines = [
            "1000-2000 r-xp 00001000 fe:01 12345 /a.so",
            "1000-2000 r-xp 00002000 fe:01 12345 /a.so",
            "1000-2000 r-xp 00001000 fe:01 12346 /a.so",
            "1000-2000 r-xp 00001000 fe:02 12345 /a.so",
        ];
        let identities = lines.map(identity);
        for (index, found) in identities.iter().enumerate() {
            assert!(!identities[..index].contains(found), "{}", lines[index]);
        }
        let removed = "7000-9000 r-xp 00001000 fe:01 12345 /a.so (deleted)";
        assert_eq!(identity(removed), identities[0]);
    }

    #[test]
    fn our_own_code_is_found() {
        let address = our_own_code_is_found as *const () as usize;
        let mut path = Vec::new();
        mappings(&CallPermit::begin().unwrap(), |mapping| {
            if mapping.is_code && mapping.range.contains(&address) {
                path = mapping.path.to_vec();
            }
            path.is_empty()
        });
        let us = std::env::current_exe().unwrap();
        assert_eq!(String::from_utf8_lossy(&path), us.to_string_lossy());
    }

    #[test]
    fn numbers_of_the_system_are_understood() {
        let stat = b"12 (a) b) c) S 1 12 12 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654 1 2 3\n";
        assert_eq!(start_ticks_in(stat), Some(987_654));
        assert_eq!(start_ticks_in(b"12 (a) S 1"), None);
        assert!(start_ticks() > 0);
        let id = boot_id_in(b"00112233-4455-6677-8899-aabbccddeeff\n");
        assert_eq!(id.map(|id| (id[0], id[7], id[15])), Some((0, 0x77, 0xff)));
        assert_eq!(boot_id_in(b"00112233-4455"), None);
    }
}

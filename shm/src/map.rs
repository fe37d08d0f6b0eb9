//! The only unsafe code of this crate: a file mapping as 64-bit words, and half of a word.

use std::fs::File;
use std::io;
#[cfg(not(loom))]
use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicU64;

use memmap2::{Advice, MmapMut, MmapOptions, MmapRaw};
use rustix::mm::{Advice as LinuxAdvice, madvise};

/// The number of bytes in a word of the mapping.
pub(crate) const WORD_BYTES: usize = size_of::<AtomicU64>();

// A mapping begins on a page, so a word is aligned if its offset is; and no platform pads the type.
const _: () = assert!(WORD_BYTES == 8 && align_of::<AtomicU64>() == 8);

/// A mapping whose words every process accesses only as atomics.
#[derive(Debug)]
pub(crate) struct Words {
    map: MmapRaw,
}

impl Words {
    /// Private memory of this process, which starts with `head` and is zero behind it.
    pub(crate) fn anonymous(head: &[u8], bytes: usize) -> io::Result<Words> {
        let mut map = MmapMut::map_anon(bytes)?;
        map[..head.len()].copy_from_slice(head);
        Ok(Words { map: map.into() })
    }

    /// The first `bytes` of a file that is at least as long, for reading and writing.
    pub(crate) fn of_file(file: &File, bytes: usize) -> io::Result<Words> {
        Ok(Words { map: MmapOptions::new().len(bytes).map_raw(file)? })
    }

    /// The first `bytes` of a file that is at least as long, for reading. A store into these words
    /// would be a fault, so only readers that never store use this: `CounterReader` and
    /// `RegionReader`.
    pub(crate) fn of_file_read_only(file: &File, bytes: usize) -> io::Result<Words> {
        Ok(Words { map: MmapOptions::new().len(bytes).map_raw_read_only(file)? })
    }

    /// Excludes the mapping from core dumps, since people who receive a core dump must not see the
    /// mapping's content.
    pub(crate) fn leave_out_of_dumps(&self) -> io::Result<()> {
        self.map.advise(Advice::DontDump)
    }

    /// Makes a forked child find zeros in the mapping. Works only for private memory.
    #[allow(unsafe_code)]
    pub(crate) fn clear_in_children(&self) -> io::Result<()> {
        let begin = self.map.as_mut_ptr().cast();
        // SAFETY: the range is a mapping of ours, which lives as long as `self`, and its words are
        // atomics that may be zero at any time.
        unsafe { madvise(begin, self.map.len(), LinuxAdvice::LinuxWipeOnFork) }?;
        Ok(())
    }

    /// All whole words of the mapping.
    #[allow(unsafe_code)]
    #[inline]
    pub(crate) fn all(&self) -> &[AtomicU64] {
        let word_count = self.map.len() / WORD_BYTES;
        let first = self.map.as_ptr().cast::<AtomicU64>();
        // SAFETY:
        // - `first` is not null and is aligned: a mapping begins on a page.
        // - `word_count` words lie inside the mapping, which lives as long as `self`.
        // - Every bit pattern is a valid `AtomicU64`, and a mapping is initialised memory.
        // - No code makes a `&mut` to these bytes: `map` is private. Other processes change them
        //   with atomic stores only.
        // - On a read-only mapping the words are only loaded, which is an ordinary load.
        unsafe { std::slice::from_raw_parts(first, word_count) }
    }
}

/// The half of a word on which the kernel lets threads sleep; only its address is used.
#[cfg(not(loom))]
#[allow(unsafe_code)]
pub(crate) fn low_half(word: &AtomicU64) -> &AtomicU32 {
    // The low half comes first.
    const _: () = assert!(cfg!(target_endian = "little"));
    // SAFETY:
    // - The pointer comes from a reference that lives as long as the result, and is aligned for
    //   more than four bytes.
    // - The four bytes are part of the eight, and every bit pattern is valid.
    // - This process never loads or stores through the result, so no word is accessed in two sizes
    //   at a time; only the kernel does, for which memory has no sizes.
    unsafe { &*word.as_ptr().cast::<AtomicU32>() }
}

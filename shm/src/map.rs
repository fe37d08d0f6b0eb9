//! The only unsafe code of this crate: a file mapping seen as 64-bit words.

use std::fs::File;
use std::io;
use std::sync::atomic::AtomicU64;

use memmap2::{MmapMut, MmapOptions, MmapRaw};

/// Bytes in a word of the mapping.
pub(crate) const WORD_BYTES: usize = size_of::<AtomicU64>();

// A mapping begins on a page, so a word is aligned if its offset is; and no platform pads the type.
const _: () = assert!(WORD_BYTES == 8 && align_of::<AtomicU64>() == 8);

/// A mapping whose words are only ever touched as atomics, by this process and by every other.
pub(crate) struct Words {
    map: MmapRaw,
}

impl Words {
    /// Memory of this process alone, that begins with `head` and is zero behind it.
    pub(crate) fn anonymous(head: &[u8], bytes: usize) -> io::Result<Words> {
        let mut map = MmapMut::map_anon(bytes)?;
        map[..head.len()].copy_from_slice(head);
        Ok(Words { map: map.into() })
    }

    /// The first `bytes` of a file that is at least as long, to read and write.
    pub(crate) fn of_file(file: &File, bytes: usize) -> io::Result<Words> {
        Ok(Words { map: MmapOptions::new().len(bytes).map_raw(file)? })
    }

    /// The first `bytes` of a file that is at least as long, to read. Storing into these words
    /// would be a fault, so only [`CounterReader`](crate::CounterReader), which never stores, uses
    /// this.
    pub(crate) fn of_file_read_only(file: &File, bytes: usize) -> io::Result<Words> {
        Ok(Words { map: MmapOptions::new().len(bytes).map_raw_read_only(file)? })
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
        // - Nobody makes a `&mut` to these bytes: `map` is private, and nothing but this function
        //   looks at it after construction. Other processes change them with atomic stores only.
        // - On a read-only mapping the words are only loaded, relaxed, at the machine's own width:
        //   an ordinary load.
        unsafe { std::slice::from_raw_parts(first, word_count) }
    }
}

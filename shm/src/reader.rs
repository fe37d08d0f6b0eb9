//! The reading side, for other processes. Nothing that the file says is believed unchecked.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::counters::{load, slot_words};
use crate::definition::CounterDef;
use crate::error::CounterError;
use crate::file;
use crate::layout::{self, HEADER_BYTES, Header};
use crate::map::Words;
use crate::process::Writer;

/// A counter file of another process, opened to read.
///
/// The file was allocated whole by its writer, who never shortens it. If someone else does, reading
/// a value is a bus error, as with every mapped file; only the owner could.
pub struct CounterReader {
    words: Words,
    header: Header,
    defs: Vec<CounterDef<String>>,
}

impl CounterReader {
    /// Opens a file and reads its header and names.
    ///
    /// # Errors
    /// The file is missing, is another user's, is not a counter file, was written by a newer
    /// program, is cut off or is damaged.
    pub fn open(path: &Path) -> Result<CounterReader, CounterError> {
        let (file, file_bytes) = file::open(path)?;
        let cannot_read = |error| CounterError::io(path, "read the file", error);
        let mut head = [0; HEADER_BYTES];
        let head_bytes = read_up_to(&file, &mut head, 0).map_err(cannot_read)?;
        let header = Header::decode(&head[..head_bytes], file_bytes)
            .map_err(|kind| CounterError::at(path, kind))?;
        let mut names = vec![0; header.names_bytes];
        file.read_exact_at(&mut names, header.names_offset as u64).map_err(cannot_read)?;
        let defs = layout::decode_names(&names, header.counter_count)
            .map_err(|kind| CounterError::at(path, kind))?;
        let words = Words::of_file_read_only(&file, header.file_bytes)
            .map_err(|error| CounterError::io(path, "map the file", error))?;
        Ok(CounterReader { words, header, defs })
    }

    /// The counters, in the order of their indexes.
    pub fn defs(&self) -> &[CounterDef<String>] {
        &self.defs
    }

    /// How many slots there are.
    pub fn slot_count(&self) -> usize {
        self.header.slot_count
    }

    /// The process that made the file.
    pub fn writer(&self) -> Writer {
        self.header.writer
    }

    /// The value of one counter in one slot.
    ///
    /// # Panics
    /// If there is no such slot or counter.
    pub fn slot_value(&self, slot: usize, index: usize) -> u64 {
        load(&slot_words(&self.words, &self.header, slot)[index])
    }

    /// The value of one counter over all slots, as [`CounterFile::sum`](crate::CounterFile::sum).
    ///
    /// # Panics
    /// If there is no such counter.
    pub fn sum(&self, index: usize) -> u64 {
        (0..self.slot_count()).fold(0, |sum, slot| sum.wrapping_add(self.slot_value(slot, index)))
    }
}

/// Fills `out` from `offset` on; less only if the file ends.
fn read_up_to(file: &File, out: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < out.len() {
        match file.read_at(&mut out[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

//! Reading counters from another process's file. Every value in the header and the name table is
//! checked.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::definition::ReadDef;
use crate::error::CounterError;
use crate::file::{self, Access, FileId};
use crate::layout::{self, HEADER_BYTES, Header};
use crate::map::Words;
use crate::process::Writer;
use crate::slots::Slots;
use crate::value::CounterValue;

/// A counter file of another process, opened for reading.
///
/// The writer allocated the whole file and never shortens it. If another program of the same user
/// shortens the file, reading a value causes a bus error (SIGBUS), as with every mapped file.
pub struct CounterReader {
    slots: Slots,
    defs: Vec<ReadDef>,
    id: FileId,
}

impl CounterReader {
    /// Opens a file and reads its header and names.
    ///
    /// # Errors
    /// The file is missing, is another user's, is not a counter file, was written by a newer
    /// program, is truncated or is damaged.
    pub fn open(path: &Path) -> Result<CounterReader, CounterError> {
        let (file, file_bytes) = file::open(path, Access::Read)?;
        let cannot_read = |error| CounterError::io(path, "read the file", error);
        let mut head = [0; HEADER_BYTES];
        let head_bytes = read_up_to(&file, &mut head, 0).map_err(cannot_read)?;
        let header = Header::decode(&head[..head_bytes], file_bytes)
            .map_err(|kind| CounterError::at(path, kind))?;
        let mut names = vec![0; header.names_bytes];
        file.read_exact_at(&mut names, header.names_offset as u64).map_err(cannot_read)?;
        let defs =
            layout::decode_names(&names, &header).map_err(|kind| CounterError::at(path, kind))?;
        let words = Words::of_file_read_only(&file, header.file_bytes)
            .map_err(|error| CounterError::io(path, "map the file", error))?;
        let id = FileId::of(&file.metadata().map_err(cannot_read)?);
        let word_count = defs.iter().map(|def| def.kind.word_count()).sum();
        Ok(CounterReader { slots: Slots { words, header, word_count }, defs, id })
    }

    /// The definitions of the counters, in the order of their words in a slot.
    pub fn defs(&self) -> &[ReadDef] {
        &self.defs
    }

    /// The number of slots.
    pub fn slot_count(&self) -> usize {
        self.slots.header.slot_count
    }

    /// The process that made the file.
    pub fn writer(&self) -> Writer {
        self.slots.header.writer
    }

    /// Whether this file is still at `path`; another file there belongs to a newer server. `None`
    /// if there is no file at the path.
    pub fn is_at(&self, path: &Path) -> Option<bool> {
        let found = std::fs::symlink_metadata(path).ok()?;
        Some(FileId::of(&found) == self.id)
    }

    /// Returns one word of one slot, like
    /// [`CounterFile::slot_value`](crate::CounterFile::slot_value).
    ///
    /// # Panics
    /// If there is no such slot or word.
    pub fn slot_value(&self, slot: usize, word: usize) -> u64 {
        self.slots.value(slot, word)
    }

    /// Returns the sum of one word over all slots, like
    /// [`CounterFile::sum`](crate::CounterFile::sum).
    ///
    /// # Panics
    /// If there is no such word.
    pub fn sum(&self, word: usize) -> u64 {
        self.slots.sum(word)
    }

    /// The values of all counters over all slots, like
    /// [`CounterFile::values`](crate::CounterFile::values).
    pub fn values(&self) -> impl Iterator<Item = (&ReadDef, CounterValue)> {
        self.slots.values(&self.defs)
    }
}

/// Fills `out` with the bytes from `offset` on; returns their number, which is less than the length
/// of `out` only if the file ends.
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

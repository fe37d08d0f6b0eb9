//! The writing side: the file and the slots in it.
//!
//! | field | written by | read by |
//! |---|---|---|
//! | header, name table | creator, before the file has its name | any process |
//! | words of slot *i* | the one thread that holds `CounterSlot` *i* | any thread, any process |
//! | `taken[i]` | who takes or drops slot *i* | who takes slot *i* |

use std::cell::Cell;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::definition::CounterDef;
use crate::error::{CounterError, CounterErrorKind};
use crate::file::{self, TempName};
use crate::layout::{self, COUNTERS_MAX, Header, SLOTS_MAX};
use crate::map::{WORD_BYTES, Words};

/// Counters of one process: one slot a worker, in a file that other processes can watch.
///
/// Cloning gives another hold on the same memory. The file stays behind when the process ends, so
/// that its last numbers can be read; the next server replaces it.
#[derive(Clone)]
pub struct CounterFile {
    shared: Arc<Shared>,
}

struct Shared {
    words: Words,
    header: Header,
    taken: Box<[AtomicBool]>,
}

/// The words of one slot lie side by side.
pub(crate) fn slot_words<'a>(words: &'a Words, header: &Header, slot: usize) -> &'a [AtomicU64] {
    assert!(slot < header.slot_count, "there is no slot {slot}");
    let first = first_word(header, slot);
    &words.all()[first..first + header.counter_count]
}

fn first_word(header: &Header, slot: usize) -> usize {
    (header.slots_offset + slot * header.slot_stride_bytes) / WORD_BYTES
}

/// Little-endian in memory, whatever the machine: the mapping is also a file.
pub(crate) fn load(word: &AtomicU64) -> u64 {
    u64::from_le(word.load(Ordering::Relaxed))
}

fn store(word: &AtomicU64, value: u64) {
    word.store(value.to_le(), Ordering::Relaxed);
}

/// Counters that nobody finds yet; see [`CounterFile::prepare`]. Dropped, the file is removed,
/// though its memory stays as long as it is used.
pub struct UnnamedCounters {
    file: CounterFile,
    temp: TempName,
}

impl UnnamedCounters {
    /// A hold on the memory.
    pub fn file(&self) -> CounterFile {
        self.file.clone()
    }

    /// Gives the file its name. Who has mapped the file that had it keeps that.
    ///
    /// # Errors
    /// The system refuses.
    pub fn name(self) -> Result<(), CounterError> {
        self.temp.name()
    }
}

/// The first bytes of a file, and how the rest of it is laid out.
fn plan(defs: &[CounterDef], slots: usize) -> Result<(Vec<u8>, Header), CounterError> {
    if !(1..=COUNTERS_MAX).contains(&defs.len()) {
        return Err(CounterError::definition(format!("1 to {COUNTERS_MAX} counters fit")));
    }
    if !(1..=SLOTS_MAX).contains(&slots) {
        return Err(CounterError::definition(format!("1 to {SLOTS_MAX} slots fit")));
    }
    let names = layout::encode_names(defs)?;
    let header = Header::plan(slots, defs.len(), names.len());
    Ok(([&header.encode()[..], &names[..]].concat(), header))
}

impl CounterFile {
    /// Makes a file with `slots` slots, all zero, or memory without a file.
    ///
    /// The file appears under its name only when it is complete, and replaces an older one. It is
    /// made with mode 0600 in a directory that only its owner may enter (see
    /// [`create_private_dir`](crate::create_private_dir)), and all its bytes are allocated: writing
    /// a counter cannot fail later.
    ///
    /// # Errors
    /// The definitions do not fit the format, the directory is not private, the disk is full, or
    /// the system refuses.
    pub fn create(
        path: Option<&Path>,
        defs: &[CounterDef],
        slots: usize,
    ) -> Result<CounterFile, CounterError> {
        let Some(path) = path else {
            let (head, header) = plan(defs, slots)?;
            let words =
                Words::anonymous(&head, header.file_bytes).map_err(|source| CounterError {
                    path: None,
                    kind: CounterErrorKind::Io { doing: "map memory", source },
                })?;
            return Ok(CounterFile::of(words, header));
        };
        let unnamed = CounterFile::prepare(path, defs, slots)?;
        let file = unnamed.file();
        unnamed.name()?;
        Ok(file)
    }

    /// Makes a file as [`CounterFile::create`] does, that has no name yet: what has it stays until
    /// [`UnnamedCounters::name`].
    ///
    /// # Errors
    /// As [`CounterFile::create`].
    pub fn prepare(
        path: &Path,
        defs: &[CounterDef],
        slots: usize,
    ) -> Result<UnnamedCounters, CounterError> {
        let (head, header) = plan(defs, slots)?;
        let (words, temp) = file::make(path, &head, header.file_bytes)?;
        Ok(UnnamedCounters { file: CounterFile::of(words, header), temp })
    }

    fn of(words: Words, header: Header) -> CounterFile {
        let taken = (0..header.slot_count).map(|_| AtomicBool::new(false)).collect();
        CounterFile { shared: Arc::new(Shared { words, header, taken }) }
    }

    /// Takes a slot for one thread. It can be taken again after it was dropped, and goes on
    /// counting where it was.
    ///
    /// # Panics
    /// If there is no such slot or if it is taken: two writers would lose each other's counts.
    pub fn slot(&self, slot: usize) -> CounterSlot {
        let Shared { header, taken, .. } = &*self.shared;
        assert!(slot < header.slot_count, "there is no slot {slot}");
        // ORDER: Acquire pairs with the Release in `CounterSlot::drop`: the new owner adds to what
        // the last one stored, not to an older value.
        let was_taken = taken[slot].swap(true, Ordering::Acquire);
        assert!(!was_taken, "slot {slot} has a writer already");
        CounterSlot {
            shared: self.shared.clone(),
            slot,
            first_word: first_word(header, slot),
            counter_count: header.counter_count,
            one_thread: PhantomData,
        }
    }

    /// How many slots there are.
    pub fn slot_count(&self) -> usize {
        self.shared.header.slot_count
    }

    /// The value of one counter in one slot.
    ///
    /// # Panics
    /// If there is no such slot or counter.
    pub fn slot_value(&self, slot: usize, index: usize) -> u64 {
        load(&slot_words(&self.shared.words, &self.shared.header, slot)[index])
    }

    /// The value of one counter over all slots. Slots are read one after the other while they
    /// change, so sums of different counters need not belong to the same moment.
    ///
    /// # Panics
    /// If there is no such counter.
    pub fn sum(&self, index: usize) -> u64 {
        (0..self.slot_count()).fold(0, |sum, slot| sum.wrapping_add(self.slot_value(slot, index)))
    }
}

/// One worker's counters. It may move to another thread but is used by one at a time, so counting
/// is a load and a store, never a locked instruction.
///
/// ```compile_fail
/// fn shared_between_threads<T: Sync>() {}
/// shared_between_threads::<forebay_shm::CounterSlot>();
/// ```
pub struct CounterSlot {
    shared: Arc<Shared>,
    slot: usize,
    first_word: usize,
    counter_count: usize,
    one_thread: PhantomData<Cell<()>>,
}

impl CounterSlot {
    /// Adds to a counter.
    ///
    /// # Panics
    /// If there is no such counter; so do all functions here.
    #[inline]
    pub fn add(&self, index: usize, n: u64) {
        let word = self.word(index);
        store(word, load(word).wrapping_add(n));
    }

    /// Sets a gauge.
    #[inline]
    pub fn set(&self, index: usize, value: u64) {
        store(self.word(index), value);
    }

    /// This slot's value.
    #[inline]
    pub fn get(&self, index: usize) -> u64 {
        load(self.word(index))
    }

    /// Which slot this is.
    pub fn index(&self) -> usize {
        self.slot
    }

    #[inline]
    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.counter_count, "there is no counter {index}");
        &self.shared.words.all()[self.first_word + index]
    }
}

impl Drop for CounterSlot {
    fn drop(&mut self) {
        // ORDER: Release pairs with the Acquire in `CounterFile::slot`.
        self.shared.taken[self.slot].store(false, Ordering::Release);
    }
}

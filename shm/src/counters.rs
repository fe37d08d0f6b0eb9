//! Writing counters: the file, and the slots in it.
//!
//! | field | written by | read by |
//! |---|---|---|
//! | header, name table | creator, before the file has its name | any process |
//! | words of slot *i* | the one thread that holds `CounterSlot` *i* | any thread, any process |
//! | `taken[i]` | owner of slot *i*, when it takes and drops the slot | next owner |

use std::cell::Cell;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::definition::{CounterDef, histogram_words};
use crate::error::{CounterError, CounterErrorKind};
use crate::file::{self, TempName};
use crate::layout::{self, COUNTERS_MAX, Header, SLOTS_MAX};
use crate::map::Words;
use crate::slots::{Slots, load, store};
use crate::value::CounterValue;

/// The counters of one process: one slot per worker, in a file that other processes can watch.
///
/// A clone is another handle on the same memory. The file stays when the process ends, so that its
/// last numbers can be read. The next server replaces the file.
#[derive(Clone)]
pub struct CounterFile {
    shared: Arc<CounterMemory>,
}

struct CounterMemory {
    slots: Slots,
    taken: Box<[AtomicBool]>,
}

/// A counter file that does not have its name yet; see [`CounterFile::prepare`]. Dropping the value
/// removes the file; the memory stays as long as a handle on it lives.
pub struct UnnamedCounters {
    file: CounterFile,
    temp: TempName,
}

impl UnnamedCounters {
    /// A handle on the memory.
    pub fn file(&self) -> CounterFile {
        self.file.clone()
    }

    /// Gives the file its name. Processes that have mapped an older file of that name keep it.
    ///
    /// # Errors
    /// The system refuses.
    pub fn name(self) -> Result<(), CounterError> {
        self.temp.name()
    }
}

/// The first bytes of a counter file, and the layout of the whole file.
struct Plan {
    head: Vec<u8>,
    header: Header,
    word_count: usize,
}

impl Plan {
    fn new(defs: &[CounterDef], slots: usize) -> Result<Plan, CounterError> {
        let word_count = defs.iter().map(|def| def.kind.word_count()).sum();
        if !(1..=COUNTERS_MAX).contains(&word_count) {
            return Err(CounterError::definition(format!(
                "a slot can hold 1 to {COUNTERS_MAX} words of counters, not {word_count}"
            )));
        }
        if !(1..=SLOTS_MAX).contains(&slots) {
            return Err(CounterError::definition(format!(
                "a counter file can have 1 to {SLOTS_MAX} slots, not {slots}"
            )));
        }
        let names = layout::encode_names(defs)?;
        let header = Header::plan(slots, defs.len(), word_count, names.len());
        let head = [&header.encode()[..], &names[..]].concat();
        Ok(Plan { head, header, word_count })
    }

    fn mapped(self, words: Words) -> CounterFile {
        let Plan { header, word_count, .. } = self;
        let taken = (0..header.slot_count).map(|_| AtomicBool::new(false)).collect();
        let slots = Slots { words, header, word_count };
        CounterFile { shared: Arc::new(CounterMemory { slots, taken }) }
    }
}

impl CounterFile {
    /// Creates a file with `slots` zeroed slots, or the same in memory without a file.
    ///
    /// The file appears under its name only when it is complete, and replaces an older one. It has
    /// mode 0600, in a directory that only its owner may enter (see
    /// [`create_private_dir`](crate::create_private_dir)). All its bytes are allocated, so writing
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
            let plan = Plan::new(defs, slots)?;
            let words = Words::anonymous(&plan.head, plan.header.file_bytes).map_err(|source| {
                let kind = CounterErrorKind::Io { doing: "map memory", source };
                CounterError { path: None, kind }
            })?;
            return Ok(plan.mapped(words));
        };
        let unnamed = CounterFile::prepare(path, defs, slots)?;
        let file = unnamed.file();
        unnamed.name()?;
        Ok(file)
    }

    /// Makes a file as [`CounterFile::create`] does, but without a name. A file that has the name
    /// keeps it until [`UnnamedCounters::name`].
    ///
    /// # Errors
    /// The errors of [`CounterFile::create`].
    pub fn prepare(
        path: &Path,
        defs: &[CounterDef],
        slots: usize,
    ) -> Result<UnnamedCounters, CounterError> {
        let plan = Plan::new(defs, slots)?;
        let (words, temp) = file::make(path, &plan.head, plan.header.file_bytes)?;
        Ok(UnnamedCounters { file: plan.mapped(words), temp })
    }

    /// Takes a slot for one thread. A dropped slot can be taken again, and continues its counts.
    ///
    /// # Panics
    /// If there is no such slot, or if the slot is taken: two writers would lose each other's
    /// counts.
    pub fn slot(&self, slot: usize) -> CounterSlot {
        let CounterMemory { slots, taken } = &*self.shared;
        let first_word = slots.first_word(slot);
        // ORDER: Acquire pairs with the Release in `CounterSlot::drop`: the new owner adds to the
        // last values that the old one stored.
        let was_taken = taken[slot].swap(true, Ordering::Acquire);
        assert!(!was_taken, "slot {slot} of the counters has a writer already");
        CounterSlot {
            shared: self.shared.clone(),
            slot,
            first_word,
            word_count: slots.word_count,
            one_thread: PhantomData,
        }
    }

    /// The number of slots.
    pub fn slot_count(&self) -> usize {
        self.shared.slots.header.slot_count
    }

    /// One word of one slot: the value of a counter or gauge there, or part of a histogram.
    ///
    /// # Panics
    /// If there is no such slot or word.
    pub fn slot_value(&self, slot: usize, word: usize) -> u64 {
        self.shared.slots.value(slot, word)
    }

    /// One word, summed over all slots. Slots are read one after another while they change, so sums
    /// of different words need not belong to the same moment.
    ///
    /// # Panics
    /// If there is no such word.
    pub fn sum(&self, word: usize) -> u64 {
        self.shared.slots.sum(word)
    }

    /// The values of all counters, summed over all slots. `defs` are the definitions with which the
    /// file was made.
    ///
    /// # Panics
    /// If the definitions take more words than a slot of this file has.
    pub fn values<'a>(
        &'a self,
        defs: &'a [CounterDef],
    ) -> impl Iterator<Item = (&'a CounterDef, CounterValue)> {
        self.shared.slots.values(defs)
    }
}

/// One worker's slot of counters. The slot may move to another thread, but only one thread can use
/// it at a time, so counting is a load and a store, never a locked instruction.
///
/// ```compile_fail
/// fn shared_between_threads<T: Sync>() {}
/// shared_between_threads::<forebay_shm::CounterSlot>();
/// ```
pub struct CounterSlot {
    shared: Arc<CounterMemory>,
    slot: usize,
    first_word: usize,
    word_count: usize,
    one_thread: PhantomData<Cell<()>>,
}

impl CounterSlot {
    /// Adds to a counter.
    ///
    /// # Panics
    /// If the slot has no such word; this holds for every method with an index.
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

    /// Counts `value` in the histogram with these bounds, whose words begin at `first`, and adds
    /// `amount` to the histogram's sum. `amount` is the value before rounding, if it was rounded.
    #[inline]
    pub fn observe(&self, first: usize, bounds: &[u64], value: u64, amount: u64) {
        let bucket = bounds.partition_point(|bound| *bound < value);
        self.add(first + bucket, 1);
        self.add(first + histogram_words(bounds.len()) - 1, amount);
    }

    /// The value of the word with this index in this slot.
    #[inline]
    pub fn get(&self, index: usize) -> u64 {
        load(self.word(index))
    }

    /// The index of this slot in the file.
    pub fn index(&self) -> usize {
        self.slot
    }

    #[inline]
    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(
            index < self.word_count,
            "slot {} of the counters has {} words, so there is no word {index}",
            self.slot,
            self.word_count
        );
        &self.shared.slots.words.all()[self.first_word + index]
    }
}

impl Drop for CounterSlot {
    fn drop(&mut self) {
        // ORDER: Release pairs with the Acquire in `CounterFile::slot`.
        self.shared.taken[self.slot].store(false, Ordering::Release);
    }
}

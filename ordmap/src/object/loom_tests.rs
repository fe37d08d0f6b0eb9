//! Objects that are freed and rewritten while a reader reads them. Chunks have two objects of two
//! units, or one of four.
//!
//! The key and the value of every entry are the reference that names the entry.

use std::sync::Arc;

use forebay_sync::atomic::{AtomicU64, Relaxed};
use forebay_sync::boxed_words;
use forebay_sync::model::{breaks, fails, holds};
use loom::thread;

use super::alloc::{Allocator, LIST_WORDS, MARK_WORDS, POOL_WORDS};
use super::class::{CHUNK_WORDS, ChunkClass, ChunkWord};
use super::header::{ObjectHeader, ObjectKind};
use super::reference::{Generation, ObjectRef};
use super::view::{ShardView, before_reuse, follow, publish};
use super::{EntryKind, EntryLayout, EntryLengths};

pub(crate) const OWNER: u16 = 1;
pub(crate) const PAIRS: ChunkClass = ChunkClass::Size(1);
pub(crate) const WHOLE: ChunkClass = ChunkClass::Size(2);

pub(crate) struct Memory {
    data: Box<[AtomicU64]>,
    chunks: Box<[AtomicU64]>,
    marks: Box<[AtomicU64]>,
    /// The lists of each owner.
    lists: [Box<[AtomicU64]>; 2],
    pool: Box<[AtomicU64]>,
    epoch: AtomicU64,
    pub(crate) slot: AtomicU64,
}

impl Memory {
    /// Memory of one chunk, divided in two.
    pub(crate) fn new() -> Memory {
        let memory = Memory {
            data: boxed_words(CHUNK_WORDS),
            chunks: boxed_words(1),
            marks: boxed_words(MARK_WORDS),
            lists: [boxed_words(LIST_WORDS), boxed_words(LIST_WORDS)],
            pool: boxed_words(POOL_WORDS),
            epoch: AtomicU64::new(0),
            slot: AtomicU64::new(0),
        };
        memory.allocator(OWNER).claim(1).unwrap();
        memory
    }

    pub(crate) fn view(&self) -> ShardView<'_> {
        self.view_of(OWNER)
    }

    fn view_of(&self, owner: u16) -> ShardView<'_> {
        ShardView::new(&self.data, &self.chunks, owner)
    }

    pub(crate) fn allocator(&self, owner: u16) -> Allocator<'_> {
        Allocator {
            view: self.view_of(owner),
            marks: &self.marks,
            lists: &self.lists[usize::from(owner - OWNER)],
            pool: &self.pool,
            epoch: &self.epoch,
            owner,
        }
    }

    /// Takes an object and writes an entry that holds its own reference.
    pub(crate) fn make(&self) -> ObjectRef {
        let found = self.allocator(OWNER).find(2).unwrap().unwrap();
        self.allocator(OWNER).take(&found);
        write_itself(found.words, found.reference);
        found.reference
    }

    /// Writes a new entry into memory that was freed.
    fn write_again(&self, old: ObjectRef) -> ObjectRef {
        before_reuse();
        let new = ObjectRef::new(old.unit().unwrap(), old.generation().next());
        write_itself(self.view().words(old.unit().unwrap(), 2).unwrap(), new);
        new
    }

    /// The first word of an object's memory.
    pub(crate) fn first_word(&self, at: ObjectRef) -> u64 {
        self.view().words(at.unit().unwrap(), 1).unwrap()[0].load(Relaxed)
    }

    /// Divides the chunk, which has no object taken, into one object, and fills it with this word.
    pub(crate) fn divide_into_one_with(&self, word: u64) {
        self.allocator(OWNER).set_free(0, Generation::of(100));
        assert!(self.allocator(OWNER).claim_one(0));
        before_reuse();
        self.data.iter().for_each(|place| place.store(word, Relaxed));
    }

    /// Reads an object by reference; its contents must match the reference.
    pub(crate) fn read(&self, reference: ObjectRef) {
        let Ok(object) = self.view().begin(reference) else { return };
        let said = EntryLengths::of(&object, EntryKind::Entry).map(|lengths| {
            let key = lengths.key_words(&object)[0].load(Relaxed);
            (key, lengths.value_words(&object).first().map(|word| word.load(Relaxed)))
        });
        if let Ok(said) = object.settle(said) {
            assert_eq!(
                said,
                (reference.word(), Some(reference.word())),
                "a read returned another object than the named one"
            );
        }
    }
}

pub(crate) fn write_itself(words: &[AtomicU64], reference: ObjectRef) {
    let bytes = reference.word().to_le_bytes();
    let layout = EntryLayout::of(8, 8);
    layout.write(words, reference.generation(), EntryKind::Entry, &bytes, &bytes);
}

/// Models a reader that follows the slot while its object is freed and rewritten.
fn read_and_reused(order: fn(&Memory, ObjectRef)) {
    let memory = Arc::new(Memory::new());
    let first = memory.make();
    publish(&memory.slot, first);
    let other = Arc::clone(&memory);
    let writer = thread::spawn(move || order(&other, first));
    let named = follow(&memory.slot);
    if !named.is_none() {
        memory.read(named);
    }
    writer.join().unwrap();
}

/// Raises the generation first, then writes.
fn rightly(memory: &Memory, first: ObjectRef) {
    publish(&memory.slot, ObjectRef::NONE);
    memory.allocator(OWNER).raise(first);
    publish(&memory.slot, memory.write_again(first));
}

fn reuse() {
    read_and_reused(rightly);
}

/// Writes before it raises the generation: a reader can miss that the object was freed.
fn written_first() {
    read_and_reused(|memory, first| {
        publish(&memory.slot, ObjectRef::NONE);
        let words = memory.view().words(first.unit().unwrap(), 2).unwrap();
        words[2].store(0, Relaxed);
        memory.allocator(OWNER).raise(first);
    });
}

/// The second object of the chunk, which lies in the middle of an object of four units.
fn second(generation: u64) -> ObjectRef {
    ObjectRef::new(2, Generation::of(generation))
}

fn word(base: u64, class: ChunkClass, owner: u16) -> u64 {
    ChunkWord::new(Generation::of(base), class, owner, 0).word()
}

/// Models a reader whose object's chunk is divided into larger objects, while a value that is
/// written over the object contains the object's old header.
fn divided_into_larger() {
    let memory = Arc::new(Memory::new());
    let first = second(0);
    write_itself(memory.view().words(2, 2).unwrap(), first);
    let other = Arc::clone(&memory);
    let writer = thread::spawn(move || {
        let allocator = other.allocator(OWNER);
        allocator.raise(first);
        let next = other.write_again(first);
        allocator.raise(next);
        allocator.set_free(0, Generation::of(2));
        assert!(allocator.claim_one(0));
        before_reuse();
        let forged = ObjectHeader::new(Generation::of(0), ObjectKind::ShortEntry, 8);
        other.data[4].store(forged.word(), Relaxed);
    });
    memory.read(first);
    writer.join().unwrap();
}

/// Models a reader whose object's chunk is divided into smaller objects, while a value of a larger
/// object looks like the header of the reader's object.
fn divided_into_smaller() {
    let memory = Arc::new(Memory::new());
    memory.chunks[0].store(word(1, WHOLE, OWNER), Relaxed);
    let first = second(0);
    // The named object is gone; another one lies in the middle of a value.
    write_itself(memory.view().words(2, 2).unwrap(), first);
    memory.data[6].store(77, Relaxed);
    let other = Arc::clone(&memory);
    let writer = thread::spawn(move || {
        let allocator = other.allocator(OWNER);
        allocator.set_free(0, Generation::of(2));
        allocator.claim(1).unwrap();
    });
    memory.read(first);
    writer.join().unwrap();
}

/// Checks that the claimer of a chunk sees the stores of the shard that gave the chunk back.
fn given_and_claimed() {
    let memory = Arc::new(Memory::new());
    let first = memory.make();
    let other = Arc::clone(&memory);
    let giver = thread::spawn(move || {
        other.allocator(OWNER).raise(first);
        other.allocator(OWNER).set_free(0, Generation::of(1));
    });
    if memory.allocator(OWNER + 1).claim_one(0) {
        let header = memory.allocator(OWNER + 1).header_at(0).unwrap();
        assert_eq!(
            header.kind(),
            Some(ObjectKind::Free),
            "the claimer sees an object that is not freed"
        );
    }
    giver.join().unwrap();
}

/// Models a shard that gives its chunk back while another one searches: a failed search is repeated
/// later.
fn given_and_searched() {
    let memory = Arc::new(Memory::new());
    let other = Arc::clone(&memory);
    let giver = thread::spawn(move || {
        let (allocator, word) = (other.allocator(OWNER), other.view().chunk(0).unwrap());
        allocator.give_back(0, word, PAIRS).unwrap();
    });
    let is_claimed = memory.allocator(OWNER + 1).claim(1).unwrap();
    giver.join().unwrap();
    assert!(
        is_claimed || memory.allocator(OWNER + 1).claim(1).unwrap(),
        "a chunk that was given back is never found"
    );
}

#[test]
fn a_read_matches_its_reference() {
    let model = "ordmap: an object is freed and written again while it is read";
    holds(model, reuse);
    for name in ["ordmap.publish", "ordmap.follow", "ordmap.reuse", "ordmap.read"] {
        breaks(name, model, reuse);
    }
    fails("ordmap: an object is written before it is freed", written_first);
}

#[test]
fn a_chunk_that_is_divided_anew_is_noticed() {
    let model = "ordmap: a chunk is divided into larger objects while one is read";
    holds(model, divided_into_larger);
    breaks("ordmap.header", model, divided_into_larger);
    let model = "ordmap: a chunk is divided into smaller objects while one is read";
    holds(model, divided_into_smaller);
    breaks("ordmap.divide", model, divided_into_smaller);
}

#[test]
fn a_chunk_changes_hands() {
    let model = "ordmap: a chunk is given back and claimed by another shard";
    holds(model, given_and_claimed);
    breaks("ordmap.give", model, given_and_claimed);
    breaks("ordmap.claim", model, given_and_claimed);
}

#[test]
fn a_chunk_that_was_given_back_is_found() {
    let model = "ordmap: a chunk is given back while another shard looks for one";
    holds(model, given_and_searched);
    breaks("ordmap.given", model, given_and_searched);
    breaks("ordmap.search", model, given_and_searched);
}

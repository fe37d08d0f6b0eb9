//! The positions of the lines of a head, and an index by name.

use std::ops::Range;

use super::{RuledLines, name::HashSeed};

/// The offsets of one line, and its links to lines of the same name.
#[derive(Clone, Copy, Debug)]
pub(super) struct EditLine {
    /// The hash of the line's name.
    pub(super) hash: u32,
    /// First byte of the name.
    pub(super) start: u32,
    /// First byte of the value.
    pub(super) value_start: u32,
    /// Length of the value; [`REMOVED`] if the line was removed.
    pub(super) value_len: u32,
    /// End of the line, after its CRLF.
    pub(super) end: u32,
    /// The next line of this name, or [`NONE`].
    pub(super) next: u32,
    /// The last line of this name; valid only in the first line of the name.
    pub(super) last: u32,
    /// Length of the name.
    pub(super) name_len: u16,
    /// Whether rules have written the line; known only if the edit tracks this.
    pub(super) is_ruled: bool,
}

/// `value_len` of a removed line.
const REMOVED: u32 = u32::MAX;

/// The index that stands for no line.
pub(super) const NONE: u32 = u32::MAX;

/// Smallest number of slots of an index.
const SLOT_COUNT_MIN: usize = 32;

/// Largest number of slots that the index keeps for the next head, because clearing slots takes
/// time.
const SLOT_COUNT_KEPT_MAX: usize = 2_048;

impl EditLine {
    pub(super) fn is_live(&self) -> bool {
        self.value_len != REMOVED
    }

    pub(super) fn name(&self) -> Range<usize> {
        let start = self.start as usize;
        start..start + usize::from(self.name_len)
    }

    /// The range of the value; empty if the line was removed.
    pub(super) fn value(&self) -> Range<usize> {
        let start = self.value_start as usize;
        start..start + if self.is_live() { self.value_len as usize } else { 0 }
    }

    /// The range of the whole line, including its CRLF.
    pub(super) fn whole(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// The tables of a [`FieldEdit`](super::FieldEdit), reused by their owner, so that an edit
/// allocates nothing once they have grown.
#[derive(Clone, Debug, Default)]
pub struct EditTable {
    /// Lines in the order in which they were found or added. A [`FieldHandle`](super::FieldHandle)
    /// is an index into this list, so no entry is ever removed.
    pub(super) lines: Vec<EditLine>,
    slots: Vec<NameSlot>,
    /// The seed of the name hashes; parsed names use the same seed.
    pub(super) seed: HashSeed,
    /// Number of occupied slots.
    used_count: usize,
    /// Ranges of the text that are removed when the edit ends.
    pub(super) holes: Vec<(u32, u32)>,
    pub(super) ruled: RuledLines,
    /// Number of slots that searches have visited, for tests that count steps.
    #[cfg(test)]
    pub(super) probe_count: std::cell::Cell<usize>,
}

/// A slot of the index, for one name.
#[derive(Clone, Copy, Debug)]
struct NameSlot {
    hash: u32,
    /// The first line of the name, or [`NONE`] if the slot is empty.
    first: u32,
}

const EMPTY: NameSlot = NameSlot { hash: 0, first: NONE };

/// The slot of a name, occupied or free. It is valid until the next line is pushed.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineSlot {
    slot: usize,
    first: u32,
}

impl EditTable {
    /// Clears the table. The new index has slots for as many names as the old one had, so that
    /// repeated runs of the same rules do not grow it each time.
    pub(super) fn clear(&mut self) {
        let slot_count = match self.used_count {
            0 => 0,
            used => (used * 2).next_power_of_two().clamp(SLOT_COUNT_MIN, SLOT_COUNT_KEPT_MAX),
        };
        self.lines.clear();
        self.slots.clear();
        self.slots.resize(slot_count, EMPTY);
        self.used_count = 0;
        self.holes.clear();
    }

    /// The lines that rules have written in a request: those before the next edit of the request,
    /// or those after the last one. See [`FieldEdit::of_request`](super::FieldEdit::of_request).
    pub fn ruled_lines(&mut self) -> &mut RuledLines {
        &mut self.ruled
    }

    /// Returns the index of the first line of this name, skipping removed lines.
    pub(super) fn find(&self, hash: u32, text: &[u8], name: &[u8]) -> Option<u32> {
        self.live_at(self.slot_of(hash, text, name)?)
    }

    /// Returns the index of the first line of the name in this slot, skipping removed lines.
    pub(super) fn live_at(&self, place: LineSlot) -> Option<u32> {
        self.live_from(place.first)
    }

    /// Finds the slot of a name, growing the index if necessary.
    #[inline]
    pub(super) fn slot_for(&mut self, hash: u32, text: &[u8], name: &[u8]) -> LineSlot {
        if (self.used_count + 1) * 2 > self.slots.len() {
            self.grow();
        }
        // The index has slots now, so `slot_of` never returns `None` here.
        self.slot_of(hash, text, name).unwrap_or(LineSlot { slot: 0, first: NONE })
    }

    /// Returns the index of this line or, if it was removed, of the next line of this name that
    /// still exists.
    pub(super) fn live_from(&self, mut index: u32) -> Option<u32> {
        loop {
            let line = self.lines.get(index as usize)?;
            if line.is_live() {
                return Some(index);
            }
            index = line.next;
        }
    }

    /// Adds a line after the others of its name, and returns its index.
    pub(super) fn push(&mut self, line: EditLine, text: &[u8]) -> u32 {
        let name = text.get(line.name()).unwrap_or_default();
        let place = self.slot_for(line.hash, text, name);
        self.push_at(place, line)
    }

    /// Adds a line like [`push`](EditTable::push), to a name whose slot is known.
    #[inline]
    pub(super) fn push_at(&mut self, place: LineSlot, line: EditLine) -> u32 {
        let index = self.lines.len() as u32;
        match self.lines.get_mut(place.first as usize) {
            Some(first) => {
                let last = std::mem::replace(&mut first.last, index);
                if let Some(last) = self.lines.get_mut(last as usize) {
                    last.next = index;
                }
            }
            None => {
                if let Some(slot) = self.slots.get_mut(place.slot) {
                    *slot = NameSlot { hash: line.hash, first: index };
                    self.used_count += 1;
                }
            }
        }
        self.lines.push(EditLine { last: index, ..line });
        index
    }

    /// Finds the slot of a name; `None` if the index has no slots yet.
    #[inline]
    fn slot_of(&self, hash: u32, text: &[u8], name: &[u8]) -> Option<LineSlot> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        // At most half of the slots are occupied, so the search ends at a free one.
        loop {
            self.count_probe();
            let slot = *self.slots.get(at)?;
            if slot.first == NONE || slot.hash == hash && self.is_named(slot.first, text, name) {
                return Some(LineSlot { slot: at, first: slot.first });
            }
            at = (at + 1) & mask;
        }
    }

    fn is_named(&self, index: u32, text: &[u8], name: &[u8]) -> bool {
        let line = self.lines.get(index as usize);
        let other = line.and_then(|line| text.get(line.name())).unwrap_or_default();
        // Most names have the usual case, and this comparison is a single call.
        other == name || other.eq_ignore_ascii_case(name)
    }

    /// Counts a visited slot, in tests.
    pub(super) fn count_probe(&self) {
        #[cfg(test)]
        self.probe_count.set(self.probe_count.get() + 1);
    }

    #[cold]
    /// Doubles the slots. Names need no comparison, since each slot holds a different name.
    fn grow(&mut self) {
        let count = (self.slots.len() * 2).max(SLOT_COUNT_MIN);
        let old_count = self.slots.len();
        self.slots.resize(count + old_count, EMPTY);
        self.slots.copy_within(0..old_count, count);
        let (new, old) = self.slots.split_at_mut(count);
        new.fill(EMPTY);
        for slot in old.iter().filter(|slot| slot.first != NONE) {
            let mut at = slot.hash as usize & (count - 1);
            while new.get(at).is_some_and(|slot| slot.first != NONE) {
                at = (at + 1) & (count - 1);
            }
            if let Some(place) = new.get_mut(at) {
                *place = *slot;
            }
        }
        self.slots.truncate(count);
    }

    /// Marks a line as removed and its bytes as a hole. Returns false if there is no such line,
    /// or if it was removed before.
    pub(super) fn remove(&mut self, index: u32) -> bool {
        let Some(line) = self.lines.get_mut(index as usize).filter(|line| line.is_live()) else {
            return false;
        };
        let whole = line.whole();
        line.value_len = REMOVED;
        self.holes.push((whole.start as u32, whole.end as u32));
        true
    }
}

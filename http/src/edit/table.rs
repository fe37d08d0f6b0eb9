//! Where the lines of a head are, and which of them have a name.

use std::ops::Range;

/// Place of one line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    /// Of its name.
    pub(super) hash: u32,
    /// First byte of the name.
    pub(super) start: u32,
    /// First byte of the value.
    pub(super) value_start: u32,
    /// Bytes of the value; [`REMOVED`] of a line that is no longer there.
    pub(super) value_len: u32,
    /// Behind its CRLF.
    pub(super) end: u32,
    /// The next line of this name, or [`NONE`].
    pub(super) next: u32,
    /// Bytes of the name.
    pub(super) name_len: u16,
}

/// `value_len` of a removed line.
const REMOVED: u32 = u32::MAX;

/// No line.
pub(super) const NONE: u32 = u32::MAX;

/// Fewest slots of the index.
const SLOT_COUNT_MIN: usize = 32;

impl Line {
    pub(super) fn is_live(&self) -> bool {
        self.value_len != REMOVED
    }

    pub(super) fn name(&self) -> Range<usize> {
        let start = self.start as usize;
        start..start + usize::from(self.name_len)
    }

    /// Empty if it was removed.
    pub(super) fn value(&self) -> Range<usize> {
        let start = self.value_start as usize;
        start..start + if self.is_live() { self.value_len as usize } else { 0 }
    }

    /// All of it, its CRLF too.
    pub(super) fn whole(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// Tables of a [`FieldEdit`](super::FieldEdit): kept by its owner and reused, so that an edit
/// allocates nothing once they have grown.
#[derive(Clone, Debug, Default)]
pub struct EditTable {
    /// Lines in the order in which they were found or added. A [`FieldAt`](super::FieldAt) is an
    /// index of it, so nothing is ever taken out.
    pub(super) lines: Vec<Line>,
    /// By hash: the first line of a name, and the last in the next word.
    slots: Vec<[u32; 2]>,
    /// Slots in use.
    used_count: usize,
    /// Bytes of the text that are to go.
    pub(super) holes: Vec<(u32, u32)>,
    /// Slots looked at, for tests that count instead of taking the time.
    #[cfg(test)]
    pub(super) probe_count: std::cell::Cell<usize>,
}

impl EditTable {
    pub(super) fn clear(&mut self) {
        self.lines.clear();
        self.slots.clear();
        self.used_count = 0;
        self.holes.clear();
    }

    /// The first line of a name that is still there.
    pub(super) fn find(&self, hash: u32, text: &[u8], name: &[u8]) -> Option<u32> {
        let slot = self.slots.get(self.slot_of(hash, text, name)?)?;
        self.live_from(slot[0])
    }

    /// This line or the next of its name that is still there.
    pub(super) fn live_from(&self, mut index: u32) -> Option<u32> {
        loop {
            let line = self.lines.get(index as usize)?;
            if line.is_live() {
                return Some(index);
            }
            index = line.next;
        }
    }

    /// Adds a line behind those of its name.
    pub(super) fn push(&mut self, line: Line, text: &[u8]) -> u32 {
        if (self.used_count + 1) * 2 > self.slots.len() {
            self.grow();
        }
        let index = self.lines.len() as u32;
        let name = text.get(line.name()).unwrap_or_default();
        match self.slot_of(line.hash, text, name) {
            None => {}
            Some(at) => self.link(at, index),
        }
        self.lines.push(line);
        index
    }

    fn link(&mut self, slot: usize, index: u32) {
        let Some(slot) = self.slots.get_mut(slot) else {
            return;
        };
        if slot[0] == NONE {
            *slot = [index, index];
            self.used_count += 1;
            return;
        }
        let last = std::mem::replace(&mut slot[1], index);
        if let Some(last) = self.lines.get_mut(last as usize) {
            last.next = index;
        }
    }

    /// The slot of a name, or the empty one where it belongs; `None` only before there is any.
    fn slot_of(&self, hash: u32, text: &[u8], name: &[u8]) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        // At most half of the slots are in use, so an empty one ends this.
        loop {
            self.count_probe();
            let [first, _] = *self.slots.get(at)?;
            let Some(line) = self.lines.get(first as usize) else {
                return Some(at);
            };
            let is_same = || {
                let other = text.get(line.name()).unwrap_or_default();
                // Most names come in one case; and that comparison is one call.
                other == name || other.eq_ignore_ascii_case(name)
            };
            if line.hash == hash && is_same() {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
    }

    /// Counts a step, in tests.
    pub(super) fn count_probe(&self) {
        #[cfg(test)]
        self.probe_count.set(self.probe_count.get() + 1);
    }

    /// Doubles the slots. Names are not compared again: each slot is of another name.
    fn grow(&mut self) {
        let count = (self.slots.len() * 2).max(SLOT_COUNT_MIN);
        let old_count = self.slots.len();
        self.slots.resize(count + old_count, [NONE; 2]);
        self.slots.copy_within(0..old_count, count);
        let (new, old) = self.slots.split_at_mut(count);
        new.fill([NONE; 2]);
        for slot in old.iter().filter(|slot| slot[0] != NONE) {
            let Some(line) = self.lines.get(slot[0] as usize) else {
                continue;
            };
            let mut at = line.hash as usize & (count - 1);
            while new.get(at).is_some_and(|slot| slot[0] != NONE) {
                at = (at + 1) & (count - 1);
            }
            if let Some(place) = new.get_mut(at) {
                *place = *slot;
            }
        }
        self.slots.truncate(count);
    }

    /// Marks a line as gone and its bytes as to go.
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

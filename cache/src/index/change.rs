//! Taking out and moving.

use std::ops::Range;

use forebay_sync::Words;
use forebay_sync::atomic::{Relaxed, release};
use forebay_sync::pins::PinRow;

use super::key::{Key, KeyHash};
use super::records::{Hit, PinnedLocation, Records, RemovalReason};
use super::table::{Index, PinFailure};
use super::word::{IndexWord, WordState};

impl<W: Words, R: Records> Index<W, R> {
    /// Takes out all records of a key that were there when this began, also those that are not live
    /// yet. How many were there?
    ///
    /// An insert under way may publish its record behind this one's back: a purge makes itself
    /// known first, and calls this then.
    pub fn remove<P: Words>(
        &self,
        row: &PinRow<P>,
        key: &Key<impl Fn(PinnedLocation<'_>) -> bool>,
    ) -> usize {
        self.remove_if(row, key, |_| true)
    }

    /// The same for those of them that are to go. Of a record that changes its place or its state
    /// before its word is out, `goes` is asked again.
    pub fn remove_if<P: Words>(
        &self,
        row: &PinRow<P>,
        key: &Key<impl Fn(PinnedLocation<'_>) -> bool>,
        mut goes: impl FnMut(&Hit<'_>) -> bool,
    ) -> usize {
        let fingerprint = key.hash.fingerprint();
        let is_wanted = |word: IndexWord| word.is_of(fingerprint);
        let mut matches = |hit: &Hit<'_>| key.is_at(hit.at()) && goes(hit);
        let slots = self.slots(key.hash);
        slots.filter(|slot| self.remove_at(row, *slot, is_wanted, &mut matches)).count()
    }

    /// The same for all records of some buckets that match. What is damaged goes with them.
    pub fn remove_where<P: Words>(
        &self,
        row: &PinRow<P>,
        buckets: Range<usize>,
        mut matches: impl FnMut(&Hit<'_>) -> bool,
    ) -> usize {
        let slots = self.slots_of(buckets);
        slots.filter(|slot| self.remove_at(row, *slot, |_| true, &mut matches)).count()
    }

    /// Takes out the word of a record that was found, if it still names this record.
    pub fn remove_hit(&self, hit: &Hit<'_>) -> bool {
        self.swap(hit.slot, hit.word, |_| IndexWord::EMPTY, Relaxed)
    }

    /// Takes out the word that names exactly this place, in whatever state, and returns it: for the
    /// reclaimer of the place's segment, which knows each record's hash. It needs no pin, since
    /// nobody else can use the segment again. No word names the place afterwards.
    pub fn remove_location(&self, hash: KeyHash, location: u32) -> Option<IndexWord> {
        let fingerprint = hash.fingerprint();
        self.slots(hash).find_map(|slot| {
            let word = self.load_hint(slot);
            let is_it = word.is_of(fingerprint) && word.location() == location;
            // A word of a sealed segment changes its use count only, or goes.
            (is_it && self.swap(slot, word, |_| IndexWord::EMPTY, Relaxed)).then_some(word)
        })
    }

    /// Takes out all words of some buckets that name such a place, whatever else they say, and
    /// tells each place: for the reclaimer of the segment that the places are in, as above.
    pub fn remove_locations(
        &self,
        buckets: Range<usize>,
        is_there: impl Fn(u32) -> bool,
        mut gone: impl FnMut(u32),
    ) {
        for slot in self.slots_of(buckets) {
            let named = || {
                let word = self.load_hint(slot);
                (word.is_in_memory() && is_there(word.location())).then_some(word)
            };
            while let Some(word) = named() {
                if self.swap(slot, word, |_| IndexWord::EMPTY, Relaxed) {
                    gone(word.location());
                }
            }
        }
    }

    /// Lets the word of a live record name a copy of it, with another use count: false if it was
    /// taken out or replaced meanwhile, and then the copy is nobody's. The copy's segment stays
    /// open until this has returned.
    ///
    /// Sequence and size stay, so nobody has to look again.
    pub fn move_to(&self, hit: &Hit<'_>, location: u32, uses: u8) -> bool {
        // ORDER: pairs with the acquire in `look`: the copy is whole.
        let order = release("index.move");
        let moved = hit.word.with_location(location).with_uses(uses);
        hit.word.state() == WordState::Live && self.swap(hit.slot, hit.word, |_| moved, order)
    }

    /// Takes out what a slot names if it is wanted by its word and matches by its record. Who finds
    /// it changed looks again: a record that was moved or became live meanwhile goes too.
    fn remove_at<P: Words>(
        &self,
        row: &PinRow<P>,
        slot: usize,
        is_wanted: impl Fn(IndexWord) -> bool,
        mut matches: impl FnMut(&Hit<'_>) -> bool,
    ) -> bool {
        loop {
            match self.pin_word(row, slot, &is_wanted) {
                Ok(hit) if !matches(&hit) => return false,
                Ok(hit) if self.remove_hit(&hit) => {
                    self.records().on_removed(&hit, RemovalReason::Removed);
                    return true;
                }
                Ok(_) => {}
                Err(PinFailure::Damaged(word)) => {
                    self.swap_exactly(slot, word, IndexWord::EMPTY, Relaxed);
                    return false;
                }
                Err(PinFailure::Other) => return false,
            }
        }
    }
}

//! Removing and moving records.

use std::ops::Range;

use forebay_sync::Words;
use forebay_sync::atomic::{Relaxed, release};
use forebay_sync::pins::PinRow;

use super::key::{IndexKey, KeyHash};
use super::records::{IndexHit, PinnedLocation, Records, RemovalReason};
use super::table::{Index, PinFailure};
use super::word::{IndexWord, WordState};

impl<W: Words, R: Records> Index<W, R> {
    /// Removes all records of a key that were in the index when the call began, including those
    /// that are not live yet. Returns the number of removed records.
    ///
    /// A concurrent insert may publish its record in a slot that this call has already passed. So a
    /// purge announces itself before it calls this function.
    pub fn remove<P: Words>(
        &self,
        row: &PinRow<P>,
        key: &IndexKey<impl Fn(PinnedLocation<'_>) -> bool>,
    ) -> usize {
        self.remove_if(row, key, |_| true)
    }

    /// Removes those records of a key for which `goes` returns true. If a record moves or becomes
    /// live before its word is removed, `goes` is called again. Returns the number of removed
    /// records.
    pub fn remove_if<P: Words>(
        &self,
        row: &PinRow<P>,
        key: &IndexKey<impl Fn(PinnedLocation<'_>) -> bool>,
        mut goes: impl FnMut(&IndexHit<'_>) -> bool,
    ) -> usize {
        let fingerprint = key.hash.fingerprint();
        let is_wanted = |word: IndexWord| word.is_of(fingerprint);
        let mut matches = |hit: &IndexHit<'_>| key.is_at(hit.at()) && goes(hit);
        let slots = self.slots(key.hash);
        slots.filter(|slot| self.remove_at(row, *slot, is_wanted, &mut matches)).count()
    }

    /// Removes all records of these buckets for which `matches` returns true, and all words that
    /// name a location in no segment. Returns the number of removed records.
    pub fn remove_where<P: Words>(
        &self,
        row: &PinRow<P>,
        buckets: Range<usize>,
        mut matches: impl FnMut(&IndexHit<'_>) -> bool,
    ) -> usize {
        let slots = self.slots_of(buckets);
        slots.filter(|slot| self.remove_at(row, *slot, |_| true, &mut matches)).count()
    }

    /// Removes the word in a slot if `matches` returns true for its record, or if the word names a
    /// location in no segment. If the record moves or becomes live before its word is removed,
    /// `matches` is called again, with the moved record. Returns whether a record was removed.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn remove_slot_if<P: Words>(
        &self,
        row: &PinRow<P>,
        slot: usize,
        matches: impl FnMut(&IndexHit<'_>) -> bool,
    ) -> bool {
        self.remove_at(row, slot, |_| true, matches)
    }

    /// Removes the word of a hit, if the word still names the same record. Returns whether it did.
    pub fn remove_hit(&self, hit: &IndexHit<'_>) -> bool {
        self.swap(hit.slot, hit.word, |_| IndexWord::EMPTY, Relaxed)
    }

    /// Removes the word that names exactly this location, live or unchecked, and returns the word.
    /// For the reclaimer of the segment, which knows the hash of each record, and needs no pin,
    /// since no other thread can reuse the segment. Afterwards no word names the location.
    pub fn remove_location(&self, hash: KeyHash, location: u32) -> Option<IndexWord> {
        let fingerprint = hash.fingerprint();
        self.slots(hash).find_map(|slot| {
            let word = self.load_hint(slot);
            let is_it = word.is_of(fingerprint) && word.location() == location;
            // A word that names a record of a sealed segment changes only in its use count, until
            // it is removed or replaced.
            (is_it && self.swap(slot, word, |_| IndexWord::EMPTY, Relaxed)).then_some(word)
        })
    }

    /// Removes all words of these buckets that name a location for which `is_there` returns true,
    /// whatever their fingerprints are, and calls `gone` with each location. Like
    /// [`remove_location`](Index::remove_location), this is for the reclaimer of the segment.
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

    /// Makes the word of a live record name a copy of the record, with another use count. Returns
    /// false if the word was removed or replaced before; then no word names the copy. The caller
    /// keeps the segment of the copy open until this call has returned.
    ///
    /// The copy has the same sequence and size as the record, so no search for other records of the
    /// key is needed.
    pub fn move_to(&self, hit: &IndexHit<'_>, location: u32, uses: u8) -> bool {
        // ORDER: pairs with the acquire in `pin_word`: the copy is whole.
        let order = release("index.move");
        let moved = hit.word.with_location(location).with_uses(uses);
        hit.word.state() == WordState::Live && self.swap(hit.slot, hit.word, |_| moved, order)
    }

    /// Removes the word in a slot if the word is wanted and its record matches, or if the word
    /// names a location in no segment. If the word has changed, it is loaded again. So a record
    /// that has moved or become live is removed too. Returns whether a record was removed.
    fn remove_at<P: Words>(
        &self,
        row: &PinRow<P>,
        slot: usize,
        is_wanted: impl Fn(IndexWord) -> bool,
        mut matches: impl FnMut(&IndexHit<'_>) -> bool,
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

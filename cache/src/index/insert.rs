//! Inserting a record: its word is published unchecked, then made live; then other records of the
//! key are searched for.

use std::cmp::Reverse;

use forebay_sync::Words;
use forebay_sync::atomic::{Relaxed, fence, release};
use forebay_sync::pins::PinRow;

use super::key::{IndexKey, KeyHash};
use super::records::{IndexHit, PinnedLocation, Records, RemovalReason};
use super::table::{BUCKET_WORDS, Index, PinFailure};
use super::word::{IndexWord, WordState};

/// The largest number of attempts of an insert. An attempt fails if another thread changes the
/// chosen word first. So many failures in a row mean that the index is damaged; the insert then
/// returns [`InsertError::Full`].
const ATTEMPTS_MAX: usize = 64;

/// A record that is to be inserted into the index.
#[derive(Clone, Copy, Debug)]
pub struct InsertRequest {
    /// The location of the record, in units of 64 bytes.
    pub location: u32,
    /// The size class of the record: see [`size_class`](super::size_class).
    pub size_class: u8,
    /// The sequence of the record: of two records of a key, the record with the higher sequence
    /// counts.
    pub sequence: u64,
}

/// A record whose word is published, but not live. Its publisher makes the word live or withdraws
/// it, and keeps the record's segment open until then.
#[derive(Debug)]
#[must_use = "an unchecked word occupies a slot, and no lookup finds its record"]
pub struct UncheckedWord {
    own: PublishedWord,
}

/// Why a record was not published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertError {
    /// A live record of the key has a higher sequence.
    Outdated,
    /// Both buckets are full and no word may be evicted, or another thread changed the chosen word
    /// at each attempt.
    Full,
}

/// A word that this thread has published.
#[derive(Clone, Copy, Debug)]
pub(super) struct PublishedWord {
    slot: usize,
    word: IndexWord,
    sequence: u64,
}

impl PublishedWord {
    /// Of two records of a key, the record with the higher rank stays. The location breaks ties
    /// between equal sequences, which should not exist.
    fn rank(self) -> (u64, u32) {
        (self.sequence, self.word.location())
    }
}

impl InsertRequest {
    fn word(&self, hash: KeyHash, state: WordState) -> IndexWord {
        IndexWord::new(hash.fingerprint(), state, self.location, self.size_class)
    }
}

impl<W: Words, R: Records> Index<W, R> {
    /// Publishes the word of a record as unchecked, so that lookups do not find the record yet. The
    /// word is written into the slot of a record of the key with a lower sequence, else into an
    /// empty slot, else into the slot of a record with few uses.
    ///
    /// The caller then checks for purges that began after the record's fetch, and calls
    /// [`make_live`](Index::make_live) or [`withdraw`](Index::withdraw).
    ///
    /// # Errors
    /// [`InsertError`]; then the index is unchanged, and no word names the record.
    pub fn insert<P: Words>(
        &self,
        row: &PinRow<P>,
        key: &IndexKey<impl Fn(PinnedLocation<'_>) -> bool>,
        new: &InsertRequest,
    ) -> Result<UncheckedWord, InsertError> {
        let word = new.word(key.hash, WordState::Unchecked);
        let mut own = PublishedWord { slot: usize::MAX, word, sequence: new.sequence };
        for _ in 0..ATTEMPTS_MAX {
            if let Some(slot) = self.publish(row, key, own)? {
                own.slot = slot;
                // ORDER: pairs with the fence of a purge. We publish the word, then read the
                // purges; a purge announces itself, then reads the words. One of us sees the other.
                fence("index.unchecked");
                return Ok(UncheckedWord { own });
            }
        }
        Err(InsertError::Full)
    }

    /// Lets lookups find a record, unless its word was removed or replaced before. If its key then
    /// has two live records, the record with the lower sequence is removed. Returns whether the
    /// record is in the index now.
    pub fn make_live<P: Words>(
        &self,
        row: &PinRow<P>,
        key: &IndexKey<impl Fn(PinnedLocation<'_>) -> bool>,
        unchecked: UncheckedWord,
    ) -> bool {
        self.go_live(unchecked).is_some_and(|own| self.look_again(row, key, own))
    }

    /// Removes an unchecked record. Returns whether its word was still there.
    pub fn withdraw(&self, unchecked: UncheckedWord) -> bool {
        let PublishedWord { slot, word, .. } = unchecked.own;
        self.swap_exactly(slot, word, IndexWord::EMPTY, Relaxed)
    }

    /// Replaces the record of a hit by a new record that is derived from it (a new head for the
    /// same body). If the word of the old record was removed or changed before, the new record is
    /// not published. Returns whether the new record is in the index now.
    ///
    /// The new record takes over the use count. The caller has given it the same key and a higher
    /// sequence, and keeps its segment open until this call has returned.
    pub fn replace<P: Words>(
        &self,
        row: &PinRow<P>,
        key: &IndexKey<impl Fn(PinnedLocation<'_>) -> bool>,
        hit: &IndexHit<'_>,
        new: &InsertRequest,
    ) -> bool {
        let live = new.word(key.hash, WordState::Live);
        // ORDER: pairs with the acquire in `pin_word`: the new record is whole.
        let order = release("index.replace");
        if hit.word.state() != WordState::Live
            || !self.swap(hit.slot, hit.word, |old| live.with_uses(old.uses()), order)
        {
            self.records().on_rejected(new.location);
            return false;
        }
        self.records().on_removed(hit, RemovalReason::Replaced);
        self.look_again(
            row,
            key,
            PublishedWord { slot: hit.slot, word: live, sequence: new.sequence },
        )
    }

    /// Removes the record with the lower sequence if a key has two live records, as after the death
    /// of a publisher that had made its record live and not yet searched for others. Returns
    /// whether the record of `hit` is still in the index.
    pub fn resolve_duplicates<P: Words>(
        &self,
        row: &PinRow<P>,
        key: &IndexKey<impl Fn(PinnedLocation<'_>) -> bool>,
        hit: &IndexHit<'_>,
    ) -> bool {
        let sequence = self.records().sequence(hit.at());
        self.look_again(row, key, PublishedWord { slot: hit.slot, word: hit.word, sequence })
    }

    /// The first half of [`make_live`](Index::make_live): makes the word live. `None` if another
    /// thread has removed or replaced the word.
    pub(super) fn go_live(&self, unchecked: UncheckedWord) -> Option<PublishedWord> {
        let PublishedWord { slot, word, sequence } = unchecked.own;
        let live = word.with_state(WordState::Live);
        // `Relaxed` is enough: a read-modify-write continues the release sequence of the
        // publication.
        self.swap_exactly(slot, word, live, Relaxed).then_some(PublishedWord {
            slot,
            word: live,
            sequence,
        })
    }

    /// Makes one attempt to publish a word. Returns `None` if another thread was faster.
    fn publish<P: Words>(
        &self,
        row: &PinRow<P>,
        key: &IndexKey<impl Fn(PinnedLocation<'_>) -> bool>,
        own: PublishedWord,
    ) -> Result<Option<usize>, InsertError> {
        for slot in self.slots(key.hash) {
            if self.replace_lower(row, key, PublishedWord { slot, ..own })? {
                return Ok(Some(slot));
            }
        }
        if let Some(slot) = self.empty_slot(key.hash) {
            // ORDER: pairs with the acquire in `pin_word`: the record is whole.
            let order = release("index.publish");
            return Ok(self.swap_exactly(slot, IndexWord::EMPTY, own.word, order).then_some(slot));
        }
        let (slot, victim) = self.victim(key.hash, own.word).ok_or(InsertError::Full)?;
        Ok(self.evict(row, (slot, victim), own.word).then_some(slot))
    }

    /// Writes the word of `own` into its slot if the slot's word names a record of the same key
    /// with a lower sequence. Returns whether it did.
    fn replace_lower<P: Words>(
        &self,
        row: &PinRow<P>,
        key: &IndexKey<impl Fn(PinnedLocation<'_>) -> bool>,
        own: PublishedWord,
    ) -> Result<bool, InsertError> {
        let fingerprint = key.hash.fingerprint();
        while let Ok(hit) = self.pin_word(row, own.slot, |word| word.is_of(fingerprint)) {
            if !key.is_at(hit.at()) {
                break;
            }
            if self.rank(&hit) >= own.rank() {
                // A word that is not live yet may still be withdrawn.
                let is_live = hit.word.state() == WordState::Live;
                return if is_live { Err(InsertError::Outdated) } else { Ok(false) };
            }
            // ORDER: pairs with the acquire in `pin_word`: the record is whole.
            if self.swap(own.slot, hit.word, |_| own.word, release("index.publish")) {
                self.records().on_removed(&hit, RemovalReason::Replaced);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The first empty slot of the emptier bucket.
    fn empty_slot(&self, hash: KeyHash) -> Option<usize> {
        let buckets = hash.buckets(self.bucket_count());
        let empty = buckets.map(|bucket| {
            let words = self.bucket(bucket);
            let first = words.iter().position(|word| word.is_empty())?;
            let count = words.iter().filter(|word| word.is_empty()).count();
            Some((Reverse(count), bucket * BUCKET_WORDS + first))
        });
        // Of two equally empty buckets, the first one is chosen.
        empty.into_iter().flatten().min_by_key(|&(count, _)| count).map(|(_, slot)| slot)
    }

    /// The victim: the word with the fewest uses. Words with the fingerprint of the new word are
    /// excluded, since their records may have the same key and a higher sequence. Unchecked words
    /// are chosen last. The location of the new record breaks ties, so that no slot is preferred.
    fn victim(&self, hash: KeyHash, own: IndexWord) -> Option<(usize, IndexWord)> {
        let slots = self.slots(hash).map(|slot| (slot, self.load_hint(slot)));
        let rotation = own.location() as usize % (2 * BUCKET_WORDS);
        let rotated = slots.cycle().skip(rotation).take(2 * BUCKET_WORDS);
        let others = rotated
            .filter(|(_, word)| word.is_in_memory() && word.fingerprint() != own.fingerprint());
        others.min_by_key(|(_, word)| (word.state() == WordState::Unchecked, word.uses()))
    }

    /// Writes `own` into the victim's slot. Returns false if the victim's word has changed.
    fn evict<P: Words>(&self, row: &PinRow<P>, victim: (usize, IndexWord), own: IndexWord) -> bool {
        let (slot, word) = victim;
        // ORDER: pairs with the acquire in `pin_word`: the record is whole.
        let order = release("index.publish");
        match self.pin_word(row, slot, |now| now.is_same_record(word)) {
            Ok(hit) if self.swap(slot, hit.word, |_| own, order) => {
                self.records().on_removed(&hit, RemovalReason::Evicted);
                true
            }
            // A damaged word names no segment, so there is nothing to pin.
            Err(PinFailure::Damaged(damaged)) => self.swap_exactly(slot, damaged, own, order),
            _ => false,
        }
    }

    /// Searches for other records of the key after a word of this thread became live. Removes
    /// records with a lower rank, or removes this thread's word if a record with a higher rank is
    /// live. Returns whether this thread's word stays.
    fn look_again<P: Words>(
        &self,
        row: &PinRow<P>,
        key: &IndexKey<impl Fn(PinnedLocation<'_>) -> bool>,
        own: PublishedWord,
    ) -> bool {
        // ORDER: pairs with itself in another publisher of the key. Each has its own word live,
        // then reads the others. One of us sees the other.
        fence("index.look_again");
        let is_higher_live = self
            .slots(key.hash)
            .filter(|slot| *slot != own.slot)
            .any(|slot| self.take_out_lower(row, key, slot, own.rank()));
        if is_higher_live && self.swap(own.slot, own.word, |_| IndexWord::EMPTY, Relaxed) {
            self.records().on_rejected(own.word.location());
        }
        !is_higher_live
    }

    /// Removes the record of the key that a slot names, if its rank is lower than `rank`. Returns
    /// whether the slot names a live record of the key with a higher rank.
    fn take_out_lower<P: Words>(
        &self,
        row: &PinRow<P>,
        key: &IndexKey<impl Fn(PinnedLocation<'_>) -> bool>,
        slot: usize,
        rank: (u64, u32),
    ) -> bool {
        let fingerprint = key.hash.fingerprint();
        while let Ok(hit) = self.pin_word(row, slot, |word| word.is_of(fingerprint)) {
            if !key.is_at(hit.at()) {
                return false;
            }
            if self.rank(&hit) >= rank {
                return hit.word.state() == WordState::Live;
            }
            if self.remove_hit(&hit) {
                self.records().on_removed(&hit, RemovalReason::Replaced);
                return false;
            }
        }
        false
    }

    fn rank(&self, hit: &IndexHit<'_>) -> (u64, u32) {
        (self.records().sequence(hit.at()), hit.word.location())
    }
}

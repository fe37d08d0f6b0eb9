//! Inserting: published unchecked, made live, looked at again.

use std::cmp::Reverse;

use forebay_sync::Words;
use forebay_sync::atomic::{Relaxed, fence, release};
use forebay_sync::pins::PinRow;

use super::key::{Key, KeyHash};
use super::records::{Hit, PinnedLocation, Records, RemovalReason};
use super::table::{BUCKET_WORDS, Index, PinFailure};
use super::word::{IndexWord, WordState};

/// How often an insert begins again. Each time another thread was quicker in the same sixteen
/// words; so often in a row that is damage, and not to insert is no harm.
const ATTEMPTS_MAX: usize = 64;

/// A record that is to be found from now on.
#[derive(Clone, Copy, Debug)]
pub struct InsertRequest {
    /// Where it lies, in units of 64 bytes.
    pub location: u32,
    /// How large it is: see [`size_class`](super::size_class).
    pub size_class: u8,
    /// Of two records of a key the higher one counts.
    pub sequence: u64,
}

/// A record whose word is published, but not live: its publisher makes it live or withdraws it, and
/// keeps its segment open until then.
#[derive(Debug)]
#[must_use = "a word that stays unchecked takes room and is never found"]
pub struct UncheckedWord {
    own: PublishedWord,
}

/// Why a record was not published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertError {
    /// A record of the key with a higher sequence is live.
    Outdated,
    /// There is no room, and nothing that could give way.
    Full,
}

/// What a publisher knows of the word that it published.
#[derive(Clone, Copy, Debug)]
pub(super) struct PublishedWord {
    slot: usize,
    word: IndexWord,
    sequence: u64,
}

impl PublishedWord {
    /// Of two records of a key the one with the higher rank stays. The place tells apart what
    /// should not be: two of the same sequence.
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
    /// Publishes a record so that readers do not find it yet: in place of one of the key with a
    /// lower sequence, else in an empty word, else in place of one that was used little.
    ///
    /// The caller then looks for purges that are newer than what the record knows of, and calls
    /// [`make_live`](Index::make_live) or [`withdraw`](Index::withdraw).
    ///
    /// # Errors
    /// [`InsertError`]; then the index is as it was, and the record can be forgotten.
    pub fn insert<P: Words>(
        &self,
        row: &PinRow<P>,
        key: &Key<impl Fn(PinnedLocation<'_>) -> bool>,
        new: &InsertRequest,
    ) -> Result<UncheckedWord, InsertError> {
        let word = new.word(key.hash, WordState::Unchecked);
        let mut own = PublishedWord { slot: usize::MAX, word, sequence: new.sequence };
        for _ in 0..ATTEMPTS_MAX {
            if let Some(slot) = self.publish(row, key, own)? {
                own.slot = slot;
                // ORDER: pairs with the fence of a purge. The word is published, now its publisher
                // reads which purges there are; a purge makes itself known, then reads the words.
                // One of us sees the other.
                fence("index.unchecked");
                return Ok(UncheckedWord { own });
            }
        }
        Err(InsertError::Full)
    }

    /// Lets readers find a record, unless it was removed or replaced meanwhile; of two live records
    /// of its key the one with the lower sequence is then taken out. Is it in the index now?
    pub fn make_live<P: Words>(
        &self,
        row: &PinRow<P>,
        key: &Key<impl Fn(PinnedLocation<'_>) -> bool>,
        unchecked: UncheckedWord,
    ) -> bool {
        self.go_live(unchecked).is_some_and(|own| self.look_again(row, key, own))
    }

    /// Takes an unchecked record out. Was it still there?
    pub fn withdraw(&self, unchecked: UncheckedWord) -> bool {
        let PublishedWord { slot, word, .. } = unchecked.own;
        self.swap_exactly(slot, word, IndexWord::EMPTY, Relaxed)
    }

    /// Puts a record in the place of one that was found, for what is made from it (a new head for
    /// the same body): if the old one was taken out meanwhile the new one does not appear. Is it in
    /// the index now?
    ///
    /// The new one has a higher sequence and the same key, and counts as used as often. Its segment
    /// stays open until this has returned.
    pub fn replace<P: Words>(
        &self,
        row: &PinRow<P>,
        key: &Key<impl Fn(PinnedLocation<'_>) -> bool>,
        hit: &Hit<'_>,
        new: &InsertRequest,
    ) -> bool {
        let live = new.word(key.hash, WordState::Live);
        // ORDER: pairs with the acquire in `look`: the new record is whole.
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

    /// Of two live records of a key takes the lower one out: for a record whose publisher died
    /// before it could look again. Is the one that was found still in the index?
    pub fn resolve_duplicates<P: Words>(
        &self,
        row: &PinRow<P>,
        key: &Key<impl Fn(PinnedLocation<'_>) -> bool>,
        hit: &Hit<'_>,
    ) -> bool {
        let sequence = self.records().sequence(hit.at());
        self.look_again(row, key, PublishedWord { slot: hit.slot, word: hit.word, sequence })
    }

    /// The first half of [`make_live`](Index::make_live).
    pub(super) fn go_live(&self, unchecked: UncheckedWord) -> Option<PublishedWord> {
        let PublishedWord { slot, word, sequence } = unchecked.own;
        let live = word.with_state(WordState::Live);
        // A swap continues what the publishing one released.
        self.swap_exactly(slot, word, live, Relaxed).then_some(PublishedWord {
            slot,
            word: live,
            sequence,
        })
    }

    /// One attempt to find a slot for the own word. `None`: somebody else was quicker.
    fn publish<P: Words>(
        &self,
        row: &PinRow<P>,
        key: &Key<impl Fn(PinnedLocation<'_>) -> bool>,
        own: PublishedWord,
    ) -> Result<Option<usize>, InsertError> {
        for slot in self.slots(key.hash) {
            if self.replace_lower(row, key, PublishedWord { slot, ..own })? {
                return Ok(Some(slot));
            }
        }
        if let Some(slot) = self.empty_slot(key.hash) {
            // ORDER: pairs with the acquire in `look`: the record is whole.
            let order = release("index.publish");
            return Ok(self.swap_exactly(slot, IndexWord::EMPTY, own.word, order).then_some(slot));
        }
        let (slot, victim) = self.victim(key.hash, own.word).ok_or(InsertError::Full)?;
        Ok(self.evict(row, (slot, victim), own.word).then_some(slot))
    }

    /// Swaps the own word for the one in its slot, if that is of the same key and lower.
    fn replace_lower<P: Words>(
        &self,
        row: &PinRow<P>,
        key: &Key<impl Fn(PinnedLocation<'_>) -> bool>,
        own: PublishedWord,
    ) -> Result<bool, InsertError> {
        let fingerprint = key.hash.fingerprint();
        while let Ok(hit) = self.pin_word(row, own.slot, |word| word.is_of(fingerprint)) {
            if !key.is_at(hit.at()) {
                break;
            }
            if self.rank(&hit) >= own.rank() {
                // What is not live yet may be withdrawn.
                let is_live = hit.word.state() == WordState::Live;
                return if is_live { Err(InsertError::Outdated) } else { Ok(false) };
            }
            // ORDER: pairs with the acquire in `look`: the record is whole.
            if self.swap(own.slot, hit.word, |_| own.word, release("index.publish")) {
                self.records().on_removed(&hit, RemovalReason::Replaced);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The first empty word of the emptier bucket.
    fn empty_slot(&self, hash: KeyHash) -> Option<usize> {
        let buckets = hash.buckets(self.bucket_count());
        let empty = buckets.map(|bucket| {
            let words = self.bucket(bucket);
            let first = words.iter().position(|word| word.is_empty())?;
            let count = words.iter().filter(|word| word.is_empty()).count();
            Some((Reverse(count), bucket * BUCKET_WORDS + first))
        });
        // Of two that are equally empty, the first.
        empty.into_iter().flatten().min_by_key(|&(count, _)| count).map(|(_, slot)| slot)
    }

    /// The word that was used least, of other fingerprints: what may be of the own key and has a
    /// higher sequence does not give way. Those that wait to become live come last. Of equals the
    /// new record's place chooses, so that no slot loses more than others.
    fn victim(&self, hash: KeyHash, own: IndexWord) -> Option<(usize, IndexWord)> {
        let slots = self.slots(hash).map(|slot| (slot, self.load_hint(slot)));
        let rotation = own.location() as usize % (2 * BUCKET_WORDS);
        let rotated = slots.cycle().skip(rotation).take(2 * BUCKET_WORDS);
        let others = rotated
            .filter(|(_, word)| word.is_in_memory() && word.fingerprint() != own.fingerprint());
        others.min_by_key(|(_, word)| (word.state() == WordState::Unchecked, word.uses()))
    }

    /// Swaps the own word for a victim's.
    fn evict<P: Words>(&self, row: &PinRow<P>, victim: (usize, IndexWord), own: IndexWord) -> bool {
        let (slot, word) = victim;
        // ORDER: pairs with the acquire in `look`: the record is whole.
        let order = release("index.publish");
        match self.pin_word(row, slot, |now| now.is_same_record(word)) {
            Ok(hit) if self.swap(slot, hit.word, |_| own, order) => {
                self.records().on_removed(&hit, RemovalReason::Evicted);
                true
            }
            // It names no segment, so there is nothing to pin.
            Err(PinFailure::Damaged(damaged)) => self.swap_exactly(slot, damaged, own, order),
            _ => false,
        }
    }

    /// The second look, for a live word of one's own: takes out what is lower, or gives way to what
    /// is higher and live. Did the own word stay?
    fn look_again<P: Words>(
        &self,
        row: &PinRow<P>,
        key: &Key<impl Fn(PinnedLocation<'_>) -> bool>,
        own: PublishedWord,
    ) -> bool {
        // ORDER: pairs with itself in another publisher of the key. Each has its own word live,
        // then looks at the others. One of us sees the other.
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

    /// Takes a word of the key out of a slot if it is lower than `rank`. Is a higher one live?
    fn take_out_lower<P: Words>(
        &self,
        row: &PinRow<P>,
        key: &Key<impl Fn(PinnedLocation<'_>) -> bool>,
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

    fn rank(&self, hit: &Hit<'_>) -> (u64, u32) {
        (self.records().sequence(hit.at()), hit.word.location())
    }
}

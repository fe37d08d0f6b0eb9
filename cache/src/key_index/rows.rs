//! Rows in which participants announce records before they publish them.

use forebay_sync::Words;
use forebay_sync::atomic::{Relaxed, acquire, release};

/// A word for each participant. It holds the sequence of the record whose entries the participant
/// inserts before it publishes the record, or zero.
#[derive(Clone, Debug)]
pub(crate) struct PendingInserts<W> {
    rows: W,
    row_words: usize,
    word: usize,
}

impl<W: Words> PendingInserts<W> {
    /// `word` is the index of the word in each row of `row_words` words.
    pub(crate) fn new(rows: W, row_words: usize, word: usize) -> PendingInserts<W> {
        PendingInserts { rows, row_words, word }
    }

    /// Announces the record of this sequence; only for the owner of the row.
    pub(crate) fn begin(&self, row: u32, sequence: u64) {
        // The release of the map comes after this store, so a thread that finds the entry sees this
        // store. ORDER: pairs with `order.rows`: a sweep that finds this record here sees the index
        // word of the previous one.
        let order = release("order.entering");
        self.rows.word(row as usize * self.row_words + self.word).store(sequence, order);
    }

    /// Ends the announcement: the record's index word is published, or never will be.
    pub(crate) fn end(&self, row: u32) {
        // ORDER: pairs with `order.rows`: a sweep that sees the row cleared sees the word in the
        // index.
        let order = release("order.entered");
        self.rows.word(row as usize * self.row_words + self.word).store(0, order);
    }

    /// Clears the row of a dead participant.
    pub(crate) fn clear(&self, row: u32) {
        self.rows.word(row as usize * self.row_words + self.word).store(0, Relaxed);
    }

    /// Whether a participant is about to publish the record of this sequence. The caller has loaded
    /// the entry before, and reads the index afterwards.
    pub(crate) fn is_pending(&self, sequence: u64) -> bool {
        let rows = self.rows.word_count() / self.row_words;
        // ORDER: pairs with `order.entered`.
        let order = acquire("order.rows");
        (0..rows)
            .any(|row| self.rows.word(row * self.row_words + self.word).load(order) == sequence)
    }
}

/// Two counts: the events that may leave surplus entries, and the number of these events that the
/// last complete sweep covered.
#[derive(Clone, Debug)]
pub(crate) struct Leftovers<W> {
    words: W,
    left: usize,
    swept: usize,
}

impl<W: Words> Leftovers<W> {
    pub(crate) fn new(words: W, left: usize, swept: usize) -> Leftovers<W> {
        Leftovers { words, left, swept }
    }

    /// Requests a sweep, since surplus entries may remain. If a participant died, the caller clears
    /// its row first.
    pub(crate) fn note(&self) {
        // ORDER: pairs with `order.tidy`: the sweep that this requests finds the row cleared.
        self.words.word(self.left).fetch_add(1, release("order.left"));
    }

    /// Returns the count of events if no complete sweep has covered them yet.
    pub(crate) fn due(&self) -> Option<u64> {
        // ORDER: pairs with `order.left`.
        let left = self.words.word(self.left).load(acquire("order.tidy"));
        (left != self.words.word(self.swept).load(Relaxed)).then_some(left)
    }

    /// Records that a sweep that began at this count is complete.
    pub(crate) fn swept(&self, left: u64) {
        self.words.word(self.swept).store(left, Relaxed);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use std::sync::Arc;

    use forebay_sync::boxed_words;
    use forebay_sync::model::{breaks, holds};
    use loom::sync::atomic::AtomicU64;
    use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
    use loom::thread;

    use super::{Leftovers, PendingInserts};

    /// Stores a record and begins to store the next one in one thread, while another thread sweeps.
    /// Two flags stand for the entry and the word. They are published in the same way as a map
    /// entry and an index word.
    fn storing_while_sweeping() {
        let entry = Arc::new(AtomicU64::new(0));
        let word = Arc::new(AtomicU64::new(0));
        let entering = PendingInserts::new(Arc::new(boxed_words(2)), 1, 0);
        let storing = {
            let (entry, word, entering) = (Arc::clone(&entry), Arc::clone(&word), entering.clone());
            thread::spawn(move || {
                entering.begin(1, 7);
                // ORDER: pairs with the load of `entry` below, as the publication in a map with its
                // reader.
                entry.store(7, Release);
                word.store(7, Relaxed);
                entering.end(1);
                entering.begin(1, 8);
            })
        };
        // ORDER: pairs with the store into `entry` above.
        let is_there = entry.load(Acquire) == 7;
        let is_left = is_there && !entering.is_pending(7) && word.load(Relaxed) != 7;
        storing.join().unwrap();
        assert!(
            !is_left,
            "a sweep mistook the entry of a record that is being stored for a surplus entry"
        );
    }

    #[test]
    fn a_record_that_is_being_stored_is_not_swept() {
        let model = "order: a record is stored during a sweep";
        holds(model, storing_while_sweeping);
        breaks("order.entered", model, storing_while_sweeping);
        breaks("order.entering", model, storing_while_sweeping);
        breaks("order.rows", model, storing_while_sweeping);
    }

    /// Models a participant that died with its entry inserted and its row set. One thread clears
    /// the row, while another thread sweeps.
    fn taking_back_while_sweeping() {
        let entering = PendingInserts::new(Arc::new(boxed_words(1)), 1, 0);
        let left = Leftovers::new(Arc::new(boxed_words(2)), 0, 1);
        entering.begin(0, 7);
        let taking_back = {
            let (entering, left) = (entering.clone(), left.clone());
            thread::spawn(move || {
                entering.clear(0);
                left.note();
            })
        };
        if let Some(seen) = left.due() {
            assert!(
                !entering.is_pending(7),
                "the sweep does not see that the row of the dead participant was cleared"
            );
            left.swept(seen);
        }
        taking_back.join().unwrap();
    }

    #[test]
    fn entries_of_a_dead_participant_are_swept() {
        let model = "order: a row is taken back during a sweep";
        holds(model, taking_back_while_sweeping);
        breaks("order.left", model, taking_back_while_sweeping);
        breaks("order.tidy", model, taking_back_while_sweeping);
    }
}

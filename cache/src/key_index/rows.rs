//! Who is about to publish which record.

use forebay_sync::Words;
use forebay_sync::atomic::{Relaxed, acquire, release};

/// The word of a participant that says which record it has entered and not yet published.
#[derive(Clone, Debug)]
pub(crate) struct PendingInserts<W> {
    rows: W,
    row_words: usize,
    word: usize,
}

impl<W: Words> PendingInserts<W> {
    /// `word` is the number of the word in each row of so many words.
    pub(crate) fn new(rows: W, row_words: usize, word: usize) -> PendingInserts<W> {
        PendingInserts { rows, row_words, word }
    }

    /// The record of this sequence is going to be entered. By the owner of the row.
    pub(crate) fn begin(&self, row: u32, sequence: u64) {
        // The map's own release, which comes behind it, lets who finds the entry see this.
        // ORDER: pairs with `order.rows`: who finds this one there sees the word of the one before.
        let order = release("order.entering");
        self.rows.word(row as usize * self.row_words + self.word).store(sequence, order);
    }

    /// Its word is published, or never will be.
    pub(crate) fn end(&self, row: u32) {
        // ORDER: pairs with `order.rows`: who sees that it is over sees the word in the index.
        let order = release("order.entered");
        self.rows.word(row as usize * self.row_words + self.word).store(0, order);
    }

    /// The owner of the row is dead.
    pub(crate) fn clear(&self, row: u32) {
        self.rows.word(row as usize * self.row_words + self.word).store(0, Relaxed);
    }

    /// Is somebody about to publish the record of this sequence? Asked about an entry that was
    /// loaded before; who asks looks into the index afterwards.
    pub(crate) fn is_pending(&self, sequence: u64) -> bool {
        let rows = self.rows.word_count() / self.row_words;
        // ORDER: pairs with `order.entered`.
        let order = acquire("order.rows");
        (0..rows)
            .any(|row| self.rows.word(row * self.row_words + self.word).load(order) == sequence)
    }
}

/// How often something may have been left in the order that names nothing, and up to which of these
/// it was swept.
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

    /// Something may be left: somebody is to sweep. What stood in a dead one's row is cleared
    /// before.
    pub(crate) fn note(&self) {
        // ORDER: pairs with `order.tidy`: who sweeps for this finds the row cleared.
        self.words.word(self.left).fetch_add(1, release("order.left"));
    }

    /// How often, if that was not swept yet.
    pub(crate) fn due(&self) -> Option<u64> {
        // ORDER: pairs with `order.left`.
        let left = self.words.word(self.left).load(acquire("order.tidy"));
        (left != self.words.word(self.swept).load(Relaxed)).then_some(left)
    }

    /// A sweep that began when so much was left is over.
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

    /// One stores a record, and begins with the next one; one sweeps. Entry and word are flags, as
    /// map and index publish them.
    fn storing_while_sweeping() {
        let entry = Arc::new(AtomicU64::new(0));
        let word = Arc::new(AtomicU64::new(0));
        let entering = PendingInserts::new(Arc::new(boxed_words(2)), 1, 0);
        let storing = {
            let (entry, word, entering) = (Arc::clone(&entry), Arc::clone(&word), entering.clone());
            thread::spawn(move || {
                entering.begin(1, 7);
                // ORDER: pairs with the load of `entry` below, as a map's publication with its
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
        assert!(!is_left, "a record that was being stored was taken for a left-over");
    }

    #[test]
    fn what_is_being_stored_is_not_swept() {
        let model = "order: a record is stored while somebody sweeps";
        holds(model, storing_while_sweeping);
        breaks("order.entered", model, storing_while_sweeping);
        breaks("order.entering", model, storing_while_sweeping);
        breaks("order.rows", model, storing_while_sweeping);
    }

    /// One has died, with its entry made and its row set; one takes its row back, one sweeps.
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
            assert!(!entering.is_pending(7), "what a dead one left stays for ever");
            left.swept(seen);
        }
        taking_back.join().unwrap();
    }

    #[test]
    fn what_a_dead_one_has_left_is_swept() {
        let model = "order: a row is taken back while somebody sweeps";
        holds(model, taking_back_while_sweeping);
        breaks("order.left", model, taking_back_while_sweeping);
        breaks("order.tidy", model, taking_back_while_sweeping);
    }
}

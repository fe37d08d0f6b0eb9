//! Who is about to publish which record.

use forebay_sync::Words;
use forebay_sync::atomic::{Relaxed, acquire, release};

/// The word of a participant that says which record it has entered and not yet published.
#[derive(Clone, Debug)]
pub(crate) struct Entering<W> {
    rows: W,
    row_words: usize,
    word: usize,
}

impl<W: Words> Entering<W> {
    /// `word` is the number of the word in each row of so many words.
    pub(crate) fn new(rows: W, row_words: usize, word: usize) -> Entering<W> {
        Entering { rows, row_words, word }
    }

    /// The record of this sequence is going to be entered. By the owner of the row.
    pub(crate) fn begin(&self, row: u32, sequence: u64) {
        // Relaxed: the map's own release, which comes behind it, lets who finds the entry see this.
        self.rows.word(row as usize * self.row_words + self.word).store(sequence, Relaxed);
    }

    /// Its word is published, or never will be.
    pub(crate) fn end(&self, row: u32) {
        // ORDER: pairs with `order.rows`: who sees that it is over sees the word in the index.
        let order = release("order.entered");
        self.rows.word(row as usize * self.row_words + self.word).store(0, order);
    }

    /// Is somebody about to publish the record of this sequence? Asked about an entry that was
    /// loaded before; who asks looks into the index afterwards.
    pub(crate) fn is_entering(&self, sequence: u64) -> bool {
        let rows = self.rows.word_count() / self.row_words;
        // ORDER: pairs with `order.entered`.
        let order = acquire("order.rows");
        (0..rows)
            .any(|row| self.rows.word(row * self.row_words + self.word).load(order) == sequence)
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

    use super::Entering;

    /// One stores a record, one sweeps: entry and word are flags, as map and index publish them.
    fn storing_while_sweeping() {
        let entry = Arc::new(AtomicU64::new(0));
        let word = Arc::new(AtomicU64::new(0));
        let entering = Entering::new(Arc::new(boxed_words(2)), 1, 0);
        let storing = {
            let (entry, word, entering) = (Arc::clone(&entry), Arc::clone(&word), entering.clone());
            thread::spawn(move || {
                entering.begin(1, 7);
                entry.store(7, Release);
                word.store(7, Relaxed);
                entering.end(1);
            })
        };
        let is_there = entry.load(Acquire) == 7;
        let is_left = is_there && !entering.is_entering(7) && word.load(Relaxed) != 7;
        storing.join().unwrap();
        assert!(!is_left, "a record that was being stored was taken for a left-over");
    }

    #[test]
    fn what_is_being_stored_is_not_swept() {
        let model = "order: a record is stored while somebody sweeps";
        holds(model, storing_while_sweeping);
        breaks("order.entered", model, storing_while_sweeping);
        breaks("order.rows", model, storing_while_sweeping);
    }
}

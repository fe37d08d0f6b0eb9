//! Tests of a table of pins that one thread uses. The models have several threads.

use std::sync::Arc;

use super::{NotPinned, PIN_COUNT_MAX, Pin, PinRow, Pins};
use crate::atomic::Relaxed;
use crate::barrier::Barrier;
use crate::rows::{PinHolder, TableError};
use crate::words::{LINE_WORDS, LineWords, Words};

type Table = Pins<Arc<LineWords>>;

fn table(rows: usize, columns: usize) -> (Arc<LineWords>, Table) {
    let words = Arc::new(LineWords::new(Table::words_needed(rows, columns).expect("small")));
    let pins = Pins::new(Arc::clone(&words), rows, columns, Barrier::fence()).expect("its words");
    (words, pins)
}

fn row(pins: &Table, row: usize) -> PinRow<Arc<LineWords>> {
    // SAFETY: each test takes a row once.
    unsafe { pins.row(row) }.expect("a row")
}

fn there() -> bool {
    true
}

#[test]
fn a_table_takes_whole_lines_for_each_row() {
    let cases = [
        (1, 1, Some(LINE_WORDS)),
        (1, LINE_WORDS, Some(LINE_WORDS)),
        (1, LINE_WORDS + 1, Some(2 * LINE_WORDS)),
        (3, 20, Some(6 * LINE_WORDS)),
        (0, 5, Some(0)),
        (5, 0, Some(0)),
        (usize::MAX, 1, None),
        (1, usize::MAX, None),
    ];
    for (rows, columns, needed) in cases {
        assert_eq!(Table::words_needed(rows, columns), needed, "{rows} rows, {columns} columns");
    }
}

#[test]
fn no_two_rows_share_a_line() {
    let (words, pins) = table(3, 20);
    for number in 0..3 {
        row(&pins, number).pin(19, there).unwrap().keep();
    }
    let line_bytes = 8 * LINE_WORDS;
    let used = (0..words.word_count()).filter(|&index| words.word(index).load(Relaxed) != 0);
    let lines: Vec<usize> =
        used.map(|index| (&raw const *words.word(index)).addr() / line_bytes).collect();
    let (first, rows_apart) = (lines[0], 2);
    assert_eq!(lines, [first, first + rows_apart, first + 2 * rows_apart]);
}

/// Memory words whose first word is not at the start of a cache line.
struct Shifted(LineWords);

impl Words for Shifted {
    fn word_count(&self) -> usize {
        self.0.word_count() - 1
    }

    fn word(&self, index: usize) -> &crate::atomic::AtomicU64 {
        self.0.word(index + 1)
    }
    fn all(&self) -> &[crate::atomic::AtomicU64] {
        &self.0.all()[1..]
    }
}

#[test]
fn a_table_lies_on_lines_and_in_enough_words() {
    let cases = [(16, 1, 1, true), (16, 1, 17, false), (31, 2, 1, true), (16, 2, 1, false)];
    for (count, rows, columns, fits) in cases {
        let made = Pins::new(LineWords::new(count), rows, columns, Barrier::fence());
        let problem = made.err();
        let expected = (!fits).then_some(TableError::TooFewWords);
        assert_eq!(problem, expected, "{count} words, {rows} rows, {columns} columns");
    }
    let shifted = Pins::new(Shifted(LineWords::new(64)), 1, 1, Barrier::fence());
    assert_eq!(shifted.err(), Some(TableError::NotOnALine));
    let endless = Pins::new(LineWords::new(16), usize::MAX, 2, Barrier::fence());
    assert_eq!(endless.err(), Some(TableError::TooFewWords));
}

#[test]
fn a_column_is_pinned_until_the_last_pin_of_the_last_row_is_down() {
    let (_, pins) = table(2, 3);
    let (first, second) = (row(&pins, 0), row(&pins, 1));
    assert!(!pins.is_pinned(1), "a column is pinned before the first pin");
    let outer = first.pin(1, there).unwrap();
    let inner = first.pin(1, there).unwrap();
    let other = second.pin(1, there).unwrap();
    let holders: Vec<PinHolder> = pins.holders(1).collect();
    assert_eq!(holders, [PinHolder { row: 0, count: 2 }, PinHolder { row: 1, count: 1 }]);
    assert_eq!(pins.pinned_count(), 2);
    assert_eq!(pins.pinned_by(1).collect::<Vec<_>>(), [1]);
    assert_eq!(pins.pinned_by(2).next(), None, "row 2 does not exist, but pins a column");
    for (pin, left) in [(outer, true), (other, true), (inner, false)] {
        drop(pin);
        assert_eq!(pins.is_pinned(1), left);
    }
    assert!(!pins.is_pinned(0) && !pins.is_pinned(2), "a pin counts for other columns");
    assert_eq!(pins.pinned_count(), 0);
}

#[test]
fn a_pin_that_fails_leaves_nothing_behind() {
    let (words, pins) = table(1, 2);
    let reader = row(&pins, 0);
    let cases = [
        ("the word is gone", 0, 0, false, NotPinned::Gone),
        ("the count is at its end", 1, PIN_COUNT_MAX, true, NotPinned::TooMany),
        ("a damaged word names the column", 2, 0, true, NotPinned::NoSuchColumn),
    ];
    for (case, column, count, is_there, expected) in cases {
        let word = words.word(column);
        word.store(count, Relaxed);
        assert_eq!(reader.pin(column, || is_there).err(), Some(expected), "{case}");
        assert_eq!(word.load(Relaxed), count, "{case}");
    }
}

#[test]
fn the_word_is_looked_at_under_the_pin() {
    let (_, pins) = table(1, 1);
    let reader = row(&pins, 0);
    let mut seen = None;
    let pin = reader.pin(0, || {
        seen = Some(pins.is_pinned(0));
        true
    });
    assert!(pin.is_ok());
    assert_eq!(seen, Some(true));
}

#[test]
fn a_closure_that_pins_or_panics_keeps_the_count_right() {
    let (_, pins) = table(1, 1);
    let reader = row(&pins, 0);
    let outcome = reader.pin(0, || {
        reader.pin(0, there).unwrap().keep();
        false
    });
    assert_eq!(outcome.err(), Some(NotPinned::Gone));
    assert_eq!(pins.holders(0).next(), Some(PinHolder { row: 0, count: 1 }));
    let panics = std::panic::AssertUnwindSafe(|| reader.pin(0, || panic!("of a test")).is_ok());
    assert!(std::panic::catch_unwind(panics).is_err());
    assert_eq!(pins.holders(0).next(), Some(PinHolder { row: 0, count: 1 }));
}

#[test]
fn a_kept_pin_stays_until_it_is_lowered_or_its_row_cleared() {
    let (words, pins) = table(2, 40);
    let reader = row(&pins, 0);
    for column in [0, 17, 17, 39] {
        reader.pin(column, there).unwrap().keep();
    }
    row(&pins, 1).pin(17, there).unwrap().keep();
    // SAFETY: kept above, and no thread reads.
    unsafe { reader.unpin(17) };
    assert_eq!(pins.holders(17).next(), Some(PinHolder { row: 0, count: 1 }));
    drop(reader);
    // SAFETY: the owner has given its row up.
    unsafe { pins.clear_row(0) };
    assert_eq!(pins.holders(17).collect::<Vec<_>>(), [PinHolder { row: 1, count: 1 }]);
    assert_eq!(pins.pinned_count(), 1);
    // SAFETY: the table has no such row: nothing happens.
    unsafe { pins.clear_row(2) };
    words.word(0).store(0, Relaxed);
    // SAFETY: as if a row had been cleared under its owner: the count stays at zero.
    unsafe { row(&pins, 0).unpin(0) };
    assert_eq!(words.word(0).load(Relaxed), 0);
}

#[test]
fn a_table_has_only_its_rows() {
    let (_, pins) = table(2, 1);
    for (number, is_there) in [(0, true), (1, true), (2, false), (usize::MAX, false)] {
        // SAFETY: taken once each, and dropped at once.
        let row = unsafe { pins.row(number) };
        assert_eq!(row.map(|row| row.row()), is_there.then_some(number));
    }
}

#[test]
fn a_row_moves_between_threads_and_a_table_is_shared() {
    fn is_send<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}
    is_send::<PinRow<Arc<LineWords>>>();
    is_shared::<Table>();
    // The markers that forbid sharing and sending a guard take no room.
    assert_eq!(size_of::<Pin<'_>>(), size_of::<usize>());
}

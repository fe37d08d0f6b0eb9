//! A reclaimer dies during a drain, and another one continues.

use super::*;

/// The words of a drain, and one word that names a record of the segment.
struct Drained {
    progress: DrainProgress<Words>,
    word: AtomicU64,
}

/// Makes the state that an earlier drain with another plan left after it had reached its second
/// record.
fn drain_of_another() -> Arc<Drained> {
    let words: Words = Arc::new(boxed_words(3));
    words[1].store(128, Relaxed);
    words[2].store(1, Relaxed);
    Arc::new(Drained { progress: DrainProgress::new(words, [0, 1, 2]), word: AtomicU64::new(1) })
}

/// Runs `drain` beside `go_on`, the successor of a dead reclaimer. The reclaimer may die at any
/// instruction. So each state that the successor sees while `drain` runs is one that it could find
/// after a death.
fn dead_reclaimer(drain: impl Fn(&Drained) + Send + 'static, go_on: impl Fn(&Drained)) {
    let own = drain_of_another();
    let other = Arc::clone(&own);
    let draining = thread::spawn(move || drain(&other));
    go_on(&own);
    draining.join().unwrap();
}

fn take_word_out(drained: &Drained) {
    drained.word.compare_exchange(1, EMPTY, Relaxed, Relaxed).unwrap();
}

fn dies_in_beginning() {
    dead_reclaimer(
        |drained| drained.progress.begin(0, 2),
        |drained| {
            if drained.progress.segment() == Some(0) {
                assert_eq!(drained.progress.plan(), 2, "another segment's plan");
                assert_eq!(drained.progress.offset_bytes(), 0, "another segment's offset");
            }
        },
    );
}

fn dies_between_passes() {
    dead_reclaimer(
        |drained| {
            drained.progress.restart(2);
        },
        |drained| {
            if drained.progress.plan() == 2 {
                assert_eq!(drained.progress.offset_bytes(), 0, "another plan's offset");
            }
        },
    );
}

fn dies_in_a_pass() {
    dead_reclaimer(
        |drained| {
            take_word_out(drained);
            drained.progress.pass(64);
        },
        |drained| {
            if drained.progress.offset_bytes() == 64 {
                assert_eq!(drained.word.load(Relaxed), EMPTY, "passed, and a word names it");
            }
        },
    );
}

fn dies_at_the_end() {
    let own = drain_of_another();
    own.progress.begin(0, 2);
    let other = Arc::clone(&own);
    let draining = thread::spawn(move || {
        take_word_out(&other);
        other.progress.end();
    });
    if own.progress.segment().is_none() {
        assert_eq!(own.word.load(Relaxed), EMPTY, "drained, and a word names it");
    }
    draining.join().unwrap();
}

fn dies_with_it_draining() {
    let store = store_with_record(1);
    let other = Arc::clone(&store);
    let own = drain_of_another();
    let others = Arc::clone(&own);
    let draining = thread::spawn(move || {
        others.progress.begin(0, 2);
        other.segments.table().drain(0).unwrap();
    });
    if store.segments.table().state(0).unwrap().phase == SegmentPhase::Draining {
        assert_eq!(own.progress.segment(), Some(0), "it counts as drained");
    }
    draining.join().unwrap();
}

#[test]
fn the_successor_of_a_dead_reclaimer_skips_no_record() {
    holds("segments: a reclaimer dies in the beginning", dies_in_beginning);
    holds("segments: a reclaimer dies between two passes", dies_between_passes);
    holds("segments: a reclaimer dies in a pass", dies_in_a_pass);
    holds("segments: a reclaimer dies at the end", dies_at_the_end);
    holds("segments: a reclaimer dies with a segment draining", dies_with_it_draining);
}

#[test]
fn each_ordering_of_a_drain_is_needed() {
    for name in ["drain.begin", "drain.segment"] {
        breaks(name, "segments: a reclaimer dies in the beginning", dies_in_beginning);
    }
    for name in ["drain.plan", "drain.planned"] {
        breaks(name, "segments: a reclaimer dies between two passes", dies_between_passes);
    }
    for name in ["drain.pass", "drain.offset"] {
        breaks(name, "segments: a reclaimer dies in a pass", dies_in_a_pass);
    }
    for name in ["drain.end", "drain.segment"] {
        breaks(name, "segments: a reclaimer dies at the end", dies_at_the_end);
    }
    for name in ["drain.named", "drain.look"] {
        breaks(name, "segments: a reclaimer dies with a segment draining", dies_with_it_draining);
    }
}

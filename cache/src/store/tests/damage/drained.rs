//! Segments that are drained although something in them is damaged.

use super::*;
use crate::segment::SegmentPhase;

/// Reclaims until the segment is free. Returns the faults that a check finds then.
fn drained_to_the_end(made: &Made, segment: u32) -> Vec<&'static str> {
    made.worker.empty();
    let state = made.store.shared.segments.table().state(segment).unwrap();
    assert_eq!(state.phase, SegmentPhase::Free, "the segment was not freed");
    let report = check(&made.store);
    let faults =
        report.findings.iter().filter(|finding| finding.severity() == FindingSeverity::Fault);
    faults.map(|finding| finding.kind.name()).collect()
}

/// The name of a kind of damage, and the function that does it.
type Damaged = (&'static str, fn(&Made, u32));

/// The kinds of damage that a segment that is drained may have.
const DRAINED: &[Damaged] = &[
    ("nothing", |_, _| ()),
    ("a key", |made, _| made.write_record(KEY, 5, |word| word ^ 1 << 9)),
    ("a length", |made, _| made.write_record(KEY, 1, |_| 0)),
    ("the filled bytes", |made, segment| made.write_segment(segment, FILLED, |_| 64 * 64)),
    ("the plan", |made, segment| {
        made.write(kind::STORE, word::DRAINING, |_| u64::from(segment) + 1);
        made.write(kind::STORE, word::DRAIN_PLAN, |_| u64::MAX);
    }),
    ("the plan of a draining segment", |made, segment| {
        made.write(kind::STORE, word::DRAINING, |_| u64::from(segment) + 1);
        made.write(kind::STORE, word::DRAIN_PLAN, |_| u64::MAX);
        made.write_segment(segment, STATE, |state| state & !7 | DRAINING);
    }),
    ("the drained bytes", |made, segment| {
        made.write(kind::STORE, word::DRAINING, |_| u64::from(segment) + 1);
        made.write(kind::STORE, word::DRAINED_BYTES, |_| u64::MAX);
        // The plan for the oldest segment of a queue.
        made.write(kind::STORE, word::DRAIN_PLAN, |_| 1 << 63);
    }),
    ("the number of the drained segment", |made, segment| {
        made.write_segment(segment, STATE, |state| state & !7 | DRAINING);
    }),
];

#[test]
fn no_segment_is_freed_that_a_word_names() {
    for &(what, damage) in DRAINED {
        let made = made();
        made.worker.inner.appender.seal(SegmentQueue::Small);
        let segment = made.segment_of(KEY);
        damage(&made, segment);
        assert_eq!(drained_to_the_end(&made, segment), [""; 0], "{what}");
        assert_eq!(made.worker.named().len(), 0, "{what}");
    }
}

#[test]
fn words_of_a_dead_participant_are_found_though_a_key_is_damaged() {
    let made = made_by_the_dead();
    made.write_record(KEY, 5, |word| word ^ 1 << 9);
    assert_eq!(made.store.sweep().unwrap(), 1);
    assert_eq!(made.worker.mend(), 1);
    assert_sound(&made.store);
    assert_eq!(made.worker.named().len(), 1);
}

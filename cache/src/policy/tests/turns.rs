//! Tests of the choice of the victim.

use super::DrainCause::{Dead, Oldest, Stale};
use super::Queue::{Main, Small};
use super::*;

const NEVER: u64 = u64::MAX;

/// A segment: its queue, order, filled bytes, live bytes and stale-from time. The segment's index
/// is the position of its row.
type Row = (Queue, u64, u64, u64, u64);

/// A pool in which the small queue has exactly its share.
const EVEN: SegmentPool = SegmentPool { segments: 100, small: 10, now: 50 };
const SMALL_DUE: SegmentPool = SegmentPool { small: 11, ..EVEN };

fn next_of(rows: &[Row], pool: SegmentPool, rules: &EvictionRules) -> Option<(u32, DrainCause)> {
    let sealed = rows.iter().zip(0..).map(|(&row, segment)| {
        let (queue, order, filled_bytes, live_bytes, stale_from) = row;
        SealedSegment { segment, queue, order, filled_bytes, live_bytes, stale_from }
    });
    let choice = choose_victim(sealed, pool, rules)?;
    let (queue, ..) = rows[choice.segment as usize];
    assert_eq!(choice.queue, queue, "the choice names another queue than the segment: {rows:?}");
    Some((choice.segment, choice.cause))
}

/// A case: its name, the segments, the pool that they belong to, the victim.
type Case<'a> = (&'a str, &'a [Row], SegmentPool, Option<(u32, DrainCause)>);

const fn full(queue: Queue, order: u64) -> Row {
    (queue, order, 100, 100, NEVER)
}

const fn lived(queue: Queue, order: u64, filled_bytes: u64, live_bytes: u64) -> Row {
    (queue, order, filled_bytes, live_bytes, NEVER)
}

fn check(cases: &[Case<'_>]) {
    for (name, rows, pool, expected) in cases {
        assert_eq!(next_of(rows, *pool, &RULES), *expected, "{name}");
    }
}

#[test]
fn the_oldest_segment_of_the_due_queue_is_drained_next() {
    check(&[
        ("nothing is offered", &[], EVEN, None),
        ("small has its share: main", &[full(Small, 1), full(Main, 2)], EVEN, Some((1, Oldest))),
        ("small has more", &[full(Main, 1), full(Small, 2)], SMALL_DUE, Some((1, Oldest))),
        ("main has none", &[full(Small, 5), full(Small, 4)], EVEN, Some((1, Oldest))),
        ("small has none", &[full(Main, 5), full(Main, 4)], SMALL_DUE, Some((1, Oldest))),
        (
            "the order decides, not the number of the segment",
            &[full(Main, 9), full(Main, 3), full(Main, 7)],
            EVEN,
            Some((1, Oldest)),
        ),
        (
            "an empty segment is not dead, but old",
            &[lived(Small, 3, 0, 0), full(Main, 4)],
            SMALL_DUE,
            Some((0, Oldest)),
        ),
        (
            "a wrong count with more live than filled bytes does no harm",
            &[lived(Main, 1, 10, 11)],
            EVEN,
            Some((0, Oldest)),
        ),
    ]);
}

#[test]
fn a_stale_segment_is_drained_first() {
    check(&[
        (
            "before dead and old ones",
            &[full(Main, 1), lived(Main, 2, 100, 0), (Small, 3, 100, 100, 50)],
            EVEN,
            Some((2, Stale)),
        ),
        (
            "of several the oldest, not the deadest",
            &[(Main, 3, 100, 0, 1), (Small, 2, 100, 90, 50)],
            EVEN,
            Some((1, Stale)),
        ),
        (
            "a segment that gets stale one second later is not stale",
            &[(Small, 1, 100, 100, 51), full(Main, 2)],
            EVEN,
            Some((1, Oldest)),
        ),
    ]);
}

#[test]
fn a_segment_with_more_than_a_fifth_dead_is_drained_early() {
    check(&[
        (
            "a fifth is not enough",
            &[lived(Small, 1, 100, 80), full(Main, 2)],
            EVEN,
            Some((1, Oldest)),
        ),
        ("more is", &[full(Main, 1), lived(Small, 2, 100, 79)], EVEN, Some((1, Dead))),
        ("of either queue", &[full(Small, 1), lived(Main, 2, 100, 79)], SMALL_DUE, Some((1, Dead))),
        (
            "of several the one that is cheapest to copy",
            &[lived(Main, 1, 100, 70), lived(Main, 2, 50, 30), lived(Small, 3, 100, 40)],
            EVEN,
            Some((1, Dead)),
        ),
        (
            "of equals the one that was offered first",
            &[lived(Main, 2, 100, 40), lived(Main, 1, 100, 40)],
            EVEN,
            Some((0, Dead)),
        ),
    ]);
}

#[test]
fn with_a_hundred_percent_no_segment_is_dead() {
    let rules = EvictionRules { dead_percent: 100, ..RULES };
    let rows = [(Main, 2, 100, 0, NEVER), (Main, 1, 100, 100, NEVER)];
    assert_eq!(next_of(&rows, EVEN, &rules), Some((1, Oldest)));
}

#[test]
fn small_is_due_above_its_share_of_all_segments_however_few_they_are() {
    let rows = [(Small, 2, 100, 100, NEVER), (Main, 1, 100, 100, NEVER)];
    let cases = [
        (8, 0, false),
        (8, 1, true),
        (10, 1, false),
        (64, 6, false),
        (64, 7, true),
        (u32::MAX, u32::MAX / 10, false),
        (u32::MAX, u32::MAX, true),
    ];
    for (segments, small, is_due) in cases {
        let found = next_of(&rows, SegmentPool { segments, small, now: 0 }, &RULES);
        let expected = if is_due { 0 } else { 1 };
        assert_eq!(found, Some((expected, Oldest)), "{small} of {segments}");
    }
}

//! Tests of the states of segments, and of the steps between them.

use forebay_sync::atomic::Relaxed;

use super::*;
use crate::segment::state::word;

/// The steps that a test takes with segment 0.
#[derive(Clone, Copy, Debug)]
enum Step {
    Claim,
    Append,
    Seal,
    GiveBack,
    Suspect,
    Adopt,
    Drain,
    Free,
}

/// One segment, and the handle of its owner.
struct Life {
    made: Made,
    open: Option<OpenSegment<Shared>>,
}

impl Life {
    /// Takes the step; returns whether it succeeded.
    fn step(&mut self, step: Step) -> bool {
        let segments = &self.made.segments;
        match step {
            Step::Claim => {
                let claimed = self.made.claim(1);
                let went = claimed.is_some();
                self.open = claimed.or(self.open.take());
                went
            }
            Step::Append => {
                let open = self.open.as_mut();
                open.is_some_and(|open| Parts::sized(9, 0, 0, 0).append(open, 1).is_ok())
            }
            // SAFETY: no word names a record.
            Step::Seal => self.open.take().is_some_and(|open| unsafe { open.seal(5) }.is_ok()),
            Step::GiveBack => match self.open.take().map(OpenSegment::give_back) {
                Some(Ok(())) => true,
                Some(Err(open)) => {
                    self.open = Some(open);
                    false
                }
                None => false,
            },
            // SAFETY: row 1 counts as ended; its open segment is not used any more.
            Step::Suspect => unsafe { segments.suspect(0, 1) }.is_ok(),
            Step::Adopt => {
                // SAFETY: as above.
                let adopted = unsafe { segments.adopt(0, 1) }.ok();
                let went = adopted.is_some();
                self.open = adopted.or(self.open.take());
                went
            }
            Step::Drain => segments.table().drain(0).is_ok(),
            // SAFETY: one thread, no words, no pins.
            Step::Free => unsafe { segments.free(0) }.is_ok(),
        }
    }

    fn phase(&self) -> SegmentPhase {
        self.made.segments.table().state(0).unwrap().phase
    }
}

#[test]
fn each_step_starts_only_from_its_own_states() {
    use Step::*;
    let all = [Claim, Seal, GiveBack, Suspect, Adopt, Drain, Free];
    type Case = (&'static str, &'static [Step], &'static [(Step, SegmentPhase)]);
    let cases: [Case; 8] = [
        ("free", &[], &[(Claim, SegmentPhase::Open)]),
        (
            "open, empty",
            &[Claim],
            &[
                (Seal, SegmentPhase::Sealed),
                (GiveBack, SegmentPhase::Free),
                (Suspect, SegmentPhase::Suspect),
            ],
        ),
        (
            "open, with a record",
            &[Claim, Append],
            &[(Seal, SegmentPhase::Sealed), (Suspect, SegmentPhase::Suspect)],
        ),
        ("sealed", &[Claim, Append, Seal], &[(Drain, SegmentPhase::Draining)]),
        ("draining", &[Claim, Append, Seal, Drain], &[(Free, SegmentPhase::Free)]),
        ("free again", &[Claim, Append, Seal, Drain, Free], &[(Claim, SegmentPhase::Open)]),
        ("suspect", &[Claim, Append, Suspect], &[(Adopt, SegmentPhase::Suspect)]),
        (
            "adopted",
            &[Claim, Append, Suspect, Adopt],
            &[(Seal, SegmentPhase::Sealed), (Suspect, SegmentPhase::Suspect)],
        ),
    ];
    for (case, before, possible) in cases {
        for step in all {
            let mut life = Life { made: made(1), open: None };
            for &first in before {
                assert!(life.step(first), "{case}: {first:?} on the way there");
            }
            let (phase, went) = (life.phase(), life.step(step));
            let expected =
                possible.iter().find(|(other, _)| *other as u8 == step as u8).map(|found| found.1);
            assert_eq!(went, expected.is_some(), "{case}: {step:?}");
            assert_eq!(life.phase(), expected.unwrap_or(phase), "{case}: after {step:?}");
        }
    }
}

#[test]
fn an_owner_that_lost_its_segment_cannot_change_it() {
    let made = made(1);
    let mut open = made.claim(1).unwrap();
    Parts::sized(9, 0, 0, 0).append(&mut open, 1).unwrap();
    // SAFETY: as if the owner had ended; it only tries to seal.
    unsafe { made.segments.suspect(0, 1) }.unwrap();
    // SAFETY: no word names a record.
    assert_eq!(unsafe { open.seal(1) }, Err(StateChanged));
    // SAFETY: another row.
    assert_eq!(unsafe { made.segments.suspect(0, 2) }, Err(StateChanged));
    // SAFETY: one thread.
    let adopted = unsafe { made.segments.adopt(0, 2) }.unwrap();
    assert_eq!(adopted.state().owner, Some(2));
    // SAFETY: one thread.
    assert_eq!(unsafe { made.segments.adopt(0, 3) }.err(), Some(StateChanged), "a second checker");
    // SAFETY: as if the checker had ended, too.
    unsafe { made.segments.suspect(0, 2) }.unwrap();
    // SAFETY: one thread.
    assert!(unsafe { made.segments.adopt(0, 3) }.is_ok());
}

#[test]
fn a_segment_keeps_its_words_until_it_is_freed() {
    let made = made(1);
    let table = made.segments.table();
    let told = || (table.order(0), table.expires(0), table.live_bytes(0), table.filled_bytes(0));
    for generation in 0..3 {
        assert_eq!(told(), (0, 0, 0, 0));
        // SAFETY: one thread.
        let mut open = unsafe { made.segments.claim(1, SegmentQueue::Main, None) }.unwrap();
        Parts::sized(9, 0, 0, 0).append(&mut open, 1).unwrap();
        table.set_live_bytes(0, 64);
        let state = SegmentState {
            phase: SegmentPhase::Open,
            queue: SegmentQueue::Main,
            owner: Some(1),
            generation,
        };
        assert_eq!(table.state(0), Some(state));
        seal(open, 5);
        assert_eq!(told(), (5, 1_700_000_600, 64, u64::from(SEGMENT_BYTES)));
        let drained = table.drain(0);
        assert_eq!(
            drained,
            Ok(SegmentState { phase: SegmentPhase::Draining, owner: None, ..state })
        );
        // SAFETY: one thread, no words, no pins.
        unsafe { made.segments.free(0) }.unwrap();
        assert_eq!(table.segments_where(|state| state.phase == SegmentPhase::Free).count(), 1);
    }
}

#[test]
fn the_generation_wraps_around() {
    let made = made(1);
    made.table.word(word::STATE).store(u64::from(u32::MAX) << 32, Relaxed);
    seal(made.claim(0).unwrap(), 1);
    made.segments.table().drain(0).unwrap();
    // SAFETY: one thread, no words, no pins.
    unsafe { made.segments.free(0) }.unwrap();
    assert_eq!(made.table.word(word::STATE).load(Relaxed), 0);
}

#[test]
fn each_row_claims_from_an_offset_of_its_own() {
    let cases = [
        // Row, its last segment, the segment that it gets of eight.
        (0, None, 0),
        (1, None, 2),
        (3, None, 6),
        (1, Some(2), 3),
        (1, Some(7), 0),
        (1, Some(u32::MAX), 0),
    ];
    for (row, last, expected) in cases {
        let made = made(8);
        // SAFETY: one thread.
        let open = unsafe { made.segments.claim(row, SegmentQueue::Small, last) }.unwrap();
        assert_eq!(open.segment(), expected, "row {row}, last {last:?}");
    }
    let made = made(8);
    let mut all: Vec<u32> = (0..8).map(|turn| made.claim(turn % ROWS).unwrap().segment()).collect();
    assert!(made.claim(0).is_none(), "no segment is free");
    all.sort_unstable();
    assert_eq!(all, (0..8).collect::<Vec<u32>>());
    let owned = made.segments.table().segments_where(|state| state.owner == Some(1));
    assert_eq!(owned.collect::<Vec<u32>>(), [2, 3], "the segments that the sweeper of row 1 finds");
}

#[test]
fn a_state_encodes_to_one_word_and_back() {
    let phases = [
        SegmentPhase::Free,
        SegmentPhase::Open,
        SegmentPhase::Sealed,
        SegmentPhase::Draining,
        SegmentPhase::Suspect,
    ];
    for phase in phases {
        for queue in [SegmentQueue::Small, SegmentQueue::Main] {
            for owner in [None, Some(0), Some(1), Some(65534)] {
                for generation in [0, 1, u32::MAX] {
                    let state = SegmentState { phase, queue, owner, generation };
                    let is_owned = matches!(phase, SegmentPhase::Open) == owner.is_some();
                    let is_legal = (is_owned || phase == SegmentPhase::Suspect)
                        && (phase != SegmentPhase::Free || queue == SegmentQueue::Small);
                    let expected = is_legal.then_some(state);
                    assert_eq!(SegmentState::of(state.word()), expected, "{state:?}");
                }
            }
        }
    }
}

#[test]
fn a_word_that_is_no_state_is_left_alone() {
    let open = SegmentState {
        phase: SegmentPhase::Open,
        queue: SegmentQueue::Small,
        owner: Some(0),
        generation: 3,
    };
    let cases = [5, 6, 7, 1 << 4, 1 << 7, 1 << 24, 1 << 31, 8, 1 << 8, open.word() | 1 << 30];
    for word in cases {
        assert_eq!(SegmentState::of(word), None, "{word:x}");
        let made = made(1);
        made.table.word(word::STATE).store(word, Relaxed);
        let mut life = Life { made, open: None };
        for step in [Step::Claim, Step::Suspect, Step::Adopt, Step::Drain, Step::Free] {
            assert!(!life.step(step), "{step:?} with {word:x}");
        }
        assert_eq!(life.made.table.word(word::STATE).load(Relaxed), word, "left alone");
    }
}

#[test]
fn there_is_nothing_beyond_the_last_segment() {
    let made = made(2);
    let table = made.segments.table();
    for segment in [2, u32::MAX] {
        assert_eq!(table.state(segment), None);
        assert_eq!((table.order(segment), table.filled_bytes(segment)), (0, 0));
        table.set_live_bytes(segment, 1);
        assert_eq!(table.drain(segment), Err(StateChanged));
        assert!(made.scan(segment).is_empty());
    }
    let geometry = made.segments.geometry();
    let cases = [(15, 16384, false), (16, 16383, false), (16, 16384, true)];
    for (table_words, data_words, is_enough) in cases {
        let words = |count| Arc::new(boxed_words(count));
        // SAFETY: the words are new.
        let made = unsafe { Segments::new(words(table_words), words(data_words), geometry, 1) };
        assert_eq!(made.is_ok(), is_enough, "{table_words} and {data_words} words");
    }
}

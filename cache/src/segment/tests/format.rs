//! Checks that `docs/format/store.md` states the constants and bits of the code.

use super::*;
use crate::segment::size::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};
use crate::segment::state::{SEGMENT_WORDS, word};

fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/format/store.md");
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_page_states_the_constants_of_the_code() {
    let page = page();
    let phases = [
        ("free", SegmentPhase::Free),
        ("open", SegmentPhase::Open),
        ("sealed", SegmentPhase::Sealed),
        ("draining", SegmentPhase::Draining),
        ("suspect", SegmentPhase::Suspect),
    ];
    let mut sentences: Vec<String> =
        phases.iter().map(|(name, phase)| format!("| {name} | {} |", *phase as u8)).collect();
    let words = [
        ("state", word::STATE),
        ("order", word::ORDER),
        ("filled_bytes", word::FILLED_BYTES),
        ("live_bytes", word::LIVE_BYTES),
        ("expires", word::EXPIRES),
        ("records_bytes", word::RECORDS_BYTES),
    ];
    sentences.extend(words.iter().map(|(name, number)| format!("| {number} | `{name}` |")));
    let kinds = [
        ("whole response", HeaderKind::Whole),
        ("head of a long body", HeaderKind::LongHead),
        ("fragment", HeaderKind::Fragment),
        ("base of variants", HeaderKind::Base),
        ("filler", HeaderKind::Filler),
    ];
    sentences.extend(kinds.iter().map(|(name, kind)| format!("{} {name}", *kind as u8)));
    sentences.extend([
        format!("| 17 | `segments` | {SEGMENT_WORDS} for each segment |"),
        format!("{} KiB, {} MiB)", SEGMENT_BYTES_MIN >> 10, SEGMENT_BYTES_MAX >> 20),
        format!("multiple of {UNIT_BYTES} bytes. It consists of a header of {HEADER_BYTES} bytes"),
        "| `sequence` | 6 |".to_owned(),
        "of two records of a key, only the record with the higher sequence is valid".to_owned(),
        format!("more than {} GiB, the most that a location can", DATA_BYTES_MAX >> 30),
    ]);
    for sentence in sentences {
        assert!(page.contains(&sentence), "docs/format/store.md lacks {sentence:?}");
    }
}

#[test]
fn marks_and_states_have_the_documented_bits() {
    let page = page();
    for sentence in ["bits 0–39 stale-from", "40 `SOFT`", "41 `FROZEN`"] {
        assert!(page.contains(sentence), "docs/format/store.md lacks {sentence:?}");
    }
    assert_eq!(RecordMarks::stale_from(u64::MAX).word(), (1 << 40) - 1);
    assert!(RecordMarks::of(1 << 40).is_soft() && RecordMarks::of(1 << 41).is_frozen());
    let bits = "0–2 state; 3 queue (0 small, 1 main); 8–23 owner row + 1; 32–63 generation";
    assert!(page.contains(bits), "docs/format/store.md lacks {bits:?}");
    let state = SegmentState {
        phase: SegmentPhase::Open,
        queue: SegmentQueue::Main,
        owner: Some(2),
        generation: 5,
    };
    assert_eq!(state.word(), 1 | 1 << 3 | 3 << 8 | 5 << 32);
}

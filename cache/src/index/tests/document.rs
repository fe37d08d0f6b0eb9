//! Checks that docs/format/store.md describes the words as the code writes them.

use super::*;
use crate::index::word::FINGERPRINT_SHIFT;

#[test]
fn the_document_describes_the_words() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/format/store.md");
    let text = std::fs::read_to_string(page).unwrap();
    let sentences = [
        format!("| `index` | {BUCKET_WORDS} for each bucket"),
        format!("A bucket is one cache line of {BUCKET_WORDS} words."),
        bits("`location`", IndexWord::EMPTY.with_location(u32::MAX)),
        bits("`use`", IndexWord::EMPTY.with_uses(USE_MAX)),
        bits("`state`", IndexWord::EMPTY.with_state(WordState::Reserved)),
        bits("`size class`", IndexWord::new(0, WordState::Unchecked, 0, SIZE_CLASS_MAX)),
        bits("`fingerprint`", IndexWord::from_bits(!0 << FINGERPRINT_SHIFT)),
        format!("0 to {USE_MAX}; written only when it changes"),
        format!("{} unchecked: lookups miss;", WordState::Unchecked as u8),
        format!(" {} live in memory;", WordState::Live as u8),
        format!(" {} on disk;", WordState::Disk as u8),
        format!(" {} reserved", WordState::Reserved as u8),
    ];
    for sentence in sentences {
        assert!(text.contains(&sentence), "docs/format/store.md lacks {sentence:?}");
    }
}

/// Returns the row of the document's table for the bits that are set in a word.
fn bits(name: &str, word: IndexWord) -> String {
    let (first, last) = (word.bits().trailing_zeros(), 63 - word.bits().leading_zeros());
    assert_eq!(word.bits().count_ones(), last - first + 1, "{name} has gaps");
    format!("| {first}–{last} | {name} |")
}

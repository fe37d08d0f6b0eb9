//! Checks docs/format/store.md against the code.

use super::*;

#[test]
fn the_page_states_the_constants_of_the_code() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/format/store.md");
    let page = std::fs::read_to_string(page).unwrap();
    let bytes = |slots: usize| slots * SLOT_WORDS * size_of::<u64>();
    let sentences = [
        format!("`purge_seq` (word {PURGE_SEQ_WORD} of area 16)"),
        format!("slots of {SLOT_WORDS} words each"),
        format!("| 2–{} | the predicate's bytes", SLOT_WORDS - 1),
        format!("up to {PREDICATE_BYTES_MAX} |"),
        format!("{} a whole key;", kind::KEY),
        format!("{} a prefix of keys;", kind::PREFIX),
        format!("{} everything;", kind::ALL),
        format!("{} a prefix of keys and a tag expression;", kind::TAGS),
        format!("1/{REGION_SHARE} of the region, but {SLOTS_MIN} to {SLOTS_MAX} slots"),
        format!("{SITE_WORDS} words follow the slots"),
        format!("({} KiB to {} MiB)", bytes(SLOTS_MIN) >> 10, bytes(SLOTS_MAX) >> 20),
    ];
    for sentence in sentences {
        assert!(page.contains(&sentence), "docs/format/store.md lacks {sentence:?}");
    }
}

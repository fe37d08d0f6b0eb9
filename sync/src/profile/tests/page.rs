//! Tests that `docs/format/locks.md` has every word and size of the layout.

use std::fs;

use super::*;
use crate::profile::plan::{
    HEADER_WORDS, HOLDS_MAX, LAYOUT_VERSION, block, header, hold, module, pair, row, sample, site,
    stack,
};

fn page() -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/format/locks.md");
    fs::read_to_string(page).expect("the page is there")
}

/// Every name of a word in `plan.rs`, with the word's index.
fn words_in_source() -> Vec<(String, usize)> {
    let source = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/src/profile/plan.rs"));
    let mut words = Vec::new();
    let mut table = String::new();
    for line in source.expect("the source is there").lines() {
        if let Some(rest) = line.strip_prefix("pub(super) mod ") {
            table = rest.trim_end_matches(" {").to_owned();
        }
        let rest = line.strip_prefix("    pub(in crate::profile) const ");
        let Some((name, value)) = rest.and_then(|rest| rest.split_once(": usize = ")) else {
            continue;
        };
        if let Ok(word) = value.trim_end_matches(';').parse() {
            words.push((format!("{table}.{}", name.to_lowercase()), word));
        }
    }
    words
}

#[test]
fn the_page_has_every_word() {
    let page = page();
    let words = words_in_source();
    assert!(words.len() > 50, "{words:?}");
    for (name, word) in words {
        if name.ends_with("words") {
            continue;
        }
        let row = format!("| `{name}` | {word} |");
        assert!(page.contains(&row), "docs/format/locks.md lacks {row}");
    }
}

#[test]
fn the_page_has_the_sizes() {
    let page = page();
    for sentence in [
        format!("Layout version {LAYOUT_VERSION}."),
        format!("{HEADER_WORDS} words"),
        format!("{} words and its return addresses", site::FIXED_WORDS),
        format!("Rows of {} words, one for each mapped part", module::WORDS),
        format!("begins with {} words", block::HEAD_WORDS),
        format!("{HOLDS_MAX} holds of {} words", hold::WORDS),
        format!("rows of {} words", row::WORDS),
        format!("pairs of {} words", pair::WORDS),
        format!("samples of {} words", sample::WORDS),
        format!("A row has {} words and its return addresses, rounded", stack::FIXED_WORDS),
        format!("{} stacks", ProfilePlan::MAX.stacks.stacks),
        format!("| `row.wait_buckets` | {} |", row::WAIT_BUCKETS),
        format!("{} buckets", bucket_count()),
        format!("{} sites", ProfilePlan::MAX.sites),
        format!("{} threads", ProfilePlan::MAX.threads),
    ] {
        assert!(page.contains(&sentence), "docs/format/locks.md lacks {sentence:?}");
    }
    assert_eq!(header::CHECK, 15, "the page says: words 0 to 14");
    assert!(page.contains("words 0 to 14"));
}

fn bucket_count() -> usize {
    BUCKET_COUNT
}

#[test]
fn buckets_meet_at_powers_of_two() {
    for (ns, bucket) in [(0, 0), (31, 0), (32, 1), (63, 1), (64, 2), (1 << 35, 31), (u64::MAX, 31)]
    {
        assert_eq!(crate::profile::plan::bucket_of(ns), bucket, "{ns} ns");
    }
    assert_eq!((bucket_end_ns(0), bucket_end_ns(1), bucket_end_ns(31)), (Some(32), Some(64), None));
}

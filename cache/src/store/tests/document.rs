//! Checks docs/format/store.md against the code.

use crate::key_index::{areas, config};
use crate::store::layout::{ROW_WORDS, STORE_VERSION, kind, row, word};

#[test]
fn the_document_describes_areas_and_words() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/format/store.md");
    let text = std::fs::read_to_string(page).unwrap();
    let order = areas(&config(1000, 4)).unwrap();
    let (first, last) = (order[0].kind, order[order.len() - 1].kind);
    let rows = [
        format!("| {} | `store` | {} |", kind::STORE, word::COUNT),
        format!("| {} | `segments` |", kind::SEGMENTS),
        format!("| {} | `index` |", kind::INDEX),
        format!("| {} | `pins` |", kind::PINS),
        format!("| {} | `rows` | {ROW_WORDS} for each participant |", kind::ROWS),
        format!("| {} | `ghosts` |", kind::GHOSTS),
        format!("| {} | `purges` |", kind::PURGES),
        format!("| {} | `data` |", kind::DATA),
        format!("All of them have version {STORE_VERSION}."),
        format!("| {}–{} | `segment_bytes`", word::SEGMENT_BYTES, word::GHOST_WORDS),
        format!("| {} | `purge_seq` |", word::PURGE_SEQ),
        format!("| {} | `eviction_lock` |", word::EVICTION_LOCK),
        format!("| {} | `draining` |", word::DRAINING),
        format!("| {} | `drained_bytes` |", word::DRAINED_BYTES),
        format!("| {} | `drain_plan` |", word::DRAIN_PLAN),
        format!("| {}–{} | `census` |", word::CENSUS, word::CENSUS + 3),
        format!("| {} | `small_drained` |", word::SMALL_DRAINED),
        format!("| {} | `waits_since` |", word::WAITS_SINCE),
        format!("| {} | `purge_lock` |", word::PURGE_LOCK),
        format!("| {} | `sequence` |", word::SEQUENCE),
        format!("| {} | `leftovers` |", word::LEFTOVERS),
        format!("| {} | `swept` |", word::SWEPT),
        format!("| {} | `seal_order` |", word::SEAL_ORDER),
        format!("| {} | `revoke` |", row::REVOKE),
        format!("| {} | `handles` |", row::HANDLES),
        format!("| {} | `inserting` |", row::INSERTING),
        format!("{first}–{last} | the key index |"),
        format!("version {STORE_VERSION} of the store's areas"),
    ];
    for row in rows {
        assert!(text.contains(&row), "docs/format/store.md lacks {row:?}");
    }
}

//! Checks docs/format/ordmap.md against the code.

use super::{VERSION, head, kind};
use crate::hint_table::BUCKET_WORDS;
use crate::names;
use crate::object::{
    CHUNK_WORDS, KEY_BYTES_MAX, MARK_WORDS, SIZES, SPAN_CHUNKS_MAX, VALUE_BYTES_MAX,
};
use crate::route::{BOUND_BYTES_MAX, ROUTE_ROW_WORDS, SHARDS_MAX};
use crate::shard::{MOVED_AT_ONCE, words};
use crate::tree::{ITEMS_MAX, NODE_WORDS};

#[test]
fn the_document_describes_areas_and_words() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/format/ordmap.md");
    let text = std::fs::read_to_string(page).unwrap();
    let sizes: Vec<String> = SIZES.iter().map(ToString::to_string).collect();
    let (last, sizes) = sizes.split_last().unwrap();
    let olds_end = words::OLDS + words::INTENT_MAX - 1;
    let rows = [
        format!("Version {VERSION} of the areas"),
        format!("| {} | `head` | {} |", kind::HEAD, head::COUNT),
        format!("| {} | `maps` | {} for each map |", kind::MAPS, names::ROW_WORDS),
        format!("| {} | `shards` |", kind::SHARDS),
        format!("| {} | `leases` |", kind::LEASES),
        format!("| {} | `chunks` | 1 for each chunk |", kind::CHUNKS),
        format!("| {} | `marks` | {MARK_WORDS} for each chunk |", kind::MARKS),
        format!("| {} | `data` | {CHUNK_WORDS} for each chunk |", kind::DATA),
        format!("| {} | `hints` | {BUCKET_WORDS} for each bucket", kind::HINTS),
        format!("| {} | `routes` | {} for each split |", kind::ROUTES, 2 * ROUTE_ROW_WORDS),
        format!("{}–{} are the region's bytes", head::REGION_BYTES, head::SPLITS_MAX),
        format!("{} is the directory's lock", head::DIRECTORY_LOCK),
        format!("it may have, at most {SHARDS_MAX}; {}: the first of the others", names::FURTHER),
        format!("{}: its route word; {}: the lock for moves", names::ROUTE, names::MOVE_LOCK),
        format!("at most {BOUND_BYTES_MAX} bytes |"),
        format!("At most {MOVED_AT_ONCE} entries move"),
        format!("| {}–{} | `waits`", words::WAITS, words::SPLIT_TO),
        format!("| {}, {} | `moving`", words::MOVING, words::LEN_MOVED),
        format!("at most {} bytes", names::NAME_BYTES_MAX),
        format!("of {} or {last} units", sizes.join(", ")),
        format!("at most {SPAN_CHUNKS_MAX}."),
        format!("at most {KEY_BYTES_MAX} bytes, values at most {VALUE_BYTES_MAX}."),
        format!("(512 bytes, {ITEMS_MAX} items)"),
        format!("| 36–{} | slots", NODE_WORDS - 1),
        format!("| {} | `root` |", words::ROOT),
        format!("| {} | `epoch` | rises every {} changes", words::EPOCH, words::EPOCH_CHANGES),
        format!("adds {} epochs first", words::EPOCHS_MAX + 1),
        format!("| {} | `is_full` |", words::IS_FULL),
        format!("| {} | `budget` |", words::BUDGET),
        format!("| {}–{} | `hints`, `hint_buckets` |", words::HINTS, words::HINT_BUCKETS),
        format!("| {} | `turn` |", words::TURN),
        format!("| {} | `lock` |", words::LOCK),
        format!("| {} | `sequence` |", words::SEQUENCE),
        format!("| {} | `len` |", words::LEN),
        format!("| {} | `hand` |", words::HAND),
        format!("| {} | `evicted` |", words::EVICTED),
        format!("| {} | `repaired` |", words::REPAIRED),
        format!("| {}–{} | `limbo_count`", words::LIMBO_COUNT, words::LIMBO_KEPT),
        format!("| {}–{} | `news` |", words::NEWS, words::OLDS - 1),
        format!("| {}–{olds_end} | `olds` |", words::OLDS),
        format!("{} `state`, {} `slot`", words::STATE, words::SLOT),
        format!("{} `new`, {} `old entry`", words::NEW, words::OLD_ENTRY),
        format!("| {}–{} | lists", words::LISTS, words::LISTS + crate::object::LIST_WORDS - 1),
        format!("| {}– | `limbo` |", words::LIMBO),
        format!("at most {} beside", words::LIMBO_BATCH),
    ];
    for row in rows {
        assert!(text.contains(&row), "docs/format/ordmap.md does not say {row:?}");
    }
}

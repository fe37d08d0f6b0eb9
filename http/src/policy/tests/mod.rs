//! Tables of cases. A row has a sentence, the inputs and the expected result. Field lines are
//! written as text, one on each line.

use crate::fields::FieldBlock;
use crate::policy::exchange::{CacheRules, ResponseTiming};
use crate::policy::freshness::StatusFreshness;
use crate::policy::meta::StoredMeta;
use crate::policy::targeted::TargetList;

mod accept_language;
mod cache_status;
mod compression;
mod conditional;
mod cookies;
mod decompression;
mod directives;
mod early_hints;
mod freshness;
mod invalidate;
mod meta;
mod oracle;
mod query;
mod range;
mod reuse;
mod stale;
mod storable;
mod tags;
mod targeted;
mod update;
mod vary;

/// Sun, 06 Nov 1994 08:49:37 GMT, the date of RFC 9110's examples.
const NOW: u64 = 784_111_777;

/// Typical heuristic freshness (RFC 9111 §4.2.2).
const RULES: CacheRules<'_> = CacheRules {
    targets: &TargetList::EMPTY,
    heuristic_percent: 10,
    heuristic_s_max: 86_400,
    heuristic_error_s_max: 60,
    override_freshness_s: 0,
    status_freshness: &StatusFreshness::EMPTY,
    default_freshness_s: 0,
    set_cookie_is_storable: true,
};

/// Returns a block with the lines of `text`.
fn block(text: &str) -> FieldBlock {
    let mut block = FieldBlock::new();
    for line in text.lines() {
        let (name, value) = line.split_once(':').expect("a row's line has a colon");
        block.push(name.trim().as_bytes(), value.trim().as_bytes());
    }
    block
}

/// `NOW` plus `seconds`, as a field value.
fn date(seconds: i64) -> String {
    let at = NOW.checked_add_signed(seconds).expect("near NOW");
    httpdate::fmt_http_date(std::time::UNIX_EPOCH + std::time::Duration::from_secs(at))
}

/// Returns the facts of a stored 200 that was requested and arrived at `NOW`.
fn stored(text: &str) -> (StoredMeta, FieldBlock) {
    let block = block(text);
    let arrival = ResponseTiming::new(block.fields(), NOW, NOW);
    let meta = StoredMeta::new(200, &block, &arrival, &RULES);
    (meta, block)
}

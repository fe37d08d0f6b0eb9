//! The store against a map of what was stored last, through its public interface.
//!
//! What is random prints its seed: `FOREBAY_SEED`, `FOREBAY_OPS=100000000` for a longer run.

mod finish;
mod oracle;
mod play;
#[path = "../../../sync/tests/rng/mod.rs"]
mod rng;
mod sequence;
#[path = "../store_common/mod.rs"]
mod store_common;
mod threads;

/// How many operations; unless it is given, as many as a debug build does in some 15 s.
fn operation_count() -> u64 {
    let usual = if cfg!(tsan) {
        20_000
    } else if cfg!(debug_assertions) {
        150_000
    } else {
        1_000_000
    };
    std::env::var("FOREBAY_OPS").map_or(usual, |count| count.parse().expect("a number"))
}

//! The store against a map of the last stored versions, through its public interface.
//!
//! Random tests print their seed: `FOREBAY_SEED` repeats it, `FOREBAY_OPS=100000000` makes a longer
//! run.

mod finish;
mod oracle;
mod play;
mod sequence;
#[path = "../store_common/mod.rs"]
mod store_common;
mod threads;

/// The number of operations; the default takes a debug build about 15 s.
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

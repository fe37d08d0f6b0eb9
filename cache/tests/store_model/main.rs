//! Random operations on a store through its public interface, compared with a map of the last
//! stored versions.
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

/// The number of operations of a run. A debug build takes about 15 s for the default.
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

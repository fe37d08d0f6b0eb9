//! The number of processes of one recording that have a profile. The count is in the profile of the
//! first process.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::hash::hash_words;
use super::plan::{HEADER_WORDS, LAYOUT_VERSION, MAGIC, header};

/// The number of bytes at the beginning of a profile that [`count_process`] needs.
pub const COUNTED_BYTES: usize = HEADER_WORDS * 8;

/// Counts one more process that wants a profile of its own. `first` is the header of the first
/// process's profile. Returns false, and counts a refusal, if `max` processes, the first included,
/// already have a profile. If `first` is not the header of a profile of this layout, this counts
/// nothing and returns true.
#[must_use]
pub fn count_process(first: &[AtomicU64; HEADER_WORDS], max: u64) -> bool {
    if !is_profile(first) {
        return true;
    }
    let one_more = |count: u64| (count.saturating_add(1) < max).then_some(count + 1);
    let is_counted = first[header::PROCESSES].fetch_update(Relaxed, Relaxed, one_more).is_ok();
    if !is_counted {
        first[header::PROCESSES_REFUSED].fetch_add(1, Relaxed);
    }
    is_counted
}

fn is_profile(words: &[AtomicU64; HEADER_WORDS]) -> bool {
    let values = words.each_ref().map(|word| word.load(Relaxed));
    values[0] == MAGIC
        && values[header::VERSION] as u32 == LAYOUT_VERSION
        && values[header::CHECK] == hash_words(&values[..header::CHECK])
}

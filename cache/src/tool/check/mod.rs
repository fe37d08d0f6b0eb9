//! The checker walks over everything, while the store is in use, and reports faults.
//!
//! It cannot see what other threads are about to do, so it reports a fault only if it persists:
//! several reads must find it with the same words. That is not enough where the next step of
//! another thread is due, as after an unchecked word, since the system may suspend that thread for
//! any time. There the checker waits for a sign that the publisher has moved on: another record
//! behind this one, or a sealed segment. No publisher does either before its words are final.
//!
//! | file | checks |
//! |---|---|
//! | `checker.rs` | nothing; it holds the shared state |
//! | `words.rs` | the index: each word, its record, a second record of the key |
//! | `segments.rs` | the table of segments: states, owners, scans, live bytes |
//! | `rows.rs` | participants and pins |
//! | `related.rs` | long bodies and their fragments, bases and their variants |

mod checker;
mod related;
mod rows;
mod segments;
mod words;

use self::checker::Checker;
use super::report::{CheckProgress, StoreReport};
use super::view::{RegionAccess, RegionView};
use crate::index::BUCKET_WORDS;

/// The buckets that are checked between two reports of progress.
const BUCKETS_AT_ONCE: usize = 256;

/// The depth of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckDepth {
    /// Headers and keys.
    Headers,
    /// Everything: each live record's checksum too.
    Checksums,
}

/// Checks a store. `progress` is called regularly, so that the caller can show it or yield.
pub(crate) fn check<R: RegionAccess>(
    view: &RegionView<R>,
    depth: CheckDepth,
    mut progress: impl FnMut(CheckProgress),
) -> StoreReport {
    let mut checker = Checker::new(view, depth);
    let segment_count = view.geometry.segment_count();
    let total = view.bucket_count as u64 + u64::from(segment_count);
    let mut done = 0;
    let mut tell = |count: u64| {
        done += count;
        progress(CheckProgress { done, total });
    };
    for first in (0..view.bucket_count).step_by(BUCKETS_AT_ONCE) {
        let end = (first + BUCKETS_AT_ONCE).min(view.bucket_count);
        (first * BUCKET_WORDS..end * BUCKET_WORDS).for_each(|slot| checker.check_word(slot));
        tell((end - first) as u64);
    }
    checker.check_fragments();
    for segment in 0..segment_count {
        checker.check_segment(segment);
        tell(1);
    }
    checker.check_owners();
    checker.check_rows();
    checker.report
}

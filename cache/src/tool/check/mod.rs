//! The checker walks over all words, records and segments while the store is in use, and reports
//! faults.
//!
//! The checker cannot see the next steps of other threads. So it reports a fault only if the fault
//! persists: several reads must find the fault with the same words. Persistence is not enough where
//! another thread must still take a step, for instance make an unchecked word live, since the
//! system may suspend that thread for any time. There the checker also requires a sign that the
//! publisher has moved on: a further record behind the record, or a sealed segment. A publisher
//! appends no further record and seals no segment before its words are final.
//!
//! | file | checks |
//! |---|---|
//! | `checker.rs` | nothing; has the state of a running check |
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

/// The number of buckets that are checked between two reports of progress.
const BUCKETS_AT_ONCE: usize = 256;

/// The depth of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckDepth {
    /// Checks the headers and keys of records, without their checksums.
    Headers,
    /// Checks headers, keys and the checksum of each record that an index word names.
    Checksums,
}

/// Checks a store. Calls `progress` regularly, so that the caller can show the progress or yield.
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

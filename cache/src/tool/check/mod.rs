//! The checker: walks over everything while the store is in use, and tells what is wrong.
//!
//! It is not told what others are doing, so it tells a fault only if it stands still: it is seen
//! several times, with the same words. Where a step of somebody is expected to follow, as behind
//! an unchecked word, this does not do, since who is to take it may be put aside by the system.
//! There the checker waits for a sign that the publisher has gone on: something else was appended
//! behind the record, or its segment is sealed, which nobody does before the words of what is there
//! are as they are to be.
//!
//! | file | looks at |
//! |---|---|
//! | `checker.rs` | what all of these need |
//! | `words.rs` | the index: each word, the record that it names, a second record of the key |
//! | `segments.rs` | the table of segments: states, owners, walks, live bytes |
//! | `rows.rs` | who takes part, and pins |
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

/// So many buckets are looked at between two reports of progress.
const BUCKETS_AT_ONCE: usize = 256;

/// How much is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckDepth {
    /// Headers and keys.
    Headers,
    /// Everything: each live record's checksum too.
    Checksums,
}

/// Checks a store; `progress` is called now and then, so that it can show how far it is, or let
/// others go first.
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

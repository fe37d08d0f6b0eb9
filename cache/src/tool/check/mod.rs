//! The checker: walks over everything while the store is in use, and tells what is wrong.
//!
//! It is not told what others are doing, so it tells a fault only if it stands still: it is seen
//! [`LOOKS`] times, with the same words. Where a step of somebody is expected to follow, as behind
//! an unchecked word, this does not do, since who is to take it may be put aside by the system.
//! There the checker waits for a sign that the publisher has gone on: something else was appended
//! behind the record, or its segment is sealed, which nobody does before the words of what is there
//! are as they are to be.
//!
//! | file | looks at |
//! |---|---|
//! | `words.rs` | the index: each word, the record that it names, a second record of the key |
//! | `segments.rs` | the table of segments: states, owners, walks, live bytes |
//! | `rows.rs` | who takes part, and pins |
//! | `related.rs` | long bodies and their fragments, bases and their variants |

mod related;
mod rows;
mod segments;
mod words;

use std::collections::HashMap;
use std::thread;

use forebay_shm::Listed;

use self::related::Fragments;
use super::finding::{Finding, What};
use super::report::{Progress, Report};
use super::view::{Looked, View};
use crate::index::BUCKET_WORDS;
use crate::segment::{Header, Phase, Place, UNIT_BYTES};

/// So often a fault is seen before it is told.
const LOOKS: usize = 3;

/// Between two looks others are let go on, so often.
const YIELDS: usize = 4;

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
pub(crate) fn check<R: Looked>(
    view: &View<R>,
    depth: CheckDepth,
    mut progress: impl FnMut(Progress),
) -> Report {
    let mut checker = Checker::new(view, depth);
    let segment_count = view.geometry.segment_count();
    let total = view.bucket_count as u64 + u64::from(segment_count);
    let mut done = 0;
    let mut tell = |count: u64| {
        done += count;
        progress(Progress { done, total });
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

/// What is known while a check goes on.
struct Checker<'a, R: Looked> {
    view: &'a View<R>,
    is_deep: bool,
    report: Report,
    /// The bodies of which fragments were seen.
    fragments: HashMap<u64, Fragments>,
    /// Who takes part, as it was lately.
    participants: Vec<Listed>,
    /// The key of the record that is looked at, if it has one.
    key: Vec<u8>,
    other_key: Vec<u8>,
}

impl<'a, R: Looked> Checker<'a, R> {
    fn new(view: &'a View<R>, depth: CheckDepth) -> Self {
        let is_deep = depth == CheckDepth::Checksums;
        let report = Report {
            is_deep,
            bucket_count: view.bucket_count as u64,
            segment_count: u64::from(view.geometry.segment_count()),
            ..Report::default()
        };
        Checker {
            view,
            is_deep,
            report,
            fragments: HashMap::new(),
            participants: view.region.participants(),
            key: Vec::new(),
            other_key: Vec::new(),
        }
    }

    /// What `look` says, if it says the same each time.
    fn stands<T: PartialEq>(&mut self, mut look: impl FnMut(&mut Self) -> Option<T>) -> Option<T> {
        let first = look(self)?;
        for _ in 1..LOOKS {
            (0..YIELDS).for_each(|_| thread::yield_now());
            if look(self).as_ref() != Some(&first) {
                return None;
            }
        }
        Some(first)
    }

    fn add(&mut self, what: What, place: impl FnOnce(&mut Finding)) {
        let mut finding = Finding::of(what);
        place(&mut finding);
        self.report.add(finding);
    }

    /// Has the publisher of a record that a word names done all that it does with that word? Who
    /// looks at the word after this sees it.
    fn is_published(&self, place: Place, header: &Header) -> bool {
        let Some(segment) = self.view.geometry.segment_of(place) else {
            return false;
        };
        let Some(described) = self.view.outside().describe(segment) else {
            return false;
        };
        match described.state.phase {
            Phase::Sealed | Phase::Draining => true,
            Phase::Open => described.filled_bytes > self.end_bytes(place, header),
            Phase::Free | Phase::Suspect => false,
        }
    }

    /// Where in its segment a record ends.
    fn end_bytes(&self, place: Place, header: &Header) -> u64 {
        let segment_bytes = u64::from(self.view.geometry.segment_bytes());
        let start = u64::from(place.0) * u64::from(UNIT_BYTES) % segment_bytes;
        start + header.record_bytes()
    }
}

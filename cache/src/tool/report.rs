//! What a check has found in all.

use std::fmt;

use super::finding::{Finding, Severity};

/// So many findings of each weight are kept; the others are counted. Who has that many needs no
/// more.
const FINDINGS_MAX: u64 = 1000;

/// How far a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckProgress {
    /// Buckets of the index and segments that were looked at.
    pub done: u64,
    /// How many there are.
    pub total: u64,
}

/// What a check has found, and what it has looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreReport {
    /// What was found, up to a thousand of each weight.
    pub findings: Vec<Finding>,
    /// Further ones.
    pub left_out_count: u64,
    /// How many faults were found, in all.
    pub fault_count: u64,
    /// How many counts are off.
    pub drift_count: u64,
    /// How many things are worth knowing.
    pub note_count: u64,
    /// Buckets of the index.
    pub bucket_count: u64,
    /// Words that name something.
    pub word_count: u64,
    /// Records that can be found.
    pub live_count: u64,
    /// Records that are about to be stored.
    pub unchecked_count: u64,
    /// Bytes of both, with headers.
    pub record_bytes: u64,
    /// Words that changed each time they were looked at, or whose segment cannot be read.
    pub passed_over_count: u64,
    /// Segments.
    pub segment_count: u64,
    /// Free segments.
    pub free_segment_count: u64,
    /// Were checksums looked at?
    pub is_deep: bool,
}

impl StoreReport {
    /// Was nothing found that must not be?
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.fault_count == 0
    }

    pub(super) fn add(&mut self, finding: Finding) {
        let count = match finding.severity() {
            Severity::Fault => &mut self.fault_count,
            Severity::Drift => &mut self.drift_count,
            Severity::Note => &mut self.note_count,
        };
        *count += 1;
        if *count <= FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.left_out_count += 1;
        }
    }
}

impl fmt::Display for StoreReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            writeln!(f, "{finding}")?;
        }
        if self.left_out_count > 0 {
            writeln!(f, "and {} more", self.left_out_count)?;
        }
        let depth = if self.is_deep { "with checksums" } else { "without checksums" };
        write!(
            f,
            "{} records of {} bytes in {} buckets and {} segments, {depth}: \
             {} faults, {} counts off, {} notes",
            self.live_count,
            self.record_bytes,
            self.bucket_count,
            self.segment_count,
            self.fault_count,
            self.drift_count,
            self.note_count,
        )
    }
}

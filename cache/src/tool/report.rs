//! The report of a check.

use std::fmt;

use super::finding::{Finding, FindingSeverity};

/// The number of findings of each severity that a report lists. Further findings are only counted.
const FINDINGS_MAX: u64 = 1000;

/// The progress of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckProgress {
    /// The number of buckets and segments that were checked.
    pub done: u64,
    /// The number of all buckets and segments.
    pub total: u64,
}

/// The findings of a check, and the numbers of checked objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreReport {
    /// The findings, up to a thousand of each severity.
    pub findings: Vec<Finding>,
    /// The number of findings that are left out of `findings`.
    pub left_out_count: u64,
    /// The number of findings that are faults.
    pub fault_count: u64,
    /// The number of findings about wrong counts, [`FindingSeverity::Drift`].
    pub drift_count: u64,
    /// The number of findings that are notes.
    pub note_count: u64,
    /// The number of buckets in the index.
    pub bucket_count: u64,
    /// The number of index words that are not empty.
    pub word_count: u64,
    /// The number of live records.
    pub live_count: u64,
    /// The number of unchecked records.
    pub unchecked_count: u64,
    /// The bytes of live and unchecked records, headers included.
    pub record_bytes: u64,
    /// The number of index words that were not checked, because they changed at each read or
    /// because the state of their segment is damaged.
    pub passed_over_count: u64,
    /// The number of segments.
    pub segment_count: u64,
    /// The number of free segments.
    pub free_segment_count: u64,
    /// Whether checksums were checked.
    pub is_deep: bool,
}

impl StoreReport {
    /// Whether there are no faults.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.fault_count == 0
    }

    pub(super) fn add(&mut self, finding: Finding) {
        let count = match finding.severity() {
            FindingSeverity::Fault => &mut self.fault_count,
            FindingSeverity::Drift => &mut self.drift_count,
            FindingSeverity::Note => &mut self.note_count,
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
            writeln!(f, "{} more findings are not shown", self.left_out_count)?;
        }
        let depth = if self.is_deep { "with checksums" } else { "without checksums" };
        write!(
            f,
            "{} records of {} bytes in {} buckets and {} segments, {depth}: \
             {} faults, {} wrong counts, {} notes",
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

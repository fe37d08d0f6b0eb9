//! Buffers of a run: texts that rules made, and values that are not contiguous in memory.

use std::ops::Range;

use forebay_http::edit::{ConflictingLines, FieldIndex};

use super::{Url, destination::UrlBuilder, subject_cache::SubjectCache};

/// Limits for values that rules make.
#[derive(Clone, Copy, Debug)]
pub struct RunLimits {
    /// Largest size in bytes of one value: a field, a cookie or a Location.
    pub value_bytes_max: u32,
    /// Largest size in bytes of a URL's path and query.
    pub target_bytes_max: u32,
    /// Largest size in bytes of a body.
    pub body_bytes_max: u32,
}

impl Default for RunLimits {
    /// Limits of 16 KiB for a value, 8 KiB for a URL's path and query, and 64 KiB for a body.
    fn default() -> RunLimits {
        RunLimits {
            value_bytes_max: 16 * 1024,
            target_bytes_max: 8 * 1024,
            body_bytes_max: 64 * 1024,
        }
    }
}

/// Number of captured groups that rules can use: `LAST-CAPTURE:0` to `:9`.
pub(super) const GROUP_COUNT: usize = 10;

/// Buffers that are reused from run to run: texts that rules made, and the URL in its new form.
#[derive(Debug, Default)]
pub struct RunBuffers {
    pub(super) limits: RunLimits,
    /// The reason, Location and body to which [`Effects`](super::Effects) refer.
    pub(super) made: Vec<u8>,
    /// The value of the current operator.
    pub(super) value: Vec<u8>,
    /// A value that is built from another value, such as a line of cookies.
    pub(super) second: Vec<u8>,
    pub(super) lookup: LookupBuffers,
    pub(super) captured: CaptureGroups,
    /// Memoized results of conditions; see `machine`.
    pub(super) memo: Vec<u8>,
    pub(super) subjects: SubjectCache,
    /// The constant lines of the program that set a name that the head already has. Valid only if
    /// `conflicts_known`.
    pub(super) conflicts: ConflictingLines,
    pub(super) conflicts_known: bool,
}

/// Buffers for evaluating variables.
#[derive(Debug, Default)]
pub(super) struct LookupBuffers {
    /// A value that is not contiguous in memory.
    pub(super) joined: Vec<u8>,
    /// The lines of the client's request, by name.
    pub(super) client: FieldIndex,
    pub(super) url: UrlBuilder,
}

/// The groups captured by the last regex that matched.
#[derive(Debug, Default)]
pub(super) struct CaptureGroups {
    pub(super) bytes: Vec<u8>,
    pub(super) groups: [(u32, u32); GROUP_COUNT],
}

impl RunBuffers {
    /// Creates buffers with these limits.
    pub fn new(limits: RunLimits) -> RunBuffers {
        RunBuffers { limits, ..RunBuffers::default() }
    }

    /// Returns a text that the last run made, by its range in [`Effects`](super::Effects).
    pub fn get(&self, range: &Range<usize>) -> &[u8] {
        self.made.get(range.clone()).unwrap_or_default()
    }

    /// Returns the URL after the last run; `None` if the run did not change it.
    pub fn url(&self) -> Option<Url<'_>> {
        self.lookup.url.changed()
    }

    /// Starts a run: drops all texts of the last run.
    pub(super) fn begin(&mut self) {
        self.made.clear();
        self.lookup.client.clear();
        self.lookup.url.clear();
        self.captured.clear();
    }

    /// Copies the value of the current operator to `made`; returns its range there.
    pub(super) fn keep_value(&mut self) -> Range<usize> {
        let start = self.made.len();
        self.made.extend_from_slice(&self.value);
        start..self.made.len()
    }
}

impl CaptureGroups {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.groups = [(0, 0); GROUP_COUNT];
    }

    /// Returns a captured group; empty if it was not part of the match.
    pub(super) fn group(&self, number: u8) -> &[u8] {
        let (start, end) = self.groups.get(usize::from(number)).copied().unwrap_or_default();
        self.bytes.get(start as usize..end as usize).unwrap_or_default()
    }
}

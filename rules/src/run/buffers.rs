//! Buffers of a run: what rules made, and what they look at that lies nowhere in one piece.

use std::ops::Range;

use forebay_http::edit::{ConflictingLines, FieldIndex};

use super::{Url, destination::UrlBuilder, subject_cache::SubjectCache};

/// What rules may make.
#[derive(Clone, Copy, Debug)]
pub struct RunLimits {
    /// Bytes of one value: of a field, a cookie, a Location.
    pub value_bytes_max: u32,
    /// Bytes of a URL's path and query.
    pub target_bytes_max: u32,
    /// Bytes of a body.
    pub body_bytes_max: u32,
}

impl Default for RunLimits {
    /// 16 KiB for a value, 8 KiB for a target, 64 KiB for a body.
    fn default() -> RunLimits {
        RunLimits {
            value_bytes_max: 16 * 1024,
            target_bytes_max: 8 * 1024,
            body_bytes_max: 64 * 1024,
        }
    }
}

/// Groups of a regex that rules can ask for: `LAST-CAPTURE:0` to `:9`.
pub(super) const GROUP_COUNT: usize = 10;

/// Buffers of a run, reused from run to run: texts that rules made, and the URL in the making.
#[derive(Debug, Default)]
pub struct RunBuffers {
    pub(super) limits: RunLimits,
    /// Reason, Location, body, as [`Effects`](super::Effects) name them.
    pub(super) made: Vec<u8>,
    /// The value that an operator is about to use.
    pub(super) value: Vec<u8>,
    /// A value that is being put together from another one.
    pub(super) second: Vec<u8>,
    pub(super) lookup: LookupBuffers,
    pub(super) captured: CaptureGroups,
    /// What conditions were found to be: see `machine`.
    pub(super) memo: Vec<u8>,
    pub(super) subjects: SubjectCache,
    /// Constant lines of the program whose names the head has, once that was looked at.
    pub(super) conflicts: ConflictingLines,
    pub(super) conflicts_known: bool,
}

/// What looking at a variable needs.
#[derive(Debug, Default)]
pub(super) struct LookupBuffers {
    /// A value that lies nowhere in one piece.
    pub(super) joined: Vec<u8>,
    /// By name, the lines of the client's request.
    pub(super) client: FieldIndex,
    pub(super) url: UrlBuilder,
}

/// What the last regex that matched has found.
#[derive(Debug, Default)]
pub(super) struct CaptureGroups {
    pub(super) bytes: Vec<u8>,
    pub(super) groups: [(u32, u32); GROUP_COUNT],
}

impl RunBuffers {
    /// With other limits than the usual.
    pub fn new(limits: RunLimits) -> RunBuffers {
        RunBuffers { limits, ..RunBuffers::default() }
    }

    /// A text that the last run made, as its [`Effects`](super::Effects) name it.
    pub fn get(&self, range: &Range<usize>) -> &[u8] {
        self.made.get(range.clone()).unwrap_or_default()
    }

    /// The URL that the last run left; `None` if it changed nothing about it.
    pub fn url(&self) -> Option<Url<'_>> {
        self.lookup.url.changed()
    }

    /// A run begins: what the last one made is forgotten.
    pub(super) fn begin(&mut self) {
        self.made.clear();
        self.lookup.client.clear();
        self.lookup.url.clear();
        self.captured.clear();
    }

    /// Keeps the value for the effects.
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

    /// Empty if the group was not part of the match.
    pub(super) fn group(&self, number: u8) -> &[u8] {
        let (start, end) = self.groups.get(usize::from(number)).copied().unwrap_or_default();
        self.bytes.get(start as usize..end as usize).unwrap_or_default()
    }
}

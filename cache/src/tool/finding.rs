//! The findings of a check.

use std::fmt;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingSeverity {
    /// The store violates an invariant.
    Fault,
    /// A count is wrong. Operations in progress may cause that. In an idle store the count is
    /// exact; if a participant has died, it is exact once the segments of that participant were
    /// checked.
    Drift,
    /// The finding is legal, but worth knowing.
    Note,
}

/// The kind of a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FindingKind {
    /// A word of the index names a location in no segment.
    NoSegment,
    /// A word of the index has an unused state.
    WordState,
    /// A word names a location in a free segment.
    FreeSegment,
    /// A word names a location in a drained segment.
    DrainedSegment,
    /// A word names a location beyond the filled part of its segment.
    NotFilled,
    /// A word names a location without a valid record.
    NoRecord {
        /// The reason why the header is invalid.
        why: &'static str,
    },
    /// A record does not match its checksum.
    Checksum,
    /// The marks of a record have unused bits set.
    Marks,
    /// The key of the record has other buckets or another fingerprint than its word.
    OtherKey,
    /// The size class of a word differs from that of its record.
    SizeClass {
        /// The size class of the word.
        found: u8,
        /// The size class of its record.
        expected: u8,
    },
    /// The sequence of a record is higher than any that was assigned.
    Sequence {
        /// The sequence of the record.
        sequence: u64,
    },
    /// An index word still has the state `unchecked`, although its insert has ended.
    Unchecked,
    /// Two records of one key are live.
    Duplicate {
        /// The location of the other record.
        other_location: u32,
    },
    /// The record is the head of a long body, but its content is no valid description of one.
    LongHead,
    /// The state of a segment is invalid.
    SegmentState {
        /// The segment's state word.
        found: u64,
    },
    /// The words of a free segment are not zero.
    FreeNotEmpty,
    /// A segment is filled beyond its end, or not to a whole unit.
    Filled {
        /// The value of `filled_bytes`.
        filled_bytes: u64,
    },
    /// The owner of a segment is not attached.
    NoOwner,
    /// A participant has two segments open in one queue.
    OpenTwice {
        /// The other segment.
        other_segment: u32,
    },
    /// A scan of a segment meets an invalid record.
    Walk {
        /// The reason why the header is invalid.
        why: &'static str,
    },
    /// A row without a participant has pins.
    Pins {
        /// The number of pins.
        count: u64,
    },
    /// `live_bytes` is not the sum of the sizes of the records that words name.
    LiveBytes {
        /// The value of `live_bytes`.
        counted: u64,
        /// The bytes of the named records.
        named: u64,
    },
    /// A dead participant was not swept yet.
    Dead {
        /// The number of pins in the participant's row.
        pins: u64,
    },
    /// A segment of a dead participant was not checked yet.
    Suspect,
    /// A segment is drained, and will be freed when a free segment is needed.
    Drained,
    /// Fragments of a long body are missing; a request that needs them fetches them from the
    /// origin.
    FragmentsMissing {
        /// The number of missing fragments.
        missing: u64,
        /// The number of fragments that the body has.
        count: u64,
    },
    /// Fragments have no head: their body is still arriving, or its fill died.
    OrphanFragments {
        /// The number of fragments without a head.
        count: u64,
        /// The bytes of these fragments, headers included.
        bytes: u64,
    },
    /// A variant that the base of its resource does not name, so that no lookup finds the variant.
    OrphanVariant,
}

impl FindingKind {
    /// The severity of a finding of this kind.
    pub fn severity(&self) -> FindingSeverity {
        match self {
            FindingKind::LiveBytes { .. } => FindingSeverity::Drift,
            FindingKind::Dead { .. }
            | FindingKind::Suspect
            | FindingKind::Drained
            | FindingKind::FragmentsMissing { .. }
            | FindingKind::OrphanFragments { .. }
            | FindingKind::OrphanVariant => FindingSeverity::Note,
            _ => FindingSeverity::Fault,
        }
    }

    /// A short, stable name for programs.
    pub fn name(&self) -> &'static str {
        match self {
            FindingKind::NoSegment => "no_segment",
            FindingKind::WordState => "word_state",
            FindingKind::FreeSegment => "free_segment",
            FindingKind::DrainedSegment => "drained_segment",
            FindingKind::NotFilled => "not_filled",
            FindingKind::NoRecord { .. } => "no_record",
            FindingKind::Checksum => "checksum",
            FindingKind::Marks => "marks",
            FindingKind::OtherKey => "other_key",
            FindingKind::SizeClass { .. } => "size_class",
            FindingKind::Sequence { .. } => "sequence",
            FindingKind::Unchecked => "unchecked",
            FindingKind::Duplicate { .. } => "duplicate",
            FindingKind::LongHead => "long_head",
            FindingKind::SegmentState { .. } => "segment_state",
            FindingKind::FreeNotEmpty => "free_not_empty",
            FindingKind::Filled { .. } => "filled",
            FindingKind::NoOwner => "no_owner",
            FindingKind::OpenTwice { .. } => "open_twice",
            FindingKind::Walk { .. } => "walk",
            FindingKind::Pins { .. } => "pins",
            FindingKind::LiveBytes { .. } => "live_bytes",
            FindingKind::Dead { .. } => "dead",
            FindingKind::Suspect => "suspect",
            FindingKind::Drained => "drained",
            FindingKind::FragmentsMissing { .. } => "fragments_missing",
            FindingKind::OrphanFragments { .. } => "orphan_fragments",
            FindingKind::OrphanVariant => "orphan_variant",
        }
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            FindingKind::NoSegment => "an index word names a location in no segment",
            FindingKind::WordState => "an index word has an unused state",
            FindingKind::FreeSegment => "an index word names a location in a free segment",
            FindingKind::DrainedSegment => "an index word names a location in a drained segment",
            FindingKind::NotFilled => {
                "an index word names a location beyond the filled part of its segment"
            }
            FindingKind::NoRecord { why } => {
                return write!(f, "an index word names an invalid record: {why}");
            }
            FindingKind::Checksum => "the checksum of a record is wrong",
            FindingKind::Marks => "the marks of a record have unused bits set",
            FindingKind::OtherKey => {
                "an index word names a record that has another fingerprint or belongs elsewhere"
            }
            FindingKind::SizeClass { found, expected } => {
                return write!(
                    f,
                    "an index word has size class {found}, but its record has {expected}"
                );
            }
            FindingKind::Sequence { sequence } => {
                return write!(f, "the sequence {sequence} of a record was never assigned");
            }
            FindingKind::Unchecked => {
                "an index word still has the state `unchecked`, although its insert has ended"
            }
            FindingKind::Duplicate { other_location } => {
                return write!(f, "the record at unit {other_location} is also live for this key");
            }
            FindingKind::LongHead => {
                "the record should describe a long body, but its content is no valid description"
            }
            FindingKind::SegmentState { found } => {
                return write!(f, "{found:#x} is not a valid segment state");
            }
            FindingKind::FreeNotEmpty => "the words of a free segment are not zero",
            FindingKind::Filled { filled_bytes } => {
                return write!(
                    f,
                    "`filled_bytes` of a segment is {filled_bytes}, which is impossible"
                );
            }
            FindingKind::NoOwner => "the owner of the segment is not attached",
            FindingKind::OpenTwice { other_segment } => {
                return write!(
                    f,
                    "the owner of the segment has segment {other_segment} open in the same queue"
                );
            }
            FindingKind::Walk { why } => return write!(f, "a scan meets an invalid record: {why}"),
            FindingKind::Pins { count } => return write!(f, "{count} pins have no owner"),
            FindingKind::LiveBytes { counted, named } => {
                return write!(f, "`live_bytes` is {counted}; indexed records have {named} bytes");
            }
            FindingKind::Dead { pins } => {
                return write!(f, "a participant died with {pins} pins and was not swept yet");
            }
            FindingKind::Suspect => "a segment of a dead participant was not checked yet",
            FindingKind::Drained => "a segment is drained, but not freed yet",
            FindingKind::FragmentsMissing { missing, count } => {
                return write!(f, "{missing} of {count} fragments of a body are missing");
            }
            FindingKind::OrphanFragments { count, bytes } => {
                return write!(f, "{count} fragments of a body, {bytes} bytes, have no head");
            }
            FindingKind::OrphanVariant => "no base record names a stored variant",
        };
        f.write_str(text)
    }
}

/// One finding of a check, and its subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kind of the finding.
    pub kind: FindingKind,
    /// The slot of the index word.
    pub slot: Option<u64>,
    /// The location, in units of 64 bytes.
    pub location: Option<u32>,
    /// The index of the segment.
    pub segment: Option<u32>,
    /// The row of the participant.
    pub row: Option<u32>,
    /// The key, if it is known; else empty.
    pub key: Vec<u8>,
}

impl Finding {
    pub(super) fn of(kind: FindingKind) -> Finding {
        Finding { kind, slot: None, location: None, segment: None, row: None, key: Vec::new() }
    }

    /// The severity of the finding.
    pub fn severity(&self) -> FindingSeverity {
        self.kind.severity()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity() {
            FindingSeverity::Fault => "fault",
            FindingSeverity::Drift => "drift",
            FindingSeverity::Note => "note",
        };
        write!(f, "{severity}: {}", self.kind)?;
        let row = self.row.map(u64::from);
        let location = self.location.map(u64::from);
        let segment = self.segment.map(u64::from);
        let numbers =
            [("unit", location), ("segment", segment), ("slot", self.slot), ("participant", row)];
        for (name, number) in numbers {
            if let Some(number) = number {
                write!(f, ", {name} {number}")?;
            }
        }
        if !self.key.is_empty() {
            write!(f, ", key \"{}\"", self.key.escape_ascii())?;
        }
        Ok(())
    }
}

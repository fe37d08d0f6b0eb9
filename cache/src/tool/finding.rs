//! What a check can find.

use std::fmt;

/// How much something matters that a check has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It must not be.
    Fault,
    /// A count is off. While others work that may be, by what they are doing; it is exact when
    /// nobody works, and after a death when the dead one's segments were checked.
    Drift,
    /// It may be, and is worth knowing.
    Note,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FindingKind {
    /// A word of the index names a place that is in no segment.
    NoSegment,
    /// A word of the index has a state that nobody writes.
    WordState,
    /// A word names a place in a free segment.
    FreeSegment,
    /// A word names a place in a segment whose words have all been taken out.
    DrainedSegment,
    /// A word names a place that its segment is not filled up to.
    NotFilled,
    /// A word names a place where no record is.
    NoRecord {
        /// What is wrong there.
        why: &'static str,
    },
    /// The checksum of a record is wrong.
    Checksum,
    /// The marks of a record have bits that mean nothing.
    Marks,
    /// The hash of the record's key chooses other buckets, or another fingerprint.
    OtherKey,
    /// The size class of a word is not its record's.
    SizeClass {
        /// The word's.
        found: u8,
        /// The record's.
        expected: u8,
    },
    /// A record has a higher sequence than was ever given.
    Sequence {
        /// The record's.
        sequence: u64,
    },
    /// A word stays unchecked: who published it has done something else since.
    Unchecked,
    /// Two records of one key are live.
    Duplicate {
        /// Where the other one lies.
        other_location: u32,
    },
    /// The head of a long body does not say where it is.
    LongHead,
    /// The state of a segment is none.
    SegmentState {
        /// The word.
        found: u64,
    },
    /// A free segment whose words are not zero.
    FreeNotEmpty,
    /// A segment is filled beyond its end, or not to a whole unit.
    Filled {
        /// How far.
        filled_bytes: u64,
    },
    /// A segment has an owner who does not take part.
    NoOwner,
    /// A participant has two segments open in one queue.
    OpenTwice {
        /// The other one.
        other_segment: u32,
    },
    /// A walk over a segment's records meets something that is none.
    Walk {
        /// What is wrong there.
        why: &'static str,
    },
    /// A row of pins is up that no participant has.
    Pins {
        /// How many pins.
        count: u64,
    },
    /// The bytes that count as live are not those of the records that words name.
    LiveBytes {
        /// What counts as live.
        counted: u64,
        /// What words name.
        named: u64,
    },
    /// A participant died, and nobody has cleaned up after it.
    Dead {
        /// Pins of it that are up.
        pins: u64,
    },
    /// A segment of a dead participant waits to be checked.
    Suspect,
    /// A segment is empty and waits to be freed, which who needs one does.
    Drained,
    /// Fragments of a long body are missing; who needs them fetches them.
    FragmentsMissing {
        /// How many.
        missing: u64,
        /// Of how many.
        count: u64,
    },
    /// Fragments have no head: their body is still arriving, or who wrote it died.
    OrphanFragments {
        /// How many.
        count: u64,
        /// How long they are, with their headers.
        bytes: u64,
    },
    /// A variant that the base of its resource does not name: nobody finds it.
    OrphanVariant,
}

impl FindingKind {
    /// How much it matters.
    pub fn severity(&self) -> Severity {
        match self {
            FindingKind::LiveBytes { .. } => Severity::Drift,
            FindingKind::Dead { .. }
            | FindingKind::Suspect
            | FindingKind::Drained
            | FindingKind::FragmentsMissing { .. }
            | FindingKind::OrphanFragments { .. }
            | FindingKind::OrphanVariant => Severity::Note,
            _ => Severity::Fault,
        }
    }

    /// A short name that stays the same, for programs.
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
            FindingKind::NoSegment => "a word names a place in no segment",
            FindingKind::WordState => "a word has a state that nobody writes",
            FindingKind::FreeSegment => "a word names a place in a free segment",
            FindingKind::DrainedSegment => "a word names a place in a segment that was drained",
            FindingKind::NotFilled => "a word names a place behind what is filled",
            FindingKind::NoRecord { why } => return write!(f, "a word names no record: {why}"),
            FindingKind::Checksum => "the checksum is wrong",
            FindingKind::Marks => "the marks have bits that mean nothing",
            FindingKind::OtherKey => "the word is not one of the record's key",
            FindingKind::SizeClass { found, expected } => {
                return write!(f, "the word has size class {found}, the record {expected}");
            }
            FindingKind::Sequence { sequence } => {
                return write!(f, "sequence {sequence} was never given");
            }
            FindingKind::Unchecked => "a word stays unchecked",
            FindingKind::Duplicate { other_location } => {
                return write!(f, "the record at unit {other_location} is live under the same key");
            }
            FindingKind::LongHead => "a long body's head does not say where it is",
            FindingKind::SegmentState { found } => return write!(f, "{found:#x} is no state"),
            FindingKind::FreeNotEmpty => "a free segment has words that are not zero",
            FindingKind::Filled { filled_bytes } => {
                return write!(f, "a segment is filled up to {filled_bytes}, which cannot be");
            }
            FindingKind::NoOwner => "a segment's owner does not take part",
            FindingKind::OpenTwice { other_segment } => {
                return write!(f, "its owner has segment {other_segment} open in the same queue");
            }
            FindingKind::Walk { why } => return write!(f, "a walk meets no record: {why}"),
            FindingKind::Pins { count } => return write!(f, "{count} pins are up of nobody"),
            FindingKind::LiveBytes { counted, named } => {
                return write!(f, "{counted} bytes count as live, words name {named}");
            }
            FindingKind::Dead { pins } => {
                return write!(f, "a participant died with {pins} pins and was not swept");
            }
            FindingKind::Suspect => "a segment of a dead participant waits to be checked",
            FindingKind::Drained => "a segment is drained and waits to be freed",
            FindingKind::FragmentsMissing { missing, count } => {
                return write!(f, "{missing} of {count} fragments are missing");
            }
            FindingKind::OrphanFragments { count, bytes } => {
                return write!(f, "{count} fragments of {bytes} bytes have no head");
            }
            FindingKind::OrphanVariant => "no base names the variant",
        };
        f.write_str(text)
    }
}

/// Something that a check has found, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub kind: FindingKind,
    /// The word of the index.
    pub slot: Option<u64>,
    /// The place, in units of 64 bytes.
    pub location: Option<u32>,
    /// The segment.
    pub segment: Option<u32>,
    /// The participant's row.
    pub row: Option<u32>,
    /// The key, if it is known; else empty.
    pub key: Vec<u8>,
}

impl Finding {
    pub(super) fn of(kind: FindingKind) -> Finding {
        Finding { kind, slot: None, location: None, segment: None, row: None, key: Vec::new() }
    }

    /// How much it matters.
    pub fn severity(&self) -> Severity {
        self.kind.severity()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity() {
            Severity::Fault => "fault",
            Severity::Drift => "drift",
            Severity::Note => "note",
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

//! What a check can find.

use std::fmt;

/// How much something matters that a check has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
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
pub enum What {
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

impl What {
    /// How much it matters.
    pub fn weight(&self) -> Weight {
        match self {
            What::LiveBytes { .. } => Weight::Drift,
            What::Dead { .. }
            | What::Suspect
            | What::Drained
            | What::FragmentsMissing { .. }
            | What::OrphanFragments { .. }
            | What::OrphanVariant => Weight::Note,
            _ => Weight::Fault,
        }
    }

    /// A short name that stays the same, for programs.
    pub fn name(&self) -> &'static str {
        match self {
            What::NoSegment => "no_segment",
            What::WordState => "word_state",
            What::FreeSegment => "free_segment",
            What::DrainedSegment => "drained_segment",
            What::NotFilled => "not_filled",
            What::NoRecord { .. } => "no_record",
            What::Checksum => "checksum",
            What::Marks => "marks",
            What::OtherKey => "other_key",
            What::SizeClass { .. } => "size_class",
            What::Sequence { .. } => "sequence",
            What::Unchecked => "unchecked",
            What::Duplicate { .. } => "duplicate",
            What::LongHead => "long_head",
            What::SegmentState { .. } => "segment_state",
            What::FreeNotEmpty => "free_not_empty",
            What::Filled { .. } => "filled",
            What::NoOwner => "no_owner",
            What::OpenTwice { .. } => "open_twice",
            What::Walk { .. } => "walk",
            What::Pins { .. } => "pins",
            What::LiveBytes { .. } => "live_bytes",
            What::Dead { .. } => "dead",
            What::Suspect => "suspect",
            What::Drained => "drained",
            What::FragmentsMissing { .. } => "fragments_missing",
            What::OrphanFragments { .. } => "orphan_fragments",
            What::OrphanVariant => "orphan_variant",
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            What::NoSegment => "a word names a place in no segment",
            What::WordState => "a word has a state that nobody writes",
            What::FreeSegment => "a word names a place in a free segment",
            What::DrainedSegment => "a word names a place in a segment that was drained",
            What::NotFilled => "a word names a place behind what is filled",
            What::NoRecord { why } => return write!(f, "a word names no record: {why}"),
            What::Checksum => "the checksum is wrong",
            What::Marks => "the marks have bits that mean nothing",
            What::OtherKey => "the word is not one of the record's key",
            What::SizeClass { found, expected } => {
                return write!(f, "the word has size class {found}, the record {expected}");
            }
            What::Sequence { sequence } => {
                return write!(f, "sequence {sequence} was never given");
            }
            What::Unchecked => "a word stays unchecked",
            What::Duplicate { other_location } => {
                return write!(f, "the record at unit {other_location} is live under the same key");
            }
            What::LongHead => "a long body's head does not say where it is",
            What::SegmentState { found } => return write!(f, "{found:#x} is no state"),
            What::FreeNotEmpty => "a free segment has words that are not zero",
            What::Filled { filled_bytes } => {
                return write!(f, "a segment is filled up to {filled_bytes}, which cannot be");
            }
            What::NoOwner => "a segment's owner does not take part",
            What::OpenTwice { other_segment } => {
                return write!(f, "its owner has segment {other_segment} open in the same queue");
            }
            What::Walk { why } => return write!(f, "a walk meets no record: {why}"),
            What::Pins { count } => return write!(f, "{count} pins are up of nobody"),
            What::LiveBytes { counted, named } => {
                return write!(f, "{counted} bytes count as live, words name {named}");
            }
            What::Dead { pins } => {
                return write!(f, "a participant died with {pins} pins and was not swept");
            }
            What::Suspect => "a segment of a dead participant waits to be checked",
            What::Drained => "a segment is drained and waits to be freed",
            What::FragmentsMissing { missing, count } => {
                return write!(f, "{missing} of {count} fragments are missing");
            }
            What::OrphanFragments { count, bytes } => {
                return write!(f, "{count} fragments of {bytes} bytes have no head");
            }
            What::OrphanVariant => "no base names the variant",
        };
        f.write_str(text)
    }
}

/// Something that a check has found, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub what: What,
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
    pub(super) fn of(what: What) -> Finding {
        Finding { what, slot: None, location: None, segment: None, row: None, key: Vec::new() }
    }

    /// How much it matters.
    pub fn weight(&self) -> Weight {
        self.what.weight()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weight = match self.weight() {
            Weight::Fault => "fault",
            Weight::Drift => "drift",
            Weight::Note => "note",
        };
        write!(f, "{weight}: {}", self.what)?;
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

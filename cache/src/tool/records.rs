//! Records as a tool gets them.

use crate::index::IndexWord;
use crate::segment::{HeaderKind, RecordCopy, RecordHeader, RecordMarks, ScannedRecord};
use crate::store::long::{LongBody, split_fragment_key};
use crate::store::variants::split_variant_key;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// A whole response.
    Whole,
    /// The head of a long body, which lies in fragments.
    LongHead,
    /// A piece of a long body.
    Fragment,
    /// The names that choose among variants.
    Base,
}

impl RecordKind {
    fn of(kind: HeaderKind) -> RecordKind {
        match kind {
            HeaderKind::Whole => RecordKind::Whole,
            HeaderKind::LongHead => RecordKind::LongHead,
            HeaderKind::Base => RecordKind::Base,
            // A filler is never copied.
            HeaderKind::Fragment | HeaderKind::Filler => RecordKind::Fragment,
        }
    }
}

/// A live record, without what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedRecord<'a> {
    /// Its whole key: of a variant, with epoch and hash.
    pub key: &'a [u8],
    /// What it is.
    pub kind: RecordKind,
    /// What it takes in its segment.
    pub record_bytes: u64,
    /// Length of its head.
    pub head_bytes: u16,
    /// Length of what is stored as its body: of a long head, not that of the long body.
    pub body_bytes: u32,
    /// From which Unix second on it is stale.
    pub stale_from: u64,
    /// Was it purged softly?
    pub is_soft: bool,
    /// When it was received, in Unix seconds.
    pub response_time: u32,
    /// How often it was used lately, up to three.
    pub uses: u8,
    /// Of two records of a key the higher one counts.
    pub sequence: u64,
    /// Where it lies, in units of 64 bytes.
    pub location: u32,
}

/// What a record's key is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyParts<'a> {
    /// The user's own key: of a whole response, the head of a long one, or a base.
    Primary(&'a [u8]),
    /// That of a resource, and what tells the variant from others.
    Variant {
        /// The key of the resource.
        primary: &'a [u8],
        /// Only the base with this epoch names it.
        epoch: u64,
        /// Hash of the values that it is the variant for.
        hash: &'a [u8; 16],
    },
    /// A part of a long body.
    Fragment {
        /// The body's number.
        body: u64,
        /// Its place among the fragments.
        number: u32,
    },
}

impl<'a> ListedRecord<'a> {
    /// What its key is made of.
    pub fn parts(&self) -> KeyParts<'a> {
        let key = self.key;
        match self.kind {
            RecordKind::Fragment => {
                split_fragment_key(key).map(|(body, number)| KeyParts::Fragment { body, number })
            }
            RecordKind::Whole | RecordKind::LongHead => split_variant_key(key)
                .map(|(primary, epoch, hash)| KeyParts::Variant { primary, epoch, hash }),
            RecordKind::Base => None,
        }
        .unwrap_or(KeyParts::Primary(key))
    }

    /// Is there a time from which on it is stale? Fragments and bases have none: their heads and
    /// variants have.
    pub fn expires(&self) -> bool {
        matches!(self.kind, RecordKind::Whole | RecordKind::LongHead)
    }

    pub(super) fn of(word: IndexWord, scanned: &ScannedRecord, key: &'a [u8]) -> ListedRecord<'a> {
        ListedRecord::with(word, &scanned.header, scanned.marks, key)
    }

    fn with(
        word: IndexWord,
        header: &RecordHeader,
        marks: RecordMarks,
        key: &'a [u8],
    ) -> ListedRecord<'a> {
        ListedRecord {
            key,
            kind: RecordKind::of(header.kind),
            record_bytes: header.record_bytes(),
            head_bytes: header.head_bytes,
            body_bytes: header.body_bytes,
            stale_from: marks.stale_from_seconds(),
            is_soft: marks.is_soft(),
            response_time: header.response_time,
            uses: word.uses(),
            sequence: header.sequence,
            location: word.location(),
        }
    }
}

/// A live record and all that it holds, as it was when it was copied.
#[derive(Clone, Debug)]
pub struct CopiedRecord {
    word: IndexWord,
    copied: RecordCopy,
}

impl CopiedRecord {
    pub(super) fn new(word: IndexWord, copied: RecordCopy) -> CopiedRecord {
        CopiedRecord { word, copied }
    }

    /// What is told of it in a list.
    pub fn listed(&self) -> ListedRecord<'_> {
        let record = self.copied.record();
        ListedRecord::with(self.word, &record.header, record.marks, record.key())
    }

    /// The response's head; of a variant, with its values before it; of a base, the names.
    pub fn head(&self) -> &[u8] {
        self.copied.record().head()
    }

    /// The body, or what is stored in its place.
    pub fn body(&self) -> &[u8] {
        self.copied.record().body()
    }

    /// The tags by which it can be purged.
    pub fn tags(&self) -> &[u8] {
        self.copied.record().tags()
    }

    /// Of the head of a long body: where that is.
    pub fn long_body(&self) -> Option<LongBody> {
        let record = self.copied.record();
        (record.header.kind == HeaderKind::LongHead)
            .then(|| LongBody::decode(record.body()))
            .flatten()
    }
}

//! Records, as tools in other processes read them.

use crate::index::IndexWord;
use crate::segment::{HeaderKind, RecordCopy, RecordHeader, RecordMarks, ScannedRecord};
use crate::store::long::{LongBody, split_fragment_key};
use crate::store::variants::{NameSets, split_variant_key};

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// A whole response.
    Whole,
    /// The head of a long body, which is stored in fragments.
    LongHead,
    /// One fragment of a long body.
    Fragment,
    /// A base record: the field names that select variants, and the ids of the variants.
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

/// A live record, without its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedRecord<'a> {
    /// The whole key. The key of a variant includes its number and its hash.
    pub key: &'a [u8],
    /// The kind of the record.
    pub kind: RecordKind,
    /// The bytes that the record has in its segment.
    pub record_bytes: u64,
    /// The length of the record's head.
    pub head_bytes: u16,
    /// The length of the record's body. The body of a long head only describes the long body.
    pub body_bytes: u32,
    /// The Unix second from which the record is stale.
    pub stale_from: u64,
    /// Whether the record was softly purged.
    pub is_soft: bool,
    /// The time of the response, in Unix seconds.
    pub response_time: u32,
    /// The number of recent uses of the record, up to three.
    pub uses: u8,
    /// The sequence of the record: of two records of a key, the record with the higher sequence
    /// counts.
    pub sequence: u64,
    /// The location of the record, in units of 64 bytes.
    pub location: u32,
}

/// The parts of a record's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyParts<'a> {
    /// The key as given to the store. Whole responses, heads of long responses and bases have such
    /// a key.
    Primary(&'a [u8]),
    /// The key of a variant.
    Variant {
        /// The key of the resource.
        primary: &'a [u8],
        /// The number of the variant. A base names the variant only if the base holds this number
        /// together with this hash.
        number: u64,
        /// The hash of the variant's selector.
        hash: &'a [u8; 16],
    },
    /// A fragment of a long body.
    Fragment {
        /// The id of the body.
        body: u64,
        /// The number of the fragment.
        number: u32,
    },
}

impl<'a> ListedRecord<'a> {
    /// The parts of the record's key.
    pub fn parts(&self) -> KeyParts<'a> {
        let key = self.key;
        match self.kind {
            RecordKind::Fragment => {
                split_fragment_key(key).map(|(body, number)| KeyParts::Fragment { body, number })
            }
            RecordKind::Whole | RecordKind::LongHead => split_variant_key(key)
                .map(|(primary, number, hash)| KeyParts::Variant { primary, number, hash }),
            RecordKind::Base => None,
        }
        .unwrap_or(KeyParts::Primary(key))
    }

    /// Whether the record has a time from which it is stale. Fragments and base records have none:
    /// the record with the head of the fragmented body has it, and each variant of the base record.
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

/// A copy of a live record, with its content.
#[derive(Clone, Debug)]
pub struct CopiedRecord {
    word: IndexWord,
    copied: RecordCopy,
}

impl CopiedRecord {
    pub(super) fn new(word: IndexWord, copied: RecordCopy) -> CopiedRecord {
        CopiedRecord { word, copied }
    }

    /// The record without its content.
    pub fn listed(&self) -> ListedRecord<'_> {
        let record = self.copied.record();
        ListedRecord::with(self.word, &record.header, record.marks, record.key())
    }

    /// The head of the record: for a response, the response's head; for a variant, the variant's
    /// selector and then the response's head; for a base record, the field names.
    pub fn head(&self) -> &[u8] {
        self.copied.record().head()
    }

    /// The sets of field names by which the response varies, if this is a base record. The empty
    /// set belongs to a response that does not vary.
    pub fn vary_names(&self) -> impl Iterator<Item = &[u8]> {
        let is_base = self.listed().kind == RecordKind::Base;
        NameSets::of(if is_base { self.head() } else { &[] }).iter()
    }

    /// The body, or the bytes that are stored in its place.
    pub fn body(&self) -> &[u8] {
        self.copied.record().body()
    }

    /// The tags by which the record can be purged.
    pub fn tags(&self) -> &[u8] {
        self.copied.record().tags()
    }

    /// The long body that the record describes, if the record is a long head.
    pub fn long_body(&self) -> Option<LongBody> {
        let record = self.copied.record();
        (record.header.kind == HeaderKind::LongHead)
            .then(|| LongBody::decode(record.body()))
            .flatten()
    }
}

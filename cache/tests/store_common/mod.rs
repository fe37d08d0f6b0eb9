//! Code that the tests of the store share: records that describe themselves, and functions that
//! store and find them.
//!
//! A head holds key, version, length of the body and the number of renewals; every byte of the body
//! follows from key and version. So a reader detects a torn or mixed record, or a record of another
//! key.

pub(crate) mod actor;
pub(crate) mod ledger;

use std::ops::Range;
use std::sync::LazyLock;
use std::task::{Context, Poll, Waker};

use forebay_cache::{
    CollapseResult, Fill, JoinTerms, Leader, Lookup, RecordTags, RecordTimes, RecordVersion,
    Selection, StoreWorker, StoredBody, StoredRecord, TagExpr, VariantKey, selector_list,
};

/// The longest body.
pub(crate) const BODY_BYTES_MAX: usize = 512 * 1024;

/// The range of offsets in the pattern at which a body may start.
const PATTERN_STARTS: usize = 1 << 20;

const HEAD_BYTES: usize = 24;

/// The length of the label at the start of a body, if the body is that long.
const LABEL_BYTES: usize = 8;

static PATTERN: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let words = (0..(PATTERN_STARTS + BODY_BYTES_MAX) as u64 / 8).map(mixed);
    words.flat_map(u64::to_le_bytes).collect()
});

/// 64 well mixed bits.
pub(crate) fn mixed(number: u64) -> u64 {
    let mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The identity of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) key: u32,
    pub(crate) version: u32,
    pub(crate) body_bytes: u32,
    /// The value that selects the variant; 0 for a response without variants.
    pub(crate) value: u32,
    /// The number of renewals.
    pub(crate) renewed: u32,
}

impl Label {
    fn words(self) -> [u32; 5] {
        [self.key, self.version, self.body_bytes, self.value, self.renewed]
    }

    fn sum(self) -> u32 {
        self.words().iter().fold(7, |sum, word| mixed(sum << 32 ^ u64::from(*word))) as u32
    }

    /// The head of the record. Its length depends on the label.
    pub(crate) fn head(self) -> Vec<u8> {
        let words = self.words().into_iter().chain([self.sum()]);
        let mut head: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
        head.resize(HEAD_BYTES + (self.sum() % 200) as usize, b'.');
        head
    }

    /// Parses a head.
    pub(crate) fn of(head: &[u8]) -> Result<Label, String> {
        let wrong = || format!("no head: {head:?}");
        let (words, _) = head.get(..HEAD_BYTES).ok_or_else(wrong)?.as_chunks();
        let word = |index: usize| u32::from_le_bytes(words[index]);
        let (key, version, body_bytes) = (word(0), word(1), word(2));
        let label = Label { key, version, body_bytes, value: word(3), renewed: word(4) };
        if label.head() == head { Ok(label) } else { Err(wrong()) }
    }

    /// The tags of the record. Some records have none.
    pub(crate) fn tags(self) -> RecordTags {
        let group = group_tag(self.key % GROUPS);
        let own = format!("own {} {}", self.key, self.version);
        let value = value_tag(self.value);
        let tags = [&group[..], own.as_bytes()];
        let count = if self.key % 7 == 3 { 0 } else { 1 + self.version as usize % 2 };
        let of_value = (count > 0 && self.value > 0).then_some(&value[..]);
        RecordTags::new(tags.into_iter().take(count).chain(of_value)).expect("they are short")
    }

    /// Whether the variants of a key have a tag for their value.
    pub(crate) fn has_value_tag(key: u32, value: u32) -> bool {
        key % 7 != 3 && value > 0
    }

    /// Whether a key is in a group.
    pub(crate) fn is_in_group(key: u32, group: u32) -> bool {
        key % 7 != 3 && key % GROUPS == group
    }

    /// Returns a part of the body of the record.
    pub(crate) fn body(self, part: Range<usize>) -> Vec<u8> {
        let first = mixed(u64::from(self.key) << 32 | u64::from(self.version));
        let start = mixed(first ^ u64::from(self.value)) as usize % PATTERN_STARTS;
        let mut body = PATTERN[start + part.start..start + part.end].to_vec();
        let label = (u64::from(self.key) << 32 | u64::from(self.version)).to_le_bytes();
        for (byte, offset) in label.into_iter().zip(0..LABEL_BYTES) {
            if part.contains(&offset) {
                body[offset - part.start] = byte;
            }
        }
        body
    }

    pub(crate) fn check_part(self, part: Range<usize>, bytes: &[u8]) -> Result<(), String> {
        if part.end > self.body_bytes as usize || part.len() != bytes.len() {
            return Err(format!("{} bytes for {part:?} of {self:?}", bytes.len()));
        }
        let wanted = self.body(part.clone());
        if wanted == bytes {
            return Ok(());
        }
        let at = wanted.iter().zip(bytes).take_while(|(a, b)| a == b).count();
        Err(format!("byte {} of {self:?} is wrong", part.start + at))
    }
}

/// The number of groups that keys belong to, by tags.
pub(crate) const GROUPS: u32 = 11;

/// The tag of a group.
pub(crate) fn group_tag(group: u32) -> Vec<u8> {
    format!("group {group}").into_bytes()
}

/// The tag of the variants with this value, which is at least 1.
fn value_tag(value: u32) -> Vec<u8> {
    format!("value {value}").into_bytes()
}

/// A selection of all keys of a group, by the group's tag.
pub(crate) fn group(group: u32) -> Selection {
    tagged(&group_tag(group))
}

/// A selection of all variants with a value, by the tag of the value.
pub(crate) fn all_of_value(value: u32) -> Selection {
    tagged(&value_tag(value))
}

fn tagged(tag: &[u8]) -> Selection {
    let tags = TagExpr::any_of([tag]).expect("a tag");
    Selection { within: b"site\0http\0".to_vec(), tags: Some(tags) }
}

/// A selection of all keys that begin with these digits, and a function that returns whether it
/// contains a key.
pub(crate) fn beginning(digits: u32) -> (Selection, impl Fn(u32) -> bool) {
    let prefix = format!("site\0http\0host\0/{digits}").into_bytes();
    let begins = prefix.clone();
    (Selection::within(&prefix), move |key| key_bytes(key).starts_with(&begins))
}

/// The bytes of a key. Some keys are long, and share a long prefix.
pub(crate) fn key_bytes(key: u32) -> Vec<u8> {
    let long = if key % 61 == 7 { 1200 } else { 0 };
    format!("site\0http\0host\0/{}{key}", "x".repeat(long)).into_bytes()
}

/// One of the sets of field names that select variants, as a base stores it. `number` chooses the
/// set.
pub(crate) fn names(number: u32) -> Vec<u8> {
    format!("names {number}").into_bytes()
}

/// The selector of the variant with this value in the set of field names that `names` chooses. If
/// `names` is `None`, the selector of a response that does not vary.
pub(crate) fn selector(names: Option<u32>, value: u32) -> Vec<u8> {
    names.map_or(Vec::new(), |names| format!("names {names} value {value}").into_bytes())
}

/// A result of a lookup: the selectors of the request if the key has variants, and the records that
/// they select, each with the argument of [`names`] for its field names (`None` if it does not
/// vary). The record that is used comes last.
pub(crate) struct Looked {
    pub(crate) list: Option<Vec<u8>>,
    pub(crate) found: Vec<(Option<u32>, Seen)>,
}

impl Looked {
    /// The record that is used.
    pub(crate) fn chosen(&self) -> Option<(Option<u32>, Seen)> {
        self.found.last().copied()
    }
}

/// Looks up a key for a request with a value, and reads all records that the request selects.
/// `takes_plain` tells whether the request also selects a response that does not vary.
pub(crate) fn look(
    worker: &StoreWorker,
    key: &[u8],
    value: u32,
    takes_plain: bool,
) -> Result<Looked, String> {
    let base = match worker.lookup(key) {
        Lookup::Miss => return Ok(Looked { list: None, found: Vec::new() }),
        Lookup::Record(record) => {
            return Ok(Looked { list: None, found: vec![(None, read(worker, &record)?)] });
        }
        Lookup::Base(base) => base,
    };
    let (mut list, mut found) = (Vec::new(), Vec::new());
    for set in base.name_sets() {
        let number = (0..2).find(|number| names(*number) == set);
        if number.is_none() && !set.is_empty() {
            return Err(format!("the base has the unknown names {set:?}"));
        }
        let own = match number.is_none() && !takes_plain {
            true => b"none".to_vec(),
            false => selector(number, value),
        };
        list.extend(selector_list(&own));
        if let Some(record) = base.variant(&own) {
            found.push((number, read(worker, &record)?));
        }
    }
    found.sort_by_key(|(number, seen)| (number.is_some(), seen.label.version));
    Ok(Looked { list: Some(list), found })
}

/// A record that a lookup found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) label: Label,
    pub(crate) known: RecordVersion,
    /// Whether the record was purged softly.
    pub(crate) is_soft: bool,
    /// Whether all fragments were found: fragments of a long body may be evicted before its head.
    pub(crate) is_whole: bool,
}

/// Reads a record to its end, and checks everything in it.
pub(crate) fn read(worker: &StoreWorker, found: &StoredRecord<'_>) -> Result<Seen, String> {
    let label = Label::of(found.head())?;
    let known = found.version();
    if found.body().bytes() != u64::from(label.body_bytes) {
        return Err(format!("{} bytes of {label:?}", found.body().bytes()));
    }
    let mut is_whole = true;
    match found.body() {
        StoredBody::Whole(bytes) => label.check_part(0..bytes as usize, found.whole_body())?,
        StoredBody::Long(long) => {
            let mut start = 0;
            for number in long.fragments(0..long.bytes()) {
                let part = long.part_of(number, &(0..long.bytes()));
                let end = start + part.len();
                match worker.pin_fragment(&long, number, part, 0) {
                    Some(lent) => {
                        let reading = worker.send_guard();
                        let bytes = lent.bytes(&reading).map_err(|_| "just lent, and lost")?;
                        label.check_part(start..end, bytes)?;
                    }
                    None => is_whole = false,
                }
                start = end;
            }
        }
    }
    Ok(Seen { label, known, is_soft: found.is_soft(), is_whole })
}

/// Begins a fetch of a key as a server does after a lookup. `None` if the store does not let this
/// caller lead a fetch now.
pub(crate) fn lead(
    worker: &StoreWorker,
    key: &[u8],
    (value, takes_plain): (u32, bool),
    now_ms: u64,
) -> Option<Leader> {
    for _ in 0..8 {
        let looked = look(worker, key, value, takes_plain).ok()?;
        let known = looked.chosen().map(|(_, seen)| seen.known);
        let terms = JoinTerms { declined_ms: 10_000, ..JoinTerms::at(now_ms) };
        match worker.collapse(key, looked.list.as_deref(), known, terms) {
            CollapseResult::Leader(leader, _) => return Some(leader),
            CollapseResult::Stored => {}
            CollapseResult::Follower(_) | CollapseResult::Declined(_) => return None,
        }
    }
    None
}

/// Begins to store the response of a fetch. `None` if the store refuses the fill.
pub(crate) fn begin(
    leader: Leader,
    label: Label,
    names_number: Option<u32>,
    is_length_known: bool,
    times: RecordTimes,
) -> Option<Fill> {
    let variant = selector(names_number, label.value);
    let base = names_number.map(|number| VariantKey { names: names(number), variant });
    let body_bytes = is_length_known.then_some(u64::from(label.body_bytes));
    let mut filling = leader.begin(&label.head(), base, body_bytes, times).ok()?;
    filling.tag(label.tags());
    Some(filling)
}

/// Appends up to `byte_count` further bytes of the body. Returns false if the fill was refused or
/// has to wait.
pub(crate) fn append(filling: &mut Fill, label: Label, byte_count: usize) -> bool {
    let start = filling.bytes() as usize;
    let end = (start + byte_count).min(label.body_bytes as usize);
    let mut cx = Context::from_waker(Waker::noop());
    for piece in label.body(start..end).chunks(16 * 1024) {
        match filling.poll_room(&mut cx, 0) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(_)) | Poll::Pending => return false,
        }
        if filling.append(piece).is_err() {
            return false;
        }
    }
    true
}

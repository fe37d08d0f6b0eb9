//! Selections of records by key prefix or tags: counting, purging and listing them.

use std::collections::BTreeSet;

use forebay_ordmap::MapError;
use forebay_shm::crash_point;

use super::long::LongBody;
use super::purge::variant_keys_of;
use super::record_index::RecordIndex;
use super::variants::split_variant_key;
use super::worker::{StoreWorker, WorkerInner};
use crate::index::{IndexHit, WordState};
use crate::key_index::KeyWalk;
use crate::purge::Predicate;
use crate::segment::{HeaderKind, Record};
use crate::tags::{TagCandidates, TagExpr, tags_of};

/// The number of resources between two reports of progress, which takes some 200 µs.
const REPORT_EVERY: u64 = 64;

/// The number of resources whose entries are removed from the key index together.
const LEAVE_EVERY: u64 = 32;

/// A selection of stored records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The prefix of the primary keys. An empty prefix selects all keys.
    pub within: Vec<u8>,
    /// If given, only records whose tags match are selected. Each variant is matched by its own
    /// tags.
    pub tags: Option<TagExpr>,
}

/// The progress of a walk over the selected records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalkProgress {
    /// The number of resources that the walk has seen.
    pub resources: u64,
    /// The number of records that matched.
    pub records: u64,
    /// The bytes of the matching records, including long bodies.
    pub bytes: u64,
}

/// The size of the records that a purge of a selection would remove, and a sample of their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SelectionSize {
    /// The number of resources that were seen, and the number and the bytes of the selected
    /// records.
    pub walked: WalkProgress,
    /// The primary keys of the first resources with selected records.
    pub sample: Vec<Vec<u8>>,
}

/// A resource in a list. The list shows its record, or the newest of its selected variants.
#[derive(Clone, Copy, Debug)]
pub struct ListedResource<'a> {
    /// The primary key of the resource.
    pub key: &'a [u8],
    /// The head of the response that is shown.
    pub head: &'a [u8],
    tags: &'a [u8],
    /// The time at which the response was received, in Unix seconds.
    pub response_time: u32,
    /// The first second at which the response is stale, in Unix seconds.
    pub stale_from: u64,
    /// Whether the record that is shown was purged softly.
    pub is_soft: bool,
    /// The use count of the record that is shown, 0 to 3.
    pub uses: u8,
    /// The number of stored variants; 0 if the resource has no variants.
    pub variants: u32,
    /// The bytes of all records of the resource, including long bodies.
    pub bytes: u64,
}

impl Selection {
    /// Selects every record whose primary key has this prefix.
    pub fn within(prefix: &[u8]) -> Selection {
        Selection { within: prefix.to_vec(), tags: None }
    }

    pub(super) fn predicate(&self) -> Predicate<'_> {
        match &self.tags {
            Some(expr) => Predicate::Tags(&self.within, expr.encoded()),
            None if self.within.is_empty() => Predicate::All,
            None => Predicate::Prefix(&self.within),
        }
    }

    fn matches(&self, record: &Record<'_>) -> bool {
        self.tags.as_ref().is_none_or(|expr| expr.encoded().matches(record.tags()))
    }

    fn walk(&self, after: Option<&[u8]>) -> KeyWalk {
        match self.tags.as_ref().map(|expr| expr.encoded().candidates()) {
            Some(TagCandidates::Tagged(tags)) => KeyWalk::over_tags(tags, &self.within, after),
            Some(TagCandidates::All) | None => KeyWalk::over_keys(&self.within, after),
        }
    }
}

impl ListedResource<'_> {
    /// The tags of the record that is shown.
    pub fn tags(&self) -> impl Iterator<Item = &[u8]> {
        tags_of(self.tags)
    }
}

impl StoreWorker {
    /// Counts the selected records, and collects the keys of the first `sample` resources that have
    /// any. Calls `progress` from time to time.
    ///
    /// # Errors
    /// The key index is damaged.
    pub fn weigh_selected(
        &self,
        selection: &Selection,
        sample: usize,
        progress: &mut dyn FnMut(&WalkProgress),
    ) -> Result<SelectionSize, KeyIndexDamaged> {
        let mut weighed = SelectionSize::default();
        let mut walk = selection.walk(None);
        while let Some(primary) = walk.next(&self.inner.keys.handle)? {
            let before = weighed.walked.records;
            self.inner.records.weigh(&primary, selection, &mut weighed.walked);
            if weighed.walked.records > before && weighed.sample.len() < sample {
                weighed.sample.push(primary);
            }
            report(&mut weighed.walked, progress);
        }
        Ok(weighed)
    }

    /// Calls `see` with the selected resources whose keys come after `after`, in key order. Stops
    /// after `limit` resources (one if `limit` is 0), or after it has looked at a few hundred
    /// records. Returns the key after which the next call has to begin, or `None` at the end.
    ///
    /// # Errors
    /// The key index is damaged.
    pub fn list(
        &self,
        selection: &Selection,
        after: Option<&[u8]>,
        limit: usize,
        see: &mut dyn FnMut(&ListedResource<'_>),
    ) -> Result<Option<Vec<u8>>, KeyIndexDamaged> {
        let mut walk = selection.walk(after);
        let (mut shown, mut looked, mut last) = (0, 0, None);
        while shown < limit.max(1) && looked < LOOKED_AT_MAX {
            let Some(primary) = walk.next(&self.inner.keys.handle)? else {
                return Ok(None);
            };
            let Shown { is_shown, looked_at } = self.inner.records.show(&primary, selection, see);
            shown += usize::from(is_shown);
            looked += looked_at;
            last = Some(primary);
        }
        Ok(last)
    }
}

/// The approximate number of records at which one call of `list` looks. They take a few hundred
/// microseconds.
const LOOKED_AT_MAX: usize = 256;

/// Whether a resource was listed.
struct Shown {
    is_shown: bool,
    /// The number of records that were looked at to decide this.
    looked_at: usize,
}

/// The key index cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyIndexDamaged(MapError);

impl From<MapError> for KeyIndexDamaged {
    fn from(error: MapError) -> KeyIndexDamaged {
        KeyIndexDamaged(error)
    }
}

impl std::fmt::Display for KeyIndexDamaged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the key index cannot be read: {}", self.0)
    }
}

impl std::error::Error for KeyIndexDamaged {}

/// The base records found for a primary key.
#[derive(Debug, Default)]
struct BaseSeen {
    /// The sequence of the last base record; 0 if there was none.
    sequence: u64,
    /// The keys of the variants that the base records name.
    variants: BTreeSet<Vec<u8>>,
}

impl WorkerInner {
    /// Removes or marks the selected records. Returns their number and their bytes.
    pub(super) fn purge_walk(
        &self,
        selection: &Selection,
        is_soft: bool,
        progress: &mut dyn FnMut(&WalkProgress),
    ) -> (u64, u64) {
        let mut walked = WalkProgress::default();
        let mut walk = selection.walk(None);
        loop {
            match walk.next(&self.keys.handle) {
                Ok(Some(primary)) => {
                    self.records.purge_resource(&primary, selection, is_soft, &mut walked);
                    crash_point!("purge.resource");
                    // Entries of neighbouring keys are removed from the key index together.
                    if walked.resources.is_multiple_of(LEAVE_EVERY) {
                        while self.clean_up_orphans() {}
                    }
                    report(&mut walked, progress);
                }
                Ok(None) => {
                    while self.clean_up_orphans() {}
                    return (walked.records, walked.bytes);
                }
                Err(_) => {
                    // Without the key index, all records are searched. Records that a soft purge
                    // would only mark are removed, too.
                    let removed = self.purge_all_matching(&selection.predicate());
                    return (walked.records + removed, walked.bytes);
                }
            }
        }
    }
}

impl RecordIndex {
    fn purge_resource(
        &self,
        primary: &[u8],
        selection: &Selection,
        is_soft: bool,
        walked: &mut WalkProgress,
    ) {
        let mut base = BaseSeen::default();
        self.purge_record(primary, selection, is_soft, walked, &mut base);
        for key in &base.variants {
            self.purge_record(key, selection, is_soft, walked, &mut BaseSeen::default());
        }
        if base.sequence > 0 && !base.variants.iter().any(|key| self.look(key).is_some()) {
            self.drop_empty_base(primary, base.sequence);
        }
    }

    /// Removes the base record with this sequence, unless another record has replaced it. The
    /// caller has found that none of its variants is stored.
    fn drop_empty_base(&self, primary: &[u8], sequence: u64) {
        self.index.remove_if(&self.pins, &self.key(primary), |hit| {
            let record = self.access().record(hit.at());
            record.is_some_and(|record| {
                record.header.kind == HeaderKind::Base && record.header.sequence == sequence
            })
        });
    }

    /// Removes or marks the record of a key if it is selected, and counts it in `walked`. Notes a
    /// base record in `base`, with the keys of its variants. All this includes records that are not
    /// live yet, since their publisher may have checked for purges before this purge was announced.
    fn purge_record(
        &self,
        key: &[u8],
        selection: &Selection,
        is_soft: bool,
        walked: &mut WalkProgress,
        base: &mut BaseSeen,
    ) {
        // The closure runs again for a record that moves or becomes live.
        let mut counted = 0;
        self.index.remove_if(&self.pins, &self.key(key), |hit| {
            let Some(record) = self.access().record(hit.at()) else {
                return true;
            };
            if record.header.kind == HeaderKind::Base {
                base.sequence = record.header.sequence;
                base.variants.extend(variant_keys_of(key, &record));
                // A base stays as long as one of its variants may stay.
                let stays = is_soft || selection.tags.is_some();
                return !(stays && hit.word().state() == WordState::Live);
            }
            if !selection.matches(&record) {
                return false;
            }
            if counted != record.header.sequence {
                counted = record.header.sequence;
                walked.records += 1;
                walked.bytes += bytes_of(&record);
            }
            !(is_soft && self.soften_hit(hit))
        });
    }

    fn weigh(&self, primary: &[u8], selection: &Selection, walked: &mut WalkProgress) {
        self.each_record(primary, |_, record| {
            if selection.matches(record) {
                walked.records += 1;
                walked.bytes += bytes_of(record);
            }
        });
    }

    /// Lists a resource, if one of its records is selected.
    fn show(
        &self,
        primary: &[u8],
        selection: &Selection,
        see: &mut dyn FnMut(&ListedResource<'_>),
    ) -> Shown {
        let (mut bytes, mut variants, mut newest) = (0, 0, 0);
        let (mut newest_key, mut looked_at) = (primary.to_vec(), 1);
        self.each_record(primary, |_, record| {
            looked_at += 1;
            bytes += bytes_of(record);
            variants += u32::from(split_variant_key(record.key()).is_some());
            if record.header.sequence > newest && selection.matches(record) {
                newest = record.header.sequence;
                newest_key = record.key().to_vec();
            }
        });
        let Some(found) = (newest > 0).then(|| self.look(&newest_key)).flatten() else {
            return Shown { is_shown: false, looked_at };
        };
        let record = found.record();
        if record.header.kind == HeaderKind::Base {
            // A base has replaced the record since.
            return Shown { is_shown: false, looked_at };
        }
        let is_variant = split_variant_key(record.key()).is_some();
        let values_bytes = if is_variant { values_bytes(record.head()) } else { 0 };
        see(&ListedResource {
            key: primary,
            head: record.head().get(values_bytes..).unwrap_or_default(),
            tags: record.tags(),
            response_time: record.header.response_time,
            stale_from: record.marks.stale_from_seconds(),
            is_soft: record.marks.is_soft(),
            uses: found.hit.word().uses(),
            variants,
            bytes,
        });
        Shown { is_shown: true, looked_at }
    }

    /// Calls `see` with the live records of a resource, except for its base.
    fn each_record(&self, primary: &[u8], mut see: impl FnMut(&IndexHit<'_>, &Record<'_>)) {
        let Some(found) = self.look(primary) else {
            return;
        };
        if found.record().header.kind != HeaderKind::Base {
            return see(&found.hit, found.record());
        }
        for key in variant_keys_of(primary, found.record()) {
            if let Some(variant) = self.look(&key) {
                see(&variant.hit, variant.record());
            }
        }
    }
}

/// The number of bytes before the response's head in a variant's head.
fn values_bytes(head: &[u8]) -> usize {
    let length = head.first_chunk().map_or(0, |length| u16::from_le_bytes(*length));
    size_of::<u16>() + usize::from(length)
}

/// The bytes of a record, including its long body.
fn bytes_of(record: &Record<'_>) -> u64 {
    let long = match record.header.kind {
        HeaderKind::LongHead => LongBody::decode(record.body()).map_or(0, |long| long.bytes()),
        _ => 0,
    };
    record.header.record_bytes() + long
}

fn report(walked: &mut WalkProgress, progress: &mut dyn FnMut(&WalkProgress)) {
    walked.resources += 1;
    if walked.resources.is_multiple_of(REPORT_EVERY) {
        progress(walked);
    }
}

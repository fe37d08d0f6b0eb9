//! Checks of related records: long bodies and their fragments, bases and their variants.
//!
//! Each record is stored and evicted by itself, so a missing one is no fault. The findings show how
//! memory is used.

use super::checker::Checker;
use crate::index::{IndexWord, WordState};
use crate::segment::{HeaderKind, Location, ScannedRecord};
use crate::store::long::{LongBody, fragment_key, split_fragment_key};
use crate::store::variants::{BaseBody, VariantId, split_variant_key};
use crate::tool::finding::FindingKind;
use crate::tool::view::RegionAccess;

/// The fragments of a long body that the check has seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct FragmentTotals {
    /// The number of any one of these fragments, by which they can be looked up.
    number: u32,
    count: u64,
    bytes: u64,
}

impl<R: RegionAccess> Checker<'_, R> {
    /// Checks the relations of a live record, whose key is in `key`.
    pub(super) fn check_related(&mut self, slot: usize, word: &IndexWord, scanned: &ScannedRecord) {
        match scanned.header.kind {
            HeaderKind::LongHead => self.check_long_head(slot, *word),
            HeaderKind::Fragment => self.note_fragment(scanned),
            HeaderKind::Whole | HeaderKind::Base | HeaderKind::Filler => {}
        }
        if matches!(scanned.header.kind, HeaderKind::Whole | HeaderKind::LongHead) {
            self.check_variant(slot, *word);
        }
    }

    /// Checks that all fragments of a long body are in the index.
    fn check_long_head(&mut self, slot: usize, word: IndexWord) {
        let found = self.confirm(|checker| checker.look_at_long(slot, word));
        if let Some(kind) = found {
            self.add_record(kind, slot, word);
        }
    }

    fn look_at_long(&self, slot: usize, word: IndexWord) -> Option<FindingKind> {
        let copied = self.view.copy((slot, word)).ok()?;
        let Some(long) = LongBody::decode(copied.record().body()) else {
            return Some(FindingKind::LongHead);
        };
        let all = long.fragments(0..long.bytes());
        let count = all.len() as u64;
        // There are no more fragments than words. A head with more is damaged, or of a body larger
        // than the store.
        let looked = all.take(self.view.slot_count());
        let there = looked.filter(|number| self.view.has(&fragment_key(long.id(), *number)));
        let missing = count - there.count() as u64;
        let is_there = self.view.word(slot).is_same_record(word);
        (missing > 0 && is_there).then_some(FindingKind::FragmentsMissing { missing, count })
    }

    fn note_fragment(&mut self, scanned: &ScannedRecord) {
        let Some((id, number)) = split_fragment_key(&self.key) else {
            return;
        };
        let none = FragmentTotals { number, count: 0, bytes: 0 };
        let fragments = self.fragments.entry(id).or_insert(none);
        fragments.count += 1;
        fragments.bytes += scanned.header.record_bytes();
    }

    /// Checks that each fragment has a head. A head is stored after its fragments, so heads are
    /// looked up after all fragments were seen.
    pub(super) fn check_fragments(&mut self) {
        for slot in 0..self.view.slot_count() {
            if self.fragments.is_empty() {
                return;
            }
            if let Some(long) = self.long_body(slot) {
                self.fragments.remove(&long.id());
            }
        }
        for (id, FragmentTotals { number, count, bytes }) in std::mem::take(&mut self.fragments) {
            let key = fragment_key(id, number);
            // The head may have been removed during the check. Then its fragments are removed too,
            // and are no orphans.
            if self.confirm(|checker| checker.view.has(&key).then_some(())).is_some() {
                let kind = FindingKind::OrphanFragments { count, bytes };
                self.add(kind, |finding| finding.key = key.to_vec());
            }
        }
    }

    /// The long body of the head in a slot.
    fn long_body(&mut self, slot: usize) -> Option<LongBody> {
        let word = self.view.word(slot);
        if !word.is_in_memory() || word.state() != WordState::Live {
            return None;
        }
        let glimpsed = self.view.copy_header((slot, word), false, &mut self.other_key).ok()?;
        if glimpsed.header.kind != HeaderKind::LongHead {
            return None;
        }
        LongBody::decode(self.view.copy((slot, word)).ok()?.record().body())
    }

    /// If the key belongs to a variant, checks that its base names it.
    fn check_variant(&mut self, slot: usize, word: IndexWord) {
        let key = std::mem::take(&mut self.key);
        if let Some((primary, number, hash)) = split_variant_key(&key) {
            let id = VariantId::new(number, hash);
            let orphan = self.confirm(|checker| {
                let base = checker.view.find(primary);
                let is_named = base.as_ref().is_some_and(|(_, base)| {
                    let record = base.record();
                    let body = BaseBody::decode(record.body());
                    record.header.kind == HeaderKind::Base && body.is_some_and(|body| body.has(&id))
                });
                let is_there = checker.view.word(slot).is_same_record(word);
                (is_there && !is_named).then_some(FindingKind::OrphanVariant)
            });
            self.key.clone_from(&key);
            if let Some(kind) = orphan {
                self.add_record(kind, slot, word);
            }
        }
        self.key = key;
    }

    /// Adds a finding about the record whose key is in `key`.
    pub(super) fn add_record(&mut self, kind: FindingKind, slot: usize, word: IndexWord) {
        let segment = self.view.geometry.segment_of(Location(word.location()));
        let key = self.key.clone();
        self.add(kind, |finding| {
            finding.slot = Some(slot as u64);
            finding.location = Some(word.location());
            finding.segment = segment;
            finding.key = key;
        });
    }
}

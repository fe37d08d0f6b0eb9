//! Storing variants: under a base, beside the other variants that it names.

use forebay_shm::crash_point;

use super::put::{NotStored, Put, RecordTimes};
use super::record_index::RecordIndex;
use super::respond::{Remade, Response};
use super::variants::{self, BaseBody, NameSets, VariantId};
use super::worker::WorkerInner;
use crate::flight::VariantKey;
use crate::segment::{HeaderKind, Record, SegmentQueue};

/// The most attempts to store a variant while other threads change its base.
const ATTEMPTS_MAX: usize = 8;

/// The stale-from time of a base, which never becomes stale: a base is valid as long as one of its
/// variants is.
const NEVER: u64 = u64::MAX;

/// The record under the primary key of a variant that is to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BaseState {
    /// There is no record, or a record that is to be replaced.
    None,
    /// A base that names the variant, or can take it.
    Takes,
    /// A base that has too many sets of field names to take another set.
    Full,
    /// A response that does not vary, and that can become a variant.
    Plain,
}

impl WorkerInner {
    /// Stores a variant, and makes its base name the variant. Returns the variant's sequence.
    pub(super) fn put_variant(
        &self,
        response: &Response<'_>,
        base: &VariantKey,
    ) -> Result<u64, NotStored> {
        let prefix = variants::values_prefix(&base.variant).ok_or(NotStored::TooLarge)?;
        let head = [&prefix[..], response.head].concat();
        let hash = self.shared.wide_hash(&base.variant);
        let mut key = Vec::new();
        for _ in 0..ATTEMPTS_MAX {
            // The base names the variant before the variant's record is stored, because purges
            // reach only the variants that the base names. A purge that ran before the naming is
            // found by the purge check when the variant's word is published.
            let id = match self.base_of(response.primary, &base.names) {
                BaseState::Takes => match self.name_variant(response, &base.names, hash) {
                    Some(id) => id,
                    None => continue,
                },
                BaseState::None if base.names.is_empty() => return self.put_plain(response),
                state => {
                    let adopted = match state {
                        BaseState::Plain => self.adopt_plain(response, &base.names, hash),
                        _ => None,
                    };
                    match adopted.map_or_else(|| self.put_base(response, &base.names, hash), Ok) {
                        Ok(id) => id,
                        // Another thread stored a base, or there was a purge. After a purge the
                        // next attempts fail too.
                        Err(NotStored::Outdated) => continue,
                        Err(other) => return Err(other),
                    }
                }
            };
            crash_point!("store.variant");
            variants::write_key_of(&mut key, response.primary, &id);
            let sequence = self.put(&response.put(&key, &head), response.queue)?;
            crash_point!("store.variant_stored");
            if self.records.is_named(response.primary, &id) {
                return Ok(sequence);
            }
            // The base was removed, or so many other variants were named since that it dropped this
            // one. No lookup finds the record, even if this thread stops here.
            self.records.index.remove(&self.records.pins, &self.records.key(&key));
        }
        Err(NotStored::Outdated)
    }

    /// The state of the record under a primary key, for a variant with these field names.
    fn base_of(&self, primary: &[u8], names: &[u8]) -> BaseState {
        let Some(pinned) = self.records.look(primary) else { return BaseState::None };
        let record = pinned.record();
        match record.header.kind {
            HeaderKind::Base if base_for(record, names).is_some() => BaseState::Takes,
            HeaderKind::Base => BaseState::Full,
            HeaderKind::Whole if !names.is_empty() => BaseState::Plain,
            _ => BaseState::None,
        }
    }

    /// Stores a copy of the stored response, which does not vary, as a variant. Then replaces the
    /// original by a base that names this variant and the variant that `response` becomes. Returns
    /// the id of the latter; `None` if no base was stored.
    ///
    /// The copy is checked against all purges after the purge number that its original had noted.
    /// So each purge since then that matches, soft or not, keeps the copy from being stored. The
    /// base is published only if no matching purge came since `response` was requested, and if the
    /// original is not marked as stale. No other thread names the copy before the base does, so a
    /// later response has a higher sequence.
    fn adopt_plain(
        &self,
        response: &Response<'_>,
        names: &[u8],
        hash: [u8; 16],
    ) -> Option<VariantId> {
        let Response { primary, purge_noted, .. } = *response;
        let pinned = self.records.look(primary)?;
        let record = pinned.record();
        if record.header.kind != HeaderKind::Whole || self.shared.config.variants_max < 2 {
            return None;
        }
        let own = VariantId::new(self.shared.next_sequence(), &self.shared.wide_hash(&[]));
        let mut key = Vec::new();
        variants::write_key_of(&mut key, primary, &own);
        let response_time = record.header.response_time;
        let stale_from = record.marks.stale_from_seconds();
        let copy = Put {
            kind: record.header.kind,
            key: &key,
            tags: record.tags(),
            head: &[&variants::values_prefix(&[])?[..], record.head()].concat(),
            body: &[record.body()],
            times: RecordTimes { response_time, stale_from },
            purge_noted: self.shared.purges.widen(record.header.purge_noted),
            primary,
        };
        self.put(&copy, SegmentQueue::Main).ok()?;
        crash_point!("store.adopting");
        let id = VariantId::new(self.shared.next_sequence(), &hash);
        let head = NameSets::of(&NameSets::of(&[]).with(&[])?).with(names)?;
        let body = variants::first_body(&[own, id]);
        let times = RecordTimes { response_time, stale_from: NEVER };
        let kind = HeaderKind::Base;
        let new = Remade { kind, primary, purge_noted, tags: &[], head: &head, body: &body, times };
        let replaced = self.replace(&pinned, &new);
        if replaced.is_none() {
            // No lookup finds the copy.
            self.records.index.remove(&self.records.pins, &self.records.key(&key));
        }
        replaced.map(|_| id)
    }

    /// Stores a base that names one variant. Returns the variant's id.
    fn put_base(
        &self,
        response: &Response<'_>,
        names: &[u8],
        hash: [u8; 16],
    ) -> Result<VariantId, NotStored> {
        let id = VariantId::new(self.shared.next_sequence(), &hash);
        let body = variants::first_body(&[id]);
        let sets = NameSets::of(&[]).with(names).ok_or(NotStored::TooLarge)?;
        let put = Put {
            kind: HeaderKind::Base,
            // The tags are on the variants of the base.
            tags: &[],
            body: &[&body],
            times: RecordTimes { stale_from: NEVER, ..response.times },
            ..response.put(response.primary, &sets)
        };
        self.put(&put, response.queue).map(|_| id)
    }

    /// Makes the base name the variant with these field names and this hash of the selector.
    /// Removes variants that the base drops for it. Returns the variant's id, which has a new
    /// number unless the base named the variant before. Returns `None` if there is no base that can
    /// take the field names, if a newer purge matches, or if the base cannot be replaced.
    pub(super) fn name_variant(
        &self,
        response: &Response<'_>,
        names: &[u8],
        hash: [u8; 16],
    ) -> Option<VariantId> {
        let Response { primary, purge_noted, .. } = *response;
        for _ in 0..ATTEMPTS_MAX {
            let pinned = self.records.look(primary)?;
            let record = pinned.record();
            let (sets, base) = base_for(record, names)?;
            if let Some(id) = base.id_of(&hash) {
                return Some(id);
            }
            let id = VariantId::new(self.shared.next_sequence(), &hash);
            let victims = self.records.variant_victims(primary, base);
            let body = base.with(&id, &victims);
            let response_time = record.header.response_time;
            let times = RecordTimes { response_time, stale_from: NEVER };
            let (kind, tags, head) = (HeaderKind::Base, record.tags(), &sets.with(names)?[..]);
            let new = Remade { kind, primary, purge_noted, tags, head, body: &body, times };
            if self.replace(&pinned, &new).is_some() {
                crash_point!("store.unnamed");
                // This only frees memory: no lookup finds these records.
                for victim in &victims {
                    let mut key = Vec::new();
                    variants::write_key_of(&mut key, primary, victim);
                    self.records.index.remove(&self.records.pins, &self.records.key(&key));
                }
                return Some(id);
            }
        }
        None
    }
}

impl RecordIndex {
    /// The variants that a base drops before it names another. Variants that no request has used
    /// since they were stored go first. So requests for ever new variants replace one another, and
    /// not the variants that other clients use. If all variants were used, their use counts are
    /// lowered equally, so that the variants with the most uses keep their rank.
    fn variant_victims(&self, primary: &[u8], base: BaseBody<'_>) -> Vec<VariantId> {
        let variants_max = self.shared.config.variants_max;
        let record_of = |id: &VariantId| {
            let mut key = Vec::new();
            variants::write_key_of(&mut key, primary, id);
            self.look(&key)
        };
        // A variant that is not stored counts as unused.
        let uses = |id: &VariantId| record_of(id).map_or(0, |pinned| pinned.hit.word().uses());
        let victims = base.victims(variants_max, uses);
        let least = victims.last().map_or(0, uses);
        if least > 0 {
            for pinned in base.variants().filter_map(|id| record_of(&id)) {
                self.index.lower_uses(&pinned.hit, least);
            }
        }
        victims
    }

    /// Whether the base of a key is stored and names a variant.
    fn is_named(&self, primary: &[u8], id: &VariantId) -> bool {
        self.look(primary).is_some_and(|pinned| {
            let record = pinned.record();
            record.header.kind == HeaderKind::Base
                && BaseBody::decode(record.body()).is_some_and(|base| base.has(id))
        })
    }

    /// Whether a base record is stored under a primary key.
    pub(super) fn has_base(&self, primary: &[u8]) -> bool {
        self.look(primary).is_some_and(|pinned| pinned.record().header.kind == HeaderKind::Base)
    }
}

/// The sets of field names and the body of a record, if it is a base that has, or can take, the set
/// `names`.
pub(super) fn base_for<'a>(
    record: &'a Record<'_>,
    names: &[u8],
) -> Option<(NameSets<'a>, BaseBody<'a>)> {
    let sets = NameSets::of(record.head());
    let is_it = record.header.kind == HeaderKind::Base && sets.takes(names);
    is_it.then(|| Some((sets, BaseBody::decode(record.body())?))).flatten()
}

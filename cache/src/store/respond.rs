//! Storing complete responses, under their primary key or as variants of a base, and renewing
//! stored ones.

use forebay_shm::crash_point;

use super::lookup::{RecordVersion, StoredRecord};
use super::put::{NotStored, Put, RecordTimes};
use super::record_index::{PinnedRecord, RecordIndex};
use super::stats::Events;
use super::variants::{self, BaseBody, VariantId};
use super::worker::{StoreWorker, WorkerInner};
use crate::flight::VariantKey;
use crate::index::{IndexHit, KeyHash};
use crate::policy::{self, queue_for};
use crate::purge::{Predicate, PurgeVerdict};
use crate::segment::{HeaderKind, Record, SegmentQueue};
use crate::tags::RecordTags;

/// The most attempts to store a variant while other threads change its base.
const ATTEMPTS_MAX: usize = 8;

/// The stale-from time of a base, which never becomes stale: a base is valid as long as one of its
/// variants.
const NEVER: u64 = u64::MAX;

/// A complete response that is to be stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Response<'a> {
    pub(crate) primary: &'a [u8],
    pub(crate) base: Option<&'a VariantKey>,
    pub(crate) kind: HeaderKind,
    pub(crate) tags: &'a [u8],
    pub(crate) head: &'a [u8],
    pub(crate) body: &'a [&'a [u8]],
    pub(crate) times: RecordTimes,
    /// The sequence of the last insert when the response began to arrive.
    pub(crate) begun_at: u64,
    pub(crate) purge_noted: u64,
    pub(crate) queue: SegmentQueue,
}

/// A record that is derived from a stored record and replaces it.
struct Remade<'a> {
    primary: &'a [u8],
    /// The purge number that was noted for the new record. Newer purges still apply to the record.
    purge_noted: u64,
    tags: &'a [u8],
    head: &'a [u8],
    body: &'a [u8],
    times: RecordTimes,
}

impl Response<'_> {
    fn put<'a>(&'a self, key: &'a [u8], head: &'a [u8]) -> Put<'a> {
        Put {
            kind: self.kind,
            key,
            tags: self.tags,
            head,
            body: self.body,
            times: self.times,
            purge_noted: self.purge_noted,
            primary: self.primary,
        }
    }
}

impl StoreWorker {
    /// Looks up the record of a key, or of one of its variants, if the record has this version. A
    /// follower calls this after a fetch that validated the record.
    pub fn find_version(
        &self,
        primary: &[u8],
        variant: Option<&[u8]>,
        known: RecordVersion,
    ) -> Option<StoredRecord<'_>> {
        let (pinned, head_start) = self.inner.records.find((primary, variant))?;
        let is_it = pinned.record().header.sequence == known.sequence;
        if is_it { StoredRecord::of(&self.inner, pinned, head_start) } else { None }
    }

    /// Removes the record of a key, or of one of its variants, if the record has this version. For
    /// a caller that has found fragments missing: the next request then fetches the response again.
    pub fn forget(&self, primary: &[u8], variant: Option<&[u8]>, known: RecordVersion) {
        self.inner.forget(primary, variant, known);
    }
}

impl WorkerInner {
    pub(crate) fn forget(&self, primary: &[u8], variant: Option<&[u8]>, known: RecordVersion) {
        if let Some((pinned, _)) = self.records.find((primary, variant))
            && pinned.record().header.sequence == known.sequence
        {
            self.records.remove_hit(&pinned.hit);
        }
        self.clean_up_orphans();
    }

    /// The queue for a response: main if the key is known to be requested more than once. Each
    /// variant of a resource has a history of its own. Otherwise a client that sends new values
    /// with every request would fill the main queue.
    pub(crate) fn queue_for(&self, primary: &[u8], base: Option<&VariantKey>) -> SegmentQueue {
        let known = if self.records.is_stored(primary, base) {
            policy::KeyHistory::Replacement
        } else if self.take_ghost_of(primary, base) {
            policy::KeyHistory::Ghost
        } else {
            policy::KeyHistory::Unknown
        };
        match queue_for(known) {
            policy::Queue::Small => SegmentQueue::Small,
            policy::Queue::Main => SegmentQueue::Main,
        }
    }

    /// Removes the ghost of a response, or else the ghost of its base. Returns whether there was
    /// one.
    fn take_ghost_of(&self, primary: &[u8], base: Option<&VariantKey>) -> bool {
        let of_variant = |base: &VariantKey| {
            self.records.variant_ghost(primary, &self.shared.wide_hash(&base.variant))
        };
        let ghosts = &self.shared.ghosts;
        let is_known = base.is_some_and(|base| ghosts.take(of_variant(base)))
            || ghosts.take(self.shared.hash(primary));
        if is_known {
            Events::one(&self.shared.events.ghost_hits);
        }
        is_known
    }

    /// Stores a response under its primary key, or as a variant of its base. Returns the sequence
    /// of the record with the head.
    ///
    /// A response does not replace one that was received after it (RFC 9111 §4: a cache uses the
    /// most recent response).
    // RFC: 9111-4-8
    pub(crate) fn put_response(&self, response: &Response<'_>) -> Result<u64, NotStored> {
        if self.is_superseded(response) {
            return Err(NotStored::Outdated);
        }
        let stored = match response.base {
            None => self.put(&response.put(response.primary, response.head), response.queue),
            Some(base) => self.put_variant(response, base),
        };
        self.clean_up_orphans();
        stored
    }

    /// Whether a response that was received later was stored while this one arrived. The sequence
    /// keeps a step of the clock from making stored responses later than all that follow.
    fn is_superseded(&self, response: &Response<'_>) -> bool {
        let is_later = |pinned: &PinnedRecord<'_>| {
            let header = &pinned.record().header;
            header.sequence > response.begun_at
                && header.response_time > response.times.response_time
        };
        let Some(stored) = self.records.look(response.primary) else { return false };
        match response.base {
            // The response does not replace the other variants of its base.
            Some(base) if base_with(stored.record(), &base.names).is_some() => {
                let variant = self.records.find_variant(response.primary, &stored, &base.variant);
                variant.is_some_and(|variant| is_later(&variant))
            }
            // The response replaces a base together with all of its variants.
            _ => is_later(&stored) || self.has_variant(response.primary, &stored, is_later),
        }
    }

    /// Whether `is_wanted` holds for any stored variant that the record names. Only bases name any.
    fn has_variant(
        &self,
        primary: &[u8],
        stored: &PinnedRecord<'_>,
        is_wanted: impl Fn(&PinnedRecord<'_>) -> bool,
    ) -> bool {
        let record = stored.record();
        if record.header.kind != HeaderKind::Base {
            return false;
        }
        let Some(base) = BaseBody::decode(record.body()) else { return false };
        let mut key = Vec::new();
        base.variants().any(|id| {
            variants::write_key_of(&mut key, primary, &id);
            self.records.look(&key).is_some_and(|variant| is_wanted(&variant))
        })
    }

    /// Stores a variant, and makes its base name the variant. Returns the variant's sequence.
    fn put_variant(&self, response: &Response<'_>, base: &VariantKey) -> Result<u64, NotStored> {
        let prefix = variants::values_prefix(&base.variant).ok_or(NotStored::TooLarge)?;
        let head = [&prefix[..], response.head].concat();
        let hash = self.shared.wide_hash(&base.variant);
        let mut key = Vec::new();
        for _ in 0..ATTEMPTS_MAX {
            // The base names the variant before the variant's record is stored, because purges
            // reach only the variants that the base names. A purge that ran before the naming is
            // found by the purge check when the variant's word is published.
            let id = if self.records.has_base(response.primary, &base.names) {
                match self.name_variant(response, &base.names, hash) {
                    Some(id) => id,
                    None => continue,
                }
            } else {
                match self.put_base(response, &base.names, hash) {
                    Ok(id) => id,
                    // Another thread stored a base, or there was a purge. After a purge the next
                    // attempts fail too.
                    Err(NotStored::Outdated) => continue,
                    Err(other) => return Err(other),
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

    /// Stores a base that names one variant. Returns the variant's id.
    fn put_base(
        &self,
        response: &Response<'_>,
        names: &[u8],
        hash: [u8; 16],
    ) -> Result<VariantId, NotStored> {
        let id = VariantId::new(self.shared.next_sequence(), &hash);
        let body = variants::first_body(&id);
        let put = Put {
            kind: HeaderKind::Base,
            // The tags are on the variants of the base.
            tags: &[],
            body: &[&body],
            times: RecordTimes { stale_from: NEVER, ..response.times },
            ..response.put(response.primary, names)
        };
        self.put(&put, response.queue).map(|_| id)
    }

    /// Makes the base with these names name a variant. Returns the variant's id, which has a new
    /// number unless the base named the variant before; `None` if no such base is stored, or if a
    /// newer purge matches it.
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
            let base = base_with(record, names)?;
            if let Some(id) = base.id_of(&hash) {
                return Some(id);
            }
            let id = VariantId::new(self.shared.next_sequence(), &hash);
            let victims = self.records.variant_victims(primary, base);
            let body = base.with(&id, &victims);
            let response_time = record.header.response_time;
            let times = RecordTimes { response_time, stale_from: NEVER };
            let (tags, head) = (record.tags(), record.head());
            let new = Remade { primary, purge_noted, tags, head, body: &body, times };
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

    /// Replaces the known record by one with a new head, and with more tags if `tags` is given.
    /// Returns the sequence of the new record, or `None` if the known record was not replaced. The
    /// new record keeps the old tags, since it has the old body, and a purge by an old tag may be
    /// in progress. `noted` is the number of the last purge before the origin was asked. A newer
    /// purge prevents the replacement: the origin's answer may be older than that purge, and a soft
    /// purge leaves the known record stored.
    pub(crate) fn renew(
        &self,
        key: (&[u8], Option<&[u8]>),
        known: RecordVersion,
        noted: u64,
        (head, times, tags): (&[u8], RecordTimes, Option<&RecordTags>),
    ) -> Option<u64> {
        let (pinned, head_start) = self.records.find(key)?;
        let record = pinned.record();
        if record.header.sequence != known.sequence {
            return None;
        }
        let head = [record.head().get(..head_start).unwrap_or_default(), head].concat();
        let (primary, body) = (key.0, record.body());
        let tags = match tags {
            Some(tags) => tags.and(record.tags()).ok()?,
            None => RecordTags::of_record(record.tags()),
        };
        let tags = tags.as_bytes();
        let new = Remade { primary, purge_noted: noted, tags, head: &head, body, times };
        self.replace(&pinned, &new)
    }

    /// Replaces a record by one with another head and body, unless a newer purge matches. Returns
    /// the sequence of the new record, or `None` if the old one was not replaced.
    fn replace(&self, pinned: &PinnedRecord<'_>, new: &Remade<'_>) -> Option<u64> {
        let record = pinned.record();
        let put = Put {
            kind: record.header.kind,
            key: record.key(),
            tags: new.tags,
            head: new.head,
            body: &[new.body],
            times: new.times,
            purge_noted: self.shared.purges.widen(record.header.purge_noted),
            primary: record.key(),
        };
        let marks = self.records.access().marks(pinned.hit.at())?;
        // A purge that matches the old tags counts, too.
        let matches = |purge: &Predicate<'_>| {
            [record.tags(), new.tags].iter().any(|tags| purge.matches(new.primary, tags))
        };
        let purges = &self.shared.purges;
        // A frozen record stays frozen, because another thread may be copying it as well. The next
        // soft purge removes such a record instead of marking it. So all steps that can fail
        // without a purge come before the freeze.
        if purges.is_newer(new.purge_noted, new.primary, matches) {
            return None;
        }
        let inserted = self.insert_keys(&put).ok()?;
        let appended = self.append(&put, inserted.sequence(), SegmentQueue::Main).ok()?;
        if purges.freeze_and_check(marks, new.purge_noted, new.primary, matches)
            == PurgeVerdict::Purged
        {
            appended.give_up(&self.shared);
            return None;
        }
        crash_point!("store.replacing");
        let key = self.records.key(record.key());
        if !self.records.index.replace(&self.records.pins, &key, &pinned.hit, &appended.for_index())
        {
            drop(inserted);
            self.clean_up_orphans();
            return None;
        }
        let sequence = inserted.keep();
        self.records.access().keep_orphans_of(record);
        self.clean_up_orphans();
        Some(sequence)
    }
}

impl RecordIndex {
    /// The variants that a base drops before it names another. Those that no request has used since
    /// they were stored go first, so that requests for ever new variants replace one another, and
    /// not the variants that other clients use. If all are used, their counts are lowered alike, so
    /// the variants with most uses keep their rank.
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

    /// Whether a record is stored that this response would replace.
    fn is_stored(&self, primary: &[u8], base: Option<&VariantKey>) -> bool {
        let Some(pinned) = self.look(primary) else {
            return false;
        };
        match base {
            Some(base) if pinned.record().header.kind == HeaderKind::Base => {
                pinned.record().head() == base.names
                    && self.find_variant(primary, &pinned, &base.variant).is_some()
            }
            _ => true,
        }
    }

    /// The hash of a variant's ghost. It does not depend on the number, since the variant gets
    /// another number when the base names it again.
    fn variant_ghost(&self, primary: &[u8], hash: &[u8; 16]) -> KeyHash {
        let mut key = Vec::new();
        variants::write_key_of(&mut key, primary, &VariantId::new(0, hash));
        self.shared.hash(&key)
    }

    /// The hash of a record's ghost; `None` for a fragment, because no later fragment has the same
    /// key.
    pub(super) fn ghost_of(&self, hit: &IndexHit<'_>, hash: KeyHash) -> Option<KeyHash> {
        let record = self.access().record(hit.at())?;
        match record.header.kind {
            HeaderKind::Base => Some(hash),
            HeaderKind::Whole | HeaderKind::LongHead => {
                match variants::split_variant_key(record.key()) {
                    Some((primary, _, values)) => Some(self.variant_ghost(primary, values)),
                    None => Some(hash),
                }
            }
            HeaderKind::Fragment | HeaderKind::Filler => None,
        }
    }

    /// Whether the base of a key is stored and names a variant.
    fn is_named(&self, primary: &[u8], id: &VariantId) -> bool {
        self.look(primary).is_some_and(|pinned| {
            let record = pinned.record();
            record.header.kind == HeaderKind::Base
                && BaseBody::decode(record.body()).is_some_and(|base| base.has(id))
        })
    }

    /// Whether a base with these names is stored.
    fn has_base(&self, primary: &[u8], names: &[u8]) -> bool {
        self.look(primary).is_some_and(|pinned| base_with(pinned.record(), names).is_some())
    }
}

/// The body of a record, if it is a base with these names.
fn base_with<'a>(record: &'a Record<'_>, names: &[u8]) -> Option<BaseBody<'a>> {
    let is_it = record.header.kind == HeaderKind::Base && record.head() == names;
    is_it.then(|| BaseBody::decode(record.body())).flatten()
}

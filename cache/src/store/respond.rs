//! Storing complete responses, under their primary key or as variants of a base, and renewing
//! stored ones.

use forebay_shm::crash_point;

use super::lookup::{RecordVersion, StoredRecord};
use super::put::{NotStored, Put, RecordTimes};
use super::put_variant::base_for;
use super::record_index::{PinnedRecord, RecordIndex};
use super::selectors::selectors;
use super::stats::Events;
use super::variants::{self, BaseBody, VariantId};
use super::worker::{StoreWorker, WorkerInner};
use crate::flight::VariantKey;
use crate::index::{IndexHit, KeyHash};
use crate::policy::{self, queue_for};
use crate::purge::{Predicate, PurgeVerdict};
use crate::segment::{HeaderKind, SegmentQueue};
use crate::tags::RecordTags;

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
pub(super) struct Remade<'a> {
    pub(super) kind: HeaderKind,
    pub(super) primary: &'a [u8],
    /// The purge number that was noted for the new record. Newer purges still apply to the record.
    pub(super) purge_noted: u64,
    pub(super) tags: &'a [u8],
    pub(super) head: &'a [u8],
    pub(super) body: &'a [u8],
    pub(super) times: RecordTimes,
}

impl Response<'_> {
    pub(super) fn put<'a>(&'a self, key: &'a [u8], head: &'a [u8]) -> Put<'a> {
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
        let (pinned, head_start) = self.inner.records.find((primary, variant), known)?;
        StoredRecord::of(&self.inner, pinned, head_start)
    }

    /// Removes the record of a key, or of one of its variants, if the record has this version. For
    /// a caller that has found fragments missing: the next request then fetches the response again.
    pub fn forget(&self, primary: &[u8], variant: Option<&[u8]>, known: RecordVersion) {
        self.inner.forget(primary, variant, known);
    }
}

impl WorkerInner {
    pub(crate) fn forget(&self, primary: &[u8], variant: Option<&[u8]>, known: RecordVersion) {
        if let Some((pinned, _)) = self.records.find((primary, variant), known) {
            self.records.remove_hit(&pinned.hit);
        }
        self.clean_up_orphans();
    }

    /// RFC 9111 §4.3.3: removes the older variants that a request selects. Call this after a new
    /// response to this request was stored, whose `Vary` may have other field names. Otherwise the
    /// older variants might be chosen again, and each such request would go to the origin. A stored
    /// response that does not vary stays, since it also answers requests with other values.
    pub(crate) fn supersede(
        &self,
        (primary, list): (&[u8], Option<&[u8]>),
        stored: Option<&VariantKey>,
        begun_at: u64,
    ) {
        let Some(list) = list else { return };
        let stored = stored.map_or(&[][..], |stored| &stored.variant);
        for selector in selectors(list).filter(|own| !own.is_empty() && *own != stored) {
            let Some(base) = self.records.look(primary) else { break };
            if base.record().header.kind != HeaderKind::Base {
                break;
            }
            let found = self.records.find_variant(primary, &base, selector);
            if let Some(found) = found
                && variants::head_start(found.record().head(), selector).is_some()
                && found.record().header.sequence <= begun_at
            {
                self.records.remove_hit(&found.hit);
            }
        }
        self.clean_up_orphans();
    }

    /// The queue for a response: the main queue if the key is known to be requested more than once.
    /// Each variant of a resource has a history of its own. Otherwise a client that sends new
    /// values with every request would fill the main queue.
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
            Some(base) => self.put_variant(response, base),
            None if self.records.has_base(response.primary) => {
                self.put_variant(response, &VariantKey::default())
            }
            None => self.put_plain(response),
        };
        self.clean_up_orphans();
        stored
    }

    /// Whether a response that was received later was stored while this one arrived. The sequence
    /// counts too: after the clock was set back, older responses would otherwise seem to be later
    /// than all responses that follow.
    fn is_superseded(&self, response: &Response<'_>) -> bool {
        let is_later = |pinned: &PinnedRecord<'_>| {
            let header = &pinned.record().header;
            header.sequence > response.begun_at
                && header.response_time > response.times.response_time
        };
        let Some(stored) = self.records.look(response.primary) else { return false };
        let plain = VariantKey::default();
        let base = response.base.unwrap_or(&plain);
        if base_for(stored.record(), &base.names).is_some() {
            // The response does not replace the other variants of its base.
            let variant = self.records.find_variant(response.primary, &stored, &base.variant);
            return variant.is_some_and(|variant| is_later(&variant));
        }
        // The response replaces a base together with all of its variants.
        is_later(&stored) || self.has_variant(response.primary, &stored, is_later)
    }

    /// Stores a response under the primary key itself, and not as a variant.
    pub(super) fn put_plain(&self, response: &Response<'_>) -> Result<u64, NotStored> {
        self.put(&response.put(response.primary, response.head), response.queue)
    }

    /// Whether `is_wanted` holds for any stored variant that the record names. Only bases name
    /// variants.
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
        let (pinned, head_start) = self.records.find(key, known)?;
        let record = pinned.record();
        let head = [record.head().get(..head_start).unwrap_or_default(), head].concat();
        let (primary, body) = (key.0, record.body());
        let tags = match tags {
            Some(tags) => tags.and(record.tags()).ok()?,
            None => RecordTags::of_record(record.tags()),
        };
        let tags = tags.as_bytes();
        let (kind, purge_noted) = (record.header.kind, noted);
        let new = Remade { kind, primary, purge_noted, tags, head: &head, body, times };
        self.replace(&pinned, &new)
    }

    /// Replaces a record by one with another head and body, unless a newer purge matches. Returns
    /// the sequence of the new record, or `None` if the old one was not replaced.
    pub(super) fn replace(&self, pinned: &PinnedRecord<'_>, new: &Remade<'_>) -> Option<u64> {
        let record = pinned.record();
        let put = Put {
            kind: new.kind,
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
        let verdict = purges.freeze_and_check(marks, new.purge_noted, new.primary, matches);
        // A base record replaces the record of a response that was copied to a variant, and the
        // copy has no mark.
        let is_marked_copy = new.kind != record.header.kind && marks.load().is_soft();
        if verdict == PurgeVerdict::Purged || is_marked_copy {
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
    /// Whether a record is stored that this response would replace.
    fn is_stored(&self, primary: &[u8], base: Option<&VariantKey>) -> bool {
        let Some(pinned) = self.look(primary) else {
            return false;
        };
        if pinned.record().header.kind != HeaderKind::Base {
            return true;
        }
        let selector = base.map_or(&[][..], |base| &base.variant);
        self.find_variant(primary, &pinned, selector).is_some()
    }

    /// The hash of a variant's ghost. It does not depend on the variant's number, since the variant
    /// gets another number when the base names it again.
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
}

//! Purging. After a purge returns, no lookup finds the records that it matched; after a soft purge,
//! lookups find them marked.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use forebay_shm::crash_point;

use super::lookup::RecordVersion;
use super::record_index::RecordIndex;
use super::record_keys::primary_of;
use super::select::{Selection, WalkProgress};
use super::variants::BaseBody;
use super::worker::{StoreWorker, WorkerInner};
use crate::index::{IndexHit, KeyHash, WordState};
use crate::purge::{OwnedPredicate, Predicate, soften};
use crate::segment::{HeaderKind, Record};

/// The time that a purge waits for other purges. Each holds the lock for microseconds.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The number of buckets that are searched before orphans of the removed records are cleaned up.
const BUCKETS_AT_ONCE: usize = 1024;

/// The result of a purge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PurgeResult {
    /// The number of stored records that were removed or marked.
    pub records: u64,
    /// The bytes of these records, including long bodies; 0 for a purge of a single key.
    pub bytes: u64,
    /// The number of fetches of this process that were detached, so that their responses are not
    /// stored. 0 for a purge by tags, which matches fetches only when their tags are known.
    pub flights: u64,
    /// The number of the purge, as in [`PastPurge::number`].
    pub number: u64,
}

/// A purge that covered a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastPurge {
    /// The keys that the purge covered.
    pub covered: CoveredKeys,
    /// The number of later purges.
    pub later: u64,
    /// The number of the purge among all purges of the store; `None` if another purge was announced
    /// during the search.
    pub number: Option<u64>,
}

/// The keys that a purge covered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoveredKeys {
    /// Only the key itself.
    Key,
    /// All keys that begin with this prefix.
    Prefix(Box<[u8]>),
    /// Those keys that begin with this prefix and whose records have certain tags.
    Tagged(Box<[u8]>),
    /// All keys.
    All,
}

/// Another purge, perhaps of another process, did not end in time. Nothing was purged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PurgeBusy;

impl fmt::Display for PurgeBusy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the purge gave up, because another purge did not end in time; try again")
    }
}

impl std::error::Error for PurgeBusy {}

impl StoreWorker {
    /// Returns the last purge that may have removed records of a primary key; `None` if none of the
    /// purges that the store still remembers covered the key.
    pub fn last_purge(&self, primary: &[u8]) -> Option<PastPurge> {
        let purges = &self.inner.shared.purges;
        let newest = purges.noted();
        let (predicate, later) = purges.find_last(|purge| purge.may_match(primary))?;
        let covered = match predicate {
            OwnedPredicate::Key(_) => CoveredKeys::Key,
            OwnedPredicate::Prefix(prefix) => CoveredKeys::Prefix(prefix),
            OwnedPredicate::Tags(within, _) => CoveredKeys::Tagged(within),
            OwnedPredicate::All => CoveredKeys::All,
        };
        let number = (purges.noted() == newest).then(|| newest - later);
        Some(PastPurge { covered, later, number })
    }

    /// Removes all records of a primary key. Lookups that begin after the call find neither these
    /// records nor the response of a fetch that began before the call.
    ///
    /// # Errors
    /// [`PurgeBusy`], if another purge does not end in time.
    pub fn purge(&self, primary: &[u8]) -> Result<PurgeResult, PurgeBusy> {
        self.try_purge(primary, WAIT_MAX)
    }

    /// Like [`purge`](StoreWorker::purge), but waits at most `at_most` for another purge. For
    /// threads that serve requests.
    ///
    /// # Errors
    /// [`PurgeBusy`], if another purge does not end in time.
    pub fn try_purge(&self, primary: &[u8], at_most: Duration) -> Result<PurgeResult, PurgeBusy> {
        self.purge_by(primary, at_most, |inner, hash| inner.records.purge_key(hash, primary))
    }

    /// Marks all records of a primary key, so that they are validated before use. They stay stored,
    /// since they may still be good. As with a purge, responses that are being fetched are not
    /// stored.
    ///
    /// # Errors
    /// [`PurgeBusy`], if another purge does not end in time.
    pub fn purge_softly(&self, primary: &[u8]) -> Result<PurgeResult, PurgeBusy> {
        self.try_purge_softly(primary, WAIT_MAX)
    }

    /// Like [`purge_softly`](StoreWorker::purge_softly), but waits at most `at_most` for another
    /// purge.
    ///
    /// # Errors
    /// [`PurgeBusy`], if another purge does not end in time.
    pub fn try_purge_softly(
        &self,
        primary: &[u8],
        at_most: Duration,
    ) -> Result<PurgeResult, PurgeBusy> {
        self.purge_by(primary, at_most, |inner, _| inner.records.soften_key(primary))
    }

    /// Marks the record of a key, or of one of its variants, so that it is validated before use, if
    /// it has this version. A record that is being copied cannot be marked, since its copy would
    /// lack the mark, so it is removed. Returns whether the record was marked or removed. Unlike a
    /// purge, this says nothing about other records: a record that is about to replace this one
    /// stays unmarked.
    pub fn mark_stale(&self, primary: &[u8], variant: Option<&[u8]>, known: RecordVersion) -> bool {
        let records = &self.inner.records;
        // If the record has moved before it could be removed, the next iteration finds its copy.
        while let Some((pinned, _)) = records.find((primary, variant), known) {
            if records.soften_hit(&pinned.hit) {
                return true;
            }
            if records.remove_hit(&pinned.hit) {
                drop(pinned);
                self.inner.clean_up_orphans();
                return true;
            }
        }
        false
    }

    /// Removes all selected records, or marks them if `is_soft`, so that they are validated before
    /// use. No lookup that begins after this returns finds a removed record, or the response of a
    /// fetch that began before the call.
    ///
    /// A purge takes some microseconds per record, and calls `progress` from time to time. Other
    /// threads serve, store and purge at the same time. If the process dies before the end, the
    /// records that it had not reached stay stored.
    ///
    /// # Errors
    /// [`PurgeBusy`], if another purge does not end in time.
    pub fn purge_selected(
        &self,
        selection: &Selection,
        is_soft: bool,
        progress: &mut dyn FnMut(&WalkProgress),
    ) -> Result<PurgeResult, PurgeBusy> {
        let inner = &self.inner;
        let (number, flights) =
            inner.announce(selection.predicate(), WAIT_MAX, |inner| match selection.tags {
                // The tags of responses in flight are not known yet. Their fills check the ring.
                Some(_) => 0,
                None => inner.shared.flights.detach_where(|key| key.starts_with(&selection.within)),
            })?;
        crash_point!("purge.walking");
        let (records, bytes) = inner.purge_walk(selection, is_soft, progress);
        crash_point!("store.purged");
        Ok(PurgeResult { records, bytes, flights, number })
    }

    fn purge_by(
        &self,
        primary: &[u8],
        at_most: Duration,
        walk: impl FnOnce(&WorkerInner, KeyHash) -> u64,
    ) -> Result<PurgeResult, PurgeBusy> {
        let inner = &self.inner;
        let hash = inner.shared.hash(primary);
        let (number, (flights, records)) =
            inner.announce(Predicate::Key(primary), at_most, |inner| {
                (inner.shared.flights.detach(hash.value(), primary), walk(inner, hash))
            })?;
        // The thread that purges may run no maintenance turns.
        while inner.clean_up_orphans() {}
        crash_point!("store.purged");
        Ok(PurgeResult { records, bytes: 0, flights, number })
    }
}

impl WorkerInner {
    /// Takes the purge lock, announces a purge in the ring, and calls `begin` under the lock.
    /// Returns the number of the purge and the result of `begin`.
    fn announce<T>(
        &self,
        predicate: Predicate<'_>,
        at_most: Duration,
        begin: impl FnOnce(&WorkerInner) -> T,
    ) -> Result<(u64, T), PurgeBusy> {
        let lock = &self.shared.purge_lock;
        let mut guard =
            lock.lock_within(self.part.participant(), at_most).map_err(|_| PurgeBusy)?;
        if guard.must_repair() {
            self.repeat_last_purge();
            guard.repaired();
        }
        let number = self.shared.purges.announce(predicate);
        Ok((number, begin(self)))
    }

    /// Repeats the last purge if it was a purge of a single key. The process that made it has died,
    /// and may not have finished it. Other purges are not repeated.
    fn repeat_last_purge(&self) {
        let Some((_, predicate)) = self.shared.purges.last() else {
            return;
        };
        let predicate = predicate.borrowed();
        match predicate {
            Predicate::Key(primary) => {
                let hash = self.shared.hash(primary);
                self.shared.flights.detach(hash.value(), primary);
                self.records.purge_key(hash, primary);
            }
            // The caller of that purge got no acknowledgement and has to repeat the request. Fills
            // in progress check the ring.
            Predicate::Prefix(_) | Predicate::Tags(..) | Predicate::All => {}
        }
    }

    /// Removes the records that match, by looking at all records. Returns their number.
    pub(super) fn purge_all_matching(&self, predicate: &Predicate<'_>) -> u64 {
        let matches = |hit: &IndexHit<'_>| {
            let record = self.records.access().record(hit.at());
            record.is_none_or(|record| {
                let place = primary_of(record.header.kind, record.key());
                place.is_some_and(|(primary, _)| predicate.matches(primary, record.tags()))
            })
        };
        let (count, mut removed) = (self.records.index.bucket_count(), 0);
        for first in (0..count).step_by(BUCKETS_AT_ONCE) {
            let buckets = first..count.min(first + BUCKETS_AT_ONCE);
            removed += self.records.index.remove_where(&self.records.pins, buckets, matches) as u64;
            // Orphans are cleaned up after each part, so that they do not pile up.
            while self.clean_up_orphans() {}
        }
        removed
    }
}

impl RecordIndex {
    /// Marks the records of a primary key, including its variants, as softly purged, and removes
    /// those that cannot be marked. Returns the number of records that were marked or removed.
    fn soften_key(&self, primary: &[u8]) -> u64 {
        let mut variants = BTreeSet::new();
        let count = self.soften(primary, &mut variants);
        let of_variants = variants.iter().map(|key| self.soften(key, &mut BTreeSet::new()));
        count + of_variants.sum::<u64>()
    }

    /// Marks the record of a key as softly purged, or removes it if it cannot be marked. Returns
    /// the number of records that were marked or removed. A live base is not counted: it stays
    /// unmarked, and the keys of its variants are added to `variants`.
    fn soften(&self, key: &[u8], variants: &mut BTreeSet<Vec<u8>>) -> u64 {
        let mut marked = 0;
        let gone = self.index.remove_if(&self.pins, &self.key(key), |hit| {
            crash_point!("store.softening");
            let Some(record) = self.access().record(hit.at()) else {
                return true;
            };
            let is_live = hit.word().state() == WordState::Live;
            if record.header.kind == HeaderKind::Base && is_live {
                variants.extend(variant_keys_of(key, &record));
                return false;
            }
            let stays = self.soften_hit(hit);
            marked += u64::from(stays);
            !stays
        });
        marked + gone as u64
    }

    /// Marks a record as softly purged. Returns false if the caller has to remove it instead.
    pub(super) fn soften_hit(&self, hit: &IndexHit<'_>) -> bool {
        let marks = self.access().marks(hit.at());
        marks.is_some_and(|marks| soften(hit.word(), marks))
    }

    /// Removes the records of a primary key, including its variants. Returns their number.
    pub(super) fn purge_key(&self, hash: KeyHash, primary: &[u8]) -> u64 {
        let variants = self.variant_keys(primary);
        let mut count = self.index.remove(&self.pins, &self.key_of(hash, primary)) as u64;
        for key in &variants {
            count += self.index.remove(&self.pins, &self.key(key)) as u64;
        }
        // A base is not a response, so it does not count.
        count - u64::from(!variants.is_empty() && count > 0)
    }

    /// The keys of the variants that the base of a primary key names.
    fn variant_keys(&self, primary: &[u8]) -> Vec<Vec<u8>> {
        self.look(primary).map_or(Vec::new(), |found| variant_keys_of(primary, found.record()))
    }
}

/// The keys of the variants that a record of a primary key names, if it is a base.
pub(super) fn variant_keys_of(primary: &[u8], record: &Record<'_>) -> Vec<Vec<u8>> {
    let base = (record.header.kind == HeaderKind::Base).then(|| BaseBody::decode(record.body()));
    let named = base.flatten().map(|base| base.named(primary));
    named.map_or(Vec::new(), |named| named.keys().collect())
}

//! Purging: a promise that no lookup finds what was there.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use forebay_shm::crash_point;

use super::variants::BaseBody;
use super::worker::{Own, StoreWorker};
use crate::index::{KeyHash, State};
use crate::purge::{Predicate, soften};
use crate::segment::{Kind, Record};

/// How long a purge waits for another one. They take microseconds.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// What a purge took out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Stored records.
    pub records: u64,
    /// Fetches that will not be stored.
    pub flights: u64,
}

/// Another purge, of another process perhaps, did not end in time: nothing was purged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PurgeBusy;

impl fmt::Display for PurgeBusy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another purge did not end in time; try again")
    }
}

impl std::error::Error for PurgeBusy {}

impl StoreWorker {
    /// Takes out all that stands under a primary key. No lookup that begins after this returns
    /// finds what was stored, or what a fetch that began before this brings.
    ///
    /// # Errors
    /// [`PurgeBusy`].
    pub fn purge(&self, primary: &[u8]) -> Result<Purged, PurgeBusy> {
        self.try_purge(primary, WAIT_MAX)
    }

    /// As [`purge`](StoreWorker::purge), but waits no longer than this for another purge: for
    /// threads that have other things to do.
    ///
    /// # Errors
    /// [`PurgeBusy`].
    pub fn try_purge(&self, primary: &[u8], at_most: Duration) -> Result<Purged, PurgeBusy> {
        self.purge_by(primary, at_most, |own, hash| own.purge_key(hash, primary))
    }

    /// Marks all that stands under a primary key as to be validated before use: it is kept, for
    /// the case that it is still good. What is being fetched is not stored, as by a purge.
    ///
    /// # Errors
    /// [`PurgeBusy`].
    pub fn purge_softly(&self, primary: &[u8]) -> Result<Purged, PurgeBusy> {
        self.purge_by(primary, WAIT_MAX, |own, _| own.soften_key(primary))
    }

    fn purge_by(
        &self,
        primary: &[u8],
        at_most: Duration,
        walk: impl FnOnce(&Own, KeyHash) -> u64,
    ) -> Result<Purged, PurgeBusy> {
        let own = &self.own;
        let lock = &own.shared.purge_lock;
        let mut guard = lock.lock_within(own.part.participant(), at_most).map_err(|_| PurgeBusy)?;
        if guard.must_repair() {
            own.repeat_last_purge();
            guard.repaired();
        }
        own.shared.purges.announce(Predicate::Key(primary));
        let hash = own.shared.hash(primary);
        let flights = own.shared.flights.detach(hash.value(), primary);
        let records = walk(own, hash);
        drop(guard);
        // Who purges may have no turns.
        while own.demote_orphans() {}
        crash_point!("store.purged");
        Ok(Purged { records, flights })
    }
}

impl Own {
    /// A purger died: what it has announced may not be taken out.
    fn repeat_last_purge(&self) {
        let Some((_, predicate)) = self.shared.purges.last() else {
            return;
        };
        let predicate = predicate.borrowed();
        match predicate {
            Predicate::Key(primary) => {
                let hash = self.shared.hash(primary);
                self.shared.flights.detach(hash.value(), primary);
                self.purge_key(hash, primary);
            }
            Predicate::Prefix(_) | Predicate::All => {
                self.shared.flights.detach_where(|primary| predicate.matches_key(primary));
                self.purge_matching(&predicate);
            }
        }
    }

    /// Marks what stands under a primary key, and the variants that it names; how many records.
    fn soften_key(&self, primary: &[u8]) -> u64 {
        let mut variants = BTreeSet::new();
        let count = self.soften(primary, &mut variants);
        let of_variants = variants.iter().map(|key| self.soften(key, &mut BTreeSet::new()));
        count + of_variants.sum::<u64>()
    }

    /// Marks the record of a key, or takes it out: how many there were. A base is none of them; it
    /// stays, and says which variants it names.
    fn soften(&self, key: &[u8], variants: &mut BTreeSet<Vec<u8>>) -> u64 {
        let mut marked = 0;
        let gone = self.index.remove_if(&self.pins, &self.key(key), |hit| {
            crash_point!("store.softening");
            let Some(record) = self.reach().record(hit.at()) else {
                return true;
            };
            let is_live = hit.word().state() == State::Live;
            if record.header.kind == Kind::Base && is_live {
                variants.extend(variant_keys_of(key, &record));
                return false;
            }
            let marks = self.reach().marks(hit.at());
            let stays = marks.is_some_and(|marks| soften(hit.word(), marks));
            marked += u64::from(stays);
            !stays
        });
        marked + gone as u64
    }

    /// Takes out what stands under a primary key, and the variants that it names.
    pub(super) fn purge_key(&self, hash: KeyHash, primary: &[u8]) -> u64 {
        let variants = self.variant_keys(primary);
        let mut count = self.index.remove(&self.pins, &self.key_of(hash, primary)) as u64;
        for key in &variants {
            count += self.index.remove(&self.pins, &self.key(key)) as u64;
        }
        // A base is none of the records that somebody asked for.
        count - u64::from(!variants.is_empty() && count > 0)
    }

    /// The keys of the variants that the base of a primary key names.
    fn variant_keys(&self, primary: &[u8]) -> Vec<Vec<u8>> {
        self.look(primary).map_or(Vec::new(), |found| variant_keys_of(primary, found.record()))
    }

    /// Takes out everything whose key matches, by looking at all records.
    fn purge_matching(&self, predicate: &Predicate<'_>) {
        self.index.remove_where(&self.pins, 0..self.index.bucket_count(), |hit| {
            let record = self.reach().record(hit.at());
            record.is_none_or(|record| predicate.matches_key(record.key()))
        });
    }
}

/// The keys of the variants that a record of a primary key names, if it is a base.
fn variant_keys_of(primary: &[u8], record: &Record<'_>) -> Vec<Vec<u8>> {
    let base = (record.header.kind == Kind::Base).then(|| BaseBody::decode(record.body()));
    let named = base.flatten().map(|base| base.named(primary));
    named.map_or(Vec::new(), |named| named.keys().collect())
}

//! The store as its users see it: lookup, join, purge, stats.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use foldhash::quality::SeedableRandomState;
use forebay_sync::{LockClass, RwLock};

use crate::budget::{Budget, Charge};
use crate::config::{ConfigError, StoreConfig};
use crate::declined;
use crate::evict::Ghosts;
use crate::flight::Flight;
use crate::follow::Follower;
use crate::lead::Leader;
use crate::record::Record;
use crate::resource::Kind;
use crate::shard::{Displaced, Insertion, Shard};
use crate::stats::{Events, Stats};

/// Bit of the hash from which the shard's number is taken: the tables use the bits at both ends.
const SHARD_SHIFT: u32 = 40;

/// What stands under a primary key.
#[derive(Debug)]
pub enum Lookup {
    /// Nothing.
    Miss,
    /// One record for all requests.
    Record(Arc<Record>),
    /// Variants, selected by these names: go on with [`Store::lookup_variant`].
    Base(Arc<[u8]>),
}

/// What a caller does who needs a fetch.
#[derive(Debug)]
pub enum Join {
    /// Nobody fetches this key: give the leader to a task that does, and follow it.
    Leader(Leader, Follower),
    /// Somebody does.
    Follower(Follower),
    /// Meanwhile something was stored, or what the caller knows has left: look up again.
    Stored,
    /// The response is probably not storable: fetch alone.
    Declined,
}

/// What a purge took out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Stored records.
    pub records: u64,
    /// Fetches that will not be stored.
    pub flights: u64,
}

/// Shards on cache lines of their own, so that a lock does not slow its neighbour.
#[repr(align(128))]
struct Padded(RwLock<Shard>);

/// All records of a process, shared by its workers.
pub struct Store {
    shards: Box<[Padded]>,
    hash_state: SeedableRandomState,
    config: StoreConfig,
    budget: Arc<Budget>,
    fixed: Charge,
    /// The shard that gives next when room is needed.
    next_giver: AtomicUsize,
    events: Events,
}

impl Store {
    /// An empty store.
    ///
    /// # Errors
    /// A setting that cannot work; for a budget that is too small, the minimum.
    pub fn new(config: StoreConfig) -> Result<Self, ConfigError> {
        Self::with_hash_state(config, SeedableRandomState::random())
    }

    pub(crate) fn with_hash_state(
        config: StoreConfig,
        hash_state: SeedableRandomState,
    ) -> Result<Self, ConfigError> {
        config.check()?;
        let ghost_count = Ghosts::count(config.budget_bytes, config.shard_count);
        let fixed_per_shard = size_of::<Padded>() + declined::BYTES + ghost_count * 8;
        let budget = Budget::new(config.budget_bytes);
        let Some(fixed) = budget.charge((config.shard_count * fixed_per_shard) as u64) else {
            return Err(ConfigError::BudgetTooSmall { minimum_bytes: config.minimum_bytes() });
        };
        let shard = |_| Padded(RwLock::new(LockClass::Shard, Shard::new(ghost_count)));
        Ok(Self {
            shards: (0..config.shard_count).map(shard).collect(),
            hash_state,
            config,
            budget,
            fixed,
            next_giver: AtomicUsize::new(0),
            events: Events::default(),
        })
    }

    /// What stands under a primary key. A hit takes one read lock and allocates nothing.
    pub fn lookup(&self, primary: &[u8]) -> Lookup {
        let hash = self.hash(primary);
        let shard = self.shard(hash).read();
        match shard.find(hash, primary).map(|resource| &resource.kind) {
            None => Lookup::Miss,
            Some(Kind::Plain(stored)) => {
                stored.record.touch();
                Lookup::Record(Arc::clone(&stored.record))
            }
            Some(Kind::Varied(varied)) => Lookup::Base(Arc::clone(&varied.names)),
        }
    }

    /// The record of a variant: `names` as `lookup` gave them, `variant` the values they select.
    /// Both are compared in full: values that were selected by other names mean something else.
    pub fn lookup_variant(
        &self,
        primary: &[u8],
        names: &[u8],
        variant: &[u8],
    ) -> Option<Arc<Record>> {
        let hash = self.hash(primary);
        let shard = self.shard(hash).read();
        let Kind::Varied(varied) = &shard.find(hash, primary)?.kind else {
            return None;
        };
        let stored = varied.find(variant).filter(|_| *varied.names == *names)?;
        stored.record.touch();
        Some(Arc::clone(&stored.record))
    }

    /// Collapses a fetch with others of the same key: `primary`, and `variant` if the names are
    /// known. `known` is the stored record that the caller has found and cannot use as it is (it
    /// wants to validate it). It must still be stored: once it is purged, nobody who joins later
    /// may be served what it holds.
    pub fn join(
        self: &Arc<Self>,
        primary: &[u8],
        variant: Option<&[u8]>,
        known: Option<&Arc<Record>>,
        now_ms: u64,
    ) -> Join {
        let hash = self.hash(primary);
        let flight_hash = self.hash_state.hash_one((hash, variant));
        let mut shard = self.shard(hash).write();
        if shard.has_changed(hash, primary, variant, known) {
            return Join::Stored;
        }
        if shard.is_declined(hash, now_ms) {
            return Join::Declined;
        }
        if let Some(flight) = shard.flight(flight_hash, primary, variant) {
            return Join::Follower(Follower::new(flight));
        }
        let flight = Arc::new(Flight::new(hash, flight_hash, primary, variant));
        shard.register(Arc::clone(&flight));
        drop(shard);
        let follower = Follower::new(&flight);
        Join::Leader(Leader::new(Arc::clone(self), flight, known.cloned()), follower)
    }

    /// Takes out all that stands under a primary key. No lookup that begins after it returns finds
    /// what was stored, or what a fetch that began before it brings.
    pub fn purge(&self, primary: &[u8]) -> Purged {
        let hash = self.hash(primary);
        let mut shard = self.shard(hash).write();
        let resource = shard.take_out(hash, primary);
        let flights = shard.take_flights(primary);
        shard.forget_declined(hash);
        let records = resource.as_ref().map_or(0, |resource| resource.stored().count() as u64);
        drop(shard);
        flights.iter().for_each(|flight| flight.detach());
        Purged { records, flights: flights.len() as u64 }
    }

    /// Ends that fetches of a key are not collapsed, because a response turned out storable.
    pub fn forget_declined(&self, primary: &[u8]) {
        let hash = self.hash(primary);
        self.shard(hash).write().forget_declined(hash);
    }

    /// Sums and counts; takes each shard's read lock for a moment.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats {
            budget_bytes: self.budget.bytes_max(),
            fixed_bytes: self.fixed.bytes(),
            growing_bytes: self.budget.growing_bytes(),
            refused_large: self.events.refused_large.load(Relaxed),
            refused_no_room: self.events.refused_no_room.load(Relaxed),
            outgrown: self.events.outgrown.load(Relaxed),
            readers_cut: self.events.readers_cut.load(Relaxed),
            ..Stats::default()
        };
        for padded in &self.shards {
            let shard = padded.0.read();
            stats.add(&shard.tally);
            stats.resource_count += shard.table.len() as u64;
            stats.flight_count += shard.flights.len() as u64;
        }
        stats.used_bytes = self.budget.used_bytes();
        let named = stats.fixed_bytes + stats.body_bytes + stats.metadata_bytes;
        stats.lent_bytes = stats.used_bytes.saturating_sub(named);
        stats
    }

    pub(crate) fn config(&self) -> &StoreConfig {
        &self.config
    }

    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    pub(crate) fn events(&self) -> &Events {
        &self.events
    }

    pub(crate) fn hash(&self, primary: &[u8]) -> u64 {
        self.hash_state.hash_one(primary)
    }

    pub(crate) fn shard(&self, hash: u64) -> &RwLock<Shard> {
        &self.shards[(hash >> SHARD_SHIFT) as usize & (self.shards.len() - 1)].0
    }

    pub(crate) fn shards(&self) -> impl Iterator<Item = &RwLock<Shard>> {
        self.shards.iter().map(|padded| &padded.0)
    }

    /// Charges `bytes`, evicting for them; none if nothing is left to evict. The shards give one
    /// record each in turn, so that a long body does not empty the shard that its key is in.
    pub(crate) fn make_room(&self, bytes: u64) -> Option<Charge> {
        let mut empty_count = 0;
        // What can never fit must not cost anybody its place.
        let possible = bytes <= self.budget.bytes_max() - self.fixed.bytes();
        while possible && empty_count < self.shards.len() {
            if let Some(charge) = self.budget.charge(bytes) {
                return Some(charge);
            }
            let giver = self.next_giver.fetch_add(1, Relaxed) & (self.shards.len() - 1);
            let displaced = self.shards[giver].0.write().evict_one();
            empty_count = match displaced {
                Displaced::Nothing => empty_count + 1,
                Displaced::Resource(_) | Displaced::Variant(_) => 0,
            };
        }
        let charge = possible.then(|| self.budget.charge(bytes)).flatten();
        if charge.is_none() {
            self.events.refused_no_room.fetch_add(1, Relaxed);
        }
        charge
    }

    /// Stores what a flight brought, if nothing has ended the flight meanwhile. Record and flight
    /// change under one lock: who comes later finds one of both.
    pub(crate) fn insert(&self, flight: &Arc<Flight>, new: Insertion) -> bool {
        let mut shard = self.shard(flight.hash).write();
        if !shard.unregister(flight) {
            return false;
        }
        let displaced = shard.insert(new, self.config.variants_max);
        drop(shard);
        drop(displaced);
        true
    }

    /// Puts `new` in the place of `known` and ends the flight.
    pub(crate) fn replace(&self, flight: &Arc<Flight>, known: &Arc<Record>, new: &Arc<Record>) {
        let mut shard = self.shard(flight.hash).write();
        let old = shard.unregister(flight).then(|| shard.replace(flight, known, new));
        drop(shard);
        drop(old);
    }

    /// Ends that a flight can be joined; with a time, remembers its key as declined until then.
    pub(crate) fn unregister(&self, flight: &Arc<Flight>, declined_until_ms: Option<u64>) {
        let mut shard = self.shard(flight.hash).write();
        shard.unregister(flight);
        if let Some(until_ms) = declined_until_ms {
            shard.decline(flight.hash, until_ms);
        }
    }
}

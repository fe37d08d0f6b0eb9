//! The table of all flights of a process: joining, detaching and counting flights.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use foldhash::quality::RandomState;
use forebay_sync::{LockClass, Mutex};

use super::budget::Budget;
use super::declined::{self, DeclinedKey, DeclinedUntil};
use super::follower::Follower;
use super::leader_guard::LeaderGuard;
use super::shard::Shard;
use super::shared::Flight;
use super::stats::{Events, FlightStats};

/// The index of a shard is taken from the bits of the hash from this bit upward.
const SHARD_SHIFT: u32 = 40;

/// The largest number of shards. More shards would only cost memory.
const SHARD_COUNT_MAX: usize = 4096;

/// Limits of [`Flights`]; sizes in bytes, times in milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct FlightConfig {
    /// The most bytes that all flights together may hold or have reserved. A body that does not fit
    /// is not stored. Windows take more bytes only while the sum stays within half of this limit.
    pub(crate) growing_bytes_max: u64,
    /// The most bytes that are reserved in advance for a body of known length.
    pub(crate) promise_bytes_max: u64,
    /// The longest body that is stored.
    pub(crate) object_bytes_max: u64,
    /// The most bytes of an unstored body that stay in memory until all of its readers have them.
    pub(crate) window_bytes: u64,
    /// The total time that one reader of a window may make the other readers wait.
    pub(crate) window_wait_ms_max: u64,
    /// The number of shards of the table, rounded up to a power of two. Each shard has a lock.
    pub(crate) shard_count: usize,
}

impl FlightConfig {
    fn shard_count(&self) -> usize {
        self.shard_count.clamp(1, SHARD_COUNT_MAX).next_power_of_two()
    }
}

/// The bytes that the tables of this many shards take. They do not count towards
/// `growing_bytes_max`.
pub(crate) const fn fixed_bytes(shard_count: usize) -> u64 {
    (shard_count * (size_of::<Padded>() + declined::BYTES)) as u64
}

/// The key of a flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlightKey<'a> {
    /// The hash of `primary`.
    pub(crate) hash: u64,
    /// The primary key.
    pub(crate) primary: &'a [u8],
    /// The list of the request's selectors, if the field names for this key are known.
    pub(crate) variant: Option<&'a [u8]>,
    /// Whether a part of the response is fetched, and not the whole response.
    pub(crate) is_part: bool,
}

/// The flights that a caller follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinPolicy {
    /// The caller follows any flight of the key. If the caller leads, others follow it even before
    /// its response has arrived.
    Any,
    /// The caller follows only a flight whose response has arrived, since the caller's own response
    /// may be for the caller alone. If the caller leads, others follow it once its response is
    /// being stored.
    Arrived,
}

/// The terms on which a caller joins.
#[derive(Clone, Copy, Debug)]
pub struct JoinTerms {
    /// The time of the caller's monotonic clock, in milliseconds.
    pub now_ms: u64,
    /// The flights that the caller follows.
    pub policy: JoinPolicy,
    /// The time, in milliseconds, for which requests for the key are not collapsed if the caller
    /// leads and its response is not storable.
    pub declined_ms: u64,
    /// If a flight has an unfinished body of which no bytes have arrived for this many
    /// milliseconds, the caller does not follow the flight.
    pub stalled_ms: u64,
    /// The source of the response: responses of one source take at most half of the room for
    /// arriving responses. `None` if there is only one source.
    pub share: Option<u16>,
    /// Whether the caller may ask the origin without waiting. Then it does not follow a leader that
    /// still waits for a turn, and leads a fetch itself.
    pub has_turn: bool,
    /// Whether the caller needs a part of the response only. Such a caller follows a flight of the
    /// whole response if that response is arriving. Apart from this, such callers share neither
    /// flights nor declined keys with callers that need the whole response.
    pub is_part: bool,
    /// Whether the response may be for the caller alone, although the caller may follow any flight:
    /// its request has a cookie. If the response is not storable, only callers with this flag are
    /// declined.
    pub is_personal: bool,
}

impl JoinTerms {
    /// Terms under which a caller follows any flight, and declines no key.
    pub const fn at(now_ms: u64) -> JoinTerms {
        JoinTerms {
            now_ms,
            policy: JoinPolicy::Any,
            declined_ms: 0,
            stalled_ms: u64::MAX,
            share: None,
            has_turn: false,
            is_part: false,
            is_personal: false,
        }
    }
}

/// Answers a flight's questions about the store and about purges. The methods are called under the
/// lock of the key's shard, so they must not call back into flights, and should be quick.
///
/// Each purge has a number, which is higher than those of all earlier purges. A purge begins when
/// its number is announced, and is over when all records that it matches are removed from the
/// store.
pub(crate) trait Gate {
    /// Returns the purge number that a new leader notes. This is called before the other methods.
    /// The number is at most that of the last purge that has begun, and at least that of the last
    /// purge that is over, since the leader asks the origin only after this call.
    ///
    /// The same bounds hold for a leader that validates a stored record. A purge that has begun may
    /// still remove that record. Then followers, which look up the confirmed record, no longer find
    /// it.
    fn note(&self) -> u64;

    /// Whether the store is unchanged since the caller looked the key up: it still has the record
    /// that the caller found, or still has none if the caller found none.
    fn is_current(&self) -> bool;

    /// Whether the caller may follow a leader that noted the purge number `purge_noted`. It is not
    /// allowed to if a purge with a higher number may match the leader's response.
    fn may_follow(&self, purge_noted: u64) -> bool;
}

/// The role of a caller that needs a fetch.
#[derive(Debug)]
pub(crate) enum JoinResult {
    /// There is no flight to follow. Give the guard to a task that fetches, and wait with the
    /// follower.
    Lead(LeaderGuard, Follower),
    /// There is a flight to follow: wait with the follower.
    Follow(Follower),
    /// The store has changed since the caller's lookup: look up again.
    Changed,
    /// The response is probably not storable: fetch without collapsing.
    Declined(DeclinedUntil),
}

/// The result that [`Flights::join`] would have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinPreview {
    /// The caller would lead a fetch.
    Lead,
    /// The caller would follow a fetch.
    Follow,
    /// The store has changed since the caller's lookup.
    Changed,
    /// The caller would fetch without collapsing.
    Declined(DeclinedUntil),
}

/// A shard on cache lines of its own, so that threads that lock neighbouring shards do not slow
/// each other.
#[repr(align(128))]
struct Padded(Mutex<Shard>);

/// All flights of a process, shared by its workers.
pub(crate) struct Flights {
    shards: Box<[Padded]>,
    hash_state: RandomState,
    config: FlightConfig,
    budget: Arc<Budget>,
    events: Events,
}

impl Flights {
    pub(crate) fn new(config: FlightConfig) -> Self {
        let shard = |_| Padded(Mutex::new(LockClass::Shard, Shard::new()));
        Self {
            shards: (0..config.shard_count()).map(shard).collect(),
            hash_state: RandomState::default(),
            budget: Budget::new(config.growing_bytes_max),
            config,
            events: Events::default(),
        }
    }

    /// Collapses a fetch with others of the same key: the caller follows a flight of the key, or
    /// leads a new one, which may replace a flight that the caller does not follow.
    pub(crate) fn join(
        self: &Arc<Self>,
        key: FlightKey<'_>,
        terms: JoinTerms,
        gate: &impl Gate,
    ) -> JoinResult {
        let policy = terms.policy;
        let flight_hash = self.flight_hash(key);
        let mut shard = self.shard(key.hash).lock();
        let purge_noted = gate.note();
        let (preview, found) = self.decide(&shard, (key, flight_hash), terms, gate);
        let may_follow = found.is_some_and(|found| found.may_follow);
        match (preview, found) {
            (JoinPreview::Changed, _) => return JoinResult::Changed,
            (JoinPreview::Declined(declined), _) => return JoinResult::Declined(declined),
            (JoinPreview::Follow, Some(found)) => {
                return JoinResult::Follow(Follower::new(found.flight));
            }
            (JoinPreview::Follow | JoinPreview::Lead, _) => {}
        }
        // The caller's flight replaces a flight that the caller does not follow. The replaced
        // flight is also detached, so that it does not begin to store, but only if a purge may
        // match it.
        let replaced = found.filter(|_| policy == JoinPolicy::Any || !may_follow);
        let replaced = replaced.map(|found| Arc::clone(found.flight));
        if let Some(replaced) = &replaced {
            shard.unregister(replaced);
        }
        let flight = Arc::new(Flight::new(key, flight_hash, purge_noted, &terms));
        flight.set_waits(!terms.has_turn);
        if policy == JoinPolicy::Any {
            shard.register(Arc::clone(&flight));
        }
        drop(shard);
        if let Some(purged) = replaced.filter(|_| !may_follow) {
            purged.detach();
        }
        let follower = Follower::new(&flight);
        JoinResult::Lead(LeaderGuard::new(Arc::clone(self), flight, terms), follower)
    }

    /// Returns the result that a call of [`join`](Self::join) would have, and changes nothing.
    pub(crate) fn preview(
        &self,
        key: FlightKey<'_>,
        terms: JoinTerms,
        gate: &impl Gate,
    ) -> JoinPreview {
        let flight_hash = self.flight_hash(key);
        let shard = self.shard(key.hash).lock();
        self.decide(&shard, (key, flight_hash), terms, gate).0
    }

    /// Detaches the flights of a primary key from the table, for a purge. No caller joins them any
    /// more, and their leaders do not begin to store. (A leader that is storing already finds the
    /// purge in the ring.) Returns the number of detached flights. The key is no longer declined.
    pub(crate) fn detach(&self, hash: u64, primary: &[u8]) -> u64 {
        let mut shard = self.shard(hash).lock();
        shard.declined.forget(hash);
        let taken = shard.take_where(|key| key.primary == primary);
        drop(shard);
        detach_all(&taken)
    }

    /// Detaches all flights whose primary key matches, and returns their number. Declined keys stay
    /// declined. The predicate is called under a shard's lock.
    pub(crate) fn detach_where(&self, matches: impl Fn(&[u8]) -> bool) -> u64 {
        let take = |padded: &Padded| padded.0.lock().take_where(|key| matches(key.primary));
        self.shards.iter().map(take).map(|taken| detach_all(&taken)).sum()
    }

    /// Lets fetches of a key be collapsed again, after one of its responses was storable.
    pub(crate) fn forget_declined(&self, hash: u64) {
        self.shard(hash).lock().declined.forget(hash);
    }

    /// Returns the counters of all flights. Takes the lock of each shard for a moment.
    pub(crate) fn stats(&self) -> FlightStats {
        let count = |padded: &Padded| padded.0.lock().flights.len() as u64;
        FlightStats {
            flight_count: self.shards.iter().map(count).sum(),
            growing_bytes: self.budget.taken_bytes(),
            ..self.events.stats()
        }
    }

    pub(super) fn config(&self) -> &FlightConfig {
        &self.config
    }

    pub(super) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    pub(super) fn events(&self) -> &Events {
        &self.events
    }

    /// Removes a flight from the table, so that no caller can join it any more.
    pub(super) fn unregister(&self, flight: &Arc<Flight>) {
        self.shard(flight.key().hash).lock().unregister(flight);
    }

    /// Removes a flight from the table if it has no followers, so that none can join any more.
    /// Returns whether it had none.
    pub(super) fn unregister_unfollowed(&self, flight: &Arc<Flight>) -> bool {
        // Callers join under this lock.
        let mut shard = self.shard(flight.key().hash).lock();
        let is_unfollowed = !flight.has_followers();
        if is_unfollowed {
            shard.unregister(flight);
        }
        is_unfollowed
    }

    /// Registers the flight of a response that is being stored, so that callers can join it. Does
    /// nothing if the table has a flight of the key.
    pub(super) fn register_arrived(&self, flight: &Arc<Flight>) {
        debug_assert!(flight.has_arrived(), "only a flight with a response is registered here");
        let mut shard = self.shard(flight.key().hash).lock();
        if shard.flight(flight.flight_hash, flight.key()).is_none() {
            shard.register(Arc::clone(flight));
        }
    }

    /// Removes a flight from the table, and declines its key.
    pub(super) fn decline(&self, flight: &Arc<Flight>, declined: DeclinedUntil) {
        let declined_key = self.declined_key(flight.key(), flight.is_personal);
        let mut shard = self.shard(flight.key().hash).lock();
        shard.unregister(flight);
        shard.declined.remember(declined_key, declined);
        drop(shard);
        self.events.declined.fetch_add(1, Relaxed);
    }

    /// Declines a key for all callers, whether they need the whole response or a part.
    pub(crate) fn decline_all(&self, key: FlightKey<'_>, declined: DeclinedUntil) {
        let mut shard = self.shard(key.hash).lock();
        shard.declined.remember(self.declined_key_of_all(key), declined);
        drop(shard);
        self.events.declined.fetch_add(1, Relaxed);
    }

    /// Whether `key` is the key of a part, and the whole response is arriving.
    pub(crate) fn is_whole_arriving(&self, key: FlightKey<'_>) -> bool {
        let shard = self.shard(key.hash).lock();
        self.whole_flight(&shard, key).is_some()
    }

    /// The flight that fetches the whole response, if its head has arrived and `key` is the key of
    /// a part.
    fn whole_flight<'a>(&self, shard: &'a Shard, key: FlightKey<'_>) -> Option<&'a Arc<Flight>> {
        let whole = FlightKey { is_part: false, ..key };
        let flight = shard.flight(self.flight_hash(whole), whole).filter(|_| key.is_part)?;
        flight.has_arrived().then_some(flight)
    }

    /// Decides whether a caller follows, leads, is declined or looks up again. Also returns the
    /// flight that it follows or replaces, unless the store has changed.
    fn decide<'a>(
        &self,
        shard: &'a Shard,
        (key, flight_hash): (FlightKey<'_>, u64),
        terms: JoinTerms,
        gate: &impl Gate,
    ) -> (JoinPreview, Option<FoundFlight<'a>>) {
        if !gate.is_current() {
            return (JoinPreview::Changed, None);
        }
        let found = |flight: &'a Arc<Flight>| {
            let may_follow = gate.may_follow(flight.purge_noted);
            FoundFlight { flight, may_follow }
        };
        let own = shard.flight(flight_hash, key).map(found);
        let whole = self.whole_flight(shard, key).map(found);
        let followed = [own, whole].into_iter().flatten().find(|found| found.is_followed(terms));
        if followed.is_some() {
            return (JoinPreview::Follow, followed);
        }
        let own_key = self.declined_key(key, terms.is_personal);
        let mut keys = [own_key, self.declined_key_of_all(key)].into_iter();
        match keys.find_map(|key| shard.declined.find(key, terms.now_ms)) {
            Some(declined) => (JoinPreview::Declined(declined), own),
            None => (JoinPreview::Lead, own),
        }
    }

    fn flight_hash(&self, key: FlightKey<'_>) -> u64 {
        self.hash_state.hash_one((key.hash, key.variant, key.is_part))
    }

    /// The key under which callers with the same flight key and the same `is_personal` are
    /// declined.
    fn declined_key(&self, key: FlightKey<'_>, is_personal: bool) -> DeclinedKey {
        let flight = self.hash_state.hash_one((self.flight_hash(key), is_personal));
        DeclinedKey { primary: key.hash, flight }
    }

    /// The key under which all callers are declined, whether they ask for a part or not.
    fn declined_key_of_all(&self, key: FlightKey<'_>) -> DeclinedKey {
        let flight = self.hash_state.hash_one((key.hash, key.variant));
        DeclinedKey { primary: key.hash, flight }
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        &self.shards[(hash >> SHARD_SHIFT) as usize & (self.shards.len() - 1)].0
    }
}

/// A flight that a caller may follow.
#[derive(Clone, Copy)]
struct FoundFlight<'a> {
    flight: &'a Arc<Flight>,
    /// False if a purge may match the flight's response, so that the caller must not follow the
    /// flight.
    may_follow: bool,
}

impl FoundFlight<'_> {
    fn is_followed(&self, terms: JoinTerms) -> bool {
        let FoundFlight { flight, may_follow } = self;
        *may_follow
            && !flight.is_stalled(terms.now_ms, terms.stalled_ms)
            && !(terms.has_turn && flight.waits_for_turn())
            && (terms.policy == JoinPolicy::Any || flight.has_arrived())
    }
}

fn detach_all(taken: &[Arc<Flight>]) -> u64 {
    taken.iter().for_each(|flight| flight.detach());
    taken.len() as u64
}

#[cfg(test)]
impl Flights {
    /// Returns contradictions between the tables and the counters.
    pub(super) fn check(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut held_bytes = 0;
        for padded in &self.shards {
            let shard = padded.0.lock();
            for flight in &shard.flights {
                let (key, flight_hash) = (flight.key(), flight.flight_hash);
                held_bytes += flight.held_bytes();
                let is_found =
                    shard.flight(flight_hash, key).is_some_and(|found| Arc::ptr_eq(found, flight));
                let is_home = std::ptr::eq(self.shard(key.hash), &padded.0)
                    && self.flight_hash(key) == flight_hash;
                if !is_found || !is_home || flight.is_detached() {
                    faults.push(format!(
                        "the flight of {key:?} is in the wrong shard or is detached"
                    ));
                }
            }
        }
        let (taken_bytes, bytes_max) = (self.budget.taken_bytes(), self.budget.bytes_max());
        if held_bytes > taken_bytes || taken_bytes > bytes_max {
            faults.push(format!(
                "flights hold {held_bytes} bytes, {taken_bytes} of {bytes_max} are taken"
            ));
        }
        faults
    }
}

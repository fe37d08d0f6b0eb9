//! One part of the key space: table, queues, ghosts, flights, declined keys, behind one lock.
//!
//! Nothing is dropped in here that could run foreign code or take long: what leaves the table is
//! handed to the caller, who drops it after the lock is released.

use std::sync::Arc;

use hashbrown::HashTable;

use crate::budget::Charge;
use crate::declined::Declined;
use crate::evict::{Ghosts, List, Place, Queues};
use crate::flight::Flight;
use crate::record::Record;
use crate::resource::{Kind, Resource, Stored, Variant, Varied};
use crate::stats::Tally;

/// Used records that one eviction passes over; then it takes the next, used or not. So its work
/// is bounded, and a shard that is not empty always gives.
const SCAN_MAX: usize = 64;

/// What has left the table.
pub(crate) enum Displaced {
    Nothing,
    Resource(#[expect(dead_code, reason = "held to be dropped after the lock")] Resource),
    Variant(#[expect(dead_code, reason = "held to be dropped after the lock")] Variant),
}

/// The names of a base, and the key of one of its variants.
pub(crate) type NamesAndKey = (Arc<[u8]>, Box<[u8]>);

/// A record that is to be stored.
pub(crate) struct Insertion {
    pub(crate) hash: u64,
    pub(crate) primary: Box<[u8]>,
    pub(crate) base: Option<NamesAndKey>,
    pub(crate) record: Arc<Record>,
    /// For the resource, if it is a new one.
    pub(crate) charge: Charge,
}

pub(crate) struct Shard {
    pub(crate) table: HashTable<Resource>,
    pub(crate) queues: Queues,
    pub(crate) flights: HashTable<Arc<Flight>>,
    pub(crate) tally: Tally,
    ghosts: Ghosts,
    declined: Declined,
}

impl Shard {
    pub(crate) fn new(ghost_count: usize) -> Self {
        Self {
            table: HashTable::new(),
            queues: Queues::new(),
            flights: HashTable::new(),
            tally: Tally::default(),
            ghosts: Ghosts::new(ghost_count),
            declined: Declined::new(),
        }
    }

    /// What stands under a primary key.
    pub(crate) fn find(&self, hash: u64, primary: &[u8]) -> Option<&Resource> {
        self.table.find(hash, |resource| *resource.key == *primary)
    }

    /// True if a lookup would now find something other than what the caller knows: a record, or
    /// nothing.
    pub(crate) fn has_changed(
        &self,
        hash: u64,
        primary: &[u8],
        variant: Option<&[u8]>,
        known: Option<&Arc<Record>>,
    ) -> bool {
        let found = match (self.find(hash, primary).map(|resource| &resource.kind), variant) {
            (None, _) => None,
            (Some(Kind::Plain(stored)), _) => Some(stored),
            // The caller does not know the names yet: looking up again tells.
            (Some(Kind::Varied(_)), None) => return true,
            (Some(Kind::Varied(varied)), Some(key)) => varied.find(key),
        };
        found.map(|stored| Arc::as_ptr(&stored.record)) != known.map(Arc::as_ptr)
    }

    /// Stores a record in place of what its key had.
    pub(crate) fn insert(&mut self, new: Insertion, variants_max: usize) -> Displaced {
        let ghost = self.ghosts.take(new.hash);
        self.tally.ghost_hits += u64::from(ghost);
        self.tally.inserted += 1;
        let same = |resource: &Resource| *resource.key == *new.primary;
        let same_base = match (self.table.find(new.hash, same).map(|r| &r.kind), &new.base) {
            (Some(Kind::Varied(varied)), Some((names, _))) => varied.names == *names,
            _ => false,
        };
        if same_base {
            return self.insert_variant(new, variants_max, ghost);
        }
        let displaced = self.take_out(new.hash, &new.primary);
        let stored = self.enqueue(new.hash, new.record, ghost || displaced.is_some());
        let kind = match new.base {
            None => Kind::Plain(stored),
            Some((names, key)) => {
                Kind::Varied(Box::new(Varied { names, variants: vec![Variant { key, stored }] }))
            }
        };
        self.tally.metadata_bytes += new.charge.bytes();
        let resource = Resource { hash: new.hash, key: new.primary, kind, charge: new.charge };
        self.table.insert_unique(new.hash, resource, |resource| resource.hash);
        displaced.map_or(Displaced::Nothing, Displaced::Resource)
    }

    /// Stores a variant beside the others of its base.
    fn insert_variant(&mut self, new: Insertion, variants_max: usize, ghost: bool) -> Displaced {
        let Some((_, key)) = new.base else {
            return Displaced::Nothing;
        };
        let displaced = self
            .varied_mut(new.hash, &new.primary)
            .and_then(|varied| varied.make_room(&key, variants_max));
        if let Some(variant) = &displaced {
            self.dequeue(&variant.stored);
        }
        let replaced = displaced.as_ref().is_some_and(|variant| variant.key == key);
        let stored = self.enqueue(new.hash, new.record, ghost || replaced);
        if let Some(varied) = self.varied_mut(new.hash, &new.primary) {
            varied.variants.push(Variant { key, stored });
        }
        displaced.map_or(Displaced::Nothing, Displaced::Variant)
    }

    fn varied_mut(&mut self, hash: u64, primary: &[u8]) -> Option<&mut Varied> {
        match &mut self.table.find_mut(hash, |resource| *resource.key == *primary)?.kind {
            Kind::Varied(varied) => Some(varied),
            Kind::Plain(_) => None,
        }
    }

    /// Puts `new` in the place of `known`, if that is still stored. Both share a body.
    pub(crate) fn replace(
        &mut self,
        flight: &Flight,
        known: &Arc<Record>,
        new: &Arc<Record>,
    ) -> Option<Arc<Record>> {
        let stored = self
            .table
            .find_mut(flight.hash, |resource| *resource.key == *flight.primary)?
            .record_mut(flight.variant.as_deref())
            .filter(|stored| Arc::ptr_eq(&stored.record, known))?;
        let old = std::mem::replace(&mut stored.record, Arc::clone(new));
        new.set_uses(old.uses());
        self.queues.reweigh(stored.place, new.cost());
        self.tally.remove(&old);
        self.tally.add(new);
        Some(old)
    }

    /// Takes out all that stands under a primary key.
    pub(crate) fn take_out(&mut self, hash: u64, primary: &[u8]) -> Option<Resource> {
        let found = self.table.find_entry(hash, |resource| *resource.key == *primary);
        let (resource, _) = found.ok()?.remove();
        self.tally.metadata_bytes -= resource.charge.bytes();
        for stored in resource.stored() {
            self.dequeue(stored);
        }
        Some(resource)
    }

    /// Takes out the flights of a primary key.
    pub(crate) fn take_flights(&mut self, primary: &[u8]) -> Vec<Arc<Flight>> {
        self.flights.extract_if(|flight| *flight.primary == *primary).collect()
    }

    /// Counts a record in, at the back of a queue: main if it `returned` after it had been stored
    /// before, which is all that a ghost says, too.
    fn enqueue(&mut self, hash: u64, record: Arc<Record>, returned: bool) -> Stored {
        let list = if returned { List::Main } else { List::Small };
        let place = self.queues.push(list, hash, record.cost());
        self.tally.add(&record);
        Stored { record, place }
    }

    /// Counts a record out.
    fn dequeue(&mut self, stored: &Stored) {
        self.queues.remove(stored.place);
        self.tally.remove(&stored.record);
    }

    /// Takes out the record whose turn it is; nothing only if the shard is empty.
    pub(crate) fn evict_one(&mut self) -> Displaced {
        for step in 0..=SCAN_MAX {
            let Some((place, hash, list)) = self.queues.front() else {
                break;
            };
            if step < SCAN_MAX && self.spare(place, hash, list) {
                continue;
            }
            if list == List::Small {
                self.ghosts.remember(hash);
            }
            self.tally.evicted += 1;
            return self.remove_place(place, hash);
        }
        Displaced::Nothing
    }

    /// Lets a used record stay. One that is being sent counts as used: its memory would not come
    /// back before the last client has it.
    fn spare(&mut self, place: Place, hash: u64, list: List) -> bool {
        let Some(stored) =
            self.table.find(hash, |r| r.at(place).is_some()).and_then(|r| r.at(place))
        else {
            return false;
        };
        let uses = stored.record.uses();
        if uses == 0 && Arc::strong_count(&stored.record) == 1 {
            return false;
        }
        let left = if list == List::Small { 0 } else { uses.saturating_sub(1) };
        stored.record.set_uses(left);
        self.queues.requeue(place, List::Main);
        true
    }

    /// Takes out the record at a place, and its resource with the last record.
    fn remove_place(&mut self, place: Place, hash: u64) -> Displaced {
        let found = self.table.find_entry(hash, |resource| resource.at(place).is_some());
        let Ok(mut found) = found else {
            // Not reached while queues and table agree; the place must go in any case.
            debug_assert!(false, "{place:?} has no record");
            self.queues.remove(place);
            return Displaced::Nothing;
        };
        if let Kind::Varied(varied) = &mut found.get_mut().kind
            && varied.variants.len() > 1
            && let Some(index) = varied.variants.iter().position(|v| v.stored.place == place)
        {
            let variant = varied.variants.remove(index);
            self.dequeue(&variant.stored);
            return Displaced::Variant(variant);
        }
        let (resource, _) = found.remove();
        self.tally.metadata_bytes -= resource.charge.bytes();
        for stored in resource.stored() {
            self.dequeue(stored);
        }
        Displaced::Resource(resource)
    }

    /// The flight of a key.
    pub(crate) fn flight(
        &self,
        flight_hash: u64,
        primary: &[u8],
        variant: Option<&[u8]>,
    ) -> Option<&Arc<Flight>> {
        let same = |flight: &Arc<Flight>| {
            *flight.primary == *primary && flight.variant.as_deref() == variant
        };
        self.flights.find(flight_hash, same)
    }

    /// Makes a flight joinable.
    pub(crate) fn register(&mut self, flight: Arc<Flight>) {
        self.flights.insert_unique(flight.flight_hash, flight, |flight| flight.flight_hash);
    }

    /// Ends that a flight can be joined; false if it could no longer be.
    pub(crate) fn unregister(&mut self, flight: &Arc<Flight>) -> bool {
        let same = |registered: &Arc<Flight>| Arc::ptr_eq(registered, flight);
        self.flights.find_entry(flight.flight_hash, same).map(|found| found.remove()).is_ok()
    }

    pub(crate) fn is_declined(&self, hash: u64, now_ms: u64) -> bool {
        self.declined.contains(hash, now_ms)
    }

    pub(crate) fn decline(&mut self, hash: u64, until_ms: u64) {
        self.tally.declined += 1;
        self.declined.remember(hash, until_ms);
    }

    pub(crate) fn forget_declined(&mut self, hash: u64) {
        self.declined.forget(hash);
    }
}

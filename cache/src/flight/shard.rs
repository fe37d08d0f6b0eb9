//! A shard of the table: the flights that can be joined, and the declined keys, behind one lock.

use std::sync::Arc;

use hashbrown::HashTable;

use super::declined::Declined;
use super::flights::FlightKey;
use super::shared::Flight;

pub(super) struct Shard {
    pub(super) flights: HashTable<Arc<Flight>>,
    pub(super) declined: Declined,
}

impl Shard {
    pub(super) fn new() -> Self {
        Self { flights: HashTable::new(), declined: Declined::new() }
    }

    /// The flight of a key, if callers can join one.
    pub(super) fn flight(&self, flight_hash: u64, key: FlightKey<'_>) -> Option<&Arc<Flight>> {
        self.flights.find(flight_hash, |flight| flight.key() == key)
    }

    /// Adds a flight, so that callers can join it.
    pub(super) fn register(&mut self, flight: Arc<Flight>) {
        self.flights.insert_unique(flight.flight_hash, flight, |flight| flight.flight_hash);
    }

    /// Removes a flight, if it is still in this shard.
    pub(super) fn unregister(&mut self, flight: &Arc<Flight>) {
        let same = |registered: &Arc<Flight>| Arc::ptr_eq(registered, flight);
        if let Ok(found) = self.flights.find_entry(flight.flight_hash, same) {
            found.remove();
        }
    }

    /// Removes and returns the flights whose key matches.
    pub(super) fn take_where(
        &mut self,
        matches: impl Fn(FlightKey<'_>) -> bool,
    ) -> Vec<Arc<Flight>> {
        self.flights.extract_if(|flight| matches(flight.key())).collect()
    }
}

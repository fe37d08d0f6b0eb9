//! Counters in the text format of Prometheus.

use std::fmt::Write;

use forebay_cache::Stats;
use forebay_shm::{CounterFile, CounterKind};

use crate::counters::COUNTERS;

/// All numbers, the store's included.
pub(super) fn prometheus(counters: &CounterFile, stats: &Stats) -> String {
    let mut text = String::new();
    for (index, def) in COUNTERS.iter().enumerate() {
        let kind = match def.kind {
            CounterKind::Counter => "counter",
            CounterKind::Gauge => "gauge",
        };
        write_metric(&mut text, def.name, kind, def.help, counters.sum(index));
    }
    for number in STORE_NUMBERS {
        let value = (number.read)(stats);
        write_metric(&mut text, number.name, number.kind, number.help, value);
    }
    text
}

fn write_metric(text: &mut String, name: &str, kind: &str, help: &str, value: u64) {
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "# HELP forebay_{name} {help}\n# TYPE forebay_{name} {kind}\nforebay_{name} {value}"
    );
}

/// A number of the store, read when somebody asks.
pub(super) struct StoreNumber {
    pub(super) name: &'static str,
    kind: &'static str,
    help: &'static str,
    pub(super) read: fn(&Stats) -> u64,
}

macro_rules! store_numbers {
    ($( $kind:ident $name:literal $field:ident $help:literal; )*) => {
        /// The table of the store's numbers.
        pub(super) const STORE_NUMBERS: &[StoreNumber] = &[$( StoreNumber {
            name: $name,
            kind: stringify!($kind),
            help: $help,
            read: |stats| stats.$field,
        } ),*];
    };
}

store_numbers! {
    gauge "cache_budget_bytes" budget_bytes
        "The limit for all that the cache holds.";
    gauge "cache_used_bytes" used_bytes
        "All that the cache holds.";
    gauge "cache_fixed_bytes" fixed_bytes
        "Fixed tables of the cache.";
    gauge "cache_body_bytes" body_bytes
        "Bodies of stored responses.";
    gauge "cache_metadata_bytes" metadata_bytes
        "Heads, keys and bookkeeping.";
    gauge "cache_lent_bytes" lent_bytes
        "Growing, or out of the table and still sent.";
    gauge "cache_growing_bytes" growing_bytes
        "Responses that are arriving.";
    gauge "cache_records" record_count
        "Stored responses, variants included.";
    gauge "cache_resources" resource_count
        "URLs with a stored response.";
    gauge "cache_flights" flight_count
        "Fetches that can be followed.";
    counter "cache_inserted_total" inserted
        "Responses put into the cache.";
    counter "cache_evicted_total" evicted
        "Responses that left for room.";
    counter "cache_ghost_hits_total" ghost_hits
        "Responses that came back soon.";
    counter "cache_declined_total" declined
        "Fetches found not storable.";
    counter "cache_refused_large_total" refused_large
        "Bodies too large to store.";
    counter "cache_refused_no_room_total" refused_no_room
        "Times without room.";
    counter "cache_outgrown_total" outgrown
        "Bodies that grew too large.";
    counter "cache_readers_cut_total" readers_cut
        "Readers that fell behind.";
}

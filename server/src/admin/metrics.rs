//! Counters in the text format of Prometheus.

use std::fmt::Write;

use forebay_cache::Stats;
use forebay_shm::{CounterFile, CounterKind};

use crate::counters::COUNTERS;

/// A number of the store, read when somebody asks.
pub(super) struct StoreGauge {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) kind: &'static str,
    pub(super) value: u64,
}

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
    for gauge in store_gauges(stats) {
        write_metric(&mut text, gauge.name, gauge.kind, gauge.help, gauge.value);
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

/// The store's numbers as they are now.
pub(super) fn store_gauges(stats: &Stats) -> Vec<StoreGauge> {
    let gauge = |name, help, value| StoreGauge { name, help, kind: "gauge", value };
    let counter = |name, help, value| StoreGauge { name, help, kind: "counter", value };
    vec![
        gauge("cache_budget_bytes", "The limit for all that the cache holds.", stats.budget_bytes),
        gauge("cache_used_bytes", "All that the cache holds.", stats.used_bytes),
        gauge("cache_fixed_bytes", "Fixed tables of the cache.", stats.fixed_bytes),
        gauge("cache_body_bytes", "Bodies of stored responses.", stats.body_bytes),
        gauge("cache_metadata_bytes", "Heads, keys and bookkeeping.", stats.metadata_bytes),
        gauge("cache_lent_bytes", "Growing, or out of the table and still sent.", stats.lent_bytes),
        gauge("cache_growing_bytes", "Responses that are arriving.", stats.growing_bytes),
        gauge("cache_records", "Stored responses, variants included.", stats.record_count),
        gauge("cache_resources", "URLs with a stored response.", stats.resource_count),
        gauge("cache_flights", "Fetches that can be followed.", stats.flight_count),
        counter("cache_inserted_total", "Responses put into the cache.", stats.inserted),
        counter("cache_evicted_total", "Responses that left for room.", stats.evicted),
        counter("cache_ghost_hits_total", "Responses that came back soon.", stats.ghost_hits),
        counter("cache_declined_total", "Fetches found not storable.", stats.declined),
        counter("cache_refused_large_total", "Bodies too large to store.", stats.refused_large),
        counter("cache_refused_no_room_total", "Times without room.", stats.refused_no_room),
        counter("cache_outgrown_total", "Bodies that grew too large.", stats.outgrown),
        counter("cache_readers_cut_total", "Readers that fell behind.", stats.readers_cut),
    ]
}

//! Counters in the text format of Prometheus.

use std::fmt::Write;

use forebay_cache::Stats;
use forebay_http::policy::reason::Reason;
use forebay_shm::{CounterFile, CounterValue, HistogramValue};

use crate::counters::{COUNTERS, reason_at};
use crate::fetch::{OriginCount, OriginReport};
use crate::rules::{RuleCount, RuleReport};
use crate::site_counts::{SiteCount, SiteReport, WAIT_BOUNDS_MS};

/// The numbers that the workers send to the control thread.
#[derive(Clone, Copy)]
pub(super) struct Reports<'a> {
    pub(super) rules: &'a RuleReport,
    pub(super) sites: &'a SiteReport,
    pub(super) origins: &'a OriginReport,
}

/// Returns all counters as text, including those of the store, of header rules, of sites and of
/// origins.
pub(super) fn prometheus(counters: &CounterFile, stats: &Stats, reports: Reports<'_>) -> String {
    let mut text = String::new();
    for (index, (def, value)) in counters.values(COUNTERS).enumerate() {
        match value {
            CounterValue::Number(value) if let Some(reason) = reason_at(index) => {
                write_reason(&mut text, reason, value);
            }
            CounterValue::Number(value) => {
                write_metric(&mut text, def.name, def.kind.name(), def.help, value);
            }
            CounterValue::Histogram(value) => {
                write_histogram(&mut text, def.name, def.help, &value);
            }
        }
    }
    for number in STORE_NUMBERS {
        let value = (number.read)(stats);
        write_metric(&mut text, number.name, number.kind, number.help, value);
    }
    write_rules(&mut text, reports.rules);
    write_sites(&mut text, reports.sites);
    write_origins(&mut text, reports.origins);
    text
}

/// Writes the counter of a reason. All reasons share one metric; a label tells them apart.
fn write_reason(text: &mut String, reason: Reason, value: u64) {
    if reason.code() == 0 {
        let help = "Answers with this `detail` in Cache-Status.";
        let _ = writeln!(
            text,
            "# HELP forebay_reasons_total {help}\n# TYPE forebay_reasons_total counter"
        );
    }
    let _ = writeln!(text, "forebay_reasons_total{{reason=\"{}\"}} {value}", reason.word());
}

/// Writes the counters of each rule; nothing if there are no rules.
fn write_rules(text: &mut String, report: &RuleReport) {
    for number in RULE_NUMBERS {
        if report.rules.is_empty() {
            break;
        }
        let Metric { name, kind, help, .. } = number;
        let _ = writeln!(text, "# HELP forebay_{name} {help}\n# TYPE forebay_{name} {kind}");
        for rule in &report.rules {
            let (file, line, hook) = (label(&rule.file), rule.line, rule.hook.name());
            let value = (number.read)(&rule.count);
            let _ = writeln!(
                text,
                "forebay_{name}{{file=\"{file}\",line=\"{line}\",hook=\"{hook}\"}} {value}"
            );
        }
    }
    if !report.counters.is_empty() {
        let help = "Times that header rules ran the operator `counter` with this name.";
        let name = RULE_COUNTER;
        let _ = writeln!(text, "# HELP forebay_{name} {help}\n# TYPE forebay_{name} counter");
        for (counter, value) in &report.counters {
            let _ = writeln!(text, "forebay_{name}{{name=\"{}\"}} {value}", label(counter));
        }
    }
}

/// Writes the metrics of each site.
fn write_sites(text: &mut String, report: &SiteReport) {
    for number in SITE_NUMBERS {
        let Metric { name, kind, help, .. } = number;
        let _ = writeln!(text, "# HELP forebay_{name} {help}\n# TYPE forebay_{name} {kind}");
        for line in &report.0 {
            let (site, value) = (label(&line.site), (number.read)(&line.count));
            let _ = writeln!(text, "forebay_{name}{{site=\"{site}\"}} {value}");
        }
    }
    let (name, help) = SITE_WAITS;
    let _ = writeln!(text, "# HELP forebay_{name} {help}\n# TYPE forebay_{name} histogram");
    for line in &report.0 {
        let (site, mut count) = (label(&line.site), 0);
        for (index, bucket) in line.count.waits.iter().enumerate() {
            count += bucket;
            let bound = WAIT_BOUNDS_MS.get(index).map_or("+Inf".to_owned(), u64::to_string);
            let _ =
                writeln!(text, "forebay_{name}_bucket{{site=\"{site}\",le=\"{bound}\"}} {count}");
        }
        let sum = line.count.wait_us / 1000;
        let _ = writeln!(text, "forebay_{name}_sum{{site=\"{site}\"}} {sum}");
        let _ = writeln!(text, "forebay_{name}_count{{site=\"{site}\"}} {count}");
    }
}

/// Writes the metrics of each origin of each site.
fn write_origins(text: &mut String, report: &OriginReport) {
    for number in ORIGIN_NUMBERS {
        let Metric { name, kind, help, .. } = number;
        let _ = writeln!(text, "# HELP forebay_{name} {help}\n# TYPE forebay_{name} {kind}");
        for line in &report.0 {
            let (site, origin) = (label(&line.site), label(&line.origin));
            let value = (number.read)(&line.count);
            let _ = write!(text, "forebay_{name}{{site=\"{site}\"");
            if let Some(route) = &line.route {
                let _ = write!(text, ",route=\"{}\"", label(route));
            }
            let _ = writeln!(text, ",origin=\"{origin}\"}} {value}");
        }
    }
}

/// Escapes the value of a label for Prometheus.
fn label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn write_metric(text: &mut String, name: &str, kind: &str, help: &str, value: u64) {
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "# HELP forebay_{name} {help}\n# TYPE forebay_{name} {kind}\nforebay_{name} {value}"
    );
}

/// Writes a histogram. Its buckets are cumulative in this format: each bucket includes all smaller
/// ones.
fn write_histogram(text: &mut String, name: &str, help: &str, value: &HistogramValue) {
    let _ = writeln!(text, "# HELP forebay_{name} {help}\n# TYPE forebay_{name} histogram");
    let mut count: u64 = 0;
    for bucket in &value.buckets {
        count += bucket.count;
        let bound = bucket.bound.map_or("+Inf".to_owned(), |bound| bound.to_string());
        let _ = writeln!(text, "forebay_{name}_bucket{{le=\"{bound}\"}} {count}");
    }
    // The total is the sum of the buckets, so it always equals the last cumulative bucket.
    let _ = writeln!(text, "forebay_{name}_sum {}\nforebay_{name}_count {count}", value.sum);
}

/// A metric that is read from the store, a header rule or an origin when a client asks for it.
pub(super) struct Metric<T> {
    pub(super) name: &'static str,
    kind: &'static str,
    pub(super) help: &'static str,
    pub(super) read: fn(&T) -> u64,
    #[cfg(test)]
    field: &'static str,
}

macro_rules! numbers {
    ($(#[$doc:meta])* $table:ident of $whose:ty:
        $( $kind:ident $name:literal $field:ident $help:literal; )*) => {
        $(#[$doc])*
        pub(super) const $table: &[Metric<$whose>] = &[$( Metric {
            name: $name,
            kind: stringify!($kind),
            help: $help,
            read: |whose| whose.$field,
            #[cfg(test)]
            field: stringify!($field),
        } ),*];
    };
}

numbers! {
    /// The metrics of a header rule, counted since the last reload.
    RULE_NUMBERS of RuleCount:
    counter "rule_runs_total" runs
        "Times that a header rule was evaluated.";
    counter "rule_matches_total" matches
        "Times that the rule's conditions matched.";
    counter "rule_bytes_total" bytes
        "Bytes that the rule wrote into heads.";
    counter "rule_failures_total" failures
        "Operators of the rule that failed because their result was too large or invalid.";
    counter "rule_timed_total" timed
        "Evaluations of the rule that were timed.";
    counter "rule_timed_ns_total" timed_ns
        "Duration of the timed evaluations, in nanoseconds.";
}

/// The name of the metric of the operator `counter`.
const RULE_COUNTER: &str = "rule_counter_total";

/// The name and the help text of the histogram of a site's waits.
const SITE_WAITS: (&str, &str) = (
    "site_wait_ms",
    "Time in milliseconds for which requests waited until their response began: for the origin, \
     another request's fetch, a password check or a purge. Hits do not wait.",
);

numbers! {
    /// The metrics of a site.
    SITE_NUMBERS of SiteCount:
    counter "site_requests_total" requests
        "Requests of the site.";
    counter "site_body_bytes_total" body_bytes
        "Bytes of response bodies that were sent to clients.";
    counter "site_hits_total" hits
        "Requests answered from the cache without a wait for the origin.";
    counter "site_forwarded_total" forwarded
        "Requests that the cache could not answer alone.";
    counter "site_bypasses_total" bypasses
        "Requests among the forwarded ones for which the cache is not used.";
    counter "site_collapsed_total" collapsed
        "Requests among the forwarded ones that shared another request's fetch.";
    counter "site_answers_2xx_total" answers_2xx
        "Responses with a status from 200 to 299.";
    counter "site_answers_3xx_total" answers_3xx
        "Responses with a status from 300 to 399.";
    counter "site_answers_4xx_total" answers_4xx
        "Responses with a status from 400 to 499.";
    counter "site_answers_5xx_total" answers_5xx
        "Responses with a status from 500 to 599.";
    counter "site_broken_total" broken
        "Requests whose client left, or whose response broke off.";
}

numbers! {
    /// The metrics of an origin of a site.
    ORIGIN_NUMBERS of OriginCount:
    counter "site_origin_requests_total" requests
        "Attempts to send a request of the site to the origin.";
    counter "site_origin_answers_total" answers
        "Answers of the origin, with any status.";
    counter "site_origin_answers_4xx_total" answers_4xx
        "Answers of the origin with a status from 400 to 499.";
    counter "site_origin_answers_5xx_total" answers_5xx
        "Answers of the origin with a status of 500 or more.";
    counter "site_origin_first_byte_us_total" first_byte_us
        "Sum of the microseconds from sending a request until the head of its answer arrived; \
         divide it by the number of answers to get the mean.";
    counter "site_origin_unreachable_total" unreachable
        "Attempts for which no connection could be opened.";
    counter "site_origin_tls_failed_total" tls_failed
        "Attempts for which the TLS handshake failed.";
    counter "site_origin_timed_out_total" timed_out
        "Attempts for which the origin did not answer in time.";
    counter "site_origin_bad_answers_total" bad_answers
        "Attempts for which the head of the answer was malformed or cut off.";
    counter "site_origin_ejections_total" ejections
        "Times that the origin failed and got no requests from a worker for a while.";
    gauge "site_origin_exchanges" exchanges
        "Exchanges with the origin that are in progress, for all sites together.";
    gauge "site_origin_ejected_workers" ejected
        "Workers that currently send no requests to the origin.";
}

numbers! {
    /// The metrics of the store, which are read on request.
    STORE_NUMBERS of Stats:
    gauge "cache_budget_bytes" budget_bytes
        "Memory budget of the cache: the sum of the free, live, dead, metadata, growing, pinned \
         and copied bytes below.";
    gauge "cache_free_bytes" free_bytes
        "Free segments, unfilled parts of other segments, and the unused parts of the memory \
         reserved for arriving responses and for copies.";
    gauge "cache_live_bytes" live_bytes
        "Stored responses that lookups can find, including their heads and keys.";
    gauge "cache_dead_bytes" dead_bytes
        "Replaced or removed responses, which take up room until their segment is reclaimed.";
    gauge "cache_metadata_bytes" metadata_bytes
        "Fixed tables of the cache, including the key index.";
    gauge "cache_order_bytes" order_bytes
        "Memory reserved for the key index (keys and tags in order), part of \
         `cache_metadata_bytes`.";
    gauge "cache_order_used_bytes" order_used_bytes
        "Used part of `cache_order_bytes`. Beyond 15/16 of it, sometimes from 3/4 on, responses \
         are evicted although there is memory: see `cache_record_bytes`.";
    gauge "cache_ordered_keys" ordered_keys
        "Keys in the key index: responses that a purge or list by host or prefix finds.";
    gauge "cache_ordered_tags" ordered_tags
        "Tags in the key index: one for each tag of each response.";
    gauge "cache_growing_bytes" growing_bytes
        "Responses that are still arriving.";
    gauge "cache_pinned_bytes" pinned_bytes
        "Segments that hold only bytes that are still being sent to clients.";
    gauge "cache_copied_bytes" copied_bytes
        "Copies of bytes that are still being sent to slow clients.";
    gauge "cache_segments" segment_count
        "Number of segments, the parts of the cache's memory. A segment is reclaimed and reused \
         only as a whole.";
    gauge "cache_segments_free" free_segment_count
        "Free segments.";
    gauge "cache_segment_bytes" segment_bytes
        "Size of a segment.";
    gauge "cache_index_places" index_word_count
        "Largest number of responses, or parts of long responses, that the index can hold.";
    gauge "cache_flights" flight_count
        "Fetches in progress whose response other requests can share.";
    counter "cache_inserted_total" inserted
        "Responses inserted into the cache.";
    counter "cache_evicted_total" evicted
        "Responses, or parts of long ones, evicted because memory was needed.";
    counter "cache_pushed_out_total" pushed_out
        "Responses, or parts of long ones, evicted because their index buckets were full: see \
         `cache_record_bytes`.";
    counter "cache_promoted_total" promoted
        "Responses, or parts of long ones, that eviction kept because they had been used.";
    counter "cache_ghost_hits_total" ghost_hits
        "Responses inserted again soon after their eviction.";
    counter "cache_segments_freed_total" segments_freed
        "Segments that were reclaimed.";
    counter "cache_declined_total" declined
        "Fetches whose response was not storable.";
    counter "cache_refused_large_total" refused_large
        "Bodies too large to store.";
    counter "cache_refused_no_room_total" refused_no_room
        "Times that there was no room for an arriving response.";
    counter "cache_not_stored_total" not_stored
        "Complete responses not stored because there was no room, or because of a purge.";
    counter "cache_outgrown_total" outgrown
        "Bodies that became too large to store while they arrived.";
    counter "cache_readers_cut_total" readers_cut
        "Clients cut off because they fell too far behind an arriving response.";
    counter "cache_copied_out_total" copied_out
        "Pieces of responses copied for slow clients, so that a segment could be reclaimed.";
    counter "cache_lent_lost_total" bodies_revoked
        "Pieces for slow clients that could not be copied for lack of memory; the connections of \
         these clients were reset.";
    counter "cache_segments_repaired_total" repaired
        "Segments checked after the process that was writing to them died.";
    counter "cache_dropped_damaged_total" dropped_damaged
        "Damaged responses removed.";
    counter "cache_order_refused_total" order_refused
        "Responses not stored because the key index was full or locked. If it rises, lower \
         `cache_record_bytes` or raise `cache_size`.";
    counter "cache_order_damaged_total" order_damaged
        "Responses not stored because the key index is damaged; it cannot be repaired. Stop the \
         server, move the file `store` out of `cache_dir` and start again.";
    counter "cache_order_tidied_total" order_tidied
        "Surplus entries swept out of the key index.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_the_store_is_shown_once() {
        let printed = format!("{:?}", Stats::default());
        let fields = printed.trim_start_matches("Stats {").split(',');
        let mut fields: Vec<_> = fields.filter_map(|field| field.split(':').next()).collect();
        fields.iter_mut().for_each(|field| *field = field.trim());
        fields.sort_unstable();
        let mut shown: Vec<_> = STORE_NUMBERS.iter().map(|number| number.field).collect();
        shown.sort_unstable();
        assert_eq!(shown, fields);
    }

    #[test]
    fn the_page_of_counters_has_the_numbers_of_the_store() {
        let page = include_str!("../../tests/docs/counters_store.md");
        let (_, table) = page.split_once("|---|---|---|\n").expect("there is a table");
        let row = |Metric { name, kind, help, .. }: &Metric<Stats>| {
            format!("| `{name}` | {kind} | {help} |\n")
        };
        assert_eq!(table, STORE_NUMBERS.iter().map(row).collect::<String>());
    }

    #[test]
    fn the_page_of_metrics_has_the_numbers_of_sites_origins_and_rules() {
        let page = include_str!("../../../docs/metrics.md");
        let quoted = page.split('`').skip(1).step_by(2);
        let is_name = |word: &&str| ["site_", "rule_"].iter().any(|it| word.starts_with(it));
        let mut named: Vec<_> = quoted.filter(is_name).collect();
        named.sort_unstable();
        named.dedup();
        let of_rules = RULE_NUMBERS.iter().map(|number| number.name);
        let of_origins = ORIGIN_NUMBERS.iter().map(|number| number.name);
        let of_sites = SITE_NUMBERS.iter().map(|number| number.name);
        let others = [SITE_WAITS.0, RULE_COUNTER];
        let mut known: Vec<_> = of_origins.chain(of_sites).chain(of_rules).chain(others).collect();
        known.sort_unstable();
        assert_eq!(named, known);
    }
}

//! Counters in the text format of Prometheus.

use std::fmt::Write;

use forebay_cache::Stats;
use forebay_shm::{CounterFile, CounterValue, HistogramValue};

use crate::counters::COUNTERS;
use crate::rules::{RuleCount, RuleReport};

/// All numbers, the store's included.
pub(super) fn prometheus(counters: &CounterFile, stats: &Stats, rules: &RuleReport) -> String {
    let mut text = String::new();
    for (def, value) in counters.values(COUNTERS) {
        match value {
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
    write_rules(&mut text, rules);
    text
}

/// What each rule has done; nothing without rules.
fn write_rules(text: &mut String, report: &RuleReport) {
    for number in RULE_NUMBERS {
        if report.rules.is_empty() {
            break;
        }
        let Number { name, kind, help, .. } = number;
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
        let help = "Times that the operator counter of header rules has run.";
        let name = "rule_counter_total";
        let _ = writeln!(text, "# HELP forebay_{name} {help}\n# TYPE forebay_{name} counter");
        for (counter, value) in &report.counters {
            let _ = writeln!(text, "forebay_{name}{{name=\"{}\"}} {value}", label(counter));
        }
    }
}

/// The value of a label, escaped as the format wants it.
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

/// The format wants in each bucket what is in the ones before too.
fn write_histogram(text: &mut String, name: &str, help: &str, value: &HistogramValue) {
    let _ = writeln!(text, "# HELP forebay_{name} {help}\n# TYPE forebay_{name} histogram");
    let mut count: u64 = 0;
    for bucket in &value.buckets {
        count += bucket.count;
        let bound = bucket.bound.map_or("+Inf".to_owned(), |bound| bound.to_string());
        let _ = writeln!(text, "forebay_{name}_bucket{{le=\"{bound}\"}} {count}");
    }
    // Of the same look, so that it is the last bucket.
    let _ = writeln!(text, "forebay_{name}_sum {}\nforebay_{name}_count {count}", value.sum);
}

/// A number of something that is asked for it: the store, a header rule.
pub(super) struct Number<T> {
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
        pub(super) const $table: &[Number<$whose>] = &[$( Number {
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
    /// The table of the rules' numbers, kept for each since the last reload.
    RULE_NUMBERS of RuleCount:
    counter "rule_runs_total" runs
        "Times that a header rule was come to.";
    counter "rule_matches_total" matches
        "Times that its conditions held.";
    counter "rule_bytes_total" bytes
        "Bytes that it has put into heads.";
    counter "rule_failures_total" failures
        "Operators of it that could not do what they should: too large, or not valid.";
    counter "rule_timed_total" timed
        "Runs of it of which the time was taken.";
    counter "rule_timed_ns_total" timed_ns
        "Time of these runs, in nanoseconds.";
}

numbers! {
    /// The table of the store's numbers, read when somebody asks.
    STORE_NUMBERS of Stats:
    gauge "cache_budget_bytes" budget_bytes
        "The limit for all that the cache holds: the sum of the seven numbers below.";
    gauge "cache_free_bytes" free_bytes
        "Free segments, what is not filled of others, and what is left of the shares of \
         `cache_growing_bytes` and `cache_copied_bytes`.";
    gauge "cache_live_bytes" live_bytes
        "Stored responses that can be found, heads and keys included.";
    gauge "cache_dead_bytes" dead_bytes
        "What was replaced or dropped and takes up room until its segment is freed.";
    gauge "cache_metadata_bytes" metadata_bytes
        "Fixed tables of the cache, the order of keys and tags among them.";
    gauge "cache_order_bytes" order_bytes
        "What is set aside for the order of keys and tags, a part of `cache_metadata_bytes`.";
    gauge "cache_order_used_bytes" order_used_bytes
        "What of it is in use. Beyond 15/16, sometimes from 3/4 on, responses leave although there \
         is memory: see `cache_record_bytes`.";
    gauge "cache_ordered_keys" ordered_keys
        "Entries in the order of keys: responses that a purge or list by host or prefix finds.";
    gauge "cache_ordered_tags" ordered_tags
        "Entries in the order of tags: one for each tag of each response.";
    gauge "cache_growing_bytes" growing_bytes
        "Responses that are arriving.";
    gauge "cache_pinned_bytes" pinned_bytes
        "Segments that are empty but for what clients have still to get from them.";
    gauge "cache_copied_bytes" copied_bytes
        "Copies of what slow clients have still to get.";
    gauge "cache_segments" segment_count
        "Segments, which are filled, freed and used again whole.";
    gauge "cache_segments_free" free_segment_count
        "Segments that are free.";
    gauge "cache_segment_bytes" segment_bytes
        "Size of a segment.";
    gauge "cache_index_places" index_word_count
        "Responses, or parts of long ones, that can be found at most.";
    gauge "cache_flights" flight_count
        "Fetches that can be followed.";
    counter "cache_inserted_total" inserted
        "Responses put into the cache.";
    counter "cache_evicted_total" evicted
        "Responses, or parts of long ones, that left for room.";
    counter "cache_pushed_out_total" pushed_out
        "Those that left because their places in the index were full: see `cache_record_bytes`.";
    counter "cache_promoted_total" promoted
        "Those that were moved and stayed because they had been used.";
    counter "cache_ghost_hits_total" ghost_hits
        "Responses that came back soon.";
    counter "cache_segments_freed_total" segments_freed
        "Segments that were freed.";
    counter "cache_declined_total" declined
        "Fetches found not storable.";
    counter "cache_refused_large_total" refused_large
        "Bodies too large to store.";
    counter "cache_refused_no_room_total" refused_no_room
        "Times without room for a response that arrives.";
    counter "cache_not_stored_total" not_stored
        "Whole responses not stored for want of room, or because of a purge.";
    counter "cache_outgrown_total" outgrown
        "Bodies that grew too large.";
    counter "cache_readers_cut_total" readers_cut
        "Readers that fell behind.";
    counter "cache_copied_out_total" copied_out
        "Pieces of responses copied for slow clients because their segments were wanted.";
    counter "cache_lent_lost_total" bodies_revoked
        "Pieces without room for a copy; their connections were reset.";
    counter "cache_segments_repaired_total" repaired
        "Segments checked after the death of whoever was writing to them.";
    counter "cache_dropped_damaged_total" dropped_damaged
        "Responses dropped because they were damaged.";
    counter "cache_order_refused_total" order_refused
        "Responses not stored since the order of keys and tags had no room or could not be \
         changed. If it rises: a lower `cache_record_bytes` or a larger `cache_size`.";
    counter "cache_order_damaged_total" order_damaged
        "Of these, those that met damage in the order, which does not mend by itself. Stop the \
         server, move the file `store` out of `cache_dir` and start again.";
    counter "cache_order_tidied_total" order_tidied
        "Entries of the order that named nothing any more and were swept out.";
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
        let row = |Number { name, kind, help, .. }: &Number<Stats>| {
            format!("| `{name}` | {kind} | {help} |\n")
        };
        assert_eq!(table, STORE_NUMBERS.iter().map(row).collect::<String>());
    }
}

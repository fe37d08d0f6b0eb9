//! `forebay cache stats`: shows how the memory of a cache is used.

use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;

use clap::ArgMatches;
use forebay_cache::{ListedRecord, RecordKind, RegionStats, StoreReader};
use forebay_shm::ParticipantStatus;
use serde_json::{Map, Value, json};

use super::name_of;
use crate::commands::{breakdown, is_set};
use crate::stdout::outln;

const KINDS: [RecordKind; 4] =
    [RecordKind::Whole, RecordKind::LongHead, RecordKind::Fragment, RecordKind::Base];

/// Number of values of a record's use count, 0 to 3.
const USES: usize = 4;

/// The totals of the records of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct KindTotals {
    count: u64,
    bytes: u64,
    by_uses: [u64; USES],
}

impl KindTotals {
    fn add(&mut self, record: &ListedRecord<'_>) {
        self.count += 1;
        self.bytes += record.record_bytes;
        self.by_uses[usize::from(record.uses).min(USES - 1)] += 1;
    }
}

pub(super) fn run(reader: &StoreReader, file: &Path, args: &ArgMatches) -> ExitCode {
    let mut tallies = [KindTotals::default(); KINDS.len()];
    reader.list(|record| {
        if let Some(at) = KINDS.iter().position(|kind| *kind == record.kind) {
            tallies[at].add(record);
        }
        ControlFlow::Continue(())
    });
    let stats = reader.stats();
    match is_set(args, "json") {
        true => outln!("{}", stats_json(&stats, &tallies)),
        false => print(reader, (&stats, &tallies), file),
    }
    ExitCode::SUCCESS
}

fn shares_of(stats: &RegionStats) -> [(&'static str, u64); 5] {
    [
        ("live", stats.live_bytes),
        ("dead", stats.dead_bytes),
        ("pinned", stats.pinned_bytes),
        ("metadata", stats.metadata_bytes),
        ("free", stats.free_bytes),
    ]
}

fn segments_of(stats: &RegionStats) -> [(&'static str, u64); 6] {
    let counts = stats.segments;
    [
        ("free", counts.free),
        ("open", counts.open),
        ("sealed", counts.sealed),
        ("draining", counts.draining),
        ("suspect", counts.suspect),
        ("unknown", counts.unknown),
    ]
}

/// Returns a text about the number of threads that are attached to the cache, in all its servers.
fn participants(reader: &StoreReader) -> String {
    let all = reader.participants();
    let is_dead = |status| matches!(status, ParticipantStatus::Dead | ParticipantStatus::Sweeping);
    let dead_count = all.iter().filter(|listed| is_dead(listed.status)).count();
    match dead_count {
        0 => format!("{} threads attached", all.len()),
        _ => format!("{} threads attached, {dead_count} dead", all.len() - dead_count),
    }
}

fn print(
    reader: &StoreReader,
    (stats, tallies): (&RegionStats, &[KindTotals; KINDS.len()]),
    file: &Path,
) {
    outln!("{}", file.display());
    outln!("{}; {} purges so far\n", participants(reader), stats.purge_count);
    breakdown::print("region", stats.region_bytes, &shares_of(stats));
    let segments = segments_of(stats).map(|(name, count)| format!("{count} {name}")).join(", ");
    outln!("\nsegments of {} bytes: {segments}", stats.segment_bytes);
    outln!("\n{:<9} {:>10} {:>15}  recent uses: 0, 1, 2, 3", "records", "count", "bytes");
    for (kind, tally) in KINDS.iter().zip(tallies) {
        let [none, one, two, more] = tally.by_uses;
        let (name, count, bytes) = (name_of(*kind), tally.count, tally.bytes);
        outln!("{name:<9} {count:>10} {bytes:>15}  {none}, {one}, {two}, {more}");
    }
    let count: u64 = tallies.iter().map(|tally| tally.count).sum();
    let bytes: u64 = tallies.iter().map(|tally| tally.bytes).sum();
    outln!("{:<9} {count:>10} {bytes:>15}  of {} index slots", "sum", stats.index_word_count);
}

fn stats_json(stats: &RegionStats, tallies: &[KindTotals; KINDS.len()]) -> Value {
    let mut values = Map::new();
    values.insert("region_bytes".to_owned(), json!(stats.region_bytes));
    for (name, bytes) in shares_of(stats) {
        values.insert(format!("{name}_bytes"), json!(bytes));
    }
    let segments = segments_of(stats).map(|(name, count)| (name.to_owned(), json!(count)));
    let records = KINDS.iter().zip(tallies).map(|(kind, tally)| {
        let KindTotals { count, bytes, by_uses } = tally;
        (name_of(*kind).to_owned(), json!({ "count": count, "bytes": bytes, "by_uses": by_uses }))
    });
    let others = [
        ("segment_bytes", json!(stats.segment_bytes)),
        ("segments", Value::Object(segments.into_iter().collect())),
        ("records", Value::Object(records.collect())),
        ("index_slots", json!(stats.index_word_count)),
        ("sequence", json!(stats.sequence)),
        ("purges", json!(stats.purge_count)),
        ("participants", json!(stats.participant_count)),
    ];
    values.extend(others.into_iter().map(|(name, value)| (name.to_owned(), value)));
    Value::Object(values)
}

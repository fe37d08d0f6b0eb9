//! A report as one JSON object. Times are nanoseconds.

use std::path::Path;

use forebay_server::clock::unix_ms;
use forebay_shm::is_alive;
use forebay_sync::profile::{BUCKET_COUNT, PairTotals, Reading, Totals, bucket_end_ns};
use serde_json::{Map, Value, json};

use super::columns::{COLUMNS, Sort, is_time, numbers};
use super::summary::{Happened, Place, Room, Summary, of_thread};
use super::table::sorted;
use super::{changed, matrix, ways};

pub(super) fn report(path: &Path, reading: &Reading, summary: &Summary) -> Value {
    let places = sorted(summary, Sort::Lost).into_iter();
    let pairs = matrix::sorted(summary).into_iter().map(|(pair, totals)| {
        let mut object = pair_numbers(totals);
        object["holder"] = place(&pair.holder);
        object["waiter"] = place(&pair.waiter);
        object
    });
    let is_running = is_alive(&reading.about);
    let threads = reading.threads.iter().map(|thread| {
        let places = of_thread(reading, thread);
        let places = places
            .iter()
            .map(|(at, totals)| json!({ "place": place(at), "numbers": thread_numbers(totals) }));
        json!({
            "tid": thread.tid,
            "name": thread.name,
            "is_alive": is_running && thread.is_taken,
            "threads": thread.owner_count,
            "places": places.collect::<Vec<_>>(),
        })
    });
    json!({
        "file": path.display().to_string(),
        "pid": reading.about.pid,
        "program": reading.about.program,
        "is_alive": is_running,
        "is_on": reading.control.is_on,
        "skip": reading.control.skip,
        "stack_sample": reading.control.stack_sample,
        "since_unix_ms": reading.control.reset_unix_ns / 1_000_000,
        "read_unix_ms": unix_ms(),
        "waiting_threads": reading.now.iter().filter(|thread| thread.awaited.is_some()).count(),
        "changed_files": changed::as_json(reading),
        "room": room(&summary.room),
        "places": places.map(|(at, happened)| entry(at, happened)).collect::<Vec<_>>(),
        "pairs": pairs.collect::<Vec<_>>(),
        "stacks": stacks(reading),
        "threads": threads.collect::<Vec<_>>(),
    })
}

/// What was sampled, by the way that led to a place and who held the lock.
fn stacks(reading: &Reading) -> Value {
    let ways = ways::of(reading, reading.threads.iter());
    let each = ways.iter().flat_map(|(pair, by_way)| {
        by_way.iter().map(move |(way, totals)| {
            let mut object = pair_numbers(totals);
            object["callers"] = json!(way);
            object["holder"] = place(&pair.holder);
            object["waiter"] = place(&pair.waiter);
            object
        })
    });
    each.collect()
}

pub(super) fn place(place: &Place) -> Value {
    json!({ "name": place.name(), "lock": place.lock, "stack": place.stack })
}

/// A column's name with its unit.
pub(super) fn key(column: usize) -> String {
    let name = COLUMNS.get(column).copied().unwrap_or_default();
    if is_time(column) { format!("{name}_ns") } else { name.to_owned() }
}

fn entry(at: &Place, happened: &Happened) -> Value {
    let numbers = numbers(happened).into_iter().enumerate();
    let numbers: Map<_, _> = numbers.map(|(column, n)| (key(column), json!(n))).collect();
    let totals = &happened.totals;
    json!({
        "place": place(at),
        "numbers": numbers,
        "shared_count": totals.shared_count,
        "owner_died_count": totals.owner_died_count,
        "timed_out_count": totals.timed_out_count,
        "try_delay_max_ns": totals.try_delay_ns_max,
        "try_delay_count": totals.try_delay_count,
        "asleep_max_ns": totals.asleep_ns_max,
        "asleep_count": totals.asleep_count,
        "holds": buckets(&totals.holds),
        "waits": buckets(&totals.waits),
    })
}

fn buckets(buckets: &[u64; BUCKET_COUNT]) -> Value {
    let with_any = buckets.iter().enumerate().filter(|(_, count)| **count > 0);
    let bucket = |(bucket, count)| json!({ "below_ns": bucket_end_ns(bucket), "count": count });
    with_any.map(bucket).collect()
}

fn pair_numbers(totals: &PairTotals) -> Value {
    json!({
        "wait_count": totals.wait_count,
        "wait_total_ns": totals.wait_ns,
        "wait_max_ns": totals.wait_ns_max,
        "try_failed": totals.try_failed_count,
        "try_delay_ns": totals.try_delay_ns,
    })
}

fn thread_numbers(totals: &Totals) -> Value {
    json!({
        "count": totals.count,
        "total_ns": totals.hold_ns,
        "wait_total_ns": totals.wait_ns,
        "cnt_lock": totals.contended_count,
        "try_failed": totals.try_failed_count.saturating_add(totals.timed_out_count),
        "try_delay_ns": totals.try_delay_ns,
        "asleep_ns": totals.asleep_ns,
        "holds": buckets(&totals.holds),
        "waits": buckets(&totals.waits),
    })
}

fn room(room: &Room) -> Value {
    let rejected = room.rejected.iter().map(|(what, n)| ((*what).to_owned(), json!(n)));
    json!({
        "records": room.records,
        "maximum": room.maximum,
        "rejected": rejected.collect::<Map<_, _>>(),
        "collisions": room.collisions,
        "skipped": room.skipped,
        "samples": room.samples,
    })
}

//! Prints a report as one JSON object, with times in nanoseconds.

use std::cmp::Reverse;
use std::path::Path;
use std::rc::Rc;

use forebay_server::clock::unix_ms;
use forebay_shm::is_alive;
use forebay_sync::profile::{BUCKET_COUNT, PairTotals, SiteTotals, bucket_end_ns};
use serde_json::{Map, Value, json};

use super::call_stacks::{self, CallStack, SampledStacks};
use super::columns::{COLUMNS, SortOrder, is_time, numbers};
use super::names::SiteNames;
use super::summary::{LockPair, LockSite, SiteSummary, Summary, TableUsage};
use super::table::sorted;
use super::{matrix, stale_binaries, threads};

/// Size in bytes up to which entries are added to a list. Further entries are only counted.
const LIST_BYTES_MAX: usize = 32 << 20;

/// The order and the length of the lists.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReportOptions {
    /// The order of call sites.
    pub(super) sort: SortOrder,
    /// Largest number of entries in each list.
    pub(super) lines_max: usize,
}

pub(super) fn report(
    path: &Path,
    names: &mut SiteNames<'_>,
    summary: &Summary,
    form: ReportOptions,
) -> Value {
    let reading = names.reading;
    let is_running = is_alive(&reading.about);
    let [mut sites, mut pairs, mut stacks, mut of_threads] = [BoundedList::new(form.lines_max); 4];
    let sites_listed =
        sites.of(sorted(summary, form.sort), |(at, site_summary)| entry(at, site_summary));
    let pairs_listed = pairs.of(matrix::sorted(summary), |(pair, totals)| of_pair(pair, totals));
    let samples = call_stacks::of(names, &reading.threads);
    let stacks_listed = stacks.of(costly_first(&samples), |(pair, callers, totals)| {
        let mut object = of_pair(pair, totals);
        object["callers"] = json!(texts(callers));
        object
    });
    let threads = threads::sorted(reading, summary, form.sort);
    let threads = threads.into_iter().map(|(thread, sites)| {
        json!({
            "tid": thread.tid,
            "name": thread.name,
            "is_alive": is_running && thread.is_taken,
            "threads": thread.owner_count,
            "sites": of_threads.of(sites, |(at, totals)| {
                json!({ "site": site(at), "numbers": thread_numbers(totals) })
            }),
        })
    });
    let threads: Vec<_> = threads.collect();
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
        "changed_files": stale_binaries::as_json(reading),
        "room": room(&summary.room),
        "sites": sites_listed,
        "pairs": pairs_listed,
        "stacks": stacks_listed,
        "threads": threads,
        "left_out": {
            "sites": sites.left_out,
            "pairs": pairs.left_out,
            "stacks": stacks.left_out,
            "thread_sites": of_threads.left_out,
        },
    })
}

/// A list with limited length and size.
#[derive(Clone, Copy, Debug)]
pub(super) struct BoundedList {
    lines_max: usize,
    room: usize,
    /// Number of entries beyond the limit.
    pub(super) left_out: u64,
}

impl BoundedList {
    pub(super) fn new(lines_max: usize) -> BoundedList {
        BoundedList { lines_max, room: LIST_BYTES_MAX, left_out: 0 }
    }

    pub(super) fn of<T>(
        &mut self,
        all: impl IntoIterator<Item = T>,
        entry: impl Fn(T) -> Value,
    ) -> Vec<Value> {
        let mut entries = Vec::new();
        for one in all {
            if self.room == 0 || entries.len() >= self.lines_max {
                self.left_out += 1;
                continue;
            }
            let entry = entry(one);
            self.room = self.room.saturating_sub(entry.to_string().len());
            entries.push(entry);
        }
        entries
    }
}

/// Returns the sampled stacks with their pairs of call sites, the most costly first.
fn costly_first(samples: &SampledStacks) -> Vec<(&LockPair, &CallStack, &PairTotals)> {
    let each = samples.iter().flat_map(|(pair, by_stack)| {
        by_stack.iter().map(move |(callers, totals)| (pair, callers, totals))
    });
    let mut samples: Vec<_> = each.collect();
    samples.sort_by_key(|(_, _, totals)| Reverse(matrix::weight(totals)));
    samples
}

fn of_pair(pair: &LockPair, totals: &PairTotals) -> Value {
    let mut object = pair_numbers(totals);
    object["holder"] = site(&pair.holder);
    object["waiter"] = site(&pair.waiter);
    object
}

pub(super) fn site(site: &LockSite) -> Value {
    json!({ "name": site.name(), "lock": site.lock, "stack": texts(&site.stack) })
}

fn texts(texts: &[Rc<str>]) -> Vec<&str> {
    texts.iter().map(|text| &**text).collect()
}

/// Returns the name of a column with its unit.
pub(super) fn key(column: usize) -> String {
    let name = COLUMNS.get(column).copied().unwrap_or_default();
    if is_time(column) { format!("{name}_ns") } else { name.to_owned() }
}

fn entry(at: &LockSite, site_summary: &SiteSummary) -> Value {
    let numbers = numbers(site_summary).into_iter().enumerate();
    let numbers: Map<_, _> = numbers.map(|(column, n)| (key(column), json!(n))).collect();
    let totals = &site_summary.totals;
    json!({
        "site": site(at),
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

fn thread_numbers(totals: &SiteTotals) -> Value {
    json!({
        "count": totals.count,
        "total_ns": totals.hold_ns,
        "wait_total_ns": totals.wait_ns,
        "cnt_lock": totals.contended_count,
        "try_failed": totals.failed_count(),
        "try_delay_ns": totals.try_delay_ns,
        "asleep_ns": totals.asleep_ns,
        "holds": buckets(&totals.holds),
        "waits": buckets(&totals.waits),
    })
}

fn room(room: &TableUsage) -> Value {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_beyond_the_limit_of_a_list_are_counted() {
        let mut list = BoundedList { room: 100, ..BoundedList::new(usize::MAX) };
        let long = |_| json!("x".repeat(38));
        assert_eq!((list.of(0..2, long).len(), list.left_out), (2, 0));
        assert_eq!((list.of(0..5, long).len(), list.left_out), (1, 4));
        let mut list = BoundedList::new(2);
        assert_eq!((list.of(0..5, long).len(), list.left_out), (2, 3));
        assert_eq!((list.of(0..1, long).len(), list.left_out), (1, 3));
    }
}

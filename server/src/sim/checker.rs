//! Checks of the server's state: its memory during a run, and its workers and store at rest.

use std::rc::Rc;
use std::time::Duration;

use forebay_cache::{CheckDepth, FindingSeverity, Store, StoreConfig};
use forebay_shm::CounterFile;
use tokio::time::sleep;

use super::attack::CONNECTIONS_MAX;
use super::run::Run;
use crate::counters::Counter;
use crate::limits::{ORIGIN_BUFFER_BYTES_MAX, STREAM_HEAD_BYTES_MAX, STREAM_RESPONSE_BYTES_SHARE};
use crate::worker::Worker;

/// The time between two samples of the memory in use.
const SAMPLE_MS: u64 = 50;

/// The number of handles to a worker at rest. The simulation and the worker's command loop have one
/// handle each. The worker's other four loops (making room in the store, sweeping, flushing the
/// access log, accepting) have two handles each.
const HANDLES_AT_REST: usize = 2 + 2 * 4;

/// A worker's budget for output that its clients have not read yet.
pub(super) const OUTPUT_BYTES: u64 = 1 << 20;

/// The most output that a connection or a stream queues in excess of this budget: one response,
/// usually a short one.
const OUTPUT_BEYOND_BYTES: u64 = 8 << 10;

/// The most output of an HTTP/2 connection in excess of this budget: whole responses, and a write
/// with a DATA frame more than it should have.
const HTTP2_BEYOND_BYTES: u64 = 3 * STREAM_RESPONSE_BYTES_SHARE as u64 + OUTPUT_BEYOND_BYTES;

/// The most output of a stream in excess of this budget.
const STREAM_BEYOND_BYTES: u64 = STREAM_RESPONSE_BYTES_SHARE as u64 + OUTPUT_BEYOND_BYTES;

/// The largest piece by which a stream exceeds the budget.
const STEP_BYTES: u64 = STREAM_HEAD_BYTES_MAX as u64;

/// The budgets of a server's memory.
pub(super) struct MemoryBudgets {
    pub(super) store: StoreConfig,
    pub(super) counters: Rc<CounterFile>,
}

/// Checks the memory of the server periodically, until the task is aborted.
pub(super) async fn watch_memory(run: Rc<Run>, store: Store, budgets: MemoryBudgets) {
    loop {
        check_memory(&run, &store, &budgets.store);
        check_output(&run, &budgets.counters);
        run.watch_retries();
        sleep(Duration::from_millis(SAMPLE_MS)).await;
    }
}

/// Checks that the parts of the store stay within their shares and add up to the budget.
fn check_memory(run: &Run, store: &Store, config: &StoreConfig) {
    let stats = store.stats();
    let growing_is_over = stats.growing_bytes > config.growing_bytes_max();
    let copied_is_over = stats.copied_bytes > config.copied_out_bytes_max();
    if growing_is_over || copied_is_over || stats.sum_bytes() != stats.budget_bytes {
        run.fail(format!("the store exceeds its budget: {stats:?}"));
    }
}

/// Checks that the output that clients have not read yet stays within the budget of each worker. A
/// response that is not stored may exceed it by one piece while it holds its origin connection.
fn check_output(run: &Run, counters: &CounterFile) {
    for slot in 0..counters.slot_count() {
        // There are at most as many connections and streams of HTTP/2 as there ever were.
        let most = |counter: Counter, bytes: u64| {
            counters.slot_value(slot, counter.index()).min(CONNECTIONS_MAX) * bytes
        };
        let of_http2 = most(Counter::Http2Connections, HTTP2_BEYOND_BYTES)
            + most(Counter::Http2Requests, STREAM_BEYOND_BYTES);
        let of_clients =
            OUTPUT_BYTES + STEP_BYTES + CONNECTIONS_MAX * OUTPUT_BEYOND_BYTES + of_http2;
        let streams = counters.slot_value(slot, Counter::OriginConnectionsOpen.index());
        let bytes = counters.slot_value(slot, Counter::OutputWaiting.index());
        if bytes > of_clients + streams * ORIGIN_BUFFER_BYTES_MAX as u64 {
            run.fail(format!("a worker has queued {bytes} bytes for clients, more than it may"));
        }
    }
}

/// Checks that a worker has no connection, no exchange with the origin and no task of a request.
pub(super) fn check_worker_at_rest(run: &Run, index: usize, worker: &Rc<Worker>) {
    let left = [
        ("connections", worker.registry.count()),
        ("requests to the origin", worker.origins.exchange_count()),
        ("connections to the origin", worker.origins.open_count()),
        ("tasks", Rc::strong_count(worker).saturating_sub(HANDLES_AT_REST)),
    ];
    for (name, count) in left {
        if count > 0 {
            run.fail(format!("worker {index} still has {count} {name} at the end"));
        }
    }
}

/// Checks that no response is arriving in the store, and that no stored response is copied out or
/// pinned.
pub(super) fn check_store_at_rest(run: &Run, store: &Store) {
    let stats = store.stats();
    if stats.growing_bytes != 0 || stats.copied_bytes != 0 || stats.flight_count != 0 {
        run.fail(format!("a response is still arriving at the end: {stats:?}"));
    }
    if store.pin_count() != 0 {
        run.fail(format!("{} pins are left at the end", store.pin_count()));
    }
}

/// Checks that the records and the tables of the store are sound.
pub(super) fn check_soundness(run: &Run, store: &Store) {
    match store.check(CheckDepth::Checksums, |_| ()) {
        Ok(report) => {
            let wrong = |severity| severity != FindingSeverity::Note;
            if report.findings.iter().any(|finding| wrong(finding.severity())) {
                run.fail(format!("the store is not sound: {report}"));
            }
        }
        Err(error) => run.fail(format!("the store cannot be checked: {error:?}")),
    }
}

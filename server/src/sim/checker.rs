//! Checks of the server's state: of its memory while a run goes on, and of everything at rest.

use std::rc::Rc;
use std::time::Duration;

use forebay_cache::{CheckDepth, FindingSeverity, Store, StoreConfig};
use tokio::time::sleep;

use super::run::Run;
use crate::worker::Worker;

/// Time between two samples of the store's sums.
const SAMPLE_MS: u64 = 50;

/// Handles on a worker at rest: the simulation's, that of its loop of commands, and two for each of
/// its other loops: room in the store, sweeps, the access log, accepting.
const HANDLES_AT_REST: usize = 2 + 2 * 4;

/// Samples the sums of the store for as long as the run lasts.
pub(super) async fn watch_memory(run: Rc<Run>, store: Store, config: StoreConfig) {
    loop {
        check_memory(&run, &store, &config);
        sleep(Duration::from_millis(SAMPLE_MS)).await;
    }
}

/// The parts of the store stay within their shares, and are the budget together.
fn check_memory(run: &Run, store: &Store, config: &StoreConfig) {
    let stats = store.stats();
    let growing_is_over = stats.growing_bytes > config.growing_bytes_max();
    let copied_is_over = stats.copied_bytes > config.copied_out_bytes_max();
    if growing_is_over || copied_is_over || stats.sum_bytes() != stats.budget_bytes {
        run.fail(format!("the store is not within its budget: {stats:?}"));
    }
}

/// Nothing of a request is left in a worker.
pub(super) fn check_worker_at_rest(run: &Run, index: usize, worker: &Rc<Worker>) {
    let left = [
        ("connections", worker.registry.count()),
        ("requests to the origin", worker.origins.exchange_count()),
        ("connections to the origin", worker.origins.open_count()),
        ("tasks", Rc::strong_count(worker).saturating_sub(HANDLES_AT_REST)),
    ];
    for (name, count) in left {
        if count > 0 {
            run.fail(format!("worker {index} has {count} {name} at the end"));
        }
    }
}

/// Nothing of a request is left in the store.
pub(super) fn check_store_at_rest(run: &Run, store: &Store) {
    let stats = store.stats();
    if stats.growing_bytes != 0 || stats.copied_bytes != 0 || stats.flight_count != 0 {
        run.fail(format!("something is still arriving at the end: {stats:?}"));
    }
    if store.pin_count() != 0 {
        run.fail(format!("{} pins are left", store.pin_count()));
    }
}

/// The records and tables are sound.
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

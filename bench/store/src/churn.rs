//! Measures the cost of storing when the store is full, so that each record evicts others.

use forebay_cache::{Store, StoreConfig};

use crate::caches::put;
use crate::time::Spent;

/// How many times the budget is written.
const TIMES: u64 = 4;

/// The approximate number of bytes that a record of this benchmark takes.
const RECORD_BYTES: u64 = 192;

/// The time of the benchmark, in Unix seconds. No record is stale at this time.
const NOW: u64 = 2;

/// Prints the cost of storing a record, and the longest time of one call.
pub(crate) fn print(mib: u64, worker_counts: &[u32]) {
    println!("| {mib} MiB, full; workers | ns a record, processor time | longest turn, µs |");
    println!("|---|--:|--:|");
    for worker_count in worker_counts {
        let (ns, longest_us) = measure(mib << 20, *worker_count);
        println!("| {worker_count} | {ns:.0} | {longest_us:.0} |");
    }
}

/// Returns the nanoseconds for storing a record, and the microseconds of the longest call.
fn measure(budget_bytes: u64, worker_count: u32) -> (f64, f64) {
    let mut config = StoreConfig::with_budget(budget_bytes);
    config.worker_count = worker_count;
    config.record_bytes_expected = 256;
    let store = Store::open(config).expect("the budget suffices");
    let worker = store.join().expect("the first");
    let mut next = 0_u64;
    let mut store_one = || {
        put(&worker, format!("main\0http\0org.example.www\0/objects/{next:020}").as_bytes());
        next += 1;
    };
    let turn = || _ = worker.turn(NOW, |_| {});
    let records = budget_bytes / RECORD_BYTES;
    let mut write = |times: u64| {
        for _ in 0..times * records {
            store_one();
            turn();
        }
    };
    write(1);
    let spent = Spent::by(|| write(TIMES));
    // The two are measured separately, since reading a clock costs as much as storing a record.
    let mut longest_ns = 0.0_f64;
    for _ in 0..records {
        store_one();
        longest_ns = longest_ns.max(Spent::by(turn).cpu_ns);
    }
    (spent.cpu_ns / (TIMES * records) as f64, longest_ns / 1000.0)
}

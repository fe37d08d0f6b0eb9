//! The lookup of an origin's address: one read of a table of names, as for every new connection to
//! an origin. The table is measured behind several locks, and compared with the system's resolver,
//! which it replaces.
//!
//! In `alone`, no other thread uses the table. In `beside`, threads on all other processors read it
//! all the time, so that the cache line of the lock word moves between processors if readers write
//! it. `cargo bench -p forebay-micro --bench hosts`.
#![allow(missing_docs, reason = "criterion's macros make functions without documentation")]

use std::collections::HashMap;
use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use forebay_sync::{BravoRwLock, LockClass, RwLock};

/// The server's table, without the times of resolution.
type Table = HashMap<Box<str>, Vec<SocketAddr>>;

const NAMES: usize = 100;
const ADDRESSES: usize = 2;

fn benches(criterion: &mut Criterion) {
    let bravo = BravoRwLock::new(LockClass::Test, table());
    let plain: RwLock<_> = RwLock::new(LockClass::Test, table());
    let names: Vec<String> = (0..NAMES).map(name).collect();
    reads(criterion, "bravo", &names, &|name| found(&bravo.read(), name));
    reads(criterion, "parking_lot", &names, &|name| found(&plain.read(), name));
    system(criterion);
}

/// Measures one kind of lock, without and with other threads.
fn reads(
    criterion: &mut Criterion,
    lock: &str,
    names: &[String],
    read: &(dyn Fn(&str) -> Vec<SocketAddr> + Sync),
) {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    for (load, others) in [("alone", 0), ("beside", processors - 1)] {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..others {
                scope.spawn(|| read_until(&is_over, names, read));
            }
            let mut group = criterion.benchmark_group(format!("hosts/{load}"));
            group.bench_function(BenchmarkId::from_parameter(lock), |bencher| {
                let mut turn = 0;
                bencher.iter(|| {
                    turn = (turn + 1) % names.len();
                    read(black_box(&names[turn]))
                });
            });
            group.finish();
            is_over.store(true, Relaxed);
        });
    }
}

fn read_until(
    is_over: &AtomicBool,
    names: &[String],
    read: &(dyn Fn(&str) -> Vec<SocketAddr> + Sync),
) {
    while !is_over.load(Relaxed) {
        for name in names {
            black_box(read(name));
        }
    }
}

/// Measures the system's resolver, which blocks a thread and which the table replaces.
fn system(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("an event loop");
    let mut group = criterion.benchmark_group("hosts/alone");
    group.bench_function(BenchmarkId::from_parameter("lookup_host"), |bencher| {
        bencher.iter(|| {
            let resolved = tokio::net::lookup_host(black_box(("localhost", 80)));
            let found = runtime.block_on(resolved).expect("every system has localhost");
            found.collect::<Vec<SocketAddr>>()
        });
    });
    group.finish();
}

fn table() -> Table {
    let addresses = |number: usize| {
        let last = u8::try_from(number).unwrap_or(0);
        (0..ADDRESSES).map(|_| SocketAddr::from(([192, 0, 2, last], 80))).collect()
    };
    (0..NAMES).map(|number| (name(number).into(), addresses(number))).collect()
}

fn name(number: usize) -> String {
    format!("origin-{number}.example.org:8080")
}

/// Returns a copy, because no connection is made while the lock is held.
fn found(table: &Table, name: &str) -> Vec<SocketAddr> {
    table.get(name).cloned().unwrap_or_default()
}

criterion_group!(hosts, benches);
criterion_main!(hosts);

//! A cache that is far too small for its load: how much memory the cache takes, and how well it
//! uses this memory.

use forebay_testkit::{Client, Origin, Request, Script, ServerBuilder, assert_adds_up, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

const MIB: usize = 1 << 20;
const BUDGET_BYTES: usize = 16 * MIB;

/// Number of times that the test writes the whole budget.
const ROUNDS: usize = 5;

/// The setting `connection_bytes_max` in this test, and the number of connections.
const CONNECTION_BYTES_MAX: usize = 64 << 10;
const CLIENTS: usize = 3;

/// Memory besides the budget and the connections: the program's heap, and freed memory that the
/// allocator keeps.
const BESIDE_BYTES: usize = 32 * MIB;

/// Returns the body of a page. Most bodies are short, and some are very long.
fn body(number: usize) -> Vec<u8> {
    // Bodies of one class have many different lengths.
    let bytes = match number % 32 {
        0 => 60_000 + number * 7 % 300_000,
        1..4 => 20_000 + number * 11 % 40_000,
        4..12 => 4_000 + number * 13 % 8_000,
        _ => number * 17 % 3_000,
    };
    (0..bytes).map(|at| (at % 251 + at / 4093 + number * 31) as u8).collect()
}

/// Answers with the page. Every second page is stale after a second.
fn answer(request: &Request) -> Script {
    let number = request.target.trim_start_matches('/').parse().expect("a number");
    let field = match number % 2 {
        0 => "Cache-Control: max-age=1",
        _ => "Cache-Control: max-age=600",
    };
    Script::answer("200 OK", &[field], &body(number))
}

/// Requests pages until this many bytes have arrived. Returns the number of the next page.
fn read(clients: &mut [Client], mut number: usize, bytes: usize) -> usize {
    let mut read_bytes = 0;
    while read_bytes < bytes {
        let client = &mut clients[number % CLIENTS];
        // Some requests are for a page that was requested recently.
        for wanted in [number, number - number * 7 % 50] {
            let response = client.ask("GET", &format!("/{wanted}"), &[]).expect("whole");
            assert_eq!(response.status, 200, "{wanted}");
            assert!(response.body == body(wanted), "page {wanted} has a wrong body");
            read_bytes += if wanted == number { response.body.len() } else { 0 };
        }
        number += 1;
    }
    number
}

#[test]
fn memory_stays_within_the_budget_and_little_of_it_is_dead() {
    let origin = Origin::start(answer);
    let builder = ServerBuilder::new(PROGRAM).origin(&origin).flag("--workers", "2");
    let builder = builder.flag("--cache-size", &BUDGET_BYTES.to_string());
    let builder = builder.flag("--connection-bytes-max", &CONNECTION_BYTES_MAX.to_string());
    let server = builder.flag("--head-bytes-max", "16KiB").start();
    let mut clients = [(); CLIENTS].map(|()| Client::connect(server.address()));
    let mut number = 50;
    for round in 0..ROUNDS {
        number = read(&mut clients, number, BUDGET_BYTES);
        eventually("nothing arrives", || server.stat("cache_growing_bytes") == 0.0);
        let stats = server.stats();
        assert_adds_up(&stats);
        assert_eq!(stats["cache_budget_bytes"], BUDGET_BYTES as f64);
        let memory = server.memory_bytes();
        let allowed = BUDGET_BYTES + CLIENTS * CONNECTION_BYTES_MAX + BESIDE_BYTES;
        assert!(memory <= allowed, "round {round}: the server takes {memory} bytes of memory");
        let (live, dead) = (stats["cache_live_bytes"], stats["cache_dead_bytes"]);
        let pinned = stats["cache_pinned_bytes"];
        assert!(dead + pinned <= 0.2 * (live + dead + pinned), "round {round}: {stats:#?}");
        assert!(round == 0 || stats["cache_free_bytes"] < 0.35 * BUDGET_BYTES as f64, "{stats:#?}");
    }
    let stats = server.stats();
    for none in ["faults_sent_total", "panics_total", "cache_dropped_damaged_total"] {
        assert_eq!(stats[none], 0.0, "{none}");
    }
    assert!(stats["cache_evicted_total"] > 0.0 && stats["cache_segments_freed_total"] > 0.0);
    let stored = stats["stored_total"] / (stats["stored_total"] + stats["not_stored_total"]);
    assert!(stored > 0.99, "only {stored} of the storable responses were stored: {stats:#?}");
}

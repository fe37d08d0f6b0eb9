//! Clients that request much and do not read it. The memory for them is bounded, and all other
//! clients are served as before.

use forebay_testkit::client::request_text;
use forebay_testkit::{
    Broken, Client, End, Origin, Request, Response, Script, Server, ServerBuilder, assert_adds_up,
    eventually,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

const MIB: usize = 1 << 20;
const BUDGET_BYTES: usize = 32 * MIB;

/// The number of clients that do not read, and the length of the response to each.
const ASLEEP: usize = 150;
const LONG_BYTES: usize = MIB;

/// The number of small pages that other clients request all the time.
const HOT: usize = 40;
const HOT_BYTES: usize = 3000;

/// The setting `connection_bytes_max` in this test.
const CONNECTION_BYTES_MAX: usize = 64 << 10;

/// Memory besides the budget and the connections: the program (a debug build), and freed memory
/// that its allocator keeps, at times a few MiB.
const BESIDE_BYTES: usize = 48 * MIB;

/// Bytes that differ from position to position and from page to page.
fn bytes(name: &str, count: usize) -> Vec<u8> {
    let seed = name.bytes().fold(7_usize, |sum, byte| sum * 31 % 65_521 + usize::from(byte));
    (0..count).map(|at| (at % 251 + at / 4093 + seed) as u8).collect()
}

/// Answers with a page or with its requested rest. Every page has an entity tag.
fn answer(request: &Request) -> Script {
    let is_long = request.target.starts_with("/long");
    let body = bytes(&request.target, if is_long { LONG_BYTES } else { HOT_BYTES });
    let fields = ["Cache-Control: max-age=600", "ETag: \"a\""];
    let range = request.head.field("range").and_then(|range| range.strip_prefix("bytes="));
    let Some(first) = range.and_then(|range| range.split('-').next()) else {
        return Script::answer("200 OK", &fields, &body);
    };
    let first: usize = first.parse().expect("a number");
    let range = format!("Content-Range: bytes {first}-{}/{}", body.len() - 1, body.len());
    Script::answer("206 Partial Content", &[fields[0], fields[1], &range], &body[first..])
}

fn start(origin: &Origin) -> Server {
    let builder = ServerBuilder::new(PROGRAM).origin(origin).flag("--workers", "2");
    let builder = builder.flag("--cache-size", &BUDGET_BYTES.to_string());
    let builder = builder.flag("--cache-record-bytes", "3KiB");
    // Several long responses arrive at the same time.
    let builder = builder.flag("--growing-percent-max", "30");
    let builder = builder.flag("--connection-bytes-max", &CONNECTION_BYTES_MAX.to_string());
    builder.flag("--head-bytes-max", "16KiB").flag("--body-rate-min", "0").start()
}

fn is_hit(response: &Response) -> bool {
    response.field("cache-status").is_some_and(|status| status.contains("; hit"))
}

/// Requests a page, which must be right. Returns whether it was a hit.
fn ask(client: &mut Client, target: &str, count: usize) -> bool {
    let response = client.ask("GET", target, &[]).expect("whole");
    assert_eq!((response.status, response.body.len()), (200, count), "{target}");
    assert!(response.body == bytes(target, count), "{target} has a wrong body");
    is_hit(&response)
}

/// Stores a long response. On a busy machine this may take more than one attempt.
fn is_stored(client: &mut Client, target: &str) -> bool {
    (0..5).any(|_| ask(client, target, LONG_BYTES))
}

/// The number of hot pages that are hits.
fn hot_hits(client: &mut Client) -> usize {
    (0..HOT).filter(|page| ask(client, &format!("/hot/{page}"), HOT_BYTES)).count()
}

/// Returns clients that have sent a request and received the beginning of the answer.
fn asleep(server: &Server, client: &mut Client) -> Vec<(String, Client)> {
    (0..ASLEEP)
        .map(|number| {
            let target = format!("/long/{number}");
            // Most clients get stored responses; the others get responses that are being stored.
            if number % 3 > 0 {
                assert!(is_stored(client, &target), "{target}");
            }
            let mut asleep = Client::connect_narrow(server.address());
            asleep.send(request_text("GET", &target, &[]));
            let begun = asleep.peek("GET", |response| !response.body.is_empty());
            let begun = begun.expect("the response begins");
            assert_eq!((begun.status, begun.is_whole), (200, false), "{target}");
            assert_eq!(is_hit(&begun), number % 3 > 0, "{target}");
            assert!(hot_hits(client) >= HOT * 3 / 4, "beside {number}");
            (target, asleep)
        })
        .collect()
}

#[test]
fn clients_that_do_not_read_hold_little_memory_and_others_are_served() {
    let origin = Origin::start(answer);
    let server = start(&origin);
    let mut client = Client::connect(server.address());
    for _ in 0..4 {
        hot_hits(&mut client);
    }
    let mut asleep = asleep(&server, &mut client);
    // New responses are stored as if all clients were reading.
    let mut stored_count = 0;
    for page in 0..2000 {
        let target = format!("/new/{page}");
        assert!(!ask(&mut client, &target, HOT_BYTES), "{target}");
        stored_count += u32::from(ask(&mut client, &target, HOT_BYTES));
        assert!(
            page % 50 > 0 || hot_hits(&mut client) >= HOT * 3 / 4,
            "too few hot hits after new page {page}"
        );
    }
    assert!(stored_count >= 1990, "only {stored_count} responses were stored");
    let long = "/long/for-another";
    assert!(is_stored(&mut client, long));
    let stats = server.stats();
    assert_adds_up(&stats);
    let connections = (ASLEEP + 1) * CONNECTION_BYTES_MAX;
    let memory = server.memory_bytes();
    assert!(
        memory <= BUDGET_BYTES + connections + BESIDE_BYTES,
        "the server takes {memory} bytes of memory"
    );
    for none in ["faults_sent_total", "panics_total", "cache_refused_no_room_total"] {
        assert_eq!(stats[none], 0.0, "{none}");
    }
    // The remaining bytes are the heads of the responses that are being sent.
    assert!(stats["cache_growing_bytes"] < 1000.0 * ASLEEP as f64, "{stats:#?}");
    // The order of requests decides whether the budget for copies suffices for all clients.
    assert!(stats["cache_copied_out_total"] > 0.0, "{stats:#?}");
    let (mut whole, mut cut) = (0, 0);
    // Some of the clients now continue to read.
    for (target, client) in asleep.iter_mut().step_by(4) {
        client.widen();
        match client.response("GET") {
            Ok(response) => {
                assert!(response.body == bytes(target, LONG_BYTES), "{target} has a wrong body");
                whole += 1;
            }
            Err(Broken::Cut(End::Reset, Some(part))) => {
                assert!(bytes(target, LONG_BYTES).starts_with(&part.body), "{target}");
                cut += 1;
            }
            Err(other) => panic!("{target}: {other:?}"),
        }
    }
    // Evicted parts come from the origin, in the same version.
    assert!(whole > cut, "{whole} responses were continued, {cut} were cut");
    assert!(server.stat("hits_continued_total") > 0.0, "{whole} went on, {cut} were cut");
    drop(asleep);
    eventually("no memory is held for the clients", || {
        let stats = server.stats();
        stats["cache_pinned_bytes"] + stats["cache_copied_bytes"] == 0.0
    });
}

#[test]
fn a_stalled_client_gives_up_its_origin_connection_to_waiting_requests() {
    // A response to `/window` becomes a sliding window; a response to `/pass` is never stored.
    for (kind, field) in
        [("/window", "Cache-Control: max-age=600"), ("/pass", "Cache-Control: no-store")]
    {
        stand_still(kind, field);
    }
}

fn stand_still(kind: &'static str, field: &'static str) {
    const LONGER_BYTES: usize = 16 * MIB;
    let origin = Origin::start(move |request| {
        let count = if request.target.starts_with(kind) { LONGER_BYTES } else { HOT_BYTES };
        Script::answer("200 OK", &[field], &bytes(&request.target, count))
    });
    let builder = ServerBuilder::new(PROGRAM).origin(&origin).flag("--workers", "1");
    let builder = builder.flag("--object-bytes-max", "1MiB").flag("--body-rate-min", "0");
    let server = builder.flag("--origin-connections-max", "2").start();
    let mut asleep = [0, 1].map(|number| {
        let mut client = Client::connect_narrow(server.address());
        let target = format!("{kind}/{number}");
        client.send(request_text("GET", &target, &[]));
        let begun =
            client.peek("GET", |response| !response.body.is_empty()).expect("the response begins");
        assert_eq!((begun.status, begun.is_whole), (200, false), "{target}");
        client
    });
    let mut client = Client::connect(server.address());
    ask(&mut client, "/other", HOT_BYTES);
    assert_eq!(
        server.stat("gave_way_total"),
        1.0,
        "{kind}: one client that gives up its connection is enough"
    );
    let whole = asleep.iter_mut().filter_map(|client| {
        client.widen();
        let response = client.response("GET").ok()?;
        assert_eq!(
            response.body.len(),
            LONGER_BYTES,
            "a response that looks whole has all its bytes"
        );
        Some(())
    });
    assert_eq!(whole.count(), 1, "{kind}: the other client gets the whole response");
}

//! Hostile clients beside a well-behaved one, over real sockets: the well-behaved client is served.

use std::net::{IpAddr, Ipv4Addr};
use std::thread;
use std::time::Duration;

use forebay_testkit::script::answer_head;
use forebay_testkit::{
    Broken, Client, Gate, Origin, Script, Server, ServerBuilder, StopFlag, eventually,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// Returns one of the two addresses of hostile clients, which together may take all connections to
/// an origin. Other clients connect from 127.0.0.1.
fn hostile(number: usize) -> IpAddr {
    IpAddr::from([127, 0, 0, 66 + u8::from(number.is_multiple_of(2))])
}

/// The number of connections to the origin, all of one worker. It is so small that one network may
/// take all of them.
const PERMITS: usize = 8;

fn builder(origin: &Origin) -> ServerBuilder {
    let builder = ServerBuilder::new(PROGRAM).origin(origin).flag("--workers", "1");
    builder.flag("--origin-connections-max", &PERMITS.to_string())
}

/// Keeps sending a few bytes on each connection while `work` runs.
fn drip_while<T>(clients: &mut [Client], work: impl FnOnce() -> T) -> T {
    let stop = StopFlag::default();
    thread::scope(|scope| {
        let _guard = stop.guard();
        scope.spawn(|| {
            for _ in stop.steps(600) {
                for client in clients.iter_mut() {
                    client.send([b'x'; 60]);
                }
                thread::park_timeout(Duration::from_millis(200));
            }
        });
        work()
    })
}

/// A client that repeatedly requests a page and leaves causes only a few fetches to continue. A
/// fetch that another client follows continues.
#[test]
fn fetches_that_their_clients_abandon_are_limited_for_each_network() {
    let (second, last) = (Gate::new(), Gate::new());
    let (second_piece, last_piece) = (second.clone(), last.clone());
    let origin = Origin::start(move |_| {
        let head = answer_head("200 OK", &["Cache-Control: max-age=60"], 6);
        let script = Script::new().send(head).send("pa").wait(&second_piece).send("ge");
        script.wait(&last_piece).send("xx")
    });
    let server = builder(&origin).flag("--abandoned-fetches-per-network-max", "2").start();
    let ask = |address, target: &str| {
        let mut client = Client::connect_from(address, server.address());
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        client.peek("GET", |response| response.body == b"pa").expect("the first piece arrives");
        client
    };
    let abandoned: Vec<_> = (0..4).map(|number| ask(hostile(0), &format!("/{number}"))).collect();
    let mut follower = ask([127, 0, 0, 1].into(), "/1");
    abandoned.into_iter().for_each(Client::reset);
    second.open();
    eventually("one fetch is stopped", || server.stat("fetches_abandoned_total") == 1.0);
    last.open();
    assert_eq!(follower.response("GET").expect("whole").text(), "pagexx");
    eventually("three responses are stored", || server.stat("stored_total") == 3.0);
    assert_eq!(server.stat("fetches_abandoned_total"), 1.0);
    assert_eq!(server.stat("fills_aborted_total"), 0.0);
}

/// A client that is served before the body has arrived does not abandon its fetch, but the limit of
/// its network counts the fetch: otherwise clients could avoid the limit by a condition that every
/// response meets.
#[test]
fn fetches_whose_clients_have_their_304_are_limited_too_and_stopped_last() {
    let (second, rest) = (Gate::new(), Gate::new());
    let (second_piece, last_piece) = (second.clone(), rest.clone());
    let origin = Origin::start(move |_| {
        let fields = ["Cache-Control: max-age=60", "ETag: \"a\""];
        let script = Script::new().send(answer_head("200 OK", &fields, 6)).send("pa");
        script.wait(&second_piece).send("ge").wait(&last_piece).send("xx")
    });
    let server = builder(&origin).flag("--abandoned-fetches-per-network-max", "2").start();
    let mut client = Client::connect_from(hostile(0), server.address());
    let mut ask_not_modified = |target: &str| {
        let response = client.ask("GET", target, &["If-None-Match: *"]).expect("whole");
        assert_eq!(response.status, 304, "{target}");
    };
    ask_not_modified("/0");
    ask_not_modified("/1");
    assert_eq!(server.stat("fetches_abandoned_total"), 0.0);
    let mut impatient = Client::connect_from(hostile(0), server.address());
    impatient.send("GET /given-up HTTP/1.1\r\nHost: a.test\r\n\r\n");
    impatient.peek("GET", |response| response.body == b"pa").expect("the first piece arrives");
    impatient.reset();
    second.open();
    eventually("the one that was given up goes", || server.stat("fetches_abandoned_total") == 1.0);
    ask_not_modified("/2");
    eventually("then the oldest", || server.stat("fetches_abandoned_total") == 2.0);
    rest.open();
    eventually("two responses are stored", || server.stat("stored_total") == 2.0);
}

/// Each of these pages is a miss, and has to reach the origin.
fn assert_served(server: &Server, name: &str) {
    let mut client = Client::connect(server.address());
    for number in 0..20 {
        let target = format!("/{name}/{number}");
        let response = client.ask("GET", &target, &[]).expect("whole");
        assert_eq!((response.status, response.text().as_str()), (200, "page"), "{target}");
    }
}

fn pages() -> Origin {
    Origin::start(|_| Script::answer("200 OK", &["Cache-Control: max-age=60"], b"page"))
}

fn slow_uploads(server: &Server, count: usize, fields: &str) -> Vec<Client> {
    let upload = |number: usize| {
        let mut client = Client::connect_from(hostile(number), server.address());
        let head = format!("POST /upload/{number} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n");
        client.send(head);
        client
    };
    (0..count).map(upload).collect()
}

/// Until the first part of its body has arrived, an upload holds no connection to the origin.
#[test]
fn slow_uploads_hold_no_connection_to_the_origin_before_their_first_part_has_arrived() {
    let origin = pages();
    let server = builder(&origin).start();
    let mut uploads = slow_uploads(&server, 4 * PERMITS, "Content-Length: 1000000\r\n");
    eventually("all uploads have begun", || server.stat("requests_total") == (4 * PERMITS) as f64);
    drip_while(&mut uploads, || assert_served(&server, "beside"));
    assert_eq!(server.stat("origin_requests_total"), 20.0, "only the misses");
    assert_eq!(server.stat("origin_busy_total"), 0.0);
}

/// Slow uploads that hold all connections to the origin give way to other clients.
#[test]
fn slow_uploads_that_hold_all_connections_give_way() {
    let origin = pages();
    let server = builder(&origin).flag("--upload-buffer-bytes", "0").start();
    let mut uploads = slow_uploads(&server, 4 * PERMITS, "Content-Length: 1000000\r\n");
    eventually("the uploads hold all connections", || {
        server.stat("origin_requests_total") == PERMITS as f64
    });
    drip_while(&mut uploads, || assert_served(&server, "beside"));
    assert!(server.stat("gave_way_total") >= 1.0);
}

/// A client that was told to continue, and sends nothing, holds its connection for a limited time,
/// and gives way to other clients before that time ends.
#[test]
fn a_client_that_does_not_continue_after_a_100_gives_way() {
    let origin = Origin::start(|request| match request.method.as_str() {
        "POST" => Script::early().send("HTTP/1.1 100 Continue\r\n\r\n").stall(),
        _ => Script::answer("200 OK", &["Cache-Control: max-age=60"], b"page"),
    });
    let server = builder(&origin).flag("--body-grace-ms", "3s").start();
    let fields = "Content-Length: 1000\r\nExpect: 100-continue\r\n";
    let mut uploads = slow_uploads(&server, PERMITS, fields);
    eventually("the uploads hold all connections", || {
        server.stat("origin_requests_total") == PERMITS as f64
    });
    assert_served(&server, "beside");
    assert!(server.stat("gave_way_total") >= 1.0);
    // The others are too slow.
    eventually("all uploads have ended", || {
        server.stat("gave_way_total") + server.stat("slow_clients_total") == PERMITS as f64
    });
    for upload in &mut uploads {
        let broken = upload.response("POST");
        let status = match broken {
            Ok(response) => response.status,
            Err(Broken::Cut(_, Some(response))) => response.status,
            other => panic!("{other:?}"),
        };
        assert!(status == 408 || status == 100, "status {status}");
    }
}

/// Many origins send no 100. A client that waits for a 100 of such an origin gives way too.
#[test]
fn a_client_that_gets_no_100_gives_way() {
    let origin = Origin::start(|request| match request.method.as_str() {
        "POST" => Script::early().stall(),
        _ => Script::answer("200 OK", &["Cache-Control: max-age=60"], b"page"),
    });
    let server = builder(&origin).start();
    let fields = "Content-Length: 1000\r\nExpect: 100-continue\r\n";
    let _uploads = slow_uploads(&server, PERMITS, fields);
    eventually("the uploads hold all connections", || {
        server.stat("origin_requests_total") == PERMITS as f64
    });
    assert_served(&server, "beside");
    assert!(server.stat("gave_way_total") >= 1.0);
}

/// A client with many requests to a slow origin delays only itself: the next free connection goes
/// to the other client.
#[test]
fn a_flood_of_slow_requests_leaves_connections_for_other_clients() {
    let (one, others, flood) = (Gate::new(), Gate::new(), 6 * PERMITS);
    let (held, all_held) = (one.clone(), others.clone());
    let origin = Origin::start(move |request| {
        let script = match request.target.as_str() {
            "/other" => Script::new(),
            "/flood/0" => Script::new().wait(&held),
            _ => Script::new().wait(&all_held),
        };
        script.send(answer_head("200 OK", &["Cache-Control: no-store"], 4)).send("page")
    });
    let server = builder(&origin).flag("--origin-connect-ms-max", "20s").start();
    let ask = |address, target: &str| {
        let mut client = Client::connect_from(address, server.address());
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        client
    };
    let mut clients = vec![ask(hostile(0), "/flood/0")];
    eventually("the first request has arrived", || origin.count("/flood/0") == 1);
    clients.extend((1..flood).map(|number| ask(hostile(number), &format!("/flood/{number}"))));
    eventually("the flood holds all connections", || {
        server.stat("requests_total") == flood as f64 && origin.request_count() == PERMITS
    });
    let mut other = ask([127, 0, 0, 1].into(), "/other");
    eventually("it waits", || server.stat("requests_total") == (flood + 1) as f64);
    one.open();
    assert_eq!(other.response("GET").expect("whole").text(), "page");
    others.open();
    for client in &mut clients {
        assert_eq!(client.response("GET").expect("whole").text(), "page");
    }
}

/// Clients that pipeline requests for a stored page and never read hold little memory each, and
/// another client's hits are answered beside them.
#[test]
fn pipelined_hits_that_are_not_read_hold_little_memory() {
    const CLIENTS: usize = 300;
    const CLIENT_BYTES_MAX: usize = 48 << 10;
    let origin =
        Origin::start(|_| Script::answer("200 OK", &["Cache-Control: max-age=600"], &[b'p'; 1000]));
    let server = builder(&origin).flag("--output-bytes-max", "1MiB").start();
    let mut reader = Client::connect(server.address());
    let mut ask = || reader.ask("GET", "/page", &[]).expect("whole").body.len();
    assert_eq!(ask(), 1000);
    let memory_before = server.memory_bytes();
    let requests = "GET /page HTTP/1.1\r\nHost: a.test\r\n\r\n".repeat(1000);
    let clients: Vec<Client> = (0..CLIENTS)
        .map(|_| {
            let mut client = Client::connect_narrow(server.address());
            client.send(&requests);
            client
        })
        .collect();
    eventually("the output has reached its limit", || {
        server.stat("output_waiting_bytes") >= (1 << 20) as f64
    });
    for _ in 0..100 {
        assert_eq!(ask(), 1000);
    }
    let grown = server.memory_bytes().saturating_sub(memory_before);
    assert!(grown <= CLIENTS * CLIENT_BYTES_MAX, "{} bytes a client", grown / CLIENTS);
    // Beyond the limit each connection queues one response.
    let waiting = server.stat("output_waiting_bytes") as usize;
    assert!(waiting <= (1 << 20) + (32 << 10) + CLIENTS * (8 << 10), "{waiting} bytes wait");
    drop(clients);
    eventually("nothing waits", || server.stat("output_waiting_bytes") == 0.0);
}

/// Responses of one site that arrive slowly leave room to store the responses of another site, and
/// a body that has stopped is fetched again.
#[test]
fn bodies_that_drip_leave_room_for_other_sites() {
    let origin = Origin::start(|request| {
        let fields = ["Cache-Control: max-age=600"];
        match request.target.starts_with("/drip") && request.nth == 0 {
            true => Script::new().send(answer_head("200 OK", &fields, 400_000)).send("x").stall(),
            false => Script::answer("200 OK", &fields, &[b'p'; 100_000]),
        }
    });
    let url = format!("http://{}", origin.address());
    let site = |name: &str| {
        format!("[[site]]\nname = \"{name}\"\nnames = [\"{name}.test\"]\norigin = \"{url}\"\n")
    };
    // Room for four promises of 256 KiB, so for two of one site.
    let config = format!(
        "workers = 1\ncache_size = \"16MiB\"\ngrowing_percent_max = 7\nfill_rate_min = 0\n{}{}",
        site("hostile"),
        site("other")
    );
    let server = ServerBuilder::new(PROGRAM).config(&config).start();
    let ask = |host: &str, target: &str| {
        let mut client = Client::connect(server.address());
        client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}.test\r\n\r\n"));
        client
    };
    let begun = |drip: &mut Client| {
        drip.peek("GET", |response| !response.body.is_empty()).expect("the first byte");
    };
    let (mut first, mut follower) = (ask("hostile", "/drip/0"), ask("hostile", "/drip/0"));
    begun(&mut first);
    begun(&mut follower);
    assert_eq!(origin.count("/drip/0"), 1, "the first drip is not being stored");
    let mut drips: Vec<Client> =
        (1..20).map(|number| ask("hostile", &format!("/drip/{number}"))).collect();
    drips.iter_mut().for_each(begun);
    for number in 0..10 {
        let target = format!("/page/{number}");
        let body = ask("other", &target).response("GET").expect("whole").body;
        assert_eq!(body.len(), 100_000);
    }
    eventually("the pages are stored", || server.stat("stored_total") == 10.0);
    assert!(server.stat("cache_refused_no_room_total") >= 1.0, "the drips found room");
    eventually("a page that has stopped is fetched again", || {
        let mut client = ask("hostile", "/drip/0").with_patience(Duration::from_secs(1));
        client.response("GET").is_ok_and(|response| response.body.len() == 100_000)
    });
}

/// While a response arrives, more requests invalidate responses than the cache can record. This
/// keeps the responses of the same site from being stored, but no other responses.
#[test]
fn invalidations_of_one_site_leave_the_responses_of_others_stored() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |request| {
        let script = match request.target.starts_with("/slow") {
            true => Script::new().send("HTTP/1.1 103 Early Hints\r\n\r\n").wait(&held),
            false => Script::new(),
        };
        script.send(answer_head("200 OK", &["Cache-Control: max-age=600"], 4)).send("page")
    });
    let url = format!("http://{}", origin.address());
    let site = |name: &str| {
        format!("[[site]]\nname = \"{name}\"\nnames = [\"{name}.test\"]\norigin = \"{url}\"\n")
    };
    // The smallest ring of purges has 64 slots.
    let config = format!("cache_size = \"16MiB\"\n{}{}", site("hostile"), site("other"));
    let server = ServerBuilder::new(PROGRAM).config(&config).start();
    let ask = |host: &str, target: &str| {
        let mut client = Client::connect(server.address());
        client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}.test\r\n\r\n"));
        client
    };
    let mut slow = [ask("other", "/slow/other"), ask("hostile", "/slow/hostile")];
    eventually("both fetches have begun", || origin.request_count() == 2);
    let mut poster = Client::connect(server.address());
    for number in 0..200 {
        let head = format!("POST /post/{number} HTTP/1.1\r\nHost: hostile.test\r\n");
        poster.send(format!("{head}Content-Length: 0\r\n\r\n"));
        assert_eq!(poster.response("POST").expect("whole").status, 200, "{number}");
    }
    gate.open();
    for client in &mut slow {
        assert_eq!(client.response("GET").expect("whole").text(), "page");
    }
    let fetched_count = |host: &str| {
        let target = format!("/slow/{host}");
        assert_eq!(ask(host, &target).response("GET").expect("whole").text(), "page");
        origin.count(&target)
    };
    assert_eq!(fetched_count("other"), 1, "its site had no purge");
    assert_eq!(fetched_count("hostile"), 2, "a purge of its site may have concerned it");
}

/// A body that takes too long to arrive reaches its client whole, and is not stored.
#[test]
fn a_body_that_arrives_for_too_long_is_not_stored() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |_| {
        let head = answer_head("200 OK", &["Cache-Control: max-age=600"], 8);
        Script::new().send(head).send("half").wait(&held).send("rest")
    });
    let server = builder(&origin).flag("--fill-ms-max", "200ms").start();
    let mut client = Client::connect(server.address());
    client.send("GET /slow HTTP/1.1\r\nHost: a.test\r\n\r\n");
    eventually("the body is too slow", || server.stat("fills_too_slow_total") == 1.0);
    gate.open();
    assert_eq!(client.response("GET").expect("whole").text(), "halfrest");
    assert_eq!(client.ask("GET", "/slow", &[]).expect("whole").text(), "halfrest");
    assert_eq!(origin.count("/slow"), 2);
}

/// A server with 18 connections to the origin, of which one network holds its share of 16.
struct Flooded {
    origin: Origin,
    server: Server,
    gate: Gate,
    flood: Vec<Client>,
}

impl Flooded {
    /// Starts the server. A request waits at most `connect_ms_max` for a connection.
    fn start(connect_ms_max: &str) -> Flooded {
        let gate = Gate::new();
        let held = gate.clone();
        let origin = Origin::start(move |request| {
            let script = match request.target.starts_with("/flood") {
                true => Script::new().wait(&held),
                false => Script::new(),
            };
            script.send(answer_head("200 OK", &["Cache-Control: max-age=60"], 4)).send("page")
        });
        let builder = ServerBuilder::new(PROGRAM).origin(&origin).flag("--workers", "1");
        let builder = builder.flag("--origin-connect-ms-max", connect_ms_max);
        let server = builder.flag("--origin-connections-max", "18").start();
        let mut flooded = Flooded { origin, server, gate, flood: Vec::new() };
        (0..16).for_each(|_| flooded.hold(hostile(0)));
        flooded
    }

    fn ask(&self, address: IpAddr, target: &str) -> Client {
        let mut client = Client::connect_from(address, self.server.address());
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        client
    }

    /// Lets a client of the address hold a connection to the origin.
    fn hold(&mut self, address: IpAddr) {
        let number = self.flood.len();
        let client = self.ask(address, &format!("/flood/{number}"));
        self.flood.push(client);
        eventually("the connection is held", || self.origin.request_count() == number + 1);
    }

    /// Asks for `/page` from an address of the network that holds its whole share.
    fn lead(&self) -> Client {
        let leader = self.ask(hostile(0), "/page");
        let count = self.flood.len() + 1;
        eventually("the leader waits", || self.server.stat("requests_total") == count as f64);
        leader
    }
}

const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A network that holds its share of the connections waits for its turn. Other clients that ask for
/// the same page do not wait with it.
#[test]
fn clients_do_not_wait_for_the_turn_of_another_network() {
    // The leader would wait far longer than this test does.
    let flooded = Flooded::start("10m");
    let mut leader = flooded.lead();
    let mut other = flooded.ask(OTHER, "/page");
    assert_eq!(other.response("GET").expect("whole").text(), "page");
    flooded.gate.open();
    assert_eq!(leader.response("GET").expect("whole").text(), "page");
}

/// If each fetch fails for a reason of its leader, the requests that waited do not all go to the
/// origin in the end.
#[test]
fn fetches_that_keep_failing_end_in_few_requests() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |_| Script::new().wait(&held).close());
    let builder = ServerBuilder::new(PROGRAM).origin(&origin).flag("--workers", "1");
    let builder = builder.flag("--origin-connect-ms-max", "200ms");
    let server = builder.flag("--origin-connections-max", "1").start();
    let ask = |target: &str| {
        let mut client = Client::connect(server.address());
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        client
    };
    let _held = ask("/held");
    eventually("the connection is held", || origin.request_count() == 1);
    let mut clients: Vec<Client> = (0..40).map(|_| ask("/page")).collect();
    for client in &mut clients {
        assert_eq!(client.response("GET").expect("whole").status, 503);
    }
    // Five requests led, and later one request at a time is sent by itself.
    let failed_count = server.stat("collapse_failures_total");
    assert!(failed_count >= 30.0, "{failed_count} requests failed without a fetch of their own");
    gate.open();
}

/// The limits of the client that leads a fetch do not apply to the clients that wait for the fetch.
/// The others wait because no connection is left for them either.
#[test]
fn clients_do_not_fail_because_the_network_that_leads_has_no_connection_left() {
    let mut flooded = Flooded::start("1s");
    flooded.hold([127, 0, 0, 2].into());
    flooded.hold([127, 0, 0, 3].into());
    let mut leader = flooded.lead();
    let mut others: Vec<Client> = (0..3).map(|_| flooded.ask(OTHER, "/page")).collect();
    assert_eq!(leader.response("GET").expect("whole").status, 503);
    flooded.gate.open();
    for other in &mut others {
        assert_eq!(other.response("GET").expect("whole").text(), "page");
    }
}

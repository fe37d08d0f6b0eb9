//! Every limit of a client connection, with its answer and its counter.

use std::time::Duration;

use forebay_testkit::{
    Broken, Client, Gate, Origin, PATIENCE, Script, Server, ServerBuilder, eventually,
};

/// Interval at which a slow client sends a byte.
const DRIP: Duration = Duration::from_millis(20);

fn start(origin: &Origin, flags: &[(&str, &str)]) -> Server {
    let builder = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay")).origin(origin);
    let builder = builder.flag("--workers", "1");
    flags.iter().fold(builder, |builder, (name, value)| builder.flag(name, value)).start()
}

const CHUNKED: &str = "Transfer-Encoding: chunked\r\n\r\n";

#[test]
fn heads_and_bodies_over_a_limit_are_refused_and_counted() {
    let flags = [
        ("--head-bytes-max", "2KiB"),
        ("--field-count-max", "10"),
        ("--target-bytes-max", "100"),
        ("--body-bytes-max", "10"),
    ];
    let origin = Origin::echo();
    let server = start(&origin, &flags);
    let long = "a".repeat(2048);
    let fields = "X: y\r\n".repeat(10);
    let target = format!("/{}", "t".repeat(100));
    let chunked = "Transfer-Encoding: chunked\r\n\r\n6\r\nhello \r\n6\r\nworld!\r\n0\r\n\r\n";
    let cases = [
        ("a head", "/", format!("X: {long}\r\n\r\n"), 431, "requests_refused_total"),
        ("fields", "/", format!("{fields}\r\n"), 431, "requests_refused_total"),
        ("a target", &target, "\r\n".into(), 414, "requests_refused_total"),
        ("a length", "/", "Content-Length: 11\r\n\r\n".into(), 413, "bodies_too_large_total"),
        ("chunks", "/", chunked.into(), 413, "bodies_too_large_total"),
        ("a chunk size", "/", format!("{CHUNKED}b\r\n"), 413, "bodies_too_large_total"),
        (
            "a second size",
            "/",
            format!("{CHUNKED}5\r\nhello\r\n6\r"),
            413,
            "bodies_too_large_total",
        ),
    ];
    for (what, target, rest, status, counter) in cases {
        let before = server.stat(counter);
        let mut client = Client::connect(server.address());
        client.send(format!("POST {target} HTTP/1.1\r\nHost: example.test\r\n{rest}"));
        let response = client.response("POST").expect(what);
        assert_eq!(response.status, status, "{what}");
        assert!(client.is_closed_cleanly(), "{what}: the connection stays open");
        assert_eq!(server.stat(counter), before + 1.0, "{what}: {counter}");
    }
    assert!(
        origin.requests().iter().all(|request| !request.is_whole),
        "a refused request was forwarded whole"
    );
}

#[test]
fn heads_and_bodies_at_a_limit_are_served() {
    let flags = [("--field-count-max", "10"), ("--target-bytes-max", "100")];
    let origin = Origin::echo();
    let server = start(&origin, &[&flags[..], &[("--body-bytes-max", "10")]].concat());
    let target = format!("/{}", "t".repeat(99));
    let fields = "X: y\r\n".repeat(8);
    let mut client = Client::connect(server.address());
    client.send(format!("POST {target} HTTP/1.1\r\nHost: a\r\n{fields}Content-Length: 10\r\n\r\n"));
    client.send("0123456789");
    assert_eq!(client.response("POST").expect("served").status, 200);
    assert_eq!(origin.requests()[0].body, b"0123456789");
}

#[test]
fn a_head_that_takes_too_long_is_refused_however_it_moves() {
    let origin = Origin::echo();
    let server = start(&origin, &[("--head-ms-max", "200ms")]);
    let mut stalled = Client::connect(server.address());
    stalled.send("GET / HTTP/1.1\r\nHo");
    assert_eq!(stalled.response("GET").expect("an answer").status, 408);
    assert!(stalled.is_closed_cleanly());

    let mut client = Client::connect(server.address()).with_patience(DRIP);
    client.send("GET / HTTP/1.1\r\nX: ");
    let closed = eventually_closed(&mut client, |client| client.send("a"));
    assert!(closed, "a client that drips bytes keeps the connection open");
    assert!(server.stat("head_timeouts_total") >= 2.0);
    assert_eq!(origin.request_count(), 0);
}

#[test]
fn an_idle_connection_is_closed() {
    let origin = Origin::echo();
    let server = start(&origin, &[("--head-ms-max", "200ms"), ("--idle-ms-max", "200ms")]);
    let mut silent = Client::connect(server.address());
    let (_, end) = silent.rest();
    assert!(end.is_some(), "a connection without a request stays open");

    let mut idle = Client::connect(server.address());
    assert_eq!(idle.ask("GET", "/", &[]).expect("served").status, 200);
    assert!(idle.is_closed_cleanly(), "an idle connection stays open");
    assert!(server.stat("idle_timeouts_total") >= 1.0);
}

#[test]
fn an_upload_below_the_least_rate_is_cut() {
    let flags = [("--body-rate-min", "100000"), ("--body-grace-ms", "200ms")];
    let origin = Origin::echo();
    let server = start(&origin, &flags);
    let mut client = Client::connect(server.address()).with_patience(DRIP);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
    let closed = eventually_closed(&mut client, |client| client.send("a"));
    assert!(closed, "a client that drips bytes keeps the upload open");
    assert_eq!(server.stat("slow_clients_total"), 1.0);
    eventually("the origin's side ends too", || origin.connections().iter().all(|c| c.is_closed));
    assert!(origin.requests().iter().all(|request| !request.is_whole));
}

#[test]
fn a_client_that_does_not_read_is_cut_off() {
    let flags = [("--body-rate-min", "1000000"), ("--body-grace-ms", "200ms")];
    let content = vec![b'x'; 16 << 20];
    let origin = Origin::start(move |_| Script::answer("200 OK", &[], &content));
    let server = start(&origin, &flags);
    let mut client = Client::connect(server.address());
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the client is cut off", || server.stat("slow_clients_total") == 1.0);
    let answer = client.response("GET");
    assert!(matches!(answer, Err(Broken::Cut(..))), "the cut response looks whole");
    eventually("the connection's slot is free", || server.stat("connections_open") == 0.0);
}

#[test]
fn an_origin_that_is_slow_does_not_count_against_the_client() {
    let flags = [("--body-rate-min", "1000000"), ("--body-grace-ms", "50ms")];
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |_| {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab";
        Script::new().send(head).wait(&held).send("cd")
    });
    let server = start(&origin, &flags);
    let mut client = Client::connect(server.address()).with_patience(Duration::from_millis(300));
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(matches!(client.response("GET"), Err(Broken::TimedOut(Some(_)))));
    gate.open();
    let mut client = client.with_patience(PATIENCE);
    assert_eq!(client.response("GET").expect("whole").text(), "abcd");
}

#[test]
fn connections_over_a_limit_are_closed_while_none_is_idle() {
    for flag in ["--connections-per-address-max", "--connections-per-worker-max"] {
        let origin = Origin::echo();
        let server = start(&origin, &[(flag, "2")]);
        let ask = |client: &mut Client| client.ask("GET", "/", &[]).map(|response| response.status);
        let mut clients = [0, 1].map(|_| Client::connect(server.address()));
        for client in &mut clients {
            assert!(matches!(ask(client), Ok(200)), "{flag}");
            client.send("GET / HTTP/1.1\r\n");
        }
        let (rest, end) = Client::connect(server.address()).rest();
        assert!(
            end.is_some() && !rest.starts_with(b"HTTP/1.1 2"),
            "{flag}: a third connection is served"
        );
        assert_eq!(server.stat("connections_refused_total"), 1.0, "{flag}");
        drop(clients);
        eventually("both connections are closed", || server.stat("connections_open") == 0.0);
        assert!(matches!(ask(&mut Client::connect(server.address())), Ok(200)), "{flag}");
    }
}

#[test]
fn the_last_permitted_request_of_a_connection_says_close() {
    let origin = Origin::echo();
    let server = start(&origin, &[("--requests-per-connection-max", "3")]);
    let mut client = Client::connect(server.address());
    for number in 1..=3 {
        let response = client.ask("GET", "/", &[]).expect("served");
        assert_eq!(response.says_close(), number == 3, "request {number}");
    }
    assert!(client.is_closed_cleanly());
    assert_eq!(server.stat("requests_per_connection_reached_total"), 1.0);
}

#[test]
fn the_defaults_admit_1024_connections_from_one_address() {
    let origin = Origin::start(|_| Script::answer("200 OK", &["Cache-Control: max-age=60"], b"x"));
    let server = start(&origin, &[]);
    let mut clients: Vec<_> = (0..1024).map(|_| Client::connect(server.address())).collect();
    for client in &mut clients {
        assert_eq!(client.ask("GET", "/", &[]).expect("served").status, 200);
    }
    assert_eq!(server.stat("connections_open"), 1024.0);
    assert_eq!(origin.count("/"), 1);
}

#[test]
fn answers_over_a_connections_memory_go_out_early_and_in_order() {
    let origin = Origin::start(|request| {
        let body = request.target.as_bytes().repeat(200);
        Script::answer("200 OK", &["Cache-Control: max-age=60"], &body)
    });
    let flags = [("--head-bytes-max", "8KiB"), ("--connection-bytes-max", "16KiB")];
    let server = start(&origin, &flags);
    let targets: Vec<_> = (0..100).map(|number| format!("/{}", number % 7)).collect();
    let mut client = Client::connect(server.address());
    // All pages are stored first, and then requested in a single write.
    for target in &targets[..7] {
        client.ask("GET", target, &[]).expect("a sound answer");
    }
    let request = |target: &String| format!("GET {target} HTTP/1.1\r\nHost: example.test\r\n\r\n");
    client.send(targets.iter().map(request).collect::<String>());
    for target in &targets {
        let response = client.response("GET").expect("an answer to each request");
        assert_eq!(response.text(), target.repeat(200));
    }
    assert!(server.stat("early_flushes_total") >= 1.0, "no response was sent early");
}

/// Sends repeatedly until the server closes. Returns `false` if it stays open for [`PATIENCE`].
fn eventually_closed(client: &mut Client, mut send: impl FnMut(&mut Client) -> bool) -> bool {
    let rounds = PATIENCE.as_millis() / DRIP.as_millis();
    (0..rounds).any(|_| {
        send(client);
        client.rest().1.is_some()
    })
}

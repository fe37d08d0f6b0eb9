//! Limits on requests in progress, and each way in which a request ends.

use std::net::IpAddr;

use forebay_testkit::server::Folder;
use forebay_testkit::{Client, Gate, Origin, Response, Script, Server, ServerBuilder, eventually};

/// An origin that holds the response to `/held` until the gate opens. It resets the connection
/// after `/reset`, breaks `/cut` off in the middle, and sends a body of 8 MiB for `/large` and
/// `/kept`.
fn origin(gate: &Gate) -> Origin {
    let gate = gate.clone();
    Origin::start(move |request| {
        let whole = Script::answer("200 OK", &["Cache-Control: no-store"], b"ok");
        match &request.target[..] {
            "/stored" => Script::answer("200 OK", &["Cache-Control: max-age=60"], b"ok"),
            "/reset" => Script::new().wait(&gate).reset(),
            "/cut" => Script::new()
                .send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
                .wait(&gate)
                .close(),
            "/large" => {
                Script::answer("200 OK", &["Cache-Control: no-store"], &vec![b'x'; 8 << 20])
            }
            "/kept" => {
                Script::answer("200 OK", &["Cache-Control: max-age=60"], &vec![b'x'; 8 << 20])
            }
            "/tunnel" => Script::new()
                .send(
                    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
                     Connection: Upgrade\r\n\
                     Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
                )
                .wait(&gate)
                .close(),
            "/held" => Script { steps: [Script::new().wait(&gate).steps, whole.steps].concat() },
            _ => whole,
        }
    })
}

fn config(origin: &Origin, lines: &str) -> String {
    format!(
        "workers = 2\naccess_log = \"-\"\n\
         [[site]]\nname = \"a\"\nnames = [\"*\"]\norigin = \"http://{}\"\n{lines}",
        origin.address()
    )
}

fn start(origin: &Origin, lines: &str) -> Server {
    ServerBuilder::new(env!("CARGO_BIN_EXE_forebay")).config(&config(origin, lines)).start()
}

fn connect(server: &Server, from: u8) -> Client {
    Client::connect_from(IpAddr::from([127, 0, 0, from]), server.address())
}

fn request_text(method: &str, target: &str, fields: &[&str]) -> String {
    let fields: String = fields.iter().map(|line| format!("{line}\r\n")).collect();
    format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

fn ask(server: &Server, from: u8, target: &str) -> Response {
    connect(server, from).ask("GET", target, &[]).expect("an answer")
}

/// Sends a request whose response the origin holds, and waits until the origin has it.
fn hold(server: &Server, origin: &Origin, from: u8) -> Client {
    let count = origin.count("/held");
    let mut client = connect(server, from);
    client.send(request_text("GET", "/held", &["X-Key: a"]));
    eventually("the origin has the request", || origin.count("/held") > count);
    client
}

#[test]
fn the_workers_together_serve_no_more_requests_than_the_limits_permit() {
    let gate = Gate::new();
    let origin = origin(&gate);
    let server = start(
        &origin,
        "cache = false\nconcurrency_limit = [\"2\", \"3 by=route\"]\n\
         [[site.route]]\npath_prefix = \"/open\"\nconcurrency_limit = []\n\
         [[site.route]]\npath_prefix = \"/inherits\"\n\
         [[site.route]]\npath_prefix = \"/own\"\nconcurrency_limit = [\"1 by=address\"]\n",
    );
    let mut held = vec![hold(&server, &origin, 1), hold(&server, &origin, 1)];
    let mut client = connect(&server, 1);
    for target in ["/", "/inherits"] {
        // The refusal does not end the connection.
        let refused = client.ask("GET", target, &[]).expect("an answer");
        assert_eq!((refused.status, refused.field("retry-after")), (429, Some("1")), "{target}");
        let text = "too many requests of this client are in progress; try again later\n";
        assert_eq!(refused.text(), text);
        assert_eq!(refused.field("cache-control"), Some("no-store"));
    }
    // Other clients are served, and so are routes with other limits.
    assert_eq!(ask(&server, 2, "/").status, 200);
    assert_eq!(ask(&server, 1, "/open").status, 200);
    assert_eq!(ask(&server, 1, "/own").status, 200);
    held.push(hold(&server, &origin, 2));
    let refused = ask(&server, 3, "/");
    assert_eq!((refused.status, refused.field("retry-after")), (503, Some("1")));
    assert_eq!(refused.text(), "too many requests are in progress here; try again later\n");
    assert_eq!(server.stat("concurrency_limited_total"), 3.0);
    eventually("the event is logged", || server.errors().contains("too many are in progress"));
    // A reload with another number keeps the counts.
    server.write_config(&config(&origin, "concurrency_limit = [\"3\", \"4 by=route\"]\n"));
    assert!(server.command(&["reload"]).status.success());
    held.push(hold(&server, &origin, 1));
    assert_eq!(ask(&server, 1, "/").status, 429);
    assert_eq!(ask(&server, 3, "/").status, 503);
    gate.open();
    for mut client in held {
        assert_eq!(client.response("GET").expect("an answer").status, 200);
    }
    for from in [1, 1, 1, 1, 2, 3] {
        assert_eq!(ask(&server, from, "/").status, 200);
    }
    assert_eq!(server.stat("concurrency_limited_total"), 5.0);
    let log = server.output();
    assert!(log.contains("too many requests are in progress here"), "{log}");
}

#[test]
fn each_end_of_a_request_makes_room_for_another() {
    let websocket = &[
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ][..];
    type End = fn(Client, &Gate);
    let leaves: End = |client, _| drop(client);
    let resets: End = |client, _| client.reset();
    let is_answered: End = |mut client, gate| {
        gate.open();
        assert_eq!(client.response("GET").expect("an answer").status, 200);
    };
    let leaves_before_the_answer: End = |client, gate| {
        client.reset();
        gate.open();
    };
    let fails: End = |mut client, gate| {
        gate.open();
        assert_eq!(client.response("GET").expect("an answer").status, 502);
    };
    let breaks_off: End = |mut client, gate| {
        gate.open();
        client.response("GET").expect_err("the response is cut");
    };
    let closes: End = |mut client, gate| {
        gate.open();
        client.rest();
    };
    let cases: &[(&str, &str, &[&str], End)] = &[
        ("GET", "/held", &[], is_answered),
        ("GET", "/held", &[], leaves_before_the_answer),
        ("GET", "/reset", &[], fails),
        ("GET", "/cut", &[], breaks_off),
        ("GET", "/cut", &[], leaves_before_the_answer),
        ("GET", "/large", &[], leaves),
        ("POST", "/body", &["Content-Length: 5"], leaves),
        ("POST", "/body", &["Transfer-Encoding: chunked"], resets),
        ("GET", "/tunnel", websocket, closes),
        ("GET", "/tunnel", websocket, resets),
    ];
    for (index, (method, target, fields, end)) in cases.iter().enumerate() {
        let gate = Gate::new();
        let origin = origin(&gate);
        let lines = "concurrency_limit = [\"1 by=route\"]\nupgrade_protocols = [\"websocket\"]\n";
        let server = start(&origin, lines);
        // The whole response of `/large` fits into no buffer on its way.
        let mut client = match *target {
            "/large" => Client::connect_narrow(server.address()),
            _ => Client::connect(server.address()),
        };
        client.send(request_text(method, target, fields));
        let case = format!("case {index}: {method} {target}");
        // Another request before this one would have the only place.
        eventually(&format!("{case}: it has arrived"), || server.stat("requests_total") == 1.0);
        assert_eq!(ask(&server, 2, "/other").status, 503, "{case}");
        end(client, &gate);
        eventually(&format!("{case}: it has ended"), || ask(&server, 2, "/other").status == 200);
        // The request was counted once.
        assert_eq!(ask(&server, 2, "/other").status, 200, "{case}");
    }
}

#[test]
fn a_request_for_a_stored_response_counts_and_its_limit_is_explained() {
    let gate = Gate::new();
    let origin = origin(&gate);
    let server = start(&origin, "concurrency_limit = [\"1 by=route\"]\n");
    assert_eq!(ask(&server, 1, "/stored").status, 200);
    eventually("it is stored", || server.stat("stored_total") == 1.0);
    for _ in 0..20 {
        let hit = ask(&server, 1, "/stored");
        assert!(hit.field("cache-status").is_some_and(|status| status.contains("hit")));
    }
    let held = hold(&server, &origin, 1);
    assert_eq!(ask(&server, 1, "/stored").status, 503);
    let output = server.command(&["explain", "http://a/stored"]);
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.contains("requests beyond concurrency_limit are refused"), "{shown}");
    drop(held);
    gate.open();
    eventually("the request has ended", || ask(&server, 1, "/stored").status == 200);
}

#[test]
fn a_stored_response_counts_while_a_slow_client_reads_it() {
    let origin = origin(&Gate::new());
    let server = start(&origin, "concurrency_limit = [\"1 by=route\"]\n");
    let mut client = connect(&server, 1);
    client.send(request_text("GET", "/kept", &[]));
    assert_eq!(client.response("GET").expect("an answer").body.len(), 8 << 20);
    eventually("it is stored", || server.stat("stored_total") == 1.0);
    let mut slow = Client::connect_narrow(server.address());
    slow.send(request_text("GET", "/kept", &[]));
    let begun = slow.peek("GET", |response| !response.body.is_empty()).expect("a beginning");
    assert!(begun.field("cache-status").is_some_and(|status| status.contains("hit")));
    for _ in 0..3 {
        assert_eq!(ask(&server, 2, "/other").status, 503);
    }
    drop(slow);
    eventually("it has left", || ask(&server, 2, "/other").status == 200);
}

#[test]
fn each_value_of_a_field_has_its_own_limit_and_a_purge_has_none() {
    let gate = Gate::new();
    let origin = origin(&gate);
    let lines = "concurrency_limit = [\"1 by=field:x-key\"]\npurge_from = [\"127.0.0.1\"]\n";
    let server = start(&origin, lines);
    let held = hold(&server, &origin, 1);
    for (method, from, fields, expected) in [
        // A client that may not purge is counted like others.
        ("PURGE", 2, &["X-Key: a"][..], 429),
        ("PURGE", 1, &["X-Key: a"], 200),
        ("GET", 2, &["X-Key: a"], 429),
        ("GET", 1, &["X-Key: b"], 200),
        ("GET", 1, &[], 200),
    ] {
        let response = connect(&server, from).ask(method, "/", fields).expect("an answer");
        assert_eq!(response.status, expected, "{method} from {from} with {fields:?}");
    }
    assert_eq!(server.stat("concurrency_entries_shared_total"), 0.0);
    gate.open();
    drop(held);
}

#[test]
fn a_request_whose_password_is_being_checked_is_in_progress() {
    let (origin, folder) = (origin(&Gate::new()), Folder::new());
    let users = folder.path("users");
    // A check of this hash takes about half a second or more.
    let user = "ann:$2b$13$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n";
    std::fs::write(&users, user).expect("it is written");
    let lines = format!("concurrency_limit = [\"1 by=route\"]\nbasic_auth = {users:?}\n");
    let server = start(&origin, &lines);
    let mut guesser = connect(&server, 1);
    // `ann:wrong`
    guesser.send(request_text("GET", "/", &["Authorization: Basic YW5uOndyb25n"]));
    eventually("it has arrived", || server.stat("requests_total") == 1.0);
    assert_eq!(ask(&server, 2, "/").status, 503);
    assert!(matches!(guesser.response("GET").expect("an answer").status, 401 | 503));
    eventually("it has ended", || ask(&server, 2, "/").status == 401);
}

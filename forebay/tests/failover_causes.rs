//! Failures that a client or a request causes: they leave no origin out.

use std::time::Duration;

use forebay_testkit::clock::holds_within;
use forebay_testkit::{Client, Origin, Request, Script, Server, ServerBuilder};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// A server with one worker in front of these origins; `settings` are lines before the first
/// section.
fn serve(origins: &[&Origin], settings: &str) -> Server {
    let urls: Vec<_> = origins.iter().map(|one| format!("http://{}", one.address())).collect();
    let config =
        format!("{settings}\n[[site]]\nname = \"a\"\nnames = [\"*\"]\norigin = {urls:?}\n");
    ServerBuilder::new(PROGRAM).config(&config).flag("--workers", "1").start()
}

/// Sends each request on a connection of its own, and returns the statuses of the answers.
fn statuses_of(server: &Server, requests: impl Iterator<Item = String>) -> Vec<u16> {
    let sent = requests.map(|request| {
        let mut client = Client::connect(server.address());
        assert!(client.send(request));
        client
    });
    let mut clients: Vec<_> = sent.collect();
    clients.iter_mut().map(|client| client.response("POST").expect("whole").status).collect()
}

/// The start of a POST, with `rest` after `Host`; the client sends nothing more.
fn posts(rest: &str) -> impl Iterator<Item = String> {
    let request = format!("POST / HTTP/1.1\r\nHost: a\r\n{rest}");
    (0..12).map(move |_| request.clone())
}

const UNFINISHED: [&str; 3] = [
    "Content-Length: 4\r\nExpect: 100-continue\r\n\r\n",
    "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
    "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n",
];

#[test]
fn a_client_that_does_not_send_its_body_leaves_no_origin_out() {
    let origins = [Origin::echo(), Origin::echo()];
    let server = serve(&origins.each_ref(), "origin_first_byte_ms_max = \"300ms\"");
    for rest in UNFINISHED {
        assert_eq!(statuses_of(&server, posts(rest)), [408; 12], "{rest}");
    }
    assert_eq!(server.stat("origin_ejections_total"), 0.0);

    // These origins give up on the request before the server does.
    let origins = [(); 2].map(|()| Origin::start(|_| Script::early().close()));
    let server = serve(&origins.each_ref(), "");
    for rest in UNFINISHED {
        assert_eq!(statuses_of(&server, posts(rest)), [502; 12], "{rest}");
    }
    assert_eq!(server.stat("origin_ejections_total"), 0.0);
}

#[test]
fn requests_that_fail_at_every_origin_leave_one_of_them() {
    let script = |request: &Request| match request.target.as_str() {
        "/bad" => Script::new().close(),
        "/late" => Script::new().stall(),
        _ => Script::answer("200 OK", &["Cache-Control: no-store"], b"x"),
    };
    for bad in ["/bad", "/late"] {
        let origins = [Origin::start(script), Origin::start(script)];
        let server = serve(&origins.each_ref(), "origin_first_byte_ms_max = \"50ms\"");
        let mut client = Client::connect(server.address());
        for _ in 0..6 {
            let status = client.ask("GET", bad, &[]).expect("whole").status;
            assert!([502, 504].contains(&status), "{status}");
        }
        assert_eq!(server.stat("origin_ejections_total"), 1.0, "{bad}");
        assert_eq!(client.ask("GET", "/", &[]).expect("whole").status, 200);
    }
}

#[test]
fn a_client_that_does_not_read_leaves_no_origin_out() {
    let head = "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 3000000\r\n\r\n";
    let script = Script::new().send(head).send(vec![b'x'; 2_000_000]).close();
    let break_off = move |_: &Request| script.clone();
    let origins = [Origin::start(break_off.clone()), Origin::start(break_off)];
    let server = serve(&origins.each_ref(), "");
    let start = |_| {
        let mut client = Client::connect_narrow(server.address());
        assert!(client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
        client
    };
    let mut clients: Vec<_> = (0..8).map(start).collect();
    holds_within(Duration::from_millis(2_500), || false);
    clients.iter_mut().for_each(|client| {
        client.widen();
        assert!(client.response("GET").is_err());
    });
    assert_eq!(server.stat("origin_ejections_total"), 0.0);
}

#[test]
fn error_statuses_that_every_origin_gives_to_a_request_leave_no_origin_out() {
    let script = |request: &Request| match request.target.as_str() {
        "/limited" => Script::answer("503 Service Unavailable", &["Cache-Control: no-store"], b""),
        _ => Script::answer("200 OK", &["Cache-Control: no-store"], b"x"),
    };
    let origins = [Origin::start(script), Origin::start(script)];
    let server = serve(&origins.each_ref(), "");
    let mut client = Client::connect(server.address());
    for _ in 0..8 {
        assert_eq!(client.ask("GET", "/limited", &[]).expect("whole").status, 503);
    }
    assert_eq!(server.stat("origin_failovers_total"), 8.0);
    assert_eq!(server.stat("origin_ejections_total"), 0.0);
}

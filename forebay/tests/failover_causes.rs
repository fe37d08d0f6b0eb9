//! Failures that a client or a request causes: they leave no origin out.

use std::time::Duration;

use forebay_testkit::clock::holds_within;
use forebay_testkit::script::Step;
use forebay_testkit::{Client, Origin, Request, Script, Server, ServerBuilder, eventually};

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

/// An origin that sends the start of its answer at once, and the end after the request.
fn answering_early() -> Origin {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na";
    Origin::start(move |_| Script::early().send(head).step(Step::ReadBody).send("b"))
}

/// Starts an upload, and returns its client once the start of the answer has arrived.
fn begin_upload(server: &Server, rest: &str) -> Client {
    let mut client = Client::connect(server.address());
    assert!(client.send(posts(rest).next().expect("a request")));
    let begun = client.peek("POST", |response| response.body == b"a").expect("a head");
    assert_eq!(begun.status, 200);
    client
}

#[test]
fn an_upload_that_moves_may_take_longer_than_the_pauses_of_an_answer() {
    let origin = answering_early();
    let server = serve(&[&origin], "origin_idle_ms_max = \"400ms\"\nupload_buffer_bytes = 0");
    let mut client = begin_upload(&server, "Content-Length: 11\r\n\r\nx");
    for _ in 0..10 {
        holds_within(Duration::from_millis(100), || false);
        assert!(client.send("x"));
    }
    assert_eq!(client.response("POST").expect("whole").body, b"ab");
    assert_eq!(origin.requests()[0].body, [b'x'; 11]);
}

#[test]
fn a_client_that_does_not_send_its_body_after_the_answer_began_leaves_no_origin_out() {
    let origins = [answering_early(), answering_early()];
    let server =
        serve(&origins.each_ref(), "origin_idle_ms_max = \"300ms\"\nupload_buffer_bytes = 0");
    for rest in ["Content-Length: 4\r\n\r\nx", "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"] {
        let mut clients: Vec<_> = (0..8).map(|_| begin_upload(&server, rest)).collect();
        for client in &mut clients {
            assert!(client.response("POST").is_err(), "{rest}");
        }
    }
    assert_eq!(server.stat("origin_ejections_total"), 0.0);
    assert_eq!(server.stat("origin_timeouts_total"), 0.0);
}

#[test]
fn an_upload_that_breaks_off_after_the_answer_began_is_no_fault_of_the_origin() {
    let origins = [answering_early(), answering_early()];
    let server = serve(&origins.each_ref(), "upload_buffer_bytes = 0");
    let requests = || origins.iter().map(Origin::request_count).sum::<usize>();
    for ends in [Client::reset, drop] {
        for _ in 0..8 {
            ends(begin_upload(&server, "Content-Length: 4\r\n\r\nx"));
        }
    }
    for _ in 0..8 {
        let mut client = begin_upload(&server, "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n");
        assert!(client.send("not a length\r\n"));
        assert!(client.response("POST").is_err());
    }
    eventually("all exchanges have ended", || {
        origins.iter().flat_map(Origin::connections).all(|connection| connection.is_closed)
    });
    assert_eq!(requests(), 24);
    assert!(!server.errors().contains("origin_"), "{}", server.errors());
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

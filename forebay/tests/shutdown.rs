//! SIGTERM: open requests are finished, idle connections are closed, and the server exits
//! successfully.

use std::net::TcpStream;

use forebay_testkit::script::answer_head;
use forebay_testkit::{
    Broken, Client, Gate, Origin, Script, Server, ServerBuilder, Signal, eventually,
};

#[test]
fn requests_in_flight_are_finished_and_no_new_ones_are_accepted() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |_| {
        let script = Script::new().send(answer_head("200 OK", &[], 8)).send("part");
        script.wait(&held).send("rest")
    });
    let mut server = Server::before(env!("CARGO_BIN_EXE_forebay"), &origin);
    let mut busy = Client::connect(server.address());
    busy.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    busy.peek("GET", |response| response.body == b"part").expect("the response is in flight");
    let mut idle = Client::connect(server.address());

    server.signal(Signal::TERM);
    assert!(idle.is_closed_cleanly(), "an idle connection is not closed");
    let address = server.address();
    eventually("new connections are refused", || TcpStream::connect(address).is_err());
    gate.open();
    assert_eq!(busy.response("GET").expect("whole").text(), "partrest");
    assert!(busy.is_closed_cleanly(), "the connection outlives its last answer");
    assert!(server.wait().is_some_and(|status| status.success()), "no clean exit");
}

#[test]
fn an_upload_in_flight_is_finished() {
    let origin = Origin::echo();
    let mut server = Server::before(env!("CARGO_BIN_EXE_forebay"), &origin);
    let mut client = Client::connect(server.address());
    client.send("PUT /up HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\npart");
    eventually("the upload is in flight", || origin.request_count() == 1);
    server.signal(Signal::TERM);
    let address = server.address();
    eventually("new connections are refused", || TcpStream::connect(address).is_err());
    client.send("rest");
    assert_eq!(client.response("PUT").expect("whole").text(), "PUT /up");
    assert!(server.wait().is_some_and(|status| status.success()), "no clean exit");
    assert_eq!(origin.requests()[0].body, b"partrest");
}

#[test]
fn an_idle_server_stops_at_once_and_removes_its_socket() {
    let origin = Origin::echo();
    let mut server = Server::before(env!("CARGO_BIN_EXE_forebay"), &origin);
    let mut kept = Client::connect(server.address());
    assert_eq!(kept.ask("GET", "/", &[]).expect("served").status, 200);
    assert!(server.admin().exists());
    assert!(server.stop().is_some_and(|status| status.success()), "{}", server.errors());
    assert!(kept.is_closed_cleanly());
    assert!(!server.admin().exists(), "the admin socket is left behind");
}

#[test]
fn unfinished_requests_are_cut_off_when_the_drain_time_is_over() {
    let origin =
        Origin::start(|_| Script::new().send(answer_head("200 OK", &[], 8)).send("part").stall());
    let mut server = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay"))
        .origin(&origin)
        .flag("--shutdown-ms-max", "200ms")
        .start();
    let mut client = Client::connect(server.address());
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    client.peek("GET", |response| response.body == b"part").expect("the response is in flight");
    assert!(server.stop().is_some(), "the server does not stop");
    assert!(matches!(client.response("GET"), Err(Broken::Cut(..))), "the cut response looks whole");
}

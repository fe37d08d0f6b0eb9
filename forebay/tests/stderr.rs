//! Standard error: a reader that stalls delays no request and not the end of the server.

use std::io::Read;
use std::process::Command;

use forebay_testkit::pipe::full_pipe;
use forebay_testkit::{Client, Origin, ServerBuilder, eventually};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// The number of connections that are refused in one test, each with a warning. One worker logs 20
/// warnings in a second.
const WARNINGS: usize = 60;

/// The number of reloads in one test, each with an event: more than the number of events that can
/// wait for the reader.
const RELOADS: usize = 400;
const QUEUED: u64 = 260;

#[test]
fn a_reader_of_standard_error_that_stalls_blocks_neither_workers_nor_the_stop() {
    let origin = Origin::echo();
    let (mut reader, writer) = full_pipe();
    let mut server = ServerBuilder::new(PROGRAM)
        .origin(&origin)
        .flag("--workers", "1")
        .flag("--connections-per-address-max", "2")
        .errors_into(writer)
        .start();
    let mut clients = [Client::connect(server.address()), Client::connect(server.address())];
    for client in &mut clients {
        assert_eq!(client.ask("GET", "/", &[]).expect("served").status, 200);
        // An idle connection would be closed to make room for another.
        client.send("GET / HTTP/1.1\r\n");
    }
    for _ in 0..WARNINGS {
        assert!(Client::connect(server.address()).ask("GET", "/", &[]).is_err(), "not refused");
    }
    eventually("warnings were due", || server.stat("connections_refused_total") >= 60.0);
    for client in &mut clients {
        client.send("Host: a\r\n\r\n");
        assert_eq!(client.response("GET").expect("served").status, 200);
    }
    let status = server.stop().expect("the server does not end");
    assert!(status.success(), "{status}");
    drop(server);
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("text");
    assert!(text.trim_matches('x').is_empty(), "the pipe had room: {text}");
}

#[test]
fn events_that_are_lost_are_counted_while_the_reader_stalls_and_at_the_end() {
    let origin = Origin::echo();
    let (_reader, writer) = full_pipe();
    let mut server = ServerBuilder::new(PROGRAM)
        .origin(&origin)
        .flag("--workers", "1")
        .flag("--admin", "127.0.0.1:0")
        .errors_into(writer)
        .start();
    let admin = server.admin().display().to_string().parse().expect("an address");
    let mut client = Client::connect(admin);
    for _ in 0..RELOADS {
        client.send("POST /reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(client.response("POST").expect("an answer").status, 200);
    }
    let lost = |count: &u64| (RELOADS as u64 - QUEUED..RELOADS as u64).contains(count);
    eventually("lost events are counted", || lost(&(server.stat("events_lost_total") as u64)));
    let file = server.path("run").join(format!("{}.counters", server.address().port()));
    assert!(server.stop().is_some_and(|status| status.success()));
    // Now the lines in the queue are lost too.
    let counters = Command::new(PROGRAM).args(["counters", "--json"]).arg(file).output();
    let counters: Value =
        serde_json::from_slice(&counters.expect("it was built").stdout).expect("counters are JSON");
    let count = counters["counters"]["events_lost_total"].as_u64();
    assert!(count.is_some_and(|count| count >= RELOADS as u64), "{counters}");
}

#[test]
fn events_are_written_once_the_reader_continues() {
    let origin = Origin::echo();
    let (mut reader, writer) = full_pipe();
    let mut server = ServerBuilder::new(PROGRAM).origin(&origin).errors_into(writer).start();
    let mut client = Client::connect(server.address());
    assert_eq!(client.ask("GET", "/", &[]).expect("served").status, 200);
    let text = std::thread::spawn(move || {
        let mut text = String::new();
        reader.read_to_string(&mut text).map(|_| text)
    });
    assert!(server.stop().is_some_and(|status| status.success()));
    drop(server);
    let text = text.join().expect("no panic").expect("text");
    for event in ["cache_opened", "started", "stopping", "stopped"] {
        let event = format!("event=\"{event}\"");
        assert_eq!(text.matches(&event).count(), 1, "{event}: {}", text.trim_matches('x'));
    }
}

#[test]
fn a_start_that_fails_ends_although_its_message_cannot_be_written() {
    let (_reader, writer) = full_pipe();
    let builder = ServerBuilder::new(PROGRAM).flag("--origin", "nonsense").errors_into(writer);
    assert_eq!(builder.run().status.code(), Some(1));
}

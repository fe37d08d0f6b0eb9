//! Standard error: a reader that stalls delays no request and not the end of the server.

use std::io::Read;

use forebay_testkit::pipe::full_pipe;
use forebay_testkit::{Client, Origin, ServerBuilder, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// Connections of one test that are refused, each with a warning. One worker logs 20 in a second.
const WARNINGS: usize = 60;

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
    }
    for _ in 0..WARNINGS {
        assert!(Client::connect(server.address()).ask("GET", "/", &[]).is_err(), "not refused");
    }
    eventually("warnings were due", || server.stat("connections_refused_total") >= 60.0);
    for client in &mut clients {
        assert_eq!(client.ask("GET", "/", &[]).expect("served").status, 200);
    }
    let status = server.stop().expect("the server does not end");
    assert!(status.success(), "{status}");
    drop(server);
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("text");
    assert!(text.trim_matches('x').is_empty(), "the pipe had room: {text}");
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

//! Clients that leave while the origin sends nothing.

use forebay_testkit::{Client, Origin, Script, ServerBuilder, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// The head of a stream of events, and its first event.
const EVENT: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                     Cache-Control: no-store\r\nTransfer-Encoding: chunked\r\n\r\n\
                     9\r\ndata: 1\n\n\r\n";

#[test]
fn a_quiet_stream_ends_at_the_origin_soon_after_its_client_has_left() {
    let origin = Origin::start(|_| Script::new().send(EVENT).stall());
    let builder = ServerBuilder::new(PROGRAM).origin(&origin).flag("--workers", "1");
    let server = builder.flag("--origin-idle-ms-max", "10m").start();
    let open = || origin.connections().iter().filter(|one| !one.is_closed).count();
    let mut clients: Vec<_> = (0..3).map(|_| Client::connect(server.address())).collect();
    for client in &mut clients {
        assert!(client.send("GET /events HTTP/1.1\r\nHost: a\r\n\r\n"));
        let event = client.peek("GET", |answer| answer.body == b"data: 1\n\n");
        event.expect("the first event arrives at once");
    }
    assert_eq!(open(), 3);
    clients.truncate(1);
    eventually("two fetches end", || open() == 1);
    assert_eq!(server.stat("clients_left_total"), 2.0);
    assert_eq!(server.stat("origin_connections_open"), 1.0, "the third client still waits");
}

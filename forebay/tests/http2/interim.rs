//! Interim responses over HTTP/2 that the client needs before the origin goes on.

use std::io::Write;
use std::net::TcpListener;

use forebay_testkit::{PATIENCE, ServerBuilder};

use crate::common::RawClient;

/// The origin reads the body only after its 100, and the client sends it only then.
#[test]
fn a_client_gets_the_100_that_it_waits_for() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let origin = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let mut text = Vec::new();
        read_until(&mut stream, &mut text, b"\r\n\r\n");
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").expect("an open connection");
        read_until(&mut stream, &mut text, b"content");
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").expect("an open connection");
    });
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay"))
        .flag("--origin", &format!("http://{address}"))
        .flag("--workers", "1")
        .flag("--http2", "true")
        .start();
    let mut client = RawClient::connect(server.address());
    let lines = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "a.example"),
        (":path", "/"),
        ("content-length", "7"),
        ("expect", "100-continue"),
    ];
    client.begin_request(1, &lines);
    assert!(until_headers(&mut client).windows(3).any(|status| status == b"100"));
    client.frame(0, 1, 1, b"content");
    // Index 9 of the static table is `:status: 204`.
    assert_eq!(until_headers(&mut client).first(), Some(&0x89));
    origin.join().expect("no panic");
}

fn until_headers(client: &mut RawClient) -> Vec<u8> {
    loop {
        let frame = client.read().expect("a frame");
        if frame.kind == 1 {
            return frame.payload;
        }
    }
}

fn read_until(stream: &mut impl std::io::Read, text: &mut Vec<u8>, end: &[u8]) {
    while !text.ends_with(end) {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("the rest arrives");
        text.extend(byte);
    }
}

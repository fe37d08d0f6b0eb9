//! Clients that share the decompression of one worker: slow clients must not take it from others.

use forebay_testkit::client::request_text;
use forebay_testkit::script::answer_head;
use forebay_testkit::{Client, Origin, Script, Server, ServerBuilder, eventually};

use super::decompressing::{DECOMPRESS, encoded, is_decompressed};
use super::{ask, decoded, start, text};

/// Long enough that the server cannot send all of it to a client that does not read.
const LONG_BYTES: usize = 4 << 20;

/// An origin of compressed bodies, which may be stored unless the path begins with `/private`. A
/// body at `/half` stops in the middle.
fn origin() -> Origin {
    let bodies = [LONG_BYTES, 20_000].map(|bytes| encoded("gzip", &text(bytes)));
    Origin::start(move |request| {
        let control = match request.target.starts_with("/private") {
            true => "Cache-Control: private",
            false => "Cache-Control: max-age=60",
        };
        let body = &bodies[usize::from(!request.target.ends_with("/long"))];
        let fields = ["Content-Encoding: gzip", control];
        let script = Script::new().send(answer_head("200 OK", &fields, body.len()));
        match request.target.ends_with("/half") {
            true => script.send(&body[..body.len() / 2]).stall(),
            false => script.send(body),
        }
    })
}

/// Requests a body, and reads only its beginning.
fn sleeper(mut client: Client, target: &str) -> Client {
    client.send(request_text("GET", target, &[]));
    let begun = client.peek("GET", |response| !response.body.is_empty());
    assert!(!begun.expect("the beginning").is_whole);
    client
}

/// Waits until no body is decoded, because all clients with an open one have stopped reading.
fn wait_for_stall(server: &Server) {
    let mut decoded = 0.0;
    eventually("nothing more is decoded", || {
        let before = decoded;
        let private = ask(server, "/private/other", &[]);
        assert!(is_decompressed(&private, &text(20_000)), "{:?}", private.head);
        decoded = server.stat("decompress_bytes_out_total");
        decoded == before + 20_000.0
    });
}

#[test]
fn a_client_that_stops_reading_does_not_stop_other_decompressions() {
    for target in ["/private/long", "/long"] {
        let origin = origin();
        // The decoded body is too long to be stored, so the fill waits for its reader.
        let server = start(&origin, &format!("{DECOMPRESS}object_bytes_max = '1MiB'\n"));
        let _slow = sleeper(Client::connect_narrow(server.address()), target);
        wait_for_stall(&server);
        assert_eq!(server.stat("decompressions_open"), 1.0, "{target}");
        let stored = ask(&server, "/other", &[]);
        assert!(is_decompressed(&stored, &text(20_000)), "{target}: {:?}", stored.head);
    }
}

#[test]
fn one_client_network_and_bodies_that_are_not_stored_leave_places_to_others() {
    let origin = origin();
    let site = "decompressions_max = 4\n[[site]]\nname = \"a\"\nnames = [\"*\"]\n";
    let config = format!("{site}origin = \"http://{}\"\n{DECOMPRESS}", origin.address());
    let builder = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay"));
    let server = builder.config(&config).flag("--workers", "1").start();
    let client = |last: u8| Client::connect_from([127, 0, 0, last].into(), server.address());
    let is_decoded = |last: u8, target: &str| {
        let response = client(last).ask("GET", target, &[]).expect("an answer");
        assert!(decoded(&response) == text(20_000), "{target} for {last}: {:?}", response.head);
        assert_eq!(response.field("vary"), Some("accept-encoding"), "{target} for {last}");
        response.field("content-encoding").is_none()
    };
    let mut sleepers = Vec::new();
    for _ in 0..4 {
        sleepers.push(sleeper(client(1), "/private/half"));
    }
    assert_eq!(server.stat("decompressions_open"), 1.0);
    assert!(!is_decoded(1, "/private/other") && !is_decoded(1, "/a"), "its place is taken");
    assert!(is_decoded(2, "/private/other") && is_decoded(2, "/a"), "others have places");
    sleepers.push(sleeper(client(2), "/private/half"));
    assert!(!is_decoded(3, "/private/other"), "half of the places are for stored bodies");
    assert!(is_decoded(3, "/b"), "a body that is stored finds a place");
    assert_eq!(server.stat("decompressions_open"), 2.0);
    assert_eq!(server.stat("decompress_busy_total"), 6.0, "each response is counted once");
}

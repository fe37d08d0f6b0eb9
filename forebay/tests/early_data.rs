//! Requests that another server may have received early (RFC 8470): `Early-Data` and 425.

use forebay_testkit::{Client, Gate, Origin, Script, Server, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// An origin that refuses early requests with a 425 that looks as if it could be stored, once the
/// gate is open. Its other answers can be stored.
fn origin(gate: &Gate) -> Origin {
    let gate = gate.clone();
    Origin::start(move |request| {
        let fields = ["Cache-Control: max-age=60"];
        match request.head.field("early-data") {
            Some("1") => Script::early()
                .wait(&gate)
                .send("HTTP/1.1 425 Too Early\r\nCache-Control: max-age=60\r\n")
                .send("Content-Length: 5\r\n\r\nearly"),
            _ => Script::answer("200 OK", &fields, b"late"),
        }
    })
}

fn early(server: &Server, target: &str, fields: &[&str]) -> Client {
    let mut client = Client::connect(server.address());
    let more: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a.org\r\nEarly-Data: 1\r\n{more}\r\n"));
    client
}

fn late(server: &Server, target: &str) -> (u16, String) {
    let mut client = Client::connect(server.address());
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a.org\r\n\r\n"));
    let answer = client.response("GET").expect("an answer");
    (answer.status, answer.text())
}

#[test]
fn a_425_goes_only_to_the_client_that_was_early_and_is_never_stored() {
    let gate = Gate::new();
    gate.open();
    let origin = origin(&gate);
    let server = Server::before(PROGRAM, &origin);
    for turn in 0..3 {
        let answer = early(&server, "/a", &[]).response("GET").expect("an answer");
        assert_eq!((answer.status, answer.text()), (425, "early".to_owned()), "{turn}");
    }
    assert_eq!(origin.count("/a"), 3, "a 425 was stored");
    assert_eq!(late(&server, "/a"), (200, "late".to_owned()));
    assert_eq!(late(&server, "/a"), (200, "late".to_owned()));
    // A stored response is as safe early as late.
    let answer = early(&server, "/a", &[]).response("GET").expect("an answer");
    assert_eq!((answer.status, answer.text()), (200, "late".to_owned()));
    assert_eq!(origin.count("/a"), 4);
}

#[test]
fn requests_that_wait_for_an_early_one_do_not_get_its_425() {
    let gate = Gate::new();
    let origin = origin(&gate);
    let server = Server::before(PROGRAM, &origin);
    let mut first = early(&server, "/b", &[]);
    eventually("the origin has it", || origin.count("/b") == 1);
    let mut others: Vec<_> = (0..3).map(|_| Client::connect(server.address())).collect();
    for other in &mut others {
        other.send("GET /b HTTP/1.1\r\nHost: a.org\r\n\r\n");
    }
    eventually("they wait", || server.stat("requests_total") == 4.0);
    gate.open();
    assert_eq!(first.response("GET").expect("an answer").status, 425);
    for other in &mut others {
        let answer = other.response("GET").expect("an answer");
        assert_eq!((answer.status, answer.text()), (200, "late".to_owned()));
    }
    assert_eq!(late(&server, "/b"), (200, "late".to_owned()));
    assert!(origin.count("/b") <= 5, "{}", origin.count("/b"));
}

#[test]
fn the_field_is_forwarded_unchanged_and_cannot_be_removed_by_connection() {
    let gate = Gate::new();
    gate.open();
    let origin = origin(&gate);
    let server = Server::before(PROGRAM, &origin);
    let mut client = early(&server, "/c", &["Connection: early-data"]);
    assert_eq!(client.response("GET").expect("an answer").status, 425);
    let mut client = Client::connect(server.address());
    client.send("POST /d HTTP/1.1\r\nHost: a.org\r\nEarly-Data: 1\r\nContent-Length: 1\r\n\r\nx");
    assert_eq!(client.response("POST").expect("an answer").status, 425);
    let requests = origin.requests();
    assert_eq!(requests.len(), 2, "a request was sent again");
    assert!(requests.iter().all(|request| request.head.field("early-data") == Some("1")));
}

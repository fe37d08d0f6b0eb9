//! The scripted client against the scripted origin, without a proxy between them.

use forebay_testkit::script::answer_head;
use forebay_testkit::{Broken, Client, End, Gate, Origin, Script, eventually};

#[test]
fn requests_are_answered_in_order_and_recorded() {
    let origin = Origin::echo();
    let mut client = Client::connect(origin.address());
    for target in ["/a", "/b", "/a"] {
        let response = client.ask("GET", target, &["X-Kind: test"]).expect("whole");
        assert_eq!((response.status, response.text()), (200, format!("GET {target}")));
    }
    let targets: Vec<_> = origin.requests().into_iter().map(|r| (r.target, r.nth)).collect();
    assert_eq!(targets, [("/a".into(), 0), ("/b".into(), 0), ("/a".into(), 1)]);
    assert_eq!((origin.count("/a"), origin.faults()), (2, vec![]));
}

#[test]
fn bytes_sent_in_pieces_are_one_request() {
    let origin = Origin::echo();
    let bytes =
        b"PUT /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n";
    let every: Vec<usize> = (1..bytes.len()).collect();
    let mut client = Client::connect(origin.address());
    assert!(client.send_cut(bytes, &every));
    assert_eq!(client.response("PUT").expect("whole").text(), "PUT /x");
    let seen = &origin.requests()[0];
    assert!(seen.is_whole && seen.body == b"ab", "{seen:?}");
}

#[test]
fn smuggled_and_ambiguous_bytes_are_faults() {
    let cases = [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\nX",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET / HTTP/1.1\nHost: a\n\n",
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: x-hop\r\n\r\n",
    ];
    for text in cases {
        let origin = Origin::echo();
        let mut client = Client::connect(origin.address());
        client.send(text);
        drop(client);
        eventually(text, || !origin.faults().is_empty());
    }
}

#[test]
fn a_gate_holds_the_body_back_and_the_head_can_be_read() {
    let (gate, reached) = (Gate::new(), Gate::new());
    let held = gate.clone();
    let at_gate = reached.clone();
    let origin = Origin::start(move |_| {
        Script::new()
            .send(answer_head("200 OK", &[], 4))
            .send("ab")
            .open(&at_gate)
            .wait(&held)
            .send("cd")
    });
    let mut client = Client::connect(origin.address());
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(reached.wait());
    let part = client.peek("GET", |response| response.body == b"ab").expect("head and half");
    assert!(!part.is_whole && !gate.is_open());
    gate.open();
    assert_eq!(client.response("GET").expect("whole").text(), "abcd");
}

#[test]
fn cut_and_reset_connections_are_told_apart() {
    let origin = Origin::start(|request| {
        let script = Script::new().send(answer_head("200 OK", &[], 4)).send("ab");
        match request.target.as_str() {
            "/close" => script.close(),
            "/reset" => script.reset(),
            _ => Script::early().close(),
        }
    });
    for (target, wanted) in [("/close", End::Closed), ("/reset", End::Reset)] {
        let mut client = Client::connect(origin.address());
        let Err(Broken::Cut(end, _)) = client.ask("GET", target, &[]) else {
            panic!("{target} was not cut");
        };
        assert_eq!(end, wanted, "{target}");
    }
    let mut client = Client::connect(origin.address());
    client.send("GET /none HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.is_closed_cleanly());
    drop(client);
    eventually("the origin records the end of each connection", || {
        origin.connections().iter().all(|c| c.is_closed)
    });
}

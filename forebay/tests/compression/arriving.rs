//! Responses that are compressed while they arrive.

use std::io::Read;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use forebay_testkit::client::request_text;
use forebay_testkit::script::answer_head;
use forebay_testkit::{Client, Gate, Origin, Response, Script, eventually};

use super::{COMPRESS, ask, decoded, is_hit, page, start, text};

/// An origin that sends half of a page of this length, and the rest when the gate opens.
fn pausing_origin(bytes: usize) -> (Origin, Gate) {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |_| {
        let body = text(bytes);
        let (beginning, rest) = body.split_at(bytes / 2);
        let fields = ["Content-Type: text/html", "Cache-Control: max-age=60"];
        let head = answer_head("200 OK", &fields, bytes);
        Script::new().send(head).send(beginning).wait(&held).send(rest)
    });
    (origin, gate)
}

#[test]
fn followers_get_only_what_they_accept() {
    let (origin, gate) = pausing_origin(100_000);
    let server = start(&origin, COMPRESS);
    let codings = ["br", "br", "identity", "gzip", "zstd, br", "gzip", "identity", "br"];
    let mut clients: Vec<_> = codings
        .iter()
        .map(|coding| {
            let mut client = Client::connect(server.address());
            let line = format!("Accept-Encoding: {coding}");
            client.send(request_text("GET", "/a", &[&line]));
            client
        })
        .collect();
    eventually("each form is fetched", || origin.request_count() == 4);
    gate.open();
    for (client, coding) in clients.iter_mut().zip(codings) {
        let response = client.response("GET").expect("an answer");
        assert!(decoded(&response) == text(100_000), "{coding}: {:?}", response.head);
        let own = response.field("content-encoding").unwrap_or("identity");
        assert!(coding.starts_with(own), "{coding}: {own}");
    }
    assert_eq!(origin.request_count(), 4);
}

#[test]
fn bytes_before_a_pause_of_the_origin_reach_the_client() {
    for coding in ["zstd", "br", "gzip"] {
        let (origin, gate) = pausing_origin(4000);
        let server = start(&origin, COMPRESS);
        let mut client = Client::connect(server.address());
        let line = format!("Accept-Encoding: {coding}");
        client.send(request_text("GET", "/a", &[&line]));
        let has_beginning = |response: &Response| {
            let mut beginning = vec![0; 2000];
            let bytes = &*response.body;
            let read = match coding {
                "zstd" => zstd::stream::read::Decoder::new(bytes)
                    .and_then(|mut decoder| decoder.read_exact(&mut beginning)),
                "br" => brotli::Decompressor::new(bytes, 4096).read_exact(&mut beginning),
                _ => flate2::read::GzDecoder::new(bytes).read_exact(&mut beginning),
            };
            read.is_ok() && beginning == text(2000)
        };
        client.peek("GET", has_beginning).expect("the beginning");
        gate.open();
        let response = client.response("GET").expect("an answer");
        assert!(decoded(&response) == text(4000), "{coding}");
    }
}

/// Each pause of the origin is shorter than the time for which an encoder may hold bytes back.
#[test]
fn bytes_of_a_dripping_origin_reach_the_client() {
    for coding in ["zstd", "br", "gzip"] {
        let gates: Vec<_> = (0..500).map(|_| Gate::new()).collect();
        let gate = Gate::new();
        let (drips, held) = (gates.clone(), gate.clone());
        let origin = Origin::start(move |_| {
            let fields = ["Content-Type: text/html", "Cache-Control: max-age=60"];
            let mut script = Script::new().send(answer_head("200 OK", &fields, 10_000));
            let body = text(10_000);
            for (piece, drip) in body[..5000].chunks(10).zip(&drips) {
                script = script.send(piece).wait(drip);
            }
            script.wait(&held).send(&body[5000..])
        });
        let server = start(&origin, COMPRESS);
        let mut client = Client::connect(server.address());
        let line = format!("Accept-Encoding: {coding}");
        client.send(request_text("GET", "/a", &[&line]));
        // Lets the origin send its pieces slowly until the client has the beginning, and then as
        // fast as possible.
        let (begun, has_begun) = mpsc::channel::<()>();
        let dripping = std::thread::spawn(move || {
            let mut slow_count = 0;
            for gate in gates {
                let waited = has_begun.recv_timeout(Duration::from_millis(60));
                slow_count += usize::from(waited == Err(RecvTimeoutError::Timeout));
                gate.open();
            }
            slow_count
        });
        client.peek("GET", |response| response.body.len() > 30).expect("the beginning");
        drop(begun);
        let slow_count = dripping.join().expect("the gates");
        assert!(slow_count < 500, "{coding}: nothing was sent while the origin dripped");
        gate.open();
        let response = client.response("GET").expect("an answer");
        assert!(decoded(&response) == text(10_000), "{coding}");
    }
}

#[test]
fn a_body_that_breaks_off_is_neither_ended_nor_stored() {
    for coding in ["zstd", "br", "gzip"] {
        let origin = Origin::start(|request| {
            let body = text(60_000);
            if request.head.field("x-whole").is_some() {
                return page(&[], &body);
            }
            let fields = ["Content-Type: text/html", "Cache-Control: max-age=60"];
            let head = answer_head("200 OK", &fields, body.len());
            Script::new().send(head).send(&body[..50_000]).close()
        });
        let server = start(&origin, COMPRESS);
        let mut client = Client::connect(server.address());
        let line = format!("Accept-Encoding: {coding}");
        let broken = client.ask("GET", "/a", &[&line]);
        assert!(broken.as_ref().map_or(true, |it| !it.is_whole || it.status == 502), "{broken:?}");
        let whole = ask(&server, "/a", &[&line, "X-Whole: 1"]);
        assert!(!is_hit(&whole) && decoded(&whole) == text(60_000), "{coding}");
        assert_eq!(server.stat("compressions_open"), 0.0);
        assert_eq!(server.stat("responses_compressed_total"), 1.0);
    }
}

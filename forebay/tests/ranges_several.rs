//! Requests for several ranges over real sockets: multipart/byteranges (RFC 9110 §14.6,
//! §15.3.7.2), and ranges of a response whose length is not known yet.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use forebay_testkit::{
    Client, Gate, Origin, RangedFile, Response, Script, Server, ServerBuilder, eventually,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");
const MIB: usize = 1 << 20;
const UNIT: usize = MIB;

fn start(origin: &Origin) -> Server {
    builder(origin).start()
}

fn builder(origin: &Origin) -> ServerBuilder {
    ServerBuilder::new(PROGRAM).origin(origin).flag("--workers", "2").flag("--cache-size", "64MiB")
}

fn ask(server: &Server, fields: &[&str]) -> Response {
    let response = Client::connect(server.address()).ask("GET", "/film", fields);
    // A broken response would be printed with megabytes of its body.
    response.unwrap_or_else(|_| panic!("the response is not whole"))
}

fn range_field(parts: &[Range<usize>]) -> String {
    let specs: Vec<_> =
        parts.iter().map(|part| format!("{}-{}", part.start, part.end - 1)).collect();
    format!("Range: bytes={}", specs.join(", "))
}

fn ask_parts(server: &Server, parts: &[Range<usize>]) -> Response {
    ask(server, &[&range_field(parts)])
}

fn cache_status(response: &Response) -> &str {
    response.field("cache-status").expect("every response has one")
}

/// Asserts that a response consists of exactly these parts of the file.
fn assert_parts(response: &Response, file: &RangedFile, parts: &[Range<usize>]) {
    assert_eq!(response.status, 206, "{:?}", response.head);
    assert_eq!(response.field("content-range"), None, "{:?}", response.head);
    let form = response.field("content-type").expect("it is a multipart");
    let boundary = form.strip_prefix("multipart/byteranges; boundary=").expect(form);
    let mut expected = Vec::new();
    for part in parts {
        let (first, last, total) = (part.start, part.end - 1, file.length);
        let range = format!("content-range: bytes {first}-{last}/{total}\r\n\r\n");
        let line = if expected.is_empty() { "" } else { "\r\n" };
        expected.extend_from_slice(format!("{line}--{boundary}\r\n{range}").as_bytes());
        expected.extend_from_slice(&file.bytes(part.clone()));
    }
    expected.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    assert_eq!(response.field("content-length"), Some(&*expected.len().to_string()));
    let differs = response.body.iter().zip(&expected).position(|(sent, own)| sent != own);
    assert!(response.body == expected, "the parts {parts:?}, at {differs:?}");
}

// RFC: 9110-15.3.7.2-1, 9110-15.3.7.2-2, 9110-15.3.7.2-3, 9110-15.3.7.2-6
#[test]
fn several_ranges_of_a_stored_response_are_parts_of_a_hit() {
    for length in [5000, 300_000, 3 * MIB + 7] {
        let file = RangedFile::new(length);
        let origin = file.origin();
        let server = start(&origin);
        ask(&server, &[]);
        eventually("it is stored", || server.stat("stored_total") == 1.0);
        let parts = [4000..4100, 0..1, length - 500..length];
        let mut boundaries = Vec::new();
        for _ in 0..2 {
            let response = ask_parts(&server, &parts);
            assert_parts(&response, &file, &parts);
            assert!(cache_status(&response).starts_with("forebay; hit"), "{:?}", response.head);
            boundaries.push(response.field("content-type").map(str::to_owned));
        }
        assert_ne!(boundaries[0], boundaries[1], "boundaries are random");
        assert_eq!(origin.request_count(), 1, "{length}");
        assert_eq!(server.stat("hits_range_total"), 2.0);
        let same = ask(&server, &[&range_field(&parts), "If-Range: \"v0\""]);
        assert_parts(&same, &file, &parts);
        let other = ask(&server, &[&range_field(&parts), "If-Range: \"v1\""]);
        assert_eq!((other.status, other.body.len()), (200, length));
        let beyond = ask(&server, &["Range: bytes=9999999-,-0"]);
        assert_eq!(beyond.status, 416);
        assert_eq!(beyond.field("content-range"), Some(&*format!("bytes */{length}")));
        let mut client = Client::connect(server.address());
        let head = client.ask("HEAD", "/film", &[&range_field(&parts)]).expect("it is answered");
        assert_eq!((head.status, head.field("content-range")), (200, None));
        assert_eq!(head.field("content-length"), Some(&*length.to_string()));
        let many: Vec<_> = (0..33).map(|n| n * 100..n * 100 + 1).collect();
        assert_eq!(ask_parts(&server, &many).status, 200, "too many ranges are ignored");
        // The connection is usable after parts, so their length was right.
        let mut client = Client::connect(server.address());
        for _ in 0..2 {
            let response = client.ask("GET", "/film", &[&range_field(&parts)]);
            assert_parts(&response.expect("it is whole"), &file, &parts);
        }
        assert_eq!(origin.request_count(), 1, "{length}");
    }
}

// RFC: 9110-15.3.7.2-4, 9110-15.3.7.2-5
#[test]
fn each_part_has_the_type_of_the_whole_and_a_single_part_is_none_of_several() {
    let origin = Origin::start(|_| {
        let fields = ["Cache-Control: max-age=60", "ETag: \"a\"", "Content-Type: text/x-film"];
        Script::answer("200 OK", &fields, &[b'x'; 1000])
    });
    let server = start(&origin);
    ask(&server, &[]);
    let several = ask(&server, &["Range: bytes=0-9,500-509"]);
    assert_eq!(several.status, 206);
    assert_eq!(several.text().matches("content-type: text/x-film\r\n").count(), 2);
    for single in ["bytes=0-9", "bytes=0-5,3-9", "bytes=0-9,5000-"] {
        let response = ask(&server, &[&format!("Range: {single}")]);
        assert_eq!(response.field("content-range"), Some("bytes 0-9/1000"), "{single}");
        assert_eq!(response.field("content-type"), Some("text/x-film"), "{single}");
    }
}

#[test]
fn several_ranges_fetch_only_their_units() {
    let file = RangedFile::new(10 * MIB + 123);
    let origin = file.origin();
    let server = start(&origin);
    let parts = [7 * UNIT + 5..7 * UNIT + 1005, 10..20, 3 * UNIT - 10..3 * UNIT + 10];
    let first = ask_parts(&server, &parts);
    assert_eq!(cache_status(&first), "forebay; fwd=uri-miss; fwd-status=206; stored");
    assert_parts(&first, &file, &parts);
    assert_eq!(file.sent_bytes(), 4 * UNIT, "{:?}", file.sent());
    eventually("the units are stored", || server.stat("parts_stored_total") == 4.0);
    let again = ask_parts(&server, &parts);
    assert_parts(&again, &file, &parts);
    assert!(cache_status(&again).starts_with("forebay; hit"), "{:?}", again.head);
    // The second part is not stored.
    let partial = [10..20, 5 * UNIT..5 * UNIT + 10, 7 * UNIT..7 * UNIT + 10];
    let response = ask_parts(&server, &partial);
    assert_parts(&response, &file, &partial);
    assert!(cache_status(&response).starts_with("forebay; fwd=partial"), "{:?}", response.head);
    assert_eq!(file.sent_bytes(), 5 * UNIT, "{:?}", file.sent());
}

#[test]
fn several_ranges_of_an_arriving_response_are_sent_as_they_arrive() {
    let file = RangedFile::new(200_000);
    let gate = Gate::new();
    let (held, answering) = (gate.clone(), file.clone());
    let origin = Origin::start(move |_| {
        let head = format!(
            "HTTP/1.1 200 OK\r\nETag: {}\r\n{}\r\nContent-Length: {}\r\n\r\n",
            answering.tag(),
            answering.fields,
            answering.length
        );
        let (begin, rest) = (answering.bytes(0..150), answering.bytes(150..answering.length));
        Script::new().send(head).send(begin).wait(&held).send(rest)
    });
    let server = start(&origin);
    let parts = [190_000..200_000, 0..50, 140..160];
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(ask(&server, &[]).body.len(), file.length));
        eventually("the response arrives", || server.stat("cache_growing_bytes") > 0.0);
        scope.spawn(|| {
            let ascending = [0..50, 140..160, 190_000..200_000];
            assert_parts(&ask_parts(&server, &parts), &file, &ascending);
        });
        eventually("a request follows", || server.stat("misses_total") == 2.0);
        gate.open();
    });
    assert_eq!(origin.request_count(), 1);
}

#[test]
fn the_parts_of_one_answer_are_never_of_two_versions() {
    let file = RangedFile::new(8 * MIB);
    let origin = file.origin();
    let server = start(&origin);
    ask_parts(&server, &[0..100, UNIT..UNIT + 100]);
    eventually("the units are stored", || server.stat("parts_stored_total") == 2.0);
    file.version.store(1, Relaxed);
    let mut client = Client::connect(server.address());
    let parts = [0..100, 200_000..200_100, 4 * UNIT..4 * UNIT + 100];
    let response = client.ask("GET", "/film", &[&range_field(&parts)]);
    if let Ok(response) = response {
        // The request began again without the stored response.
        let whole = response.status == 200 && response.body == file.bytes(0..file.length);
        if !whole {
            assert_parts(&response, &file, &parts);
        }
    }
}

#[test]
fn the_last_bytes_of_a_response_that_is_not_stored_fill_units() {
    for (length, units) in [(5000, 1), (10 * MIB + 123, 2)] {
        let file = RangedFile::new(length);
        let origin = file.origin();
        let server = start(&origin);
        for ask_again in [false, true] {
            let response = ask(&server, &["Range: bytes=-100"]);
            assert_eq!(response.status, 206, "{:?}", response.head);
            let expected = format!("bytes {}-{}/{length}", length - 100, length - 1);
            assert_eq!(response.field("content-range"), Some(&*expected));
            assert!(response.body == file.bytes(length - 100..length), "the last bytes");
            let is_hit = cache_status(&response).starts_with("forebay; hit");
            assert_eq!(is_hit, ask_again, "{:?}", response.head);
            let stored = || server.stat("stored_total") + server.stat("parts_stored_total");
            eventually("it is stored", || stored() >= f64::from(units));
        }
        assert_eq!(origin.request_count(), units as usize, "{:?}", file.sent());
    }
}

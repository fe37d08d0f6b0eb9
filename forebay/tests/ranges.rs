//! Range requests over real sockets: units of a response that are fetched, stored, shared and
//! combined (RFC 9110 §14, §15.3.7; RFC 9111 §3.3, §3.4).

use std::ops::Range;
use std::sync::Arc;
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

fn ask_part(server: &Server, part: Range<usize>) -> Response {
    ask(server, &[&format!("Range: bytes={}-{}", part.start, part.end - 1)])
}

fn cache_status(response: &Response) -> &str {
    response.field("cache-status").expect("every response has one")
}

/// Asserts that a response is exactly this part of the file.
fn assert_part(response: &Response, file: &RangedFile, part: Range<usize>) {
    assert_eq!(response.status, 206, "{:?}", response.head);
    let expected = format!("bytes {}-{}/{}", part.start, part.end - 1, file.length);
    assert_eq!(response.field("content-range"), Some(&*expected));
    assert!(response.body == file.bytes(part), "the bytes of {expected}");
}

#[test]
fn a_range_fetches_and_stores_the_units_that_it_needs() {
    let file = RangedFile::new(10 * MIB + 123);
    let origin = file.origin();
    let server = start(&origin);
    let first = ask_part(&server, 3 * UNIT + 5..3 * UNIT + 1005);
    assert_part(&first, &file, 3 * UNIT + 5..3 * UNIT + 1005);
    assert_eq!(cache_status(&first), "forebay; fwd=uri-miss; fwd-status=206; stored");
    assert_eq!(file.sent(), vec![3 * UNIT..4 * UNIT]);
    eventually("the unit is stored", || server.stat("parts_stored_total") == 1.0);
    let again = ask_part(&server, 3 * UNIT..4 * UNIT);
    assert_part(&again, &file, 3 * UNIT..4 * UNIT);
    assert!(cache_status(&again).starts_with("forebay; hit; ttl="), "{again:?}");
    let next = ask_part(&server, 4 * UNIT - 10..5 * UNIT + 10);
    assert_part(&next, &file, 4 * UNIT - 10..5 * UNIT + 10);
    assert!(cache_status(&next).starts_with("forebay; fwd=partial; fwd-status=206"), "{next:?}");
    let last = ask(&server, &["Range: bytes=-100"]);
    assert_part(&last, &file, file.length - 100..file.length);
    let beyond = ask(&server, &["Range: bytes=99999999-"]);
    assert_eq!(beyond.status, 416);
    assert_eq!(beyond.field("content-range"), Some(&*format!("bytes */{}", file.length)));
    let whole = ask(&server, &[]);
    assert_eq!(whole.status, 200);
    assert_eq!(whole.body.len(), file.length);
    assert!(whole.body == file.bytes(0..file.length), "the whole file");
    assert_eq!(whole.field("content-range"), None);
    assert_eq!(file.sent_bytes(), file.length, "the origin sends each byte once");
}

#[test]
fn a_short_response_is_stored_whole() {
    let file = RangedFile::new(5000);
    let origin = file.origin();
    let server = start(&origin);
    assert_part(&ask_part(&server, 100..200), &file, 100..200);
    eventually("it is stored", || server.stat("stored_total") == 1.0);
    let whole = ask(&server, &[]);
    assert!(cache_status(&whole).starts_with("forebay; hit"), "{whole:?}");
    assert!(whole.body == file.bytes(0..5000), "the whole file");
    assert_eq!(file.sent_bytes(), 5000);
}

#[test]
fn concurrent_ranges_share_the_fetches_of_their_units() {
    let file = RangedFile::new(16 * MIB);
    let gate = Gate::new();
    let (held, answering) = (gate.clone(), file.clone());
    let origin = Origin::start(move |request| {
        let Script { steps } = answering.answer(request);
        steps.into_iter().fold(Script::new().wait(&held), Script::step)
    });
    let server = start(&origin);
    thread::scope(|scope| {
        for client in 0..40 {
            let (file, server) = (&file, &server);
            scope.spawn(move || {
                let start = client % 4 * UNIT + client * 1000;
                assert_part(&ask_part(server, start..start + 5000), file, start..start + 5000);
            });
        }
        eventually("a request waits", || origin.request_count() > 0);
        gate.open();
    });
    let (sent, distinct) = (file.sent_bytes(), 4 * UNIT);
    // Requests for several units of an unknown response may all begin with the first of them.
    assert!(sent <= distinct, "{sent} bytes of {distinct}");
}

#[test]
fn parts_of_two_versions_are_never_combined() {
    let file = RangedFile::new(8 * MIB);
    let origin = file.origin();
    let server = start(&origin);
    assert_part(&ask_part(&server, 0..100), &file, 0..100);
    eventually("the unit is stored", || server.stat("parts_stored_total") == 1.0);
    file.version.store(1, Relaxed);
    // The stored unit is fresh.
    assert!(cache_status(&ask_part(&server, 0..100)).contains("; hit;"));
    // The next part is of another version, so the stored response is replaced.
    let part = 2 * UNIT..2 * UNIT + 100;
    assert_part(&ask_part(&server, part.clone()), &file, part);
    assert_part(&ask_part(&server, 0..100), &file, 0..100);
    let whole = ask(&server, &[]);
    assert!(whole.body == file.bytes(0..file.length), "all of the new version");
    assert_eq!(server.stat("parts_refused_total"), 1.0);
}

#[test]
fn a_stale_part_is_validated_and_kept() {
    let mut file = RangedFile::new(4 * MIB);
    file.fields = "Cache-Control: max-age=1\r\nAge: 5";
    let origin = file.origin();
    let server = start(&origin);
    assert_part(&ask_part(&server, 0..100), &file, 0..100);
    eventually("the unit is stored", || server.stat("parts_stored_total") == 1.0);
    let validated = ask_part(&server, 50..150);
    assert_part(&validated, &file, 50..150);
    assert!(cache_status(&validated).starts_with("forebay; fwd=stale; fwd-status=304"));
    assert_eq!(file.sent_bytes(), UNIT);
    file.version.store(1, Relaxed);
    let changed = ask_part(&server, 50..150);
    assert_part(&changed, &file, 50..150);
    assert_eq!(file.sent_bytes(), 2 * UNIT, "the answer to the validation is the new part");
}

#[test]
fn an_answer_that_is_no_usable_part_is_not_stored() {
    const BODY: [u8; 100] = [b'x'; 100];
    let cases: [(&str, &[&str]); 8] = [
        ("no Content-Range", &["ETag: \"a\""]),
        ("an unknown length", &["ETag: \"a\"", "Content-Range: bytes 0-99/*"]),
        ("another range", &["ETag: \"a\"", "Content-Range: bytes 1-100/900"]),
        ("a shorter range", &["ETag: \"a\"", "Content-Range: bytes 0-99/900"]),
        ("a contradiction", &["ETag: \"a\"", "Content-Range: bytes 0-98/99"]),
        ("beyond the end", &["ETag: \"a\"", "Content-Range: bytes 0-99/99"]),
        ("a weak tag", &["ETag: W/\"a\"", "Content-Range: bytes 0-99/100"]),
        ("no tag", &["Content-Range: bytes 0-99/100"]),
    ];
    for (name, fields) in cases {
        let origin = Origin::start(move |request| {
            if request.head.field("range") == Some("bytes=5-9") {
                let fields = ["Cache-Control: max-age=60", "Content-Range: bytes 5-9/100"];
                return Script::answer("206 Partial Content", &fields, b"asked");
            }
            let fields = [&["Cache-Control: max-age=60"], fields].concat();
            Script::answer("206 Partial Content", &fields, &BODY)
        });
        let server = start(&origin);
        for _ in 0..2 {
            let response = ask_part(&server, 5..10);
            assert_eq!((response.status, response.text()), (206, "asked".to_owned()), "{name}");
        }
        assert_eq!(server.stat("stored_total"), 0.0, "{name}");
        assert_eq!(origin.request_count(), 3, "{name}: later requests pass through at once");
    }
}

#[test]
fn a_purge_covers_the_stored_parts() {
    let file = RangedFile::new(4 * MIB);
    let origin = file.origin();
    let server = start(&origin);
    assert_part(&ask_part(&server, 0..100), &file, 0..100);
    eventually("the unit is stored", || server.stat("parts_stored_total") == 1.0);
    assert!(server.command(&["purge", "http://example.test/film"]).status.success());
    assert_part(&ask_part(&server, 0..100), &file, 0..100);
    assert_eq!(file.sent_bytes(), 2 * UNIT);
}

#[test]
fn an_origin_that_ignores_ranges_is_asked_once() {
    let body = Arc::new(RangedFile::new(3 * MIB).bytes(0..3 * MIB));
    let sent = Arc::clone(&body);
    let origin = Origin::start(move |_| {
        Script::answer("200 OK", &["Cache-Control: max-age=60", "ETag: \"a\""], &sent)
    });
    let server = start(&origin);
    for part in [MIB..MIB + 10, 0..5, 2 * MIB..3 * MIB] {
        let response = ask_part(&server, part.clone());
        assert_eq!(response.status, 206);
        assert!(response.body == body[part.clone()], "{part:?}");
    }
    assert_eq!(origin.request_count(), 1);
}

#[test]
fn without_units_a_range_passes_through() {
    let file = RangedFile::new(4 * MIB);
    let origin = file.origin();
    let server =
        ServerBuilder::new(PROGRAM).origin(&origin).flag("--range-unit-bytes", "0").start();
    for _ in 0..2 {
        assert_part(&ask_part(&server, 10..20), &file, 10..20);
    }
    assert_eq!(file.sent(), [10..20, 10..20]);
}

#[test]
fn a_response_that_is_too_long_is_stored_in_parts() {
    let mut file = RangedFile::new(20 * MIB + 7);
    file.fields = "Cache-Control: max-age=600\r\nAccept-Ranges: bytes";
    let origin = file.origin();
    let server = start(&origin);
    let whole = ask(&server, &[]);
    assert_eq!(whole.status, 200);
    assert_eq!(cache_status(&whole), "forebay; fwd=uri-miss; fwd-status=200; stored");
    assert!(whole.body == file.bytes(0..file.length), "the whole file");
    let part = 7 * UNIT + 1..9 * UNIT;
    let again = ask_part(&server, part.clone());
    assert_part(&again, &file, part);
    assert!(cache_status(&again).starts_with("forebay; hit"), "{:?}", again.head);
    let sent = file.sent();
    assert_eq!(sent.iter().filter(|part| part.len() == file.length).count(), 1);
    assert_eq!(sent.iter().filter(|part| part.start > 0).count(), 20);
}

#[test]
fn a_whole_response_follows_the_fetches_of_ranges() {
    let file = RangedFile::new(9 * MIB);
    let origin = file.origin();
    let server = start(&origin);
    assert_part(&ask_part(&server, 5 * UNIT..5 * UNIT + 1), &file, 5 * UNIT..5 * UNIT + 1);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let whole = ask(&server, &[]);
                assert_eq!(whole.status, 200);
                assert!(whole.body == file.bytes(0..file.length), "the whole file");
            });
        }
    });
    assert_eq!(file.sent_bytes(), file.length);
}

#[test]
fn a_range_beyond_the_end_is_ignored_if_the_client_has_another_version() {
    let file = RangedFile::new(1000);
    let origin = file.origin();
    let server = start(&origin);
    let resumed = ask(&server, &["Range: bytes=2000000-", "If-Range: \"older\""]);
    assert_eq!(resumed.status, 200, "{:?}", resumed.head);
    assert!(resumed.body == file.bytes(0..1000), "the whole file");
    assert_eq!(ask(&server, &["Range: bytes=2000000-"]).status, 416);
}

#[test]
fn bytes_behind_a_part_are_not_stored() {
    let file = RangedFile::new(4 * MIB);
    let (part, wrong) = (file.bytes(0..UNIT), vec![b'?'; UNIT]);
    let own = file.clone();
    let origin = Origin::start(move |request| {
        if request.head.field("range") != Some("bytes=0-1048575") {
            return own.answer(request);
        }
        let head = format!(
            "HTTP/1.1 206 Partial Content\r\nETag: {}\r\n{}\r\n\
             Content-Range: bytes 0-1048575/{}\r\nTransfer-Encoding: chunked\r\n\r\n",
            own.tag(),
            own.fields,
            own.length
        );
        let chunk = |bytes: &[u8]| [b"100000\r\n", bytes, b"\r\n"].concat();
        Script::new().send(head).send(chunk(&part)).send(chunk(&wrong)).send("0\r\n\r\n")
    });
    let server = start(&origin);
    let first = ask_part(&server, 5..10);
    assert_eq!(first.body, file.bytes(5..10), "{:?}", first.head);
    assert!(cache_status(&first).contains("detail=content-range"), "{:?}", first.head);
    assert_part(&ask_part(&server, UNIT + 5..UNIT + 10), &file, UNIT + 5..UNIT + 10);
}

#[test]
fn a_missing_part_is_stored_only_if_request_and_answer_allow_it() {
    let file = RangedFile::new(4 * MIB);
    let own = file.clone();
    let origin = Origin::start(move |request| {
        let is_private = request.head.field("range").is_some_and(|range| range.contains("3145728"));
        let fields = if is_private { "Cache-Control: private" } else { own.fields };
        let mut file = own.clone();
        file.fields = fields;
        file.answer(request)
    });
    let server = start(&origin);
    ask_part(&server, 5..10);
    eventually("the unit is stored", || server.stat("parts_stored_total") == 1.0);
    let part = UNIT + 5..UNIT + 10;
    let range = format!("Range: bytes={}-{}", part.start, part.end - 1);
    let refused = ask(&server, &[&range, "Cache-Control: no-store"]);
    assert_part(&refused, &file, part);
    assert!(cache_status(&refused).contains("request-no-store"), "{:?}", refused.head);
    let part = 3 * UNIT + 5..3 * UNIT + 10;
    for _ in 0..2 {
        assert_part(&ask_part(&server, part.clone()), &file, part.clone());
    }
    assert_eq!(server.stat("parts_stored_total"), 1.0);
}

//! Parts of a response that several requests share, and origins that fail or disagree while the
//! parts are fetched.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use forebay_testkit::script::answer_head;
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
fn an_origin_whose_servers_disagree_breaks_off_one_response() {
    let mut file = RangedFile::new(20 * MIB);
    file.fields = "Cache-Control: max-age=600\r\nAccept-Ranges: bytes";
    let own = file.clone();
    // One server sends the whole response, another one the parts, with tags of their own.
    let origin = Origin::start(move |request| {
        let mut file = own.clone();
        let server = usize::from(request.head.field("range").is_some());
        file.version = Arc::new(AtomicUsize::new(server));
        file.answer(request)
    });
    let server = start(&origin);
    let first = Client::connect(server.address()).ask("GET", "/film", &[]);
    assert!(first.is_err(), "a response of two versions was sent");
    for _ in 0..2 {
        let whole = ask(&server, &[]);
        assert!(whole.body == file.bytes(0..file.length), "the whole file");
        assert!(cache_status(&whole).contains("declined"), "{:?}", whole.head);
        let part = 7..20;
        assert_eq!(ask_part(&server, part).status, 206);
    }
}

#[test]
fn parts_of_a_response_with_variants_are_stored_and_shared() {
    let mut file = RangedFile::new(8 * MIB);
    file.fields = "Cache-Control: max-age=600\r\nVary: Accept-Language";
    let gate = Gate::new();
    let (held, answering) = (gate.clone(), file.clone());
    let origin = Origin::start(move |request| {
        let Script { steps } = answering.answer(request);
        steps.into_iter().fold(Script::new().wait(&held), Script::step)
    });
    let server = start(&origin);
    let part = UNIT + 5..UNIT + 100;
    let range = format!("Range: bytes={}-{}", part.start, part.end - 1);
    let ask_in = |language: &str| {
        let response = ask(&server, &[&range, &format!("Accept-Language: {language}")]);
        assert_part(&response, &file, part.clone());
    };
    thread::scope(|scope| {
        for language in ["de", "de", "de", "fr", "fr", "fr"] {
            scope.spawn(move || ask_in(language));
        }
        eventually("a request waits", || origin.request_count() > 0);
        gate.open();
    });
    ["de", "fr"].into_iter().for_each(ask_in);
    assert_eq!(file.sent(), [UNIT..2 * UNIT, UNIT..2 * UNIT], "one fetch for each variant");
}

#[test]
fn a_range_follows_the_whole_response_that_arrives() {
    let file = RangedFile::new(4 * MIB);
    let gate = Gate::new();
    let (held, answering) = (gate.clone(), file.clone());
    let origin = Origin::start(move |_| {
        let etag = format!("ETag: {}", answering.tag());
        let head = answer_head("200 OK", &[&etag, answering.fields], answering.length);
        let bytes = answering.bytes(0..answering.length);
        let (first, rest) = bytes.split_at(2 * MIB);
        Script::new().send(head).send(first).wait(&held).send(rest)
    });
    let server = start(&origin);
    thread::scope(|scope| {
        let whole = scope.spawn(|| ask(&server, &[]));
        eventually("the whole response arrives", || server.stat("cache_growing_bytes") > 0.0);
        assert_part(&ask_part(&server, 5..MIB), &file, 5..MIB);
        let late = scope.spawn(|| ask_part(&server, 3 * MIB..4 * MIB - 7));
        eventually("the other range waits", || server.stat("collapsed_total") == 2.0);
        gate.open();
        assert_part(&late.join().expect("no panic"), &file, 3 * MIB..4 * MIB - 7);
        assert!(whole.join().expect("no panic").body == file.bytes(0..file.length));
    });
    eventually("the whole response is stored", || server.stat("stored_total") == 1.0);
    assert_eq!(origin.request_count(), 1);
}

#[test]
fn a_part_that_fails_once_is_fetched_again_for_its_followers() {
    let file = RangedFile::new(8 * MIB);
    let (gate, failures) = (Gate::new(), AtomicUsize::new(0));
    let (held, answering) = (gate.clone(), file.clone());
    let origin = Origin::start(move |request| {
        let is_hole = request.head.field("range").is_some_and(|range| range.contains("=3145728-"));
        if is_hole && failures.fetch_add(1, Relaxed) == 0 {
            return Script::new().wait(&held).reset();
        }
        answering.answer(request)
    });
    let server = start(&origin);
    assert_part(&ask_part(&server, 5..10), &file, 5..10);
    let (part, count) = (3 * MIB..3 * MIB + 5, 8);
    let statuses: Vec<u16> = thread::scope(|scope| {
        let ask = || scope.spawn(|| ask_part(&server, part.clone()).status);
        let asked: Vec<_> = (0..count).map(|_| ask()).collect();
        eventually("a request waits", || origin.request_count() > 1);
        gate.open();
        asked.into_iter().map(|asked| asked.join().expect("no panic")).collect()
    });
    let failed = statuses.iter().filter(|status| **status != 206).count();
    assert!(failed <= 1, "{statuses:?}");
}

#[test]
fn the_fetch_of_a_part_is_not_abandoned_while_its_client_stays() {
    let file = RangedFile::new(8 * MIB);
    let origin = file.origin();
    let server = builder(&origin).flag("--abandoned-fetches-per-network-max", "0").start();
    for part in [5..3 * MIB, 4 * MIB + 7..7 * MIB, 0..8 * MIB] {
        assert_part(&ask_part(&server, part.clone()), &file, part);
    }
    assert_eq!(file.sent_bytes(), 8 * MIB);
    assert_eq!(server.stat("fetches_abandoned_total"), 0.0);
}

//! Stored responses, and clients that are reading them, when the cache needs their memory.

use forebay_testkit::client::request_text;
use forebay_testkit::message::Head;
use forebay_testkit::{
    Broken, Client, End, Gate, Origin, Request, Response, Script, Server, ServerBuilder, eventually,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

fn start(origin: &Origin, flags: &[(&str, &str)]) -> Server {
    let builder = ServerBuilder::new(PROGRAM).origin(origin).flag("--workers", "1");
    flags.iter().fold(builder, |builder, (name, value)| builder.flag(name, value)).start()
}

fn says(response: &Response, parameter: &str) -> bool {
    response.field("cache-status").is_some_and(|status| status.contains(parameter))
}

/// Bytes that differ from position to position.
fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at % 251 + at / 65_521) as u8).collect()
}

/// The length of a page that exceeds the kernel's buffers for a client that does not read.
const LONG_BYTES: usize = 8 << 20;

/// The number of other long pages, which together exceed the cache.
const OTHERS: usize = 14;

/// Answers with a long page: the requested rest if the entity tag matches, else the whole page.
fn long_page(head: &Head, tag: &str) -> Script {
    let fields = ["Cache-Control: max-age=600".to_owned(), format!("ETag: {tag}")];
    let body = bytes(LONG_BYTES);
    let range = head.field("range").filter(|_| head.field("if-range") == Some(tag));
    let first = range.and_then(|range| range.strip_prefix("bytes=")?.split('-').next());
    let (status, range, body) = match first {
        None => ("200 OK", None, &body[..]),
        Some(first) => {
            let first: usize = first.parse().expect("a number");
            let range = format!("Content-Range: bytes {first}-{}/{LONG_BYTES}", LONG_BYTES - 1);
            ("206 Partial Content", Some(range), &body[first..])
        }
    };
    let fields: Vec<&str> = fields.iter().chain(&range).map(String::as_str).collect();
    Script::answer(status, &fields, body)
}

/// Case, stored entity tag, the origin's current entity tag, whether the server requests the rest,
/// whether the rest arrives.
const RESTS: &[(&str, &str, &str, bool, bool)] = &[
    ("the same version", "\"a\"", "\"a\"", true, true),
    ("another version", "\"a\"", "\"b\"", true, false),
    ("perhaps the same version", "W/\"a\"", "W/\"a\"", false, false),
];

// RFC: 9110-13.1.5-1, 9110-13.1.5-3, 9110-15.3.7.3-1
#[test]
fn a_long_answer_whose_source_was_purged_goes_on_with_the_same_version_or_is_cut() {
    for (what, stored, now, is_asked, arrives) in RESTS {
        let origin = Origin::start(|request: &Request| {
            let is_first = request.head.field("range").is_none();
            long_page(&request.head, if is_first { stored } else { now })
        });
        let server = start(&origin, &[("--cache-size", "96MiB")]);
        let first = Client::connect(server.address()).ask("GET", "/long", &[]).expect("whole");
        assert!(first.body == bytes(LONG_BYTES), "{what}");
        // This is a second connection because the kernel buffers more for a client that has read
        // much.
        let mut client = Client::connect(server.address());
        client.send(request_text("GET", "/long", &[]));
        let begun =
            client.peek("GET", |response| !response.body.is_empty()).expect("the response begins");
        assert!(says(&begun, "hit"), "{what}: {:?}", begun.head);
        let purged = server.command(&["purge", "http://example.test/long"]);
        assert!(purged.status.success(), "{what}: {purged:?}");
        // A purge leaves the rest to clients that are reading it. The rest is lost when the memory
        // is needed.
        for other in 0..OTHERS {
            let path = format!("/other/{other}");
            let mut client = Client::connect(server.address());
            assert_eq!(client.ask("GET", &path, &[]).expect("whole").body.len(), LONG_BYTES);
        }
        match client.response("GET") {
            Ok(response) => {
                assert!(arrives, "{what}: the response is whole");
                assert!(
                    response.body == bytes(LONG_BYTES),
                    "{what}: the response mixes two versions"
                );
            }
            Err(Broken::Cut(End::Reset, _)) => assert!(!arrives, "{what}: the response is cut"),
            Err(other) => panic!("{what}: {other:?}"),
        }
        let requests = origin.requests();
        let mut of_it = requests.iter().filter(|request| request.target == "/long");
        let rest = of_it.nth(1).and_then(|request| request.head.field("if-range"));
        assert_eq!(rest, is_asked.then_some(*stored), "{what}");
        let counted = ["hits_continued_total", "hits_cut_total"].map(|name| server.stat(name));
        let arrives = f64::from(*arrives);
        assert_eq!(counted, [arrives, 1.0 - arrives], "{what}");
    }
}

#[test]
fn a_long_response_with_evicted_parts_is_fetched_again() {
    const BYTES: usize = 300_000;
    let origin = Origin::start(|request| {
        let count = if request.target == "/long" { BYTES } else { 12_000 };
        Script::answer("200 OK", &["Cache-Control: max-age=600"], &bytes(count))
    });
    for (round, field) in ["X: y", "Range: bytes=299000-299999"].into_iter().enumerate() {
        let server = start(&origin, &[("--cache-size", "4MiB")]);
        let mut client = Client::connect(server.address());
        assert_eq!(client.ask("GET", "/long", &[]).expect("whole").body, bytes(BYTES));
        // The head stays in use, but the body does not.
        for page in 0..1000 {
            client.ask("GET", &format!("/{page}"), &[]).expect("whole");
            client.ask("HEAD", "/long", &[]).expect("whole");
        }
        let head = client.ask("HEAD", "/long", &[]).expect("whole");
        assert_eq!(head.field("content-length"), Some("300000"), "{field}");
        let again = client.ask("GET", "/long", &[field]).expect("whole");
        assert!(says(&again, "fwd=partial"), "{field}: {:?}", again.head);
        assert!(bytes(BYTES).ends_with(&again.body), "{field}");
        assert_eq!(origin.count("/long"), 2 * (round + 1), "{field}");
        let next = client.ask("GET", "/long", &[]).expect("whole");
        assert_eq!((says(&next, "hit"), next.body.len()), (true, BYTES), "{field}");
        assert_eq!(origin.count("/long"), 2 * (round + 1), "{field}");
        assert!(server.stat("cache_evicted_total") > 0.0, "{field}");
    }
}

#[test]
fn a_client_that_does_not_read_is_cut_off_when_the_memory_is_needed() {
    const BYTES: usize = 60_000;
    let origin =
        Origin::start(|_| Script::answer("200 OK", &["Cache-Control: max-age=600"], &bytes(BYTES)));
    let server = start(&origin, &[("--cache-size", "32MiB"), ("--body-rate-min", "0")]);
    let mut client = Client::connect(server.address());
    // The pages take more than a quarter of the cache, so that segments must be reclaimed.
    for page in 0..150 {
        client.ask("GET", &format!("/held/{page}"), &[]).expect("whole");
    }
    // All requests are sent together, so that many are answered before the first answer is sent.
    // One client may hold at most sixteen segments.
    let mut asleep: Vec<Client> = (0..30)
        .map(|number| {
            let mut asleep = Client::connect(server.address());
            let page = |round: usize| format!("/held/{}", (number * 16 + round) % 150);
            let asks = (0..300).map(|round| request_text("GET", &page(round), &[]));
            asleep.send(asks.collect::<String>());
            asleep.peek("GET", |_| true).expect("the response begins");
            asleep
        })
        .collect();
    for page in 0..1000 {
        let response = client.ask("GET", &format!("/{page}"), &[]).expect("whole");
        assert_eq!((response.status, response.body.len()), (200, BYTES), "page {page}");
    }
    let cut = server.stat("hits_cut_total") as usize;
    assert!(cut > 0 && cut <= asleep.len(), "{cut}");
    assert!(server.stat("cache_lent_lost_total") > 0.0);
    assert!(server.stat("cache_copied_out_total") > 0.0);
    // The bytes that the clients received are right, and a client that was cut off can notice it.
    let ends = asleep.iter_mut().map(|client| {
        for count in 0..300 {
            match client.response("GET") {
                Ok(response) => assert!(response.body == bytes(BYTES), "answer {count}"),
                Err(broken) => return Some((count, broken)),
            }
        }
        None
    });
    let ends: Vec<_> = ends.flatten().collect();
    assert_eq!(ends.len(), cut, "{ends:?}");
    for (count, end) in ends {
        assert!(matches!(end, Broken::Cut(End::Reset, _)), "after {count} answers: {end:?}");
    }
    let stats = server.stats();
    assert_eq!((stats["cache_pinned_bytes"], stats["cache_copied_bytes"]), (0.0, 0.0));
}

#[test]
fn a_page_that_was_purged_while_the_origin_confirmed_it_is_fetched_whole() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |request| match request.head.has("if-none-match") {
        true => Script::new().wait(&held).send("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n"),
        false => Script::answer("200 OK", &["Cache-Control: no-cache", "ETag: \"a\""], b"page"),
    });
    let server = start(&origin, &[]);
    Client::connect(server.address()).ask("GET", "/", &[]).expect("whole");
    let mut clients = [(); 2].map(|()| {
        let mut client = Client::connect(server.address());
        client.send(request_text("GET", "/", &[]));
        client
    });
    eventually("both wait", || server.stat("stale_total") == 2.0 && origin.request_count() == 2);
    let purged = server.command(&["purge", "http://example.test/"]);
    assert!(purged.status.success(), "{purged:?}");
    gate.open();
    for client in &mut clients {
        let response = client.response("GET").expect("whole");
        assert_eq!((response.status, response.text().as_str()), (200, "page"));
        assert!(!says(&response, "stored"), "{:?}", response.head);
    }
    // Each page is fetched once more: no request may get the purged page, even if the origin
    // confirmed it.
    assert_eq!(origin.request_count(), 4);
}

#[test]
fn an_unusable_cache_fails_the_start_and_says_why() {
    let cases: &[(&[(&str, &str)], &str)] = &[(
        &[("--cache-size", "4MiB"), ("--workers", "64")],
        "--cache-size: `cache_size` is too small for 64 workers",
    )];
    for (flags, reason) in cases {
        let builder = ServerBuilder::new(PROGRAM).origin(&Origin::echo());
        let builder =
            flags.iter().fold(builder, |builder, (name, value)| builder.flag(name, value));
        let output = builder.run();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(reason), "{said}");
    }
}

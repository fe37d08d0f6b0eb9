//! Serving stale responses on purpose, over real sockets: while they are validated in the
//! background, and while the origin fails (RFC 5861, RFC 9111 §4.2.4).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use forebay_testkit::client::request_text;
use forebay_testkit::{
    Client, Gate, Origin, Request, Response, Script, Server, ServerBuilder, eventually,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

fn builder(origin: &Origin) -> ServerBuilder {
    ServerBuilder::new(PROGRAM).origin(origin).flag("--workers", "1")
}

/// An answer that is stale by ten seconds when it arrives, and can be validated.
fn stale_by_10s(control: &str, body: &str) -> Script {
    let control = format!("Cache-Control: max-age=10, {control}");
    Script::answer("200 OK", &[&control, "Age: 20", "ETag: \"old\""], body.as_bytes())
}

fn ask(server: &Server, target: &str, fields: &[&str]) -> Response {
    Client::connect(server.address()).ask("GET", target, fields).expect("whole")
}

fn cache_status(response: &Response) -> &str {
    response.field("cache-status").expect("every response has one")
}

/// Answers the first request for a target by `first`, and later requests by `later`.
fn first_and_later(
    first: impl Fn() -> Script + Send + Sync + 'static,
    later: impl Fn(&Request) -> Script + Send + Sync + 'static,
) -> Origin {
    let count = Arc::new(AtomicUsize::new(0));
    Origin::start(move |request| match count.fetch_add(1, Relaxed) {
        0 => first(),
        _ => later(request),
    })
}

// RFC: 5861-3-1
#[test]
fn a_stale_response_is_served_while_one_request_validates_it() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = first_and_later(
        || stale_by_10s("stale-while-revalidate=60", "old"),
        move |_| Script::new().wait(&held).send(answer_text("max-age=60", "new")),
    );
    let server = builder(&origin).start();
    assert_eq!(ask(&server, "/", &[]).text(), "old");
    for _ in 0..10 {
        let response = ask(&server, "/", &[]);
        assert_eq!(response.text(), "old");
        let status = cache_status(&response);
        assert!(status.starts_with("forebay; hit; ttl=-1"), "{status}");
        assert!(status.ends_with("; detail=stale-while-revalidate"), "{status}");
    }
    eventually("the origin is asked", || origin.request_count() == 2);
    assert_eq!(origin.requests()[1].head.field("if-none-match"), Some("\"old\""));
    assert_eq!(server.stat("background_fetches_total"), 1.0);
    assert_eq!(server.stat("hits_stale_total"), 10.0);
    gate.open();
    eventually("the new response is served", || ask(&server, "/", &[]).text() == "new");
    assert_eq!(origin.request_count(), 2);
}

fn answer_text(control: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\nCache-Control: {control}\r\nContent-Length: {length}\r\n\r\n{body}")
}

/// Each of these forbids serving the response without validation.
// RFC: 9111-4.2.4-1, 9111-5.2.2.2-1, 9111-5.2.2.8-1, 9111-5.2.2.10-1, 5861-3-2
#[test]
fn a_response_that_must_be_validated_is_not_served_stale() {
    for control in [
        "stale-while-revalidate=5",
        "stale-while-revalidate=60, must-revalidate",
        "stale-while-revalidate=60, proxy-revalidate",
        "stale-while-revalidate=60, no-cache",
        "stale-while-revalidate=60, s-maxage=10",
        "stale-if-error=60",
    ] {
        let origin = first_and_later(
            || stale_by_10s(control, "old"),
            |_| Script::answer("200 OK", &["Cache-Control: max-age=60"], b"new"),
        );
        let server = builder(&origin).start();
        assert_eq!(ask(&server, "/", &[]).text(), "old");
        assert_eq!(ask(&server, "/", &[]).text(), "new", "{control}");
    }
}

#[test]
fn a_request_that_wants_a_fresh_response_waits_for_it() {
    for field in ["Cache-Control: no-cache", "Cache-Control: max-age=15", "Pragma: no-cache"] {
        let origin = first_and_later(
            || stale_by_10s("stale-while-revalidate=60", "old"),
            |_| Script::answer("200 OK", &["Cache-Control: max-age=60"], b"new"),
        );
        let server = builder(&origin).start();
        assert_eq!(ask(&server, "/", &[]).text(), "old");
        assert_eq!(ask(&server, "/", &[field]).text(), "new", "{field}");
    }
}

type Failure = (&'static str, fn() -> Script);

/// The failures of an origin.
fn failures() -> Vec<Failure> {
    vec![
        ("500", || Script::answer("500 Bad", &[], b"error")),
        ("502", || Script::answer("502 Bad", &[], b"error")),
        ("503", || Script::answer("503 Bad", &["Cache-Control: max-age=60"], b"error")),
        ("504", || Script::answer("504 Bad", &[], b"error")),
        ("a reset", || Script::new().reset()),
        ("an end", || Script::new().close()),
        ("garbage", || Script::new().send("\0\0\r\n\r\n").close()),
    ]
}

// RFC: 5861-4-2
#[test]
fn a_stale_response_is_served_in_place_of_an_error() {
    for (name, failure) in failures() {
        let origin =
            first_and_later(|| stale_by_10s("stale-if-error=60", "old"), move |_| failure());
        let server = builder(&origin).start();
        assert_eq!(ask(&server, "/", &[]).text(), "old");
        for _ in 0..2 {
            let response = ask(&server, "/", &[]);
            assert_eq!((response.status, response.text().as_str()), (200, "old"), "{name}");
            let status = cache_status(&response);
            assert!(status.starts_with("forebay; fwd=stale"), "{name}: {status}");
            let age: u32 = response.field("age").expect("an Age").parse().expect("a number");
            assert!(age >= 20, "{name}: {age}");
            assert!(status.ends_with("; detail=stale-if-error"), "{name}: {status}");
        }
        assert_eq!(server.stat("stale_if_error_total"), 2.0, "{name}");
        assert_eq!(server.stat("server_errors_total"), 0.0, "{name}: no client saw an error");
        assert!(ask(&server, "/", &["Cache-Control: no-cache"]).status >= 500, "{name}");
        assert_eq!(server.stat("server_errors_total"), 1.0, "{name}");
    }
}

// RFC: 9111-4.2.4-2, 9111-5.2.2.2-3, 5861-4-1
#[test]
fn an_error_is_passed_on_unless_stale_responses_are_allowed() {
    for control in ["public", "stale-if-error=5", "stale-if-error=60, must-revalidate"] {
        let origin = first_and_later(
            || stale_by_10s(control, "old"),
            |_| Script::answer("503 Bad", &[], b"error"),
        );
        let server = builder(&origin).start();
        assert_eq!(ask(&server, "/", &[]).text(), "old");
        assert_eq!(ask(&server, "/", &[]).status, 503, "{control}");
    }
    // The client and the route may allow it, too.
    let origin = first_and_later(
        || stale_by_10s("public", "old"),
        |_| Script::answer("503 Bad", &[], b"error"),
    );
    let server = builder(&origin).start();
    assert_eq!(ask(&server, "/", &[]).text(), "old");
    assert_eq!(ask(&server, "/", &["Cache-Control: stale-if-error=60"]).text(), "old");
    let origin = first_and_later(
        || stale_by_10s("public", "old"),
        |_| Script::answer("503 Bad", &[], b"error"),
    );
    let server = builder(&origin).flag("--stale-if-error-s", "1m").start();
    assert_eq!(ask(&server, "/", &[]).text(), "old");
    assert_eq!(ask(&server, "/", &[]).text(), "old");
    // A range of the stale response is served as well.
    let part = ask(&server, "/", &["Range: bytes=1-1"]);
    assert_eq!((part.status, part.text().as_str()), (206, "l"));
}

/// A hundred requests that wait for the same failing fetch get the stale response, and the origin
/// gets one request.
#[test]
fn requests_that_wait_together_share_the_failure_and_the_stale_response() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = first_and_later(
        || stale_by_10s("stale-if-error=60", "old"),
        move |_| Script::new().wait(&held).send("HTTP/1.1 503 Bad\r\nContent-Length: 0\r\n\r\n"),
    );
    let server = builder(&origin).start();
    assert_eq!(ask(&server, "/", &[]).text(), "old");
    let mut clients: Vec<_> = (0..100).map(|_| Client::connect(server.address())).collect();
    for client in &mut clients {
        client.send(request_text("GET", "/", &[]));
    }
    eventually("all requests have arrived", || server.stat("requests_total") == 101.0);
    eventually("one has been sent", || origin.request_count() == 2);
    gate.open();
    for client in &mut clients {
        assert_eq!(client.response("GET").expect("whole").text(), "old");
    }
    assert_eq!(origin.request_count(), 2);
}

#[test]
fn an_origin_that_is_down_gets_single_probes_and_is_back_at_once() {
    let answer = |request: &Request| stale_by_10s("public", &format!("old {}", request.target));
    let origin = Origin::start(answer);
    let address = origin.address();
    let server = builder(&origin).start();
    let targets: Vec<_> = (0..50).map(|number| format!("/{number}")).collect();
    for target in &targets {
        assert_eq!(ask(&server, target, &[]).text(), format!("old {target}"));
    }
    origin.stop();
    for target in targets.iter().cycle().take(500) {
        let response = ask(&server, target, &[]);
        assert_eq!(response.text(), format!("old {target}"));
        let status = cache_status(&response);
        assert!(status.ends_with("; detail=stale-if-unreachable"), "{status}");
    }
    let attempts = server.stat("origin_connect_errors_total");
    assert!((1.0..50.0).contains(&attempts), "{attempts} attempts");
    // No response is stored for this target.
    assert_eq!(ask(&server, "/new", &[]).status, 502);
    let _origin = Origin::start_at(address, |_| {
        Script::answer("200 OK", &["Cache-Control: max-age=60"], b"new")
    });
    eventually("the origin is back", || ask(&server, "/0", &[]).text() == "new");
    assert!(server.errors().contains("origin_back"), "{}", server.errors());
}

/// A worker learns from another worker's fetch that the origin cannot be reached.
#[test]
fn all_workers_serve_stale_responses_while_the_origin_is_down() {
    let origin = Origin::start(|_| stale_by_10s("public", "old"));
    let server = ServerBuilder::new(PROGRAM).origin(&origin).flag("--workers", "4").start();
    assert_eq!(ask(&server, "/", &[]).text(), "old");
    origin.stop();
    let mut clients: Vec<_> = (0..100).map(|_| Client::connect(server.address())).collect();
    for client in &mut clients {
        client.send(request_text("GET", "/", &[]));
    }
    for client in &mut clients {
        assert_eq!(client.response("GET").expect("whole").text(), "old");
    }
}

/// Requests for ranges, whose responses are not stored here, validate nothing, but one of them
/// finds out that the origin is back.
#[test]
fn ranges_alone_find_out_that_the_origin_is_back() {
    let origin = Origin::start(|_| stale_by_10s("public", "old"));
    let address = origin.address();
    let server = builder(&origin).start();
    assert_eq!(ask(&server, "/", &[]).text(), "old");
    origin.stop();
    let range = || ask(&server, "/", &["Range: bytes=0-0"]);
    for _ in 0..20 {
        let part = range();
        assert_eq!((part.status, part.text().as_str()), (206, "o"), "{:?}", part.head);
    }
    let _origin = Origin::start_at(address, |_| {
        Script::answer("206 Partial Content", &["Content-Range: bytes 0-0/3"], b"n")
    });
    eventually("the origin is asked", || range().text() == "n");
    assert!(!cache_status(&range()).contains("stale-if-unreachable"));
}

/// The page for all clients stays stored, whatever answer a single client gets.
#[test]
fn the_answer_to_one_client_does_not_take_the_page_from_the_others() {
    let old = || stale_by_10s("stale-if-error=60", "old");
    let personal = |_: &Request| Script::answer("200 OK", &["Cache-Control: private"], b"own");
    let storable = |_: &Request| Script::answer("503 Bad", &["Cache-Control: max-age=60"], b"bad");
    for (field, origin) in [
        ("Cookie: user=a", first_and_later(old, personal)),
        ("Authorization: a", first_and_later(old, personal)),
        ("Cache-Control: no-cache", first_and_later(old, storable)),
    ] {
        let server = builder(&origin).start();
        assert_eq!(ask(&server, "/", &[]).text(), "old");
        assert_ne!(ask(&server, "/", &[field]).text(), "old", "{field}");
        origin.stop();
        assert_eq!(ask(&server, "/", &[]).text(), "old", "{field}");
    }
}

/// An error that was stored does not take the place of a new one.
#[test]
fn a_stored_error_is_not_served_stale() {
    let bad = |age: &'static str, body: &'static str| {
        let fields = ["Cache-Control: max-age=10, stale-if-error=60", age];
        Script::answer("503 Bad", &fields, body.as_bytes())
    };
    let origin = first_and_later(move || bad("Age: 9", "first"), move |_| bad("Age: 0", "second"));
    let server = builder(&origin).start();
    assert_eq!(ask(&server, "/", &[]).text(), "first");
    eventually("the new error is served", || ask(&server, "/", &[]).text() == "second");
}

/// While the origin cannot be reached, only `stale_if_unreachable_s` lets a stale response be
/// served.
#[test]
fn the_time_without_an_origin_is_limited() {
    for (setting, is_served) in [("5s", false), ("0", false), ("1m", true)] {
        let origin = Origin::start(|_| stale_by_10s("public", "old"));
        let server = builder(&origin).flag("--stale-if-unreachable-s", setting).start();
        assert_eq!(ask(&server, "/", &[]).text(), "old");
        origin.stop();
        let response = ask(&server, "/", &[]);
        assert_eq!(response.text() == "old", is_served, "{setting}: {:?}", response.head);
    }
}

/// A response without a lifetime may be made for the client's cookie.
#[test]
fn a_response_to_a_cookie_without_a_lifetime_is_not_served_stale() {
    for (cookie, control, is_served) in [
        ("X: y", "public", true),
        ("Cookie: user=1", "public", false),
        ("Cookie: user=1", "public, max-age=1", true),
    ] {
        let origin = Origin::start(move |_| {
            let fields = [&format!("Cache-Control: {control}"), "ETag: \"a\"", "Age: 10"];
            Script::answer("200 OK", &fields, b"old")
        });
        let server = builder(&origin).start();
        assert_eq!(ask(&server, "/", &[cookie]).text(), "old");
        origin.stop();
        let response = ask(&server, "/", &[]);
        assert_eq!(response.text() == "old", is_served, "{cookie}, {control}: {:?}", response.head);
    }
}

/// The body was made for a request without a cookie, or with one. The cookie of a client that only
/// validates it changes neither this fact nor the freshness of the response.
#[test]
fn the_cookie_of_a_validation_does_not_make_a_response_personal() {
    let (cookie, none) = ("Cookie: _ga=1", "X: y");
    for (first, validating, is_shared) in
        [(none, cookie, true), (none, none, true), (cookie, cookie, false), (cookie, none, false)]
    {
        let origin = Origin::start(|request| {
            let modified = "Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT";
            match request.head.has("if-none-match") {
                true => Script::answer("304 Not Modified", &["ETag: \"a\""], b""),
                false => Script::answer("200 OK", &["ETag: \"a\"", modified], b"old"),
            }
        });
        let server = builder(&origin).start();
        assert_eq!(ask(&server, "/", &[first]).text(), "old");
        let validated = ask(&server, "/", &[validating, "Cache-Control: no-cache"]);
        assert_eq!((validated.status, origin.request_count()), (200, 2));
        assert_eq!(validated.text(), "old");
        let case = format!("{first}, {validating}");
        let response = ask(&server, "/", &[]);
        assert_eq!(cache_status(&response).contains("; hit"), is_shared, "{case}: {response:?}");
        origin.stop();
        assert_eq!(ask(&server, "/", &[]).text() == "old", is_shared, "{case}");
        let stale = ask(&server, "/", &["Cache-Control: max-age=0"]);
        assert_eq!(stale.text() == "old", is_shared, "{case}: {stale:?}");
    }
}

/// The origin has removed the stored response, or replaced it by one that must not be stored.
#[test]
fn a_response_that_the_origin_has_replaced_is_not_served_stale() {
    for (status, field) in [
        ("200 OK", "Cache-Control: private"),
        ("404 Not Found", "Cache-Control: no-store"),
        ("410 Gone", "X-Nothing: said"),
        ("304 Not Modified", "Cache-Control: no-store"),
    ] {
        let origin = first_and_later(
            || stale_by_10s("stale-while-revalidate=60, stale-if-error=60", "old"),
            move |request| match (status, request.head.has("if-none-match")) {
                ("304 Not Modified", false) => Script::answer("200 OK", &[field], b"new"),
                ("304 Not Modified", true) => Script::new()
                    .send(format!("HTTP/1.1 {status}\r\nETag: \"old\"\r\n{field}\r\n\r\n")),
                _ => Script::answer(status, &[field], b"new"),
            },
        );
        let server = builder(&origin).start();
        assert_eq!(ask(&server, "/", &[]).text(), "old");
        assert_eq!(ask(&server, "/", &[]).text(), "old", "it is being validated");
        eventually("it is removed", || ask(&server, "/", &[]).text() == "new");
        origin.stop();
        assert_eq!(ask(&server, "/", &[]).status, 502, "{status}");
    }
}

/// A soft purge makes a response stale immediately, so that it is served while it is validated.
#[test]
fn a_response_that_was_purged_softly_is_served_while_it_is_validated() {
    let origin = first_and_later(
        || {
            Script::answer(
                "200 OK",
                &["Cache-Control: max-age=60, stale-while-revalidate=60"],
                b"old",
            )
        },
        |_| Script::answer("200 OK", &["Cache-Control: max-age=60"], b"new"),
    );
    let server = builder(&origin).start();
    let url = "http://example.test/";
    assert_eq!(ask(&server, "/", &[]).text(), "old");
    assert!(server.command(&["purge", "--soft", url]).status.success());
    let response = ask(&server, "/", &[]);
    let status = cache_status(&response).to_owned();
    assert_eq!(response.text(), "old", "{status}");
    assert!(status.ends_with("; hit; ttl=0; detail=stale-while-revalidate"), "{status}");
    eventually("the new response is served", || ask(&server, "/", &[]).text() == "new");
}

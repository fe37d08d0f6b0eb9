//! Scenarios of fixed bugs. Each is named after what broke.

use forebay_testkit::{Client, Gate, Origin, Request, Response, Script, Server, ServerBuilder};

fn start(origin: &Origin, flags: &[(&str, &str)]) -> Server {
    let builder = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay")).origin(origin);
    let builder = builder.flag("--workers", "1");
    flags.iter().fold(builder, |builder, (name, value)| builder.flag(name, value)).start()
}

fn ask(server: &Server, method: &str, target: &str, fields: &[&str]) -> Response {
    Client::connect(server.address()).ask(method, target, fields).expect("an answer")
}

fn cache_status(response: &Response) -> &str {
    response.field("cache-status").unwrap_or_default()
}

/// Answers with the value of one request field, by which the page varies.
fn varying(request: &Request, name: &str) -> Script {
    let vary = format!("Vary: {name}");
    let body = request.head.field(name).unwrap_or("none").to_owned();
    Script::answer("200 OK", &["Cache-Control: max-age=60", &vary], body.as_bytes())
}

#[test]
fn a_field_hidden_by_connection_made_the_key_of_an_answer_to_another_request() {
    let origin = Origin::start(|request| varying(request, "x-lang"));
    let server = start(&origin, &[]);
    let hidden = ask(&server, "GET", "/", &["X-Lang: de", "Connection: x-lang"]);
    assert_eq!(hidden.text(), "none");
    assert_eq!(ask(&server, "GET", "/", &["X-Lang: de"]).text(), "de");
}

#[test]
fn an_answer_that_varies_by_what_forebay_writes_was_given_to_others() {
    let origin = Origin::start(|request| varying(request, "x-forwarded-for"));
    let server = start(&origin, &[]);
    let first = ask(&server, "GET", "/", &[]);
    assert!(cache_status(&first).contains("detail=vary"), "{}", cache_status(&first));
    let second = ask(&server, "GET", "/", &[]);
    assert!(!cache_status(&second).contains("hit"), "{}", cache_status(&second));
    assert_eq!(origin.request_count(), 2);
}

#[test]
fn a_304_for_one_user_was_merged_into_a_shared_page() {
    let origin = Origin::start(|request| {
        let account = request.head.field("authorization").unwrap_or("nobody");
        let account = format!("X-Account: {account}");
        match request.head.field("if-none-match") {
            Some(_) => {
                let fields = ["Cache-Control: private, max-age=60", "ETag: \"v\"", &account];
                let fields = fields.join("\r\n");
                Script::new().send(format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n\r\n"))
            }
            None => {
                let fields = ["Cache-Control: no-cache", "ETag: \"v\"", &account];
                Script::answer("200 OK", &fields, b"page")
            }
        }
    });
    let server = start(&origin, &[]);
    ask(&server, "GET", "/", &[]);
    ask(&server, "GET", "/", &["Authorization: alice"]);
    let anonymous = ask(&server, "GET", "/", &[]);
    assert_eq!(anonymous.field("x-account"), Some("nobody"));
    assert!(!cache_status(&anonymous).contains("hit"), "{}", cache_status(&anonymous));
}

#[test]
fn one_request_kept_an_url_out_of_the_cache_for_all() {
    let origin = Origin::start(|request| match request.head.field("x-bad") {
        Some(_) => Script::answer("400 Bad Request", &[], b"no"),
        None => Script::answer("200 OK", &["Cache-Control: max-age=60"], b"page"),
    });
    let server = start(&origin, &[]);
    for spoiler in ["Authorization: x", "X-Bad: 1"] {
        let target = format!("/{}", spoiler.len());
        ask(&server, "GET", &target, &[spoiler]);
        let first = ask(&server, "GET", &target, &[]);
        assert!(cache_status(&first).contains("stored"), "{spoiler}: {}", cache_status(&first));
        let second = ask(&server, "GET", &target, &[]);
        assert!(cache_status(&second).contains("hit"), "{spoiler}: {}", cache_status(&second));
    }
}

#[test]
fn a_finished_answer_waited_behind_the_origin_of_the_next() {
    let gate = Gate::new();
    let wait = gate.clone();
    let origin = Origin::start(move |request| match request.target.as_str() {
        "/slow" => {
            Script::new().wait(&wait).send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow")
        }
        _ => Script::answer("200 OK", &["Cache-Control: max-age=60"], b"fast"),
    });
    let server = start(&origin, &[]);
    ask(&server, "GET", "/fast", &[]);
    let mut client = Client::connect(server.address());
    let request = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: example.test\r\n\r\n");
    client.send(request("/fast") + &request("/slow"));
    assert_eq!(client.response("GET").expect("the response is stored").text(), "fast");
    gate.open();
    assert_eq!(client.response("GET").expect("the gate is open").text(), "slow");
}

#[test]
fn a_get_with_a_chunked_body_lost_it_on_the_way() {
    let origin = Origin::start(|_| Script::answer("200 OK", &["Cache-Control: max-age=60"], b"ok"));
    let server = start(&origin, &[("--content-of-get", "true")]);
    for method in ["GET", "POST", "DELETE"] {
        let mut client = Client::connect(server.address());
        client.send(format!(
            "{method} /body HTTP/1.1\r\nHost: example.test\r\nTransfer-Encoding: chunked\r\n\r\n\
             3\r\nabc\r\n0\r\n\r\n"
        ));
        assert_eq!(client.response(method).expect("an answer").status, 200, "{method}");
        let seen = origin.requests();
        let last = seen.last().expect("the origin was asked");
        assert_eq!((last.method.as_str(), &last.body[..]), (method, &b"abc"[..]));
    }
    assert!(origin.faults().is_empty(), "{:?}", origin.faults());
}

#[test]
fn a_204_went_out_with_a_length_and_a_416_as_a_copy_of_the_page() {
    let origin = Origin::start(|request| match request.target.as_str() {
        "/none" => Script::new().send("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"),
        _ => Script::answer("200 OK", &["Cache-Control: max-age=60", "ETag: \"v\""], b"page"),
    });
    let server = start(&origin, &[]);
    let none = ask(&server, "GET", "/none", &[]);
    assert_eq!((none.status, none.field("content-length")), (204, None));
    ask(&server, "GET", "/page", &[]);
    let beyond = ask(&server, "GET", "/page", &["Range: bytes=100-"]);
    assert_eq!(beyond.status, 416);
    assert_eq!(beyond.field("content-range"), Some("bytes */4"));
    assert_eq!(beyond.field("cache-control"), Some("no-store"));
    assert_eq!(beyond.field("etag"), None);
}

// RFC: 9211-2-2
#[test]
fn the_cache_status_of_caches_nearer_to_the_origin_was_lost_in_hits() {
    let fields = ["Cache-Control: max-age=60", "Cache-Status: inner; hit; ttl=9"];
    let origin = Origin::start(move |_| Script::answer("200 OK", &fields, b"page"));
    let server = start(&origin, &[]);
    // The members of caches are in the order in which the response passes the caches.
    for own in ["forebay; fwd=uri-miss", "forebay; hit"] {
        let response = ask(&server, "GET", "/", &[]);
        let members: Vec<_> = response.head.all("cache-status").collect();
        assert_eq!((members.len(), members[0]), (2, "inner; hit; ttl=9"), "{members:?}");
        assert!(members[1].starts_with(own), "{members:?}");
    }
}

#[test]
fn a_confirmed_validation_threw_its_connection_away() {
    let origin = Origin::start(|request| match request.head.field("if-none-match") {
        Some(_) => Script::new().send("HTTP/1.1 304 Not Modified\r\nETag: \"v\"\r\n\r\n"),
        None => Script::answer("200 OK", &["Cache-Control: no-cache", "ETag: \"v\""], b"page"),
    });
    let server = start(&origin, &[]);
    for _ in 0..6 {
        assert_eq!(ask(&server, "GET", "/", &[]).text(), "page");
    }
    assert_eq!((origin.request_count(), origin.connections().len()), (6, 1));
}

#[test]
fn a_client_that_waits_for_the_100_was_taken_for_a_slow_one() {
    let gate = Gate::new();
    let wait = gate.clone();
    let origin = Origin::start(move |_| {
        Script::early()
            .wait(&wait)
            .send("HTTP/1.1 100 Continue\r\n\r\n")
            .step(forebay_testkit::script::Step::ReadBody)
            .send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    });
    let server = start(&origin, &[("--body-grace-ms", "1ms")]);
    let mut client = Client::connect(server.address());
    client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    // This client does not wait for a 100, and gets a 408 when its time is over. Then the time of
    // the first client would be over too.
    let mut slow = Client::connect(server.address());
    slow.send("POST /slow HTTP/1.1\r\nHost: example.test\r\nContent-Length: 3\r\n\r\n");
    assert_eq!(slow.response("POST").expect("an answer").status, 408);
    gate.open();
    client.send("abc");
    let answer = client.response("POST").expect("an answer");
    assert_eq!((answer.status, answer.interim.len()), (200, 1));
}

#[test]
fn options_counted_no_hops() {
    let origin = Origin::echo();
    let server = start(&origin, &[]);
    let here = ask(&server, "OPTIONS", "*", &["Max-Forwards: 0"]);
    assert_eq!((here.status, origin.request_count()), (204, 0));
    assert!(here.field("allow").is_some_and(|allow| allow.contains("GET")));
    ask(&server, "OPTIONS", "*", &["Max-Forwards: 7"]);
    let seen = origin.requests();
    assert_eq!(seen.last().and_then(|request| request.head.field("max-forwards")), Some("6"));
}

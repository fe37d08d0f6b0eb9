//! Responses that the origin gives to some requests only, because of their cookie: they do no harm
//! to requests without a cookie.

use forebay_testkit::client::request_text;
use forebay_testkit::script::answer_head;
use forebay_testkit::{Client, Gate, Origin, Request, Script, Server, ServerBuilder, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");
const COOKIE: &str = "Cookie: session=a";

/// Answers a request with a cookie by a private response, and any other request by a response for
/// all clients.
fn answer(request: &Request) -> Script {
    let (control, body) = match request.head.field("cookie") {
        Some(_) => ("private", "own"),
        None => ("max-age=60", "all"),
    };
    let control = format!("Cache-Control: {control}");
    Script::new().send(answer_head("200 OK", &[&control], body.len())).send(body)
}

fn start(origin: &Origin) -> Server {
    ServerBuilder::new(PROGRAM).origin(origin).flag("--workers", "1").start()
}

fn ask(server: &Server, fields: &[&str]) -> (String, String) {
    let response = Client::connect(server.address()).ask("GET", "/", fields).expect("whole");
    let status = response.field("cache-status").expect("every response has one");
    (response.text(), status.to_owned())
}

#[test]
fn requests_that_follow_a_private_answer_to_a_cookie_share_the_next_fetch() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |request| {
        let Script { steps } = answer(request);
        steps.into_iter().fold(Script::new().wait(&held), Script::step)
    });
    let server = start(&origin);
    let send = |fields: &[&str]| {
        let mut client = Client::connect(server.address());
        assert!(client.send(request_text("GET", "/", fields)));
        client
    };
    let mut own = send(&[COOKIE]);
    eventually("the request with the cookie leads", || origin.request_count() == 1);
    let mut clients: Vec<Client> = (0..50).map(|_| send(&[])).collect();
    eventually("all wait", || server.stat("requests_total") == 51.0);
    gate.open();
    assert_eq!(own.response("GET").expect("whole").text(), "own");
    for client in &mut clients {
        assert_eq!(client.response("GET").expect("whole").text(), "all");
    }
    assert_eq!(origin.request_count(), 2);
}

#[test]
fn storable_and_private_answers_by_turns_are_stored_and_passed_through() {
    let origin = Origin::start(answer);
    let server = start(&origin);
    assert_eq!(ask(&server, &[COOKIE]).0, "own");
    let (text, status) = ask(&server, &[]);
    assert_eq!(text, "all");
    assert!(status.ends_with("; stored"), "{status}");
    assert!(ask(&server, &[]).1.contains("; hit"));
    assert_eq!(origin.request_count(), 2);
}

#[test]
fn requests_with_cookies_go_side_by_side_after_a_private_answer() {
    let origin = Origin::start(answer);
    let server = start(&origin);
    for _ in 0..3 {
        assert_eq!(ask(&server, &[COOKIE]).0, "own");
    }
    let (_, status) = ask(&server, &[COOKIE]);
    assert!(status.ends_with("; detail=declined-private"), "{status}");
    assert_eq!(server.stat("hits_for_miss_total"), 3.0);
}

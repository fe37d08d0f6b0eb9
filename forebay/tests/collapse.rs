//! Collapsing over real sockets: many requests for one missing URL become one request to the
//! origin, and a failure of that request harms no other.

use std::collections::HashSet;
use std::thread;

use forebay_testkit::script::answer_head;
use forebay_testkit::{Broken, Client, Gate, Origin, Script, Server, ServerBuilder, eventually};

const STORABLE: &[&str] = &["Cache-Control: max-age=60"];

#[test]
fn a_hundred_requests_are_one_and_stream_while_it_arrives() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |_| halves(&held));
    let server = server_before(&origin);
    let mut clients = waiting_clients(&server, 100);
    thread::scope(|scope| {
        let streams: Vec<_> = clients
            .iter_mut()
            .map(|client| scope.spawn(|| client.peek("GET", |response| !response.body.is_empty())))
            .collect();
        for stream in streams {
            let part = stream.join().expect("no panic").expect("head and first half");
            assert!(!part.is_whole && part.body == b"first ", "{part:?}");
        }
    });
    assert!(!gate.is_open(), "the gate opened before the first bytes arrived");
    gate.open();
    for client in &mut clients {
        assert_eq!(client.response("GET").expect("whole").text(), "first second");
    }
    assert_eq!(origin.count("/slow"), 1);
    assert_eq!(server.stat("collapsed_total"), 99.0);
}

#[test]
fn the_fetch_outlives_its_first_client() {
    for is_reset in [false, true] {
        let gate = Gate::new();
        let held = gate.clone();
        let origin = Origin::start(move |_| halves(&held));
        let server = server_before(&origin);
        let mut first = waiting_clients(&server, 1).remove(0);
        first.peek("GET", |response| !response.body.is_empty()).expect("the first half");
        let mut followers = waiting_clients(&server, 3);
        for follower in &mut followers {
            follower.peek("GET", |response| !response.body.is_empty()).expect("the first half");
        }
        if is_reset {
            first.reset()
        } else {
            drop(first)
        }
        gate.open();
        for follower in &mut followers {
            assert_eq!(follower.response("GET").expect("whole").text(), "first second");
        }
        let later = Client::connect(server.address()).ask("GET", "/slow", &[]).expect("whole");
        assert_eq!((later.text().as_str(), origin.count("/slow")), ("first second", 1));
    }
}

#[test]
fn a_fetch_without_any_client_left_is_stored() {
    let (gate, asked) = (Gate::new(), Gate::new());
    let (held, reached) = (gate.clone(), asked.clone());
    let origin = Origin::start(move |_| {
        let script = Script::new().open(&reached).wait(&held);
        script.send(answer_head("200 OK", STORABLE, 5)).send("alone")
    });
    let server = server_before(&origin);
    let only = waiting_clients(&server, 1);
    assert!(asked.wait());
    drop(only);
    gate.open();
    eventually("the response is stored", || server.stat("stored_total") == 1.0);
    let later = Client::connect(server.address()).ask("GET", "/slow", &[]).expect("whole");
    assert_eq!((later.text().as_str(), origin.count("/slow")), ("alone", 1));
}

#[test]
fn a_leader_that_fails_before_its_head_lets_its_followers_fetch() {
    let (gate, asked) = (Gate::new(), Gate::new());
    let (held, reached) = (gate.clone(), asked.clone());
    let origin = Origin::start(move |request| match request.nth {
        0 => Script::new().open(&reached).wait(&held).close(),
        _ => Script::answer("200 OK", STORABLE, b"good"),
    });
    let server = server_before(&origin);
    let mut clients = waiting_clients(&server, 1);
    assert!(asked.wait());
    clients.extend(waiting_clients(&server, 20));
    eventually("all wait", || server.stat("requests_total") == 21.0);
    gate.open();
    for client in &mut clients {
        let response = client.response("GET").expect("the client gets an answer");
        let is_good = response.status == 200 && response.text() == "good";
        assert!(is_good || response.status == 502, "{response:?}");
    }
    let later = Client::connect(server.address()).ask("GET", "/slow", &[]).expect("whole");
    assert_eq!(later.text(), "good", "the failure was stored");
}

// RFC: 9111-3.3-2
#[test]
fn a_leader_that_breaks_off_cuts_its_followers_and_is_not_stored() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |request| match request.nth {
        0 => {
            let head = answer_head("200 OK", STORABLE, 100);
            Script::new().send(head).send("first ").wait(&held).close()
        }
        _ => Script::answer("200 OK", STORABLE, b"good"),
    });
    let server = server_before(&origin);
    let mut clients = waiting_clients(&server, 10);
    for client in &mut clients {
        client.peek("GET", |response| !response.body.is_empty()).expect("the first half");
    }
    gate.open();
    for client in &mut clients {
        let answer = client.response("GET");
        assert!(
            matches!(answer, Err(Broken::Cut(..))),
            "the cut response looked whole: {answer:?}"
        );
    }
    let later = Client::connect(server.address()).ask("GET", "/slow", &[]).expect("whole");
    assert_eq!((later.text().as_str(), origin.count("/slow")), ("good", 2));
}

/// Followers wait as long as the origin may take; their wait has no limit of its own. One request
/// reaches the origin.
#[test]
fn followers_wait_for_a_slow_leader_as_long_as_the_origin_may_take() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |_| {
        Script::new().wait(&held).send(answer_head("200 OK", STORABLE, 4)).send("slow")
    });
    let server = server_before(&origin);
    let mut clients = waiting_clients(&server, 20);
    eventually("all wait", || server.stat("requests_total") == 20.0);
    gate.open();
    for client in &mut clients {
        assert_eq!(client.response("GET").expect("whole").text(), "slow");
    }
    assert_eq!(origin.count("/slow"), 1);
}

/// However many clients wait for a URL, an origin that fails gets few requests for it.
#[test]
fn a_failing_origin_gets_few_requests_however_many_clients_wait() {
    type Failing = fn(Script) -> Script;
    let cases: [(&str, Failing, u16); 3] = [
        ("reset", |script| script.close(), 502),
        ("status 500", |script| script.send(answer_head("500 Oops", &[], 4)).send("oops"), 500),
        ("malformed", |script| script.send("nonsense\r\n\r\n").close(), 502),
    ];
    for (name, failing, status) in cases {
        let gate = Gate::new();
        let held = gate.clone();
        let origin = Origin::start(move |_| failing(Script::new().wait(&held)));
        let server = server_before(&origin);
        let mut clients = waiting_clients(&server, 60);
        eventually("all wait", || server.stat("requests_total") == 60.0);
        gate.open();
        let mut own_count = 0;
        for client in &mut clients {
            let response = client.response("GET").expect("the client gets an answer");
            assert_eq!(response.status, status, "{name}: {response:?}");
            own_count += u32::from(!response.text().contains("other requests"));
        }
        // Three leaders fetch. Then each of the two workers sends a few requests without
        // collapsing them.
        let asked = origin.count("/slow");
        assert!((1..=30).contains(&asked), "{name}: the origin got {asked} requests");
        assert!(own_count as usize <= asked, "{name}: {own_count} answers to {asked} requests");
        let shared_count = f64::from(60 - own_count);
        eventually("the failures are counted", || {
            server.stat("collapse_failures_total") == shared_count
        });
    }
}

#[test]
fn requests_with_authorization_do_not_wait_for_one_another() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |request| {
        let user = request.head.field("authorization").unwrap_or("anonymous").to_string();
        let script = if user == "first" { Script::new().wait(&held) } else { Script::new() };
        script.send(answer_head("200 OK", STORABLE, user.len())).send(user)
    });
    let server = server_before(&origin);
    let ask = |user: &str| {
        let mut client = Client::connect(server.address());
        client.send(slow_request(&[&format!("Authorization: {user}")]));
        client
    };
    let mut first = ask("first");
    eventually("the first request has arrived", || origin.count("/slow") == 1);
    for user in ["second", "third", "second"] {
        assert_eq!(ask(user).response("GET").expect("whole").text(), user);
    }
    // Nor does a request without Authorization wait.
    let mut anonymous = waiting_clients(&server, 1).remove(0);
    assert_eq!(anonymous.response("GET").expect("whole").text(), "anonymous");
    gate.open();
    assert_eq!(first.response("GET").expect("whole").text(), "first");
}

/// RFC 9111 §3.5: a response that permits sharing is stored, and the next requests share it, while
/// it arrives and later.
#[test]
fn a_response_to_authorization_that_may_be_shared_is_stored() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |_| {
        let head = answer_head("200 OK", &["Cache-Control: public, max-age=60"], 12);
        Script::new().send(head).send("first ").wait(&held).send("second")
    });
    let server = server_before(&origin);
    let ask = |user: &str| {
        let mut client = Client::connect(server.address());
        client.send(slow_request(&[&format!("Authorization: {user}")]));
        client
    };
    let mut first = ask("first");
    first.peek("GET", |response| !response.body.is_empty()).expect("the first half");
    let mut others = [ask("second"), waiting_clients(&server, 1).remove(0)];
    for client in &mut others {
        client.peek("GET", |response| !response.body.is_empty()).expect("the first half");
    }
    gate.open();
    for client in others.iter_mut().chain([&mut first]) {
        assert_eq!(client.response("GET").expect("whole").text(), "first second");
    }
    assert_eq!(ask("third").response("GET").expect("whole").text(), "first second");
    assert_eq!(origin.count("/slow"), 1);
}

/// Once a response could not be stored, the requests for its variant do not wait for one another.
#[test]
fn requests_for_an_unstorable_url_go_side_by_side() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |request| {
        let script = if request.nth == 0 { Script::new() } else { Script::new().wait(&held) };
        script.send(answer_head("200 OK", &["Cache-Control: no-store"], 2)).send("ok")
    });
    let server = server_before(&origin);
    Client::connect(server.address()).ask("GET", "/slow", &[]).expect("whole");
    let mut clients = waiting_clients(&server, 50);
    eventually("all of them reach the origin", || origin.count("/slow") == 51);
    gate.open();
    for client in &mut clients {
        assert_eq!(client.response("GET").expect("whole").text(), "ok");
    }
    assert_eq!(server.stat("hits_for_miss_total"), 50.0);
}

// RFC: 9111-5.2.2.5-1
#[test]
fn a_leader_that_is_not_storable_shares_its_answer_with_no_follower() {
    for field in ["Cache-Control: no-store", "Cache-Control: private", "Vary: *"] {
        let gate = Gate::new();
        let held = gate.clone();
        let own = move |request: &forebay_testkit::Request| {
            let content = format!("for request {}", request.nth);
            let script = if request.nth == 0 { Script::new().wait(&held) } else { Script::new() };
            script.send(answer_head("200 OK", &[field], content.len())).send(content)
        };
        let origin = Origin::start(own);
        let server = server_before(&origin);
        let mut clients = waiting_clients(&server, 1);
        eventually("the leader has asked", || origin.count("/slow") == 1);
        clients.extend(waiting_clients(&server, 10));
        eventually("all wait", || server.stat("requests_total") == 11.0);
        gate.open();
        let texts = clients.iter_mut().map(|client| client.response("GET").expect("whole").text());
        let distinct: HashSet<String> = texts.collect();
        assert_eq!((distinct.len(), origin.count("/slow")), (11, 11), "{field}: {distinct:?}");
    }
}

#[test]
fn followers_of_other_variants_get_their_own_content() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |request| {
        let language = request.head.field("accept-language").unwrap_or("none").to_string();
        let script = if request.nth == 0 { Script::new().wait(&held) } else { Script::new() };
        let fields = ["Cache-Control: max-age=60", "Vary: Accept-Language"];
        script.send(answer_head("200 OK", &fields, language.len())).send(language)
    });
    let server = server_before(&origin);
    let languages = ["en", "de", "fr", "en", "de"];
    let ask = |language: &&str| {
        let mut client = Client::connect(server.address());
        client.send(slow_request(&[&format!("Accept-Language: {language}")]));
        client
    };
    let mut clients: Vec<Client> = languages[..1].iter().map(ask).collect();
    eventually("the leader has asked", || origin.count("/slow") == 1);
    clients.extend(languages[1..].iter().map(ask));
    eventually("all wait", || server.stat("requests_total") == 5.0);
    gate.open();
    for (client, language) in clients.iter_mut().zip(languages) {
        assert_eq!(client.response("GET").expect("whole").text(), language);
    }
    let count = origin.count("/slow");
    assert!((3..=4).contains(&count), "one for each language, not {count}");
}

/// The first request for validation is under way when the others arrive. The others wait until it
/// ends, and then share validations that began after they arrived.
#[test]
fn requests_for_validation_share_one_that_began_after_them() {
    let (gate, asked) = (Gate::new(), Gate::new());
    let (held, reached) = (gate.clone(), asked.clone());
    let origin = Origin::start(move |request| match request.nth {
        0 => Script::answer("200 OK", &["Cache-Control: max-age=60", "ETag: \"a\""], b"page"),
        1 => Script::new().open(&reached).wait(&held).send(CONFIRMED),
        _ => Script::new().send(CONFIRMED),
    });
    let server = server_before(&origin);
    store_page(&server);
    let ask = |field: &'static str| {
        let mut client = Client::connect(server.address());
        client.send(slow_request(&[field]));
        client
    };
    let mut clients = vec![ask("Cache-Control: no-cache")];
    assert!(asked.wait());
    clients.extend((0..20).map(|_| ask("Cache-Control: no-cache")));
    clients.extend((0..20).map(|_| ask("Cache-Control: max-age=0")));
    eventually("all wait", || server.stat("requests_total") == 42.0);
    gate.open();
    for client in &mut clients {
        let response = client.response("GET").expect("whole");
        assert_eq!((response.status, response.text().as_str()), (200, "page"));
    }
    let requests = origin.requests();
    let is_validation = |text: &str| text == "\"a\"";
    assert!(requests[1..].iter().all(|r| r.head.field("if-none-match").is_some_and(is_validation)));
    assert!((3..10).contains(&requests.len()), "{} requests to the origin", requests.len());
}

#[test]
fn requests_that_cannot_share_a_validation_validate_by_the_stored_tag() {
    const FIELDS: &[&str] = &["Cache-Control: no-cache", "ETag: \"a\""];
    let (gate, asked) = (Gate::new(), Gate::new());
    let (held, reached) = (gate.clone(), asked.clone());
    let origin = Origin::start(move |request| match request.nth {
        0 => Script::answer("200 OK", FIELDS, b"page"),
        1 => Script::new().open(&reached).wait(&held).send(CONFIRMED),
        _ => Script::new().send(CONFIRMED),
    });
    let server = server_before(&origin);
    store_page(&server);
    let mut clients = waiting_clients(&server, 1);
    assert!(asked.wait());
    clients.extend(waiting_clients(&server, 20));
    eventually("all wait", || server.stat("requests_total") == 22.0);
    gate.open();
    for client in &mut clients {
        let response = client.response("GET").expect("whole");
        assert_eq!((response.status, response.text().as_str()), (200, "page"));
    }
    let requests = origin.requests();
    assert!(requests[1..].iter().all(|r| r.head.has("if-none-match")), "one came without a tag");
}

/// Requests the page, and waits until it is stored. A client can have the whole body a moment
/// before the record is complete, and another worker would then find no stored response.
fn store_page(server: &Server) {
    Client::connect(server.address()).ask("GET", "/slow", &[]).expect("whole");
    eventually("the page is stored", || server.stat("stored_total") == 1.0);
}

const CONFIRMED: &str = "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n";

/// A storable answer whose second half waits for the gate.
fn halves(held: &Gate) -> Script {
    Script::new().send(answer_head("200 OK", STORABLE, 12)).send("first ").wait(held).send("second")
}

/// Clients that have requested the slow page and read nothing yet.
fn waiting_clients(server: &Server, count: usize) -> Vec<Client> {
    let ask = |_| {
        let mut client = Client::connect(server.address());
        client.send(slow_request(&[]));
        client
    };
    (0..count).map(ask).collect()
}

fn slow_request(fields: &[&str]) -> String {
    forebay_testkit::client::request_text("GET", "/slow", fields)
}

fn builder(origin: &Origin) -> ServerBuilder {
    ServerBuilder::new(env!("CARGO_BIN_EXE_forebay")).origin(origin).flag("--workers", "2")
}

fn server_before(origin: &Origin) -> Server {
    builder(origin).start()
}

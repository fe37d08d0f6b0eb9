//! Sites with several origins: their shares, and requests that go on to another origin.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use forebay_testkit::script::answer_head;
use forebay_testkit::{Client, Gate, Origin, Response, Script, Server, ServerBuilder, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// A server with one worker in front of these origins; `settings` are lines before the first
/// section, and `site` lines of the site.
fn serve(origins: &str, settings: &str, site: &str) -> Server {
    let config = format!(
        "{settings}\n[[site]]\nname = \"a\"\nnames = [\"*\"]\norigin = {origins}\n{site}\n"
    );
    ServerBuilder::new(PROGRAM).config(&config).flag("--workers", "1").start()
}

fn urls(origins: &[&Origin]) -> String {
    let urls: Vec<_> = origins.iter().map(|origin| url(origin)).collect();
    format!("{urls:?}")
}

fn url(origin: &Origin) -> String {
    format!("http://{}", origin.address())
}

fn ask(server: &Server, method: &str, target: &str) -> Response {
    Client::connect(server.address()).ask(method, target, &[]).expect("whole")
}

/// Asks for `count` resources; returns the number of answers that are not 200.
fn errors_of(server: &Server, count: usize) -> usize {
    let mut client = Client::connect(server.address());
    let mut status =
        |number: usize| client.ask("GET", &format!("/{number}"), &[]).expect("whole").status;
    (0..count).filter(|number| status(*number) != 200).count()
}

/// An origin that resets each connection at its first request.
fn resetting() -> Origin {
    Origin::start(|_| Script::new().reset())
}

#[test]
fn origins_get_requests_in_turn_and_by_weight() {
    let (one, other) = (Origin::echo(), Origin::echo());
    let server = ServerBuilder::new(PROGRAM).flag("--workers", "1");
    let (first, second) = (url(&one), url(&other));
    let config = format!(
        "[[site]]\nname = \"a\"\nnames = [\"*\"]\n[[site.origin]]\nurl = {first:?}\nweight = 3\n\
         [[site.origin]]\nurl = {second:?}\n"
    );
    let server = server.config(&config).start();
    assert_eq!(errors_of(&server, 40), 0);
    let counts = (one.request_count(), other.request_count());
    assert!(counts.0.abs_diff(30) <= 2 && counts.0 + counts.1 == 40, "{counts:?}");
}

#[test]
fn the_flag_can_be_repeated() {
    let (one, other) = (Origin::echo(), Origin::echo());
    let server = ServerBuilder::new(PROGRAM).flag("--workers", "1").origin(&one);
    let server = server.switch(&format!("--origin={}", url(&other))).start();
    assert_eq!(errors_of(&server, 20), 0);
    let counts = (one.request_count(), other.request_count());
    assert!(counts.0.abs_diff(10) <= 2 && counts.0 + counts.1 == 20, "{counts:?}");
}

#[test]
fn a_url_stays_with_its_origin() {
    let origins = [Origin::echo(), Origin::echo(), Origin::echo()];
    let urls = urls(&origins.each_ref());
    let server = serve(&urls, "", "balance = \"hash\"");
    for _ in 0..3 {
        assert_eq!(errors_of(&server, 30), 0);
    }
    for origin in &origins {
        let count = origin.count("/1");
        assert!(count == 0 || count == 3, "{count}");
        assert!(origin.request_count() > 0, "it has no share");
    }
}

#[test]
fn an_origin_that_refuses_connections_costs_no_request() {
    let (one, other) = (Origin::echo(), Origin::echo());
    let address = one.address();
    let server = serve(&urls(&[&one, &other]), "", "");
    assert_eq!(errors_of(&server, 10), 0);
    one.stop();
    assert_eq!(errors_of(&server, 50), 0);
    // No byte of the request was sent, so even a POST goes on to the other origin.
    let posted = Client::connect(server.address()).ask("POST", "/post", &["Content-Length: 0"]);
    assert_eq!(posted.expect("whole").status, 200);
    assert!(server.stat("origin_failovers_total") >= 1.0);
    assert!(server.stat("origin_ejections_total") >= 1.0);
    let down = format!(
        "site \"a\", origin {address}: no address of the origin accepted a connection; the origin \
         gets no"
    );
    eventually("the event names site, origin and reason", || server.errors().contains(&down));
    let cause = format!("({address}: Connection refused (os error 111))");
    assert!(server.errors().contains(&cause), "{}", server.errors());
    let back = Origin::start_at(address, |_| Script::answer("200 OK", &[], b""));
    eventually("the origin gets requests again", || {
        assert_eq!(errors_of(&server, 5), 0);
        back.request_count() > 0
    });
    let told = |name: &str| {
        let is_told = |line: &&str| line.contains(name) && line.contains("site \"a\", origin");
        server.errors().lines().filter(is_told).count()
    };
    eventually("the event names site and origin", || told("origin_back") > 0);
    assert_eq!(told("origin_back"), 1, "{}", server.errors());
}

#[test]
fn a_body_goes_to_the_origin_that_accepts_connections() {
    let (one, other) = (Origin::echo(), Origin::echo());
    let urls = urls(&[&one, &other]);
    one.stop();
    let server = serve(&urls, "", "");
    for number in 0..6 {
        let mut client = Client::connect(server.address());
        let target = format!("/{number}");
        let head = format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody");
        assert!(client.send(head));
        let answer = client.response("POST").expect("whole");
        assert_eq!(answer.status, 200);
    }
    let requests = other.requests();
    assert!(requests.iter().all(|request| request.body == b"body"), "{requests:?}");
    assert_eq!(requests.len(), 6);
    assert!(server.stat("origin_failovers_total") >= 1.0);
}

#[test]
fn a_request_is_repeated_after_a_reset_only_if_it_may_be() {
    let (bad, good) = (resetting(), Origin::echo());
    let server = serve(&urls(&[&bad, &good]), "", "");
    assert_eq!(errors_of(&server, 60), 0);
    let asked = bad.request_count() + good.request_count();
    assert!(bad.request_count() > 0 && asked <= 66 + 20, "{asked} requests to origins");
    assert_eq!(server.stat("origin_ejections_total"), 1.0);

    let bad = resetting();
    let server = serve(&urls(&[&bad, &good]), "", "");
    let before = good.request_count();
    let answers: Vec<_> = (0..4).map(|_| ask(&server, "POST", "/post").status).collect();
    assert!(answers.contains(&502) && answers.contains(&200), "{answers:?}");
    let posts = bad.request_count() + good.request_count() - before;
    assert_eq!(posts, 4, "a POST was repeated");
}

#[test]
fn a_repeated_request_states_the_length_of_its_empty_body() {
    let closing = || failing_in_turn(Script::new().close());
    for method in ["PUT", "DELETE"] {
        // The request goes to another origin, to the only one again, or to a new connection.
        for origins in
            [vec![resetting(), Origin::echo()], vec![resetting_in_turn()], vec![closing()]]
        {
            let server = serve(&urls(&origins.iter().collect::<Vec<_>>()), "", "");
            let mut client = Client::connect(server.address());
            for _ in 0..4 {
                let answer = client.ask(method, "/", &["Content-Length: 0"]).expect("whole");
                assert_eq!(answer.status, 200);
            }
            let requests: Vec<_> = origins.iter().flat_map(Origin::requests).collect();
            assert!(requests.len() > 4, "no request was repeated");
            for request in requests {
                assert_eq!(request.head.field("content-length"), Some("0"), "{request:?}");
            }
            // A request without a length gets none.
            for _ in 0..4 {
                assert_eq!(client.ask(method, "/none", &[]).expect("whole").status, 200);
            }
            let requests: Vec<_> =
                origins.iter().flat_map(|one| one.requests_below("/none")).collect();
            assert!(requests.len() >= 4);
            for request in requests {
                assert_eq!(request.head.field("content-length"), None, "{request:?}");
            }
        }
    }
}

#[test]
fn retries_have_a_budget() {
    let (bad, good) = (resetting(), Origin::echo());
    let server = serve(&urls(&[&bad, &good]), "origin_retry_percent = 0", "");
    assert!(errors_of(&server, 10) > 0);
    assert!(server.stat("origin_retries_refused_total") >= 1.0);
    assert_eq!(server.stat("origin_failovers_total"), 0.0);
}

/// An origin on whose connections every second request goes wrong: `bad` is its script.
fn failing_in_turn(bad: Script) -> Origin {
    let count = AtomicUsize::new(0);
    Origin::start(move |_| match count.fetch_add(1, Relaxed) % 2 {
        0 => Script::answer("200 OK", &["Cache-Control: no-store"], b"x"),
        _ => bad.clone(),
    })
}

#[test]
fn requests_on_pooled_connections_that_are_reset_have_the_budget_of_all_retries() {
    let origins = [(); 3].map(|()| failing_in_turn(Script::new().reset()));
    let server = serve(&urls(&origins.each_ref()), "", "");
    let started_ms = server.stat("uptime_ms");
    let failed = errors_of(&server, 400);
    let seconds = (server.stat("uptime_ms") - started_ms) / 1000.0;
    let asked: usize = origins.iter().map(Origin::request_count).sum();
    let allowed = 400.0 * 1.1 + 20.0 + seconds + 1.0;
    assert!(asked as f64 <= allowed, "{asked} requests to origins, {allowed} allowed");
    let refused = server.stat("origin_retries_refused_total");
    assert!(refused > 0.0 && refused == failed as f64, "{refused} refused, {failed} failed");
}

#[test]
fn no_request_fails_because_an_origin_closes_pooled_connections() {
    // The origin closes each connection at its second request, which it does not answer.
    let last = AtomicUsize::new(usize::MAX);
    let origin = Origin::start(move |request| {
        match last.swap(request.connection, Relaxed) == request.connection {
            false => Script::answer("200 OK", &["Cache-Control: no-store"], b"x"),
            true => Script::new().close(),
        }
    });
    let server = serve(&urls(&[&origin]), "origin_retry_percent = 0", "");
    let started_ms = server.stat("uptime_ms");
    assert_eq!(errors_of(&server, 400), 0);
    let seconds = (server.stat("uptime_ms") - started_ms) / 1000.0;
    let again = server.stat("origin_retries_total");
    let allowed = 400.0 * 0.05 + 20.0 + seconds + 1.0;
    assert!((20.0..=allowed).contains(&again), "{again} requests were sent twice, not {allowed}");
    assert_eq!(origin.request_count() as f64, 400.0 + again);
}

/// An origin that resets the connection of every second request.
fn resetting_in_turn() -> Origin {
    let count = AtomicUsize::new(0);
    Origin::start(move |request| match count.fetch_add(1, Relaxed) % 2 {
        0 => Script::new().reset(),
        _ => Script::answer("200 OK", &["Connection: close"], request.target.as_bytes()),
    })
}

#[test]
fn the_only_origin_gets_a_request_again_after_a_reset_of_a_new_connection() {
    let origin = resetting_in_turn();
    let server = serve(&urls(&[&origin]), "", "");
    assert_eq!(errors_of(&server, 10), 0);
    assert_eq!(origin.request_count(), 20);
    assert_eq!(server.stat("origin_retries_total"), 10.0);
    assert_eq!(server.stat("origin_failovers_total"), 0.0);
    assert!(server.errors().contains("origin_bad_answer"), "{}", server.errors());
    let posted = (0..4).map(|_| ask(&server, "POST", "/post").status);
    assert_eq!(posted.collect::<Vec<_>>(), [502, 200, 502, 200], "a POST was repeated");

    let origin = resetting_in_turn();
    let server = serve(&urls(&[&origin]), "origin_retry_percent = 0", "");
    assert_eq!(ask(&server, "GET", "/").status, 502);
    assert_eq!(origin.request_count(), 1);
    assert_eq!(server.stat("origin_retries_refused_total"), 1.0);
}

#[test]
fn the_only_origin_that_gets_requests_gets_a_request_again_as_the_only_origin_does() {
    let (origin, gone) = (resetting_in_turn(), Origin::echo());
    let both = urls(&[&origin, &gone]);
    gone.stop();
    // The first request meets both failures: it goes back to the origin that has reset it.
    let server = serve(&both, "", "");
    assert_eq!(errors_of(&server, 10), 0);
    assert_eq!(origin.request_count(), 20);
    assert!(server.stat("origin_retries_total") > 0.0);
}

#[test]
fn the_only_origin_gets_a_request_at_most_twice() {
    let origin = resetting();
    let server = serve(&urls(&[&origin]), "", "cache = false");
    let mut client = Client::connect(server.address());
    for number in 1..=60 {
        assert_eq!(client.ask("GET", "/", &[]).expect("whole").status, 502);
        assert!(origin.request_count() <= 2 * number, "{}", origin.request_count());
    }
    // One retry for each ten requests, and a burst of 20.
    assert!(origin.request_count() <= 60 + 6 + 20 + 10, "{}", origin.request_count());
    assert!(server.stat("origin_retries_refused_total") >= 20.0);
}

/// An origin that answers every request with this status.
fn answering(status: &'static str) -> Origin {
    Origin::start(move |_| Script::answer(status, &["Cache-Control: no-store"], b"e"))
}

#[test]
fn an_origin_that_answers_with_error_statuses_is_left_out() {
    for status in ["502 Bad Gateway", "503 Service Unavailable", "504 Gateway Timeout"] {
        let (bad, good) = (answering(status), Origin::echo());
        let server = serve(&urls(&[&bad, &good]), "", "");
        assert_eq!(errors_of(&server, 40), 0, "{status}");
        assert_eq!(server.stat("origin_ejections_total"), 1.0, "{status}");
        assert!((5..=10).contains(&bad.request_count()), "{status}: {}", bad.request_count());
        let down = format!("site \"a\", origin {}: several answers in a row", bad.address());
        eventually("the event has the reason", || server.errors().contains(&down));
    }
}

#[test]
fn error_statuses_cost_no_more_than_their_setting_allows() {
    let (bad, good) = (answering("503 Service Unavailable"), Origin::echo());
    let both = urls(&[&bad, &good]);
    for (settings, site) in [
        ("", "origin_error_statuses = []"),
        ("", "origin_error_statuses = [502, \"504\"]"),
        ("origin_retry_percent = 0", ""),
        ("", "origin_tries_max = 1"),
    ] {
        let server = serve(&both, settings, site);
        let before = bad.request_count() + good.request_count();
        assert!(errors_of(&server, 8) >= 3, "{settings} {site}");
        assert_eq!(bad.request_count() + good.request_count() - before, 8, "{settings} {site}");
    }
    // A request that must not be repeated keeps its answer.
    let server = serve(&both, "", "");
    let posted: Vec<_> = (0..4).map(|_| ask(&server, "POST", "/post").status).collect();
    assert!(posted.contains(&503) && posted.contains(&200), "{posted:?}");
    let before = bad.request_count();
    let server = serve(&urls(&[&bad]), "", "");
    assert_eq!((errors_of(&server, 8), bad.request_count() - before), (8, 8), "the only origin");
}

#[test]
fn one_of_two_origins_with_error_statuses_is_always_asked() {
    let (one, other) = (answering("503 Service Unavailable"), answering("503 Service Unavailable"));
    let server = serve(&urls(&[&one, &other]), "", "");
    let started_ms = server.stat("uptime_ms");
    let mut client = Client::connect(server.address());
    for number in 0..60 {
        let answer = client.ask("GET", &format!("/{number}"), &[]).expect("whole");
        assert_eq!((answer.status, answer.text()), (503, "e".into()), "the origin's answer");
    }
    // The first pause takes a second; after it, either origin may be left out.
    let seconds = (server.stat("uptime_ms") - started_ms) / 1000.0;
    let ejections = server.stat("origin_ejections_total");
    assert!((1.0..=1.0 + seconds).contains(&ejections), "{ejections} in {seconds} s");
    let asked = one.request_count() + other.request_count();
    assert!(asked <= 60 + 6 + 20 + 10, "{asked} requests to origins");
}

#[test]
fn an_origin_whose_bodies_break_off_is_left_out() {
    let head = "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 10\r\n\r\nabc";
    let (bad, good) = (Origin::start(move |_| Script::new().send(head).close()), Origin::echo());
    let server = serve(&urls(&[&bad, &good]), "", "");
    let broken =
        (0..40).filter(|_| Client::connect(server.address()).ask("GET", "/", &[]).is_err());
    assert_eq!(broken.count(), 3);
    assert_eq!((bad.request_count(), server.stat("origin_ejections_total")), (3, 1.0));
}

#[test]
fn a_request_goes_on_from_an_origin_that_hangs() {
    let (bad, good) = (Origin::start(|_| Script::new().stall()), Origin::echo());
    let settings = "origin_first_byte_ms_max = \"300ms\"";
    let server = serve(&urls(&[&bad, &good]), settings, "");
    assert_eq!(errors_of(&server, 30), 0);
    assert_eq!(server.stat("origin_ejections_total"), 1.0);
}

#[test]
fn a_request_does_not_wait_for_an_origin_while_another_one_has_a_free_connection() {
    let gates = [Gate::new(), Gate::new()];
    let origin = |gate: &Gate| {
        let gate = gate.clone();
        Origin::start(move |request| match request.target.as_str() {
            "/held" => Script::new().wait(&gate).send(answer_head("200 OK", &[], 0)),
            _ => Script::answer("200 OK", &["Cache-Control: no-store"], b"x"),
        })
    };
    let origins = gates.each_ref().map(origin);
    let settings = "origin_connections_max = 1";
    let server = serve(&urls(&origins.each_ref()), settings, "cache = false");
    let start = |target: &str| {
        let mut client = Client::connect(server.address());
        assert!(client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")));
        client
    };
    let held_count = || origins.iter().map(|one| one.count("/held")).sum::<usize>();
    let mut held = vec![start("/held")];
    eventually("one origin is full", || held_count() == 1);
    assert_eq!(errors_of(&server, 6), 0);
    assert_eq!(server.stat("origin_failovers_total"), 0.0);
    // While both are full, a request waits. If its wait ends without a permit, it goes on.
    held.push(start("/held"));
    eventually("both origins are full", || held_count() == 2);
    let mut waiting = start("/waits");
    eventually("it waits", || server.stat("requests_total") >= 9.0);
    gates[0].open();
    let status = |client: &mut Client| client.response("GET").expect("whole").status;
    assert_eq!((status(&mut waiting), origins[0].count("/waits")), (200, 1));
    assert_eq!(server.stat("origin_failovers_total"), 1.0, "its turn was at the other origin");
    gates[1].open();
    assert_eq!(held.iter_mut().map(status).collect::<Vec<_>>(), [200; 2]);
}

#[test]
fn a_request_that_has_waited_in_vain_goes_to_an_origin_with_a_free_connection() {
    let gate = Gate::new();
    let holding = || {
        let gate = gate.clone();
        Origin::start(move |_| Script::new().wait(&gate).send(answer_head("200 OK", &[], 0)))
    };
    let (one, other, spare) = (holding(), holding(), Origin::echo());
    let (first, second, third) = (url(&one), url(&other), url(&spare));
    let origins = format!("[{first:?}, {second:?}, {{ url = {third:?}, backup = true }}]");
    let settings = "origin_connections_max = 1\norigin_connect_ms_max = '500ms'";
    let server = serve(&origins, settings, "cache = false");
    let start = |_| {
        let mut client = Client::connect(server.address());
        assert!(client.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\n"));
        client
    };
    let mut held = [(); 2].map(start);
    eventually("both are full", || one.request_count() + other.request_count() == 2);
    assert_eq!(ask(&server, "GET", "/").text(), "GET /");
    assert_eq!(spare.request_count(), 1);
    assert_eq!(server.stat("origin_failovers_total"), 1.0, "it has waited once");
    gate.open();
    for client in &mut held {
        assert_eq!(client.response("GET").expect("whole").status, 200);
    }
}

#[test]
fn a_backup_is_asked_only_while_no_other_can_be() {
    let (first, spare) = (Origin::echo(), Origin::echo());
    let (one, other) = (url(&first), url(&spare));
    let origins = format!("[{one:?}, {{ url = {other:?}, backup = true }}]");
    let server = serve(&origins, "", "");
    assert_eq!(errors_of(&server, 10), 0);
    assert_eq!(spare.request_count(), 0);
    first.stop();
    assert_eq!(errors_of(&server, 10), 0);
    assert_eq!(spare.request_count(), 10);
}

#[test]
fn a_stale_response_is_served_only_if_all_origins_are_down() {
    let stale = |_: &_| Script::answer("200 OK", &["Cache-Control: max-age=10", "Age: 20"], b"x");
    let (one, other) = (Origin::start(stale), Origin::start(stale));
    let server = serve(&urls(&[&one, &other]), "", "");
    assert_eq!(ask(&server, "GET", "/").status, 200);
    one.stop();
    for _ in 0..4 {
        let answer = ask(&server, "GET", "/");
        let status = answer.field("cache-status").expect("every response has one");
        assert!(status.contains("fwd=stale"), "{status}");
    }
    other.stop();
    assert_eq!(ask(&server, "GET", "/").text(), "x");
    assert_eq!(ask(&server, "GET", "/new").status, 502);
}

//! Several origins, some of which answer later than others.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use forebay_testkit::client::request_text;
use forebay_testkit::clock::holds_within;
use forebay_testkit::{Client, Gate, Origin, Script, Server, ServerBuilder, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// An origin whose answers begin after `ms` milliseconds.
fn slow(ms: u64) -> Origin {
    Origin::start(move |request| {
        holds_within(Duration::from_millis(ms), || false);
        Script::answer("200 OK", &["Cache-Control: no-store"], request.target.as_bytes())
    })
}

/// A server with one worker in front of these origins; `site` has lines of the site.
fn serve(origins: &[&Origin], site: &str) -> Server {
    serve_with("", origins, site)
}

/// The same, with `settings` before the first section.
fn serve_with(settings: &str, origins: &[&Origin], site: &str) -> Server {
    let urls: Vec<_> = origins.iter().map(|one| format!("http://{}", one.address())).collect();
    serve_at(settings, &format!("{urls:?}"), site)
}

fn serve_at(settings: &str, origins: &str, site: &str) -> Server {
    let config = format!(
        "{settings}\n[[site]]\nname = \"a\"\nnames = [\"*\"]\norigin = {origins}\n{site}\n"
    );
    ServerBuilder::new(PROGRAM).config(&config).flag("--workers", "1").start()
}

/// Asks for `count` resources, all of which are answered.
fn ask_for(server: &Server, count: usize) {
    let mut client = Client::connect(server.address());
    for number in 0..count {
        let target = format!("/{number}");
        assert_eq!(client.ask("GET", &target, &[]).expect("whole").status, 200);
    }
}

const OUTLIERS: &str = "origin_outlier_factor = 4\norigin_outlier_ms_min = \"40ms\"";

#[test]
fn an_origin_that_is_much_slower_than_the_others_is_left_out() {
    let (one, other) = (slow(100), Origin::echo());
    let server = serve(&[&one, &other], OUTLIERS);
    ask_for(&server, 80);
    assert_eq!((one.request_count(), other.request_count()), (16, 64));
    assert_eq!(server.stat("origin_outliers_total"), 1.0);
    assert_eq!(server.stat("origin_ejections_total"), 1.0);
    let down = format!("site \"a\", origin {}: its answers begin after 1", one.address());
    eventually("the event has the reason", || server.errors().contains(&down));
    assert!(server.errors().contains("gets no requests for 10000 ms"), "{}", server.errors());
}

#[test]
fn a_slow_origin_keeps_its_requests_unless_the_others_are_faster_and_enough() {
    let (one, other, fast) = (slow(50), slow(50), Origin::echo());
    let cases: &[(&[&Origin], &str, usize, usize)] = &[
        (&[&one, &fast], "", 50, 0),
        (&[&one, &fast], "origin_outlier_factor = 2", 50, 0),
        (&[&one, &other], OUTLIERS, 50, 0),
        // One of them is left out; the other and the fast one are half of the group and more.
        (&[&one, &other, &fast], OUTLIERS, 120, 1),
    ];
    for (origins, settings, count, ejected) in cases {
        let server = serve(origins, settings);
        let before = one.request_count() + other.request_count();
        ask_for(&server, *count);
        assert_eq!(server.stat("origin_outliers_total"), *ejected as f64, "{settings}");
        let slow = one.request_count() + other.request_count() - before;
        assert!(slow > count / 3, "{slow} of {count} requests: {settings}");
    }
}

#[test]
fn an_origin_that_is_left_out_because_it_is_slow_answers_in_place_of_one_with_errors() {
    let is_busy = Arc::new(AtomicBool::new(false));
    let other = {
        let is_busy = Arc::clone(&is_busy);
        Origin::start(move |_| {
            let busy = is_busy.load(Ordering::Relaxed);
            let status = if busy { "503 Service Unavailable" } else { "200 OK" };
            Script::answer(status, &["Cache-Control: no-store"], b"other")
        })
    };
    let one = slow(100);
    let server = serve(&[&one, &other], OUTLIERS);
    ask_for(&server, 80);
    assert_eq!(server.stat("origin_outliers_total"), 1.0);
    let before = one.request_count();
    is_busy.store(true, Ordering::Relaxed);
    // The other origin is not left out yet, because it has given fewer than five errors in a row.
    ask_for(&server, 4);
    assert_eq!(one.request_count() - before, 4);
}

const HEDGED: &str = "hedge_ms = \"200ms\"";

/// An origin that answers nothing to requests for paths that begin with `/slow`.
fn stalling() -> Origin {
    Origin::start(|request| match request.target.starts_with("/slow") {
        true => Script::new().stall(),
        false => Script::answer("200 OK", &["Cache-Control: no-store"], b"first"),
    })
}

fn body_of(server: &Server, method: &str, target: &str) -> (u16, String) {
    let answer = Client::connect(server.address()).ask(method, target, &[]).expect("whole");
    (answer.status, answer.text())
}

fn other_body(target: &str) -> (u16, String) {
    (200, format!("GET {target}"))
}

#[test]
fn a_request_that_its_origin_does_not_answer_goes_to_another_origin_too() {
    let (one, other) = (stalling(), Origin::echo());
    // If an attempt that is given up kept its connection or its permit, no further one would run.
    let settings = "origin_connections_max = 2";
    let server = serve_with(settings, &[&one, &other], HEDGED);
    let mut client = Client::connect(server.address());
    let mut sent = 0;
    for number in 0..20 {
        let target = format!("/slow/{number}");
        let answer = client.ask("GET", &target, &[]).expect("whole");
        assert_eq!((answer.status, answer.text()), other_body(&target));
        sent += 1;
        if server.stat("hedged_requests_total") == 4.0 {
            break;
        }
    }
    assert_eq!(one.request_count(), 4);
    assert_eq!(other.request_count(), sent, "each answer came from the other origin");
    assert_eq!(server.stat("hedges_won_total"), 4.0);
    assert_eq!(server.stat("origin_failovers_total"), 0.0);
    assert_eq!(server.stat("origin_ejections_total"), 0.0);
    eventually("the attempts that were given up have ended", || {
        one.connections().iter().all(|connection| connection.is_closed)
    });
    for number in 0..10 {
        let target = format!("/quick/{number}");
        let answer = body_of(&server, "GET", &target);
        assert!(answer == (200, "first".into()) || answer == other_body(&target), "{answer:?}");
    }
    assert_eq!(server.stat("hedged_requests_total"), 4.0, "a fast answer needs no hedge");
}

#[test]
fn an_origin_that_never_answers_is_left_out_although_its_requests_are_answered() {
    let (one, other) = (stalling(), Origin::echo());
    let server = serve(&[&one, &other], HEDGED);
    let mut client = Client::connect(server.address());
    for number in 0..20 {
        let target = format!("/slow/{number}");
        let answer = client.ask("GET", &target, &[]).expect("whole");
        assert_eq!((answer.status, answer.text()), other_body(&target));
        if server.stat("origin_ejections_total") == 1.0 {
            break;
        }
    }
    assert_eq!(one.request_count(), 5);
    assert_eq!(server.stat("origin_ejections_total"), 1.0);
    let down = format!("site \"a\", origin {}: other origins answered several", one.address());
    eventually("the event has the reason", || server.errors().contains(&down));
}

/// An origin that waits for the gate before it runs the script.
fn gated_with(gate: &Gate, script: fn(Script) -> Script) -> Origin {
    let gate = gate.clone();
    Origin::start(move |_| script(Script::new().wait(&gate)))
}

#[test]
fn rules_for_an_answer_see_the_variables_of_its_own_attempt() {
    for is_of_first in [true, false] {
        let gate = Gate::new();
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
        let held = Origin::start({
            let gate = gate.clone();
            move |_| Script::new().wait(&gate).send(answer)
        });
        let silent = Origin::start(|_| Script::new().stall());
        let port = if is_of_first { &held } else { &silent }.address().port();
        let rules = format!(
            "cond %{{SEND_REQUEST_HDR_HOOK}}\ncond %{{NEXT-HOP:PORT}} ={port}\n\
             set-state-flag 0 on\n\n\
             cond %{{READ_RESPONSE_HDR_HOOK}}\ncond %{{STATE-FLAG:0}}\n\
             set-header X-Flag on\n"
        );
        let urls = [&held, &silent].map(|one| format!("http://{}", one.address()));
        let config = format!(
            "rules = \"flags.rules\"\n[[site]]\nname = \"a\"\nnames = [\"*\"]\n\
             origin = {urls:?}\nhedge_ms = \"50ms\"\n"
        );
        let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1");
        fs::write(builder.path("flags.rules"), rules).expect("writable");
        let server = builder.config(&config).start();
        let mut client = Client::connect(server.address());
        client.send(request_text("GET", "/", &[]));
        eventually("the request is hedged", || silent.request_count() == 1);
        gate.open();
        let answer = client.response("GET").expect("whole");
        assert_eq!((answer.status, answer.text()), (200, "x".into()));
        let flag = is_of_first.then_some("on");
        assert_eq!(answer.head.field("x-flag"), flag, "of the first attempt: {is_of_first}");
    }
}

#[test]
fn the_rules_of_each_attempt_begin_with_the_variables_of_the_request() {
    let rules = "cond %{SEND_REQUEST_HDR_HOOK}\ncond %{STATE-FLAG:0} [NOT]\n\
                 set-state-flag 0 on\nset-header X-Key v\n";
    let scripts = [("hedged", Script::new().stall()), ("repeated", Script::new().reset())];
    for (case, script) in scripts {
        let origins = [(); 2].map(|()| {
            let script = script.clone();
            Origin::start(move |_| script.clone())
        });
        let urls = origins.each_ref().map(|one| format!("http://{}", one.address()));
        let config = format!(
            "rules = \"key.rules\"\n[[site]]\nname = \"a\"\nnames = [\"*\"]\n\
             origin = {urls:?}\nhedge_ms = \"50ms\"\n"
        );
        let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1");
        fs::write(builder.path("key.rules"), rules).expect("writable");
        let server = builder.config(&config).start();
        let mut client = Client::connect(server.address());
        client.send(request_text("GET", "/", &[]));
        for origin in &origins {
            eventually("each origin gets the request", || origin.request_count() > 0);
            for request in origin.requests() {
                assert_eq!(request.head.field("x-key"), Some("v"), "{case}: {request:?}");
            }
        }
    }
}

#[test]
fn if_one_of_two_attempts_fails_the_answer_of_the_other_is_used() {
    let fails: [fn(Script) -> Script; 3] = [
        |script| script.reset(),
        |script| script.close(),
        |script| script.send("HTTP/1.1 503 x\r\nContent-Length: 1\r\n\r\ne"),
    ];
    let works: fn(Script) -> Script =
        |script| script.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx");
    for (number, fail) in fails.into_iter().enumerate() {
        for first_fails in [true, false] {
            let gates = [Gate::new(), Gate::new()];
            let (first, second) = if first_fails { (fail, works) } else { (works, fail) };
            let one = gated_with(&gates[0], first);
            let other = gated_with(&gates[1], second);
            // Nothing but the other attempt may take the place of the one that fails.
            let server = serve(&[&one, &other], "hedge_ms = \"50ms\"\norigin_tries_max = 2");
            let mut client = Client::connect(server.address());
            client.send(request_text("GET", "/", &[]));
            eventually("the request is hedged", || other.request_count() == 1);
            let (failing, working) = if first_fails { (&one, 1) } else { (&other, 0) };
            gates[1 - working].open();
            eventually("the connection has ended", || failing.connections()[0].is_closed);
            gates[working].open();
            let answer = client.response("GET").expect("whole");
            let case = format!("failure {number}, of the first: {first_fails}");
            assert_eq!((answer.status, answer.text()), (200, "x".into()), "{case}");
            assert_eq!((one.request_count(), other.request_count()), (1, 1), "{case}");
            assert_eq!(server.stat("hedges_won_total"), f64::from(first_fails), "{case}");
            assert_eq!(server.stat("origin_failovers_total"), 0.0, "{case}");
        }
    }
}

#[test]
fn if_both_attempts_fail_the_request_goes_on_to_a_third_origin() {
    let gates = [Gate::new(), Gate::new()];
    let one = gated_with(&gates[0], Script::reset);
    let other = gated_with(&gates[1], Script::reset);
    let third = Origin::echo();
    let origins = format!(
        "[\"http://{}\", \"http://{}\", \
         {{ url = \"http://{}\", backup = true }}]",
        one.address(),
        other.address(),
        third.address()
    );
    let server = serve_at("", &origins, "hedge_ms = \"50ms\"");
    let mut client = Client::connect(server.address());
    client.send(request_text("GET", "/", &[]));
    eventually("the request is hedged", || one.request_count() + other.request_count() == 2);
    gates.iter().for_each(Gate::open);
    let answer = client.response("GET").expect("whole");
    assert_eq!((answer.status, answer.text()), (200, "GET /".into()));
    assert_eq!(server.stat("origin_failovers_total"), 1.0);
    assert_eq!(server.stat("hedges_won_total"), 0.0);
}

#[test]
fn a_request_that_fails_at_two_origins_at_once_goes_back_to_neither() {
    let gate = Gate::new();
    let (one, other) = (gated_with(&gate, Script::reset), gated_with(&gate, Script::reset));
    let server = serve(&[&one, &other], "hedge_ms = \"50ms\"");
    let mut client = Client::connect(server.address());
    client.send(request_text("GET", "/", &[]));
    eventually("the request is hedged", || one.request_count() + other.request_count() == 2);
    gate.open();
    assert_eq!(client.response("GET").expect("whole").status, 502);
    assert_eq!((one.request_count(), other.request_count()), (1, 1));
    assert_eq!(server.stat("origin_retries_total"), 0.0);
}

#[test]
fn hedges_have_a_budget_and_leave_half_of_it_to_failures() {
    let (one, other) = (slow(60), slow(60));
    let server = serve(&[&one, &other], "hedge_ms = \"10ms\"");
    let started_ms = server.stat("uptime_ms");
    ask_for(&server, 60);
    let seconds = (server.stat("uptime_ms") - started_ms) / 1000.0;
    let hedged = server.stat("hedged_requests_total");
    let allowed = 10.0 + 6.0 + seconds + 1.0;
    assert!((10.0..=allowed).contains(&hedged), "{hedged} hedges, {allowed} allowed");
    assert!(server.stat("hedges_refused_total") >= 30.0);
    assert_eq!(server.stat("origin_retries_refused_total"), 0.0);
    assert!((one.request_count() + other.request_count()) as f64 <= 60.0 + allowed);
}

#[test]
fn only_safe_requests_without_content_are_hedged_and_only_at_an_equal_origin() {
    let cases: &[(&str, &str, &str, bool)] = &[
        ("GET", "", HEDGED, true),
        ("HEAD", "", HEDGED, true),
        ("GET", "", "", false),
        ("POST", "", HEDGED, false),
        ("DELETE", "", HEDGED, false),
        ("GET", "origin_retry_percent = 0", HEDGED, false),
        ("GET", "", "hedge_ms = \"200ms\"\norigin_tries_max = 1", false),
    ];
    for (method, settings, site, is_hedged) in cases {
        let (one, other) = (slow(500), slow(500));
        let server = serve_with(settings, &[&one, &other], site);
        let fields: &[&str] = if *method == "POST" { &["Content-Length: 0"] } else { &[] };
        let answer = Client::connect(server.address()).ask(method, "/", fields);
        assert_eq!(answer.expect("whole").status, 200, "{method} {settings} {site}");
        let count = one.request_count() + other.request_count();
        assert_eq!(count, 1 + usize::from(*is_hedged), "{method} {settings} {site}");
    }
    let (one, spare) = (slow(500), Origin::echo());
    let backup = format!("{{ url = \"http://{}\", backup = true }}", spare.address());
    let origins = format!("[\"http://{}\", {backup}]", one.address());
    let server = serve_at("", &origins, HEDGED);
    assert_eq!(body_of(&server, "GET", "/").0, 200);
    assert_eq!((one.request_count(), spare.request_count()), (1, 0));
}

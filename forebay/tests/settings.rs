//! Settings that change requests to the origin, storing and answers, at the top of a file, in sites
//! and in routes.

use std::time::Duration;

use forebay_testkit::client::request_text;
use forebay_testkit::clock::http_date;
use forebay_testkit::script::answer_head;
use forebay_testkit::{
    Broken, Client, Gate, Origin, Request, Response, Script, Server, ServerBuilder, eventually,
};

const NEVER: &[&str] = &["Cache-Control: no-store"];
const MINUTE: &[&str] = &["Cache-Control: max-age=60"];

#[test]
fn no_more_connections_than_permitted_go_to_an_origin() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |request| {
        let script = Script::new();
        let script = if request.target == "/held" { script.wait(&held) } else { script };
        script.send(answer_head("200 OK", NEVER, 4)).send("good")
    });
    let flags = [("--origin-connections-max", "1"), ("--origin-connect-ms-max", "100ms")];
    let server = before(&origin, &flags);
    let mut first = Client::connect(server.address());
    first.send(request_text("GET", "/held", &[]));
    eventually("the held request is at the origin", || origin.count("/held") == 1);
    let mut second = Client::connect(server.address());
    assert_eq!(second.ask("GET", "/b", &[]).expect("an answer").status, 503);
    assert_eq!(server.stat("origin_busy_total"), 1.0);
    assert_eq!(origin.connections().len(), 1);
    gate.open();
    assert_eq!(first.response("GET").expect("whole").text(), "good");
    // The connection to the origin is free again, and the client connection of the refused request
    // still works.
    assert_eq!(second.ask("GET", "/b", &[]).expect("an answer").text(), "good");
    assert_eq!((origin.count("/b"), origin.connections().len()), (1, 1));
}

#[test]
fn a_request_waits_for_a_connection_for_as_long_as_it_may() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |request| {
        let script = Script::new();
        let script = if request.target == "/held" { script.wait(&held) } else { script };
        script.send(answer_head("200 OK", NEVER, 4)).send("good")
    });
    // The default limit of the wait is far longer than this test takes.
    let server = before(&origin, &[("--origin-connections-max", "1")]);
    let mut clients = ["/held", "/b"].map(|target| {
        let mut client = Client::connect(server.address());
        client.send(request_text("GET", target, &[]));
        client
    });
    eventually("the server has read both requests", || server.stat("requests_total") == 2.0);
    gate.open();
    for client in &mut clients {
        assert_eq!(client.response("GET").expect("whole").text(), "good");
    }
    assert_eq!(server.stat("origin_busy_total"), 0.0);
}

#[test]
fn idle_connections_to_an_origin_are_kept_as_long_and_as_many_as_the_settings_say() {
    let cases = [
        (&[][..], 1, false),
        (&[("--origin-pool-idle-count-max", "0")], 3, true),
        (&[("--origin-pool-idle-ms-max", "10s")], 1, false),
    ];
    for (flags, count, all_closed) in cases {
        let origin = Origin::echo();
        let server = before(&origin, flags);
        let mut client = Client::connect(server.address());
        for _ in 0..3 {
            client.ask("GET", "/", &[]).expect("served");
        }
        assert_eq!(origin.connections().len(), count, "{flags:?}");
        if all_closed {
            eventually("all connections are closed", || {
                origin.connections().iter().all(|one| one.is_closed)
            });
        } else {
            assert!(!origin.connections()[0].is_closed, "{flags:?}");
        }
    }
    let origin = Origin::echo();
    let server = before(&origin, &[("--origin-pool-idle-ms-max", "300ms")]);
    Client::connect(server.address()).ask("GET", "/", &[]).expect("served");
    eventually("the connection is closed without any further request", || {
        origin.connections()[0].is_closed && server.stat("origin_connections_open") == 0.0
    });
}

#[test]
fn a_response_above_the_limit_passes_through_whole() {
    let origin = Origin::start(|request| {
        let length = request.target[2..].parse().unwrap_or(0);
        let body = vec![b'x'; length];
        match request.target.as_bytes()[1] {
            b'c' => {
                let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n";
                let script = Script::new().send(format!("{head}{}\r\n\r\n", MINUTE[0]));
                script.send(format!("{length:x}\r\n")).send(body).send("\r\n0\r\n\r\n")
            }
            _ => Script::answer("200 OK", MINUTE, &body),
        }
    });
    let server = before(&origin, &[("--object-bytes-max", "1KiB")]);
    // `l`: with a length, `c`: in chunks; then the bytes, Cache-Status, and whether it is stored.
    let cases = [
        ("/l1024", "stored", true),
        ("/l1025", "detail=too-large", false),
        ("/l900000", "detail=too-large", false),
        ("/c1024", "stored", true),
        ("/c1025", "fwd=uri-miss", false),
        ("/c900000", "fwd=uri-miss", false),
    ];
    let mut client = Client::connect(server.address());
    for (target, parameter, is_stored) in cases {
        let length: usize = target[2..].parse().expect("a number");
        let first = client.ask("GET", target, &[]).expect("whole");
        assert!(says(&first, parameter), "{target}: {:?}", first.head);
        assert_eq!(first.body.len(), length, "{target}");
        let second = client.ask("GET", target, &[]).expect("whole");
        assert_eq!(second.body.len(), length, "{target}");
        assert_eq!(
            (says(&second, "hit"), origin.count(target)),
            (is_stored, 2 - usize::from(is_stored)),
            "{target}"
        );
    }
    assert_eq!(server.stat("stored_total"), 2.0);
}

#[test]
fn arriving_responses_leave_room_for_stored_ones() {
    let gate = Gate::new();
    let held = gate.clone();
    const BYTES: usize = 30_000;
    let origin = Origin::start(move |request| {
        let head = answer_head("200 OK", MINUTE, BYTES);
        let script = Script::new().send(head).send(vec![b'x'; BYTES - 1]);
        let script = if request.target == "/held" { script.wait(&held) } else { script };
        script.send("x")
    });
    // One percent of the cache is about 40 KiB, which suffices for one such response in progress,
    // but not for two.
    let server = before(&origin, &[("--cache-size", "4MiB"), ("--growing-percent-max", "1")]);
    let mut first = Client::connect(server.address());
    first.send(request_text("GET", "/held", &[]));
    first
        .peek("GET", |response| !response.body.is_empty())
        .expect("the first response is arriving");
    let mut client = Client::connect(server.address());
    let second = client.ask("GET", "/b", &[]).expect("whole");
    assert!(says(&second, "detail=no-room"), "{:?}", second.head);
    assert_eq!(second.body.len(), BYTES);
    assert!(server.stat("cache_refused_no_room_total") >= 1.0);
    gate.open();
    assert_eq!(first.response("GET").expect("whole").body.len(), BYTES);
    // If they are requested one after the other, both responses fit into the budget.
    for (target, asked) in [("/held", 1), ("/b", 2), ("/b", 2)] {
        assert_eq!(client.ask("GET", target, &[]).expect("whole").body.len(), BYTES);
        assert_eq!(origin.count(target), asked, "{target}");
    }
}

/// Returns the fields of an origin's answer, for which the tested setting decides the lifetime.
type Says = fn() -> String;

/// A setting, the formats of its values, and the origin's fields. Each value gives as many seconds
/// of freshness as the corresponding number below. The setting for errors gets one value.
const FRESHNESS: &[(&str, [&str; 4], Says)] = &[
    ("default_freshness_s", ["\"100s\"", "200", "\"5m\"", "0"], || "ETag: \"a\"".into()),
    ("override_freshness_s", ["\"100s\"", "200", "\"5m\"", "0"], || {
        "ETag: \"a\"\r\nCache-Control: max-age=0".into()
    }),
    (
        "status_freshness",
        ["[\"200=100s\"]", "[\"404=9s\", \"200=200\"]", "[\"200=5m\"]", "[]"],
        || "ETag: \"a\"".into(),
    ),
    ("heuristic_percent", ["10", "20", "30", "0"], || modified_before(1000)),
    ("heuristic_error_s_max", ["100", "\"200s\"", "\"5m\"", "0"], || modified_before(10_000_000)),
    ("heuristic_s_max", ["100", "\"200s\"", "\"5m\"", "0"], || modified_before(10_000_000)),
];

fn modified_before(seconds: i64) -> String {
    format!("ETag: \"a\"\r\nLast-Modified: {}", http_date(-seconds))
}

#[test]
fn freshness_is_set_at_the_top_in_a_site_and_in_a_route() {
    for (name, [top, site, route, never], says_of_it) in FRESHNESS {
        let status = if name.contains("error") { "404 Not Found" } else { "200 OK" };
        let origin = Origin::start(move |_| Script::answer(status, &[&says_of_it()], b"x"));
        let url = format!("http://{}", origin.address());
        let server = start(&format!(
            "{name} = {top}\n\
             [[site]]\nname = \"a\"\nnames = [\"a.test\"]\norigin = \"{url}\"\n\
             [[site]]\nname = \"b\"\nnames = [\"b.test\"]\norigin = \"{url}\"\n{name} = {site}\n\
             [[site.route]]\npath_prefix = \"/route\"\n{name} = {route}\n\
             [[site.route]]\npath_prefix = \"/never\"\n{name} = {never}\n"
        ));
        let cases = [
            ("a.test", "/route", 100),
            ("b.test", "/other", 200),
            ("b.test", "/route/below", 300),
            ("b.test", "/never", 0),
        ];
        for (host, target, seconds) in cases {
            ask(&server, host, target);
            let again = ask(&server, host, target);
            let what = format!("{name} at {host}{target}: {:?}", again.head);
            if seconds == 0 {
                // An error cannot be validated, so an error without freshness is not stored.
                let expected =
                    if name.contains("error") { "detail=no-freshness" } else { "fwd=stale" };
                assert!(says(&again, expected), "{what}");
                continue;
            }
            let status = again.field("cache-status").unwrap_or_default();
            let (status, detail) = status.split_once("; detail=").unwrap_or((status, ""));
            assert_eq!(detail == "heuristic", name.starts_with("heuristic"), "{what}");
            let ttl = status.strip_prefix("forebay; hit; ttl=").and_then(|ttl| ttl.parse().ok());
            let is_near = ttl.is_some_and(|ttl: i64| (seconds - 15..=seconds).contains(&ttl));
            assert!(is_near, "the freshness is not {seconds} s: {what}");
        }
    }
}

#[test]
fn jitter_spreads_the_lifetimes_of_pages_that_are_stored_together() {
    let fields = ["Cache-Control: max-age=1000", "ETag: \"a\""];
    let origin = Origin::start(move |_| Script::answer("200 OK", &fields, b"x"));
    let url = format!("http://{}", origin.address());
    let server = start(&format!(
        "freshness_jitter_percent = 50\n\
         [[site]]\nname = \"a\"\nnames = [\"a.test\"]\norigin = \"{url}\"\n\
         [[site.route]]\npath_prefix = \"/none\"\nfreshness_jitter_percent = 0\n"
    ));
    let ttls_of = |prefix: &str| {
        let ttl = |page: usize| {
            let target = format!("{prefix}/{page}");
            ask(&server, "a.test", &target);
            let again = ask(&server, "a.test", &target);
            let status = again.field("cache-status").expect("it has one").to_owned();
            let ttl = status.strip_prefix("forebay; hit; ttl=").and_then(|ttl| ttl.parse().ok());
            ttl.unwrap_or_else(|| panic!("{target}: {status}"))
        };
        (0..40).map(ttl).collect::<Vec<i64>>()
    };
    assert!(ttls_of("/none").iter().all(|ttl| (985..=1000).contains(ttl)), "no jitter");
    let ttls = ttls_of("");
    assert!(ttls.iter().all(|ttl| (485..=1000).contains(ttl)), "{ttls:?}");
    // All 40 random lifetimes lie in the same half of their range in only one of 2^39 runs.
    assert!(ttls.iter().any(|ttl| *ttl < 735) && ttls.iter().any(|ttl| *ttl > 735), "{ttls:?}");
}

#[test]
fn storing_and_the_largest_stored_body_are_set_at_the_top_in_a_site_and_in_a_route() {
    let cases = [
        ("cache", ["true", "false", "true", "false"], "fwd=bypass"),
        ("object_bytes_max", ["1KiB", "10B", "1KiB", "10B"], "detail=too-large"),
    ];
    for (name, values, refusal) in cases {
        let origin = Origin::start(|_| Script::answer("200 OK", MINUTE, &[b'x'; 100]));
        let url = format!("http://{}", origin.address());
        let [top, site, route, off] = values.map(|value| match value {
            "true" | "false" => value.to_string(),
            size => format!("\"{size}\""),
        });
        let server = start(&format!(
            "{name} = {top}\n\
             [[site]]\nname = \"a\"\nnames = [\"a.test\"]\norigin = \"{url}\"\n\
             [[site.route]]\npath_prefix = \"/off\"\n{name} = {off}\n\
             [[site]]\nname = \"b\"\nnames = [\"b.test\"]\norigin = \"{url}\"\n{name} = {site}\n\
             [[site.route]]\npath_prefix = \"/on\"\n{name} = {route}\n"
        ));
        let cases = [
            ("a.test", "/", true),
            ("a.test", "/off", false),
            ("a.test", "/offer", true),
            ("b.test", "/", false),
            ("b.test", "/on/x", true),
        ];
        for (host, target, is_stored) in cases {
            let first = ask(&server, host, target);
            assert_eq!(says(&first, refusal), !is_stored, "{name} at {host}{target}: {first:?}");
            let again = ask(&server, host, target);
            assert_eq!(says(&again, "hit"), is_stored, "{name} at {host}{target}");
        }
    }
}

#[test]
fn responses_with_cookies_are_stripped_refused_or_kept() {
    let cookies = ["Cache-Control: max-age=60", "Set-Cookie: id=first"];
    let origin = Origin::start(move |_| Script::answer("200 OK", &cookies, b"x"));
    let url = format!("http://{}", origin.address());
    let server = start(&format!(
        "[[site]]\nname = \"a\"\nnames = [\"a.test\"]\norigin = \"{url}\"\n\
         [[site.route]]\npath_prefix = \"/refuse\"\nset_cookie = \"refuse\"\n\
         [[site.route]]\npath_prefix = \"/keep\"\nset_cookie = \"keep\"\n"
    ));
    for (target, is_stored, again_has_cookie) in
        [("/strip", true, false), ("/refuse", false, true), ("/keep", true, true)]
    {
        let first = ask(&server, "a.test", target);
        assert_eq!(first.field("set-cookie"), Some("id=first"), "{target}");
        assert_eq!(says(&first, "detail=set-cookie"), !is_stored, "{target}: {first:?}");
        let again = ask(&server, "a.test", target);
        assert_eq!(says(&again, "hit"), is_stored, "{target}");
        assert_eq!(again.field("set-cookie").is_some(), again_has_cookie, "{target}");
    }
    assert_eq!(server.stat("set_cookie_stripped_total"), 1.0);
}

#[test]
fn content_of_a_get_is_refused_unless_the_route_takes_it() {
    let origin = Origin::start(|_| Script::answer("200 OK", NEVER, b"good"));
    let url = format!("http://{}", origin.address());
    let server = start(&format!(
        "[[site]]\nname = \"a\"\nnames = [\"a.test\"]\norigin = \"{url}\"\n\
         [[site.route]]\npath_prefix = \"/search\"\ncontent_of_get = true\n"
    ));
    let send = |client: &mut Client, method: &str, target: &str| {
        let head =
            format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\n\r\n");
        client.send(head + "x");
        client.response(method)
    };
    for (method, target) in [("GET", "/"), ("HEAD", "/"), ("GET", "/other")] {
        let refused = send(&mut Client::connect(server.address()), method, target);
        let refused = refused.expect("an answer");
        assert_eq!((refused.status, refused.says_close()), (400, true), "{method} {target}");
    }
    assert_eq!(origin.requests().len(), 0);
    // An origin may read the content as a request, so the connection carries no other request after
    // it.
    for (method, target) in [("GET", "/search"), ("DELETE", "/"), ("OPTIONS", "/")] {
        let answer = send(&mut Client::connect(server.address()), method, target);
        assert_eq!(answer.expect("an answer").status, 200, "{method} {target}");
        assert_eq!(ask(&server, "a.test", "/after").status, 200);
    }
    assert_eq!(origin.connections().len(), 4, "the last request of each round opened one");
    assert_eq!(
        send(&mut Client::connect(server.address()), "PUT", "/").expect("whole").status,
        200
    );
    assert_eq!(ask(&server, "a.test", "/after").status, 200);
    assert_eq!(origin.connections().len(), 4, "a PUT has content by definition");
}

#[test]
fn a_host_belongs_to_the_site_that_names_it_best() {
    let origins = ["exact", "wildcard", "rest"].map(|name| {
        Origin::start(move |_: &Request| Script::answer("200 OK", NEVER, name.as_bytes()))
    });
    let names = ["\"www.a.test\", \"b.test\"", "\"*.a.test\"", "\"*\""];
    let sites: Vec<String> = (0..3)
        .map(|index| {
            let (names, address) = (names[index], origins[index].address());
            format!(
                "[[site]]\nname = \"s{index}\"\nnames = [{names}]\norigin = \"http://{address}\"\n"
            )
        })
        .collect();
    let cases = [
        ("www.a.test", "exact"),
        ("WWW.A.Test:8080", "exact"),
        ("b.test", "exact"),
        ("c.a.test", "wildcard"),
        ("d.c.a.test", "wildcard"),
        ("a.test", "rest"),
        ("wwwa.test", "rest"),
        ("www.b.test", "rest"),
        ("127.0.0.1", "rest"),
    ];
    for has_rest in [true, false] {
        let server = start(&sites[..if has_rest { 3 } else { 2 }].concat());
        for (host, name) in cases {
            let response = ask(&server, host, "/");
            if name == "rest" && !has_rest {
                assert_eq!(response.status, 421, "{host}");
                continue;
            }
            assert_eq!((response.status, response.text().as_str()), (200, name), "{host}");
        }
    }
}

#[test]
fn the_log_level_changes_with_a_reload() {
    let origin = Origin::echo();
    let site = format!(
        "[[site]]\nname = \"a\"\nnames = [\"a.test\"]\norigin = \"http://{}\"\n",
        origin.address()
    );
    let server = start(&format!("log_level = \"error\"\n{site}"));
    let refused = |host: &str| assert_eq!(ask(&server, host, "/").status, 421);
    let reload = |level: &str| {
        server.write_config(&format!("log_level = \"{level}\"\n{site}"));
        assert!(server.command(&["reload"]).status.success());
    };
    let lines = || server.errors().matches("request_refused").count();
    refused("b.test");
    assert_eq!(server.errors(), "", "the log has lines below the level `error`");
    reload("debug");
    refused("b.test");
    eventually("the event is logged", || lines() == 1);
    reload("info");
    refused("b.test");
    reload("debug");
    refused("b.test");
    eventually("the event is logged again", || lines() >= 2);
    assert_eq!(lines(), 2, "{}", server.errors());
}

#[test]
fn a_request_loop_is_detected() {
    let origin = Origin::echo();
    let site = |address| {
        format!("[[site]]\nname = \"a\"\nnames = [\"*\"]\norigin = \"http://{address}\"\n")
    };
    let (first, second) = (start(&site(origin.address())), start(&site(origin.address())));
    // The loop leads to the server directly, or through another server.
    let cases = [(first.address(), 2.0), (second.address(), 2.0)];
    for (turn, (next, requests)) in cases.into_iter().enumerate() {
        first.write_config(&site(next));
        second.write_config(&site(first.address()));
        for server in [&first, &second] {
            assert!(server.command(&["reload"]).status.success());
        }
        let before = first.stat("requests_total");
        let response = ask(&first, "a.test", &format!("/{turn}"));
        assert_eq!(response.status, 508, "{response:?}");
        assert_eq!(first.stat("requests_total") - before, requests);
    }
    assert_eq!(origin.request_count(), 0);
}

// RFC: 9111-5.2.2.2-4
#[test]
fn a_stalled_origin_is_given_up_after_its_time() {
    let origin = Origin::start(|request| match request.target.as_str() {
        "/silent" => Script::new().stall(),
        _ => Script::new().send(answer_head("200 OK", NEVER, 8)).send("half").stall(),
    });
    let flags = [("--origin-first-byte-ms-max", "100ms"), ("--origin-idle-ms-max", "100ms")];
    let server = before(&origin, &flags);
    let mut client = Client::connect(server.address()).with_patience(Duration::from_secs(10));
    assert_eq!(client.ask("GET", "/silent", &[]).expect("an answer").status, 504);
    let answer = client.ask("GET", "/half", &[]);
    assert!(matches!(answer, Err(Broken::Cut(..))), "{answer:?}");
    assert_eq!(server.stat("origin_timeouts_total"), 2.0);
    eventually("both connections are closed", || {
        origin.connections().iter().all(|one| one.is_closed)
    });
}

fn before(origin: &Origin, flags: &[(&str, &str)]) -> Server {
    let builder = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay")).origin(origin);
    let builder = builder.flag("--workers", "1");
    flags.iter().fold(builder, |builder, (name, value)| builder.flag(name, value)).start()
}

fn start(config: &str) -> Server {
    let builder = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay")).config(config);
    builder.flag("--workers", "1").start()
}

fn ask(server: &Server, host: &str, target: &str) -> Response {
    let mut client = Client::connect(server.address());
    client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    client.response("GET").expect("an answer")
}

/// Whether Cache-Status has this parameter.
fn says(response: &Response, parameter: &str) -> bool {
    let value = response.field("cache-status").unwrap_or_default();
    value.split("; ").any(|part| part == parameter)
}

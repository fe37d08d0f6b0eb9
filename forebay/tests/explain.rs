//! `forebay explain` on a running server: its verdict holds for the next request, its numbers
//! describe the stored response, and it changes nothing.

use std::process::Output;

use forebay_testkit::{Client, Gate, Origin, Response, Script, Server, ServerBuilder, eventually};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// An answer for each path.
fn origin() -> Origin {
    Origin::start(|request| {
        let fields: &[&str] = match request.target.as_str() {
            "/private" => &["Cache-Control: private"],
            "/vary" => &["Cache-Control: max-age=60", "Vary: Accept-Encoding, X-Kind"],
            "/stale" => &["Cache-Control: max-age=60", "Age: 100", "ETag: \"s\""],
            "/swr" => &["Cache-Control: max-age=60, stale-while-revalidate=600", "Age: 100"],
            "/shared" => {
                &["Cache-Control: s-maxage=60, max-age=1", "Age: 20", "Surrogate-Key: a b"]
            }
            "/targeted" => &["Cache-Control: no-store", "CDN-Cache-Control: max-age=300"],
            "/expires" => {
                &["Date: Mon, 23 Nov 2026 10:00:00 GMT", "Expires: Thu, 23 Nov 2056 10:00:00 GMT"]
            }
            "/none" => &["ETag: \"n\""],
            _ => &["Cache-Control: max-age=60", "ETag: \"p\""],
        };
        Script::answer("200 OK", fields, b"page")
    })
}

/// A server with one worker, so that the worker that explains has seen all requests. `settings` are
/// the settings of the site.
fn start(origin: &Origin, settings: &str) -> Server {
    let config = format!(
        "[[site]]\nname = \"shop\"\nnames = [\"*.test\"]\norigin = \"http://{}\"\n{settings}\n\
         [[site.route]]\npath_prefix = \"/off\"\ncache = false\n",
        origin.address()
    );
    ServerBuilder::new(PROGRAM).config(&config).flag("--workers", "1").start()
}

fn ask(server: &Server, method: &str, target: &str, fields: &[&str]) -> Response {
    Client::connect(server.address()).ask(method, target, fields).expect("an answer")
}

fn explain(server: &Server, url: &str, more: &[&str]) -> Output {
    server.command(&[&["explain", url], more].concat())
}

/// Returns the output for a request to `example.test`; panics if the command fails.
fn text(server: &Server, method: &str, target: &str, fields: &[&str]) -> String {
    String::from_utf8(explained(server, method, target, (fields, &[])).stdout).expect("UTF-8")
}

fn json(server: &Server, method: &str, target: &str, fields: &[&str]) -> Value {
    let output = explained(server, method, target, (fields, &["--json"]));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn explained(
    server: &Server,
    method: &str,
    target: &str,
    (fields, more): (&[&str], &[&str]),
) -> Output {
    let mut all = vec!["--method", method];
    fields.iter().for_each(|field| all.extend(["-H", field]));
    all.extend(more);
    let output = explain(server, &format!("http://example.test{target}"), &all);
    assert!(output.status.success(), "{target}: {output:?}");
    output
}

/// Checks that the expected Cache-Status and the Cache-Status of the answer have the same members.
/// Only the ttl may be lower by then.
fn check_cache_status(expected: &str, response: &Response, case: &str) {
    let answer = response.field("cache-status").unwrap_or_default();
    let members: Vec<&str> = answer.split("; ").collect();
    for member in expected.split("; ").filter(|member| !member.starts_with("ttl=")) {
        assert!(members.contains(&member), "{case}: {expected:?} is not in {answer:?}");
    }
}

#[test]
fn the_verdict_is_that_of_the_next_request() {
    let origin = origin();
    let server = start(&origin, "hit_for_miss_ms = \"60s\"\nbypass_cookies = [\"login\"]");
    for target in ["/", "/private", "/stale", "/vary", "/swr", "/none"] {
        ask(&server, "GET", target, &["X-Kind: a"]);
    }
    ask(&server, "GET", "/vary", &["X-Kind: b"]);
    let cases: &[(&str, &str, &[&str], &str, &str)] = &[
        ("GET", "/", &[], "hit", "the stored response answers with 200"),
        ("HEAD", "/", &[], "hit", "the stored response answers with 200"),
        ("GET", "/", &["Range: bytes=0-1"], "hit", "the stored response answers with 206"),
        ("GET", "/", &["If-None-Match: \"p\""], "hit", "the stored response answers with 304"),
        ("GET", "/?other", &[], "miss", "stored      nothing"),
        ("GET", "/", &["Cache-Control: max-age=0"], "validate", "RFC 9111 §5.2.1.1"),
        ("GET", "/", &["Authorization: Basic YTpi"], "validate", "RFC 9111 §3.5"),
        ("GET", "/stale", &[], "validate", "the response is stale (RFC 9111 §4.2)"),
        ("GET", "/stale", &["Cache-Control: max-stale"], "hit", "60 - 10"),
        ("GET", "/swr", &[], "stale", "validated in the background"),
        ("GET", "/private", &[], "declined", "detail=declined-private"),
        ("GET", "/vary", &["X-Kind: b"], "hit", "stored: no accept-encoding; x-kind: b (selected)"),
        ("GET", "/vary", &["X-Kind: c"], "miss", "x-kind: a (differs in x-kind)"),
        ("HEAD", "/cold", &[], "pass", "not stored (method)"),
        ("GET", "/part", &["Range: bytes=0-1"], "partial", "asked for the missing part"),
        ("GET", "/cold", &["Range: bytes=1-0"], "pass", "not stored (range)"),
        ("POST", "/", &[], "pass", "fwd=method; detail=method"),
        ("GET", "/", &["Cookie: login=1"], "pass", "detail=bypass-cookie"),
        ("GET", "/", &["If-Match: *"], "pass", "detail=precondition"),
        ("GET", "/off/x", &[], "pass", "detail=cache-off"),
        ("GET", "/cold", &["Cache-Control: only-if-cached"], "refused", "504, no usable response"),
    ];
    for (method, target, fields, outcome, part) in cases {
        let case = format!("{method} {target} {fields:?}");
        let text = text(&server, method, target, fields);
        assert!(text.contains(part), "{case}:\n{text}");
        let json = json(&server, method, target, fields);
        let verdict = &json["verdict"];
        assert_eq!(verdict["outcome"], *outcome, "{case}: {json:#}");
        let expected = verdict["cache_status"].as_str().unwrap_or_default();
        // A second may pass between the two.
        let without_ttl = expected.split("; ttl=").next().unwrap_or_default();
        assert!(text.contains(&format!("Cache-Status: {without_ttl}")), "{case}:\n{text}");
        if *outcome != "stale" {
            check_cache_status(expected, &ask(&server, method, target, fields), &case);
        }
        ask(&server, "GET", target, &["X-Kind: a", "Cookie: login=1"]);
    }
    let json = json(&server, "GET", "/private", &[]);
    let left_ms = json["verdict"]["left_ms"].as_u64();
    assert!(left_ms.is_some_and(|left_ms| (1..=60_000).contains(&left_ms)), "{json:#}");
    let swr = ask(&server, "GET", "/swr", &[]);
    check_cache_status("forebay; hit; detail=stale-while-revalidate", &swr, "/swr");
}

#[test]
fn freshness_is_a_sum_with_its_source() {
    let origin = origin();
    let server = start(
        &origin,
        "default_freshness_s = 30\ntargeted_cache_control = [\"CDN-Cache-Control\"]",
    );
    for (target, lines) in [
        ("/", &["60 s: max-age=60 in Cache-Control (RFC 9111 §5.2.2.1)", "ETag \"p\""][..]),
        (
            "/shared",
            &[
                "60 s: s-maxage=60 in Cache-Control (RFC 9111 §5.2.2.10)",
                " s on arrival + ",
                "tags: a b",
                "not served if the origin answers with an error: the response says must-revalid",
            ],
        ),
        ("/targeted", &["300 s: max-age=300 in CDN-Cache-Control"]),
        ("/expires", &[" s: Expires is 946771200 s after Date (RFC 9111 §5.3)"]),
        ("/none", &["30 s: default_freshness_s of the route (RFC 9111 §4.2.2)"]),
        (
            "/swr",
            &[
                "60 s: max-age=60",
                "served for 600 s while it is validated",
                " s left",
                " s on arrival",
            ],
        ),
    ] {
        ask(&server, "GET", target, &[]);
        let text = text(&server, "GET", target, &[]);
        for line in lines {
            assert!(text.contains(line), "{target}: no {line:?} in\n{text}");
        }
    }
    let json = json(&server, "GET", "/shared", &[]);
    let number = |name: &str| json["stored"][name].as_i64().expect("a number");
    assert_eq!(number("lifetime_s") - number("age_s"), number("ttl_s"), "{json:#}");
    assert_eq!(number("status"), 200, "{json:#}");
    // The time of the exchange is added to the Age of the response.
    assert!((20..30).contains(&number("initial_age_s")), "{json:#}");
    assert_eq!(json["key"]["url"], "http://example.test/shared", "{json:#}");
}

#[test]
fn site_route_key_and_rules_are_those_of_the_request() {
    let origin = origin();
    let builder = ServerBuilder::new(PROGRAM);
    let (all, shop) = (builder.path("all.rules"), builder.path("shop.rules"));
    let early = "cond %{READ_REQUEST_HDR_HOOK}\nrm-header X-Drop\ncounter early\n";
    let late = "cond %{REMAP_PSEUDO_HOOK} [AND]\ncond %{CLIENT-URL:PATH} =old\n\
                set-destination PATH new\n";
    std::fs::write(&all, early).expect("the folder is writable");
    std::fs::write(&shop, late).expect("the folder is writable");
    let config = format!(
        "rules = [\"{}\"]\n\
         [[site]]\nname = \"shop\"\nnames = [\"*.test\"]\n\
         origin = \"http://{}\"\nrules = [\"{}\"]\n\
         [[site.route]]\npath_prefix = \"/a\"\n",
        all.display(),
        origin.address(),
        shop.display()
    );
    let server = builder.config(&config).flag("--workers", "1").start();
    let output = explain(&server, "http://WWW.example.TEST:80/old?q=1", &["-H", "X-Drop: 1"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for line in [
        "request     GET http://WWW.example.TEST:80/old?q=1\n",
        "site        shop, origin 127.0.0.1:",
        "route       /\n",
        "rules       the rules change the URL to http://www.example.test",
        "the rules change fields of the request\n",
        "key         http://www.example.test/new?q=1 in site shop\n",
    ] {
        assert!(text.to_lowercase().contains(&line.to_lowercase()), "no {line:?} in\n{text}");
    }
    let output = explain(&server, "http://127.0.0.1/a/b", &["-H", "Host: x.test", "--json"]);
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["site"]["path_prefix"], "/a", "{json:#}");
    assert_eq!(json["key"]["url"], "http://x.test/a/b", "{json:#}");
    // Rules are counted for real requests only.
    let runs = || {
        let metrics = server.metrics();
        let runs = metrics.lines().filter(|line| line.starts_with("forebay_rule_runs_total{"));
        runs.map(|line| line.ends_with(" 1")).collect::<Vec<_>>()
    };
    assert_eq!(runs(), [false, false]);
    ask(&server, "GET", "/old", &[]);
    assert_eq!(runs(), [true, true]);
}

/// The request of `explain` comes from no client, so the checks are named and not made.
#[test]
fn the_checks_of_the_client_are_named() {
    let origin = origin();
    let checks = "deny_from = ['192.0.2.0/24']\nallow_from = ['198.51.100.0/24']\n\
        rate_limit = ['1/1h']";
    let server = start(&origin, checks);
    for _ in 0..2 {
        let text = text(&server, "GET", "/page", &[]);
        let named = "clients     addresses in deny_from are refused\n            \
            addresses that are not in allow_from are refused\n            \
            requests beyond rate_limit are refused\n";
        assert!(text.contains(named) && text.contains("verdict     miss"), "{text}");
    }
    let json = json(&server, "GET", "/page", &[]);
    assert_eq!(json["site"]["client_checks"].as_array().map(Vec::len), Some(3), "{json}");
    let open = start(&origin, "");
    assert!(!text(&open, "GET", "/page", &[]).contains("clients"));
}

#[test]
fn the_normal_form_of_a_request_is_named() {
    let origin = origin();
    let settings = "sort_query = true\ndrop_query = [\"utm_*\"]\nkeep_cookies = [\"cart\"]\n\
                    languages = [\"de\", \"en\"]";
    let server = start(&origin, settings);
    let url = "http://example.test/list?b=2&utm_a=1&a=1";
    let fields = ["-H", "Cookie: _ga=1; cart=2", "-H", "Accept-Language: de-AT, en;q=0.5"];
    let output = explain(&server, url, &fields);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for line in [
        "http://example.test/list?a=1&b=2 in site shop\n",
        "the query is in its normal form (sort_query, keep_query, drop_query)\n",
        "some cookies are left out (keep_cookies)\n",
        "Accept-Language is reduced to the best of the route's languages (languages)\n",
    ] {
        assert!(text.contains(line), "no {line:?} in\n{text}");
    }
    let output = explain(&server, "http://example.test/list?a=1", &["-H", "Cookie: cart=2"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!text.contains("normal form") && !text.contains("left out"), "{text}");
}

#[test]
fn a_purge_shows_until_the_response_is_stored_again() {
    let origin = origin();
    let server = start(&origin, "");
    for (arguments, purge, outcome) in [
        (
            &["http://example.test/"][..],
            "purge       the last purge that may cover this key: hard purge of this URL",
            "miss",
        ),
        (
            &["--host", "example.test"],
            "hard purge of all URLs that begin with http://example.test",
            "miss",
        ),
        (&["--tag", "a"], "", "hit"),
        (&["--soft", "http://example.test/"], "soft purge of this URL", "validate"),
        (
            &["--soft", "--host", "example.test"],
            "soft purge of all URLs that begin with http://example.test",
            "validate",
        ),
        (&["--soft", "http://example.test/"], "a soft purge or a HEAD has made", "validate"),
        (&["--soft", "http://example.test/"], "fwd=stale; detail=marked-stale", "validate"),
    ] {
        ask(&server, "GET", "/", &[]);
        let before = text(&server, "GET", "/", &[]);
        assert!(!before.contains("purge"), "{arguments:?}:\n{before}");
        let purged = server.command(&[&["purge"], arguments].concat());
        assert!(purged.status.success(), "{purged:?}");
        let after = text(&server, "GET", "/", &[]);
        assert!(after.contains(purge), "{arguments:?}:\n{after}");
        assert!(after.contains(&format!("verdict     {outcome}: ")), "{arguments:?}:\n{after}");
    }
    ask(&server, "GET", "/invalidated", &[]);
    ask(&server, "POST", "/invalidated", &[]);
    let after = text(&server, "GET", "/invalidated", &[]);
    assert!(
        after.contains("invalidation by an unsafe request (RFC 9111 §4.4), of this URL"),
        "{after}"
    );
    assert!(after.contains("verdict     miss: "), "{after}");
}

#[test]
fn a_fetch_in_progress_and_an_origin_that_is_down_show() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |request| match request.target.as_str() {
        "/slow" => Script::new().wait(&held).send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        _ => Script::answer("200 OK", &["Cache-Control: max-age=60", "Age: 100"], b"page"),
    });
    let server = start(&origin, "stale_if_unreachable_s = 600");
    ask(&server, "GET", "/", &[]);
    let mut client = Client::connect(server.address());
    client.send("GET /slow HTTP/1.1\r\nHost: example.test\r\n\r\n");
    eventually("the origin is asked", || origin.count("/slow") == 1);
    assert!(text(&server, "GET", "/slow", &[]).contains("verdict     collapsed: "));
    gate.open();
    client.response("GET").expect("an answer");
    assert!(text(&server, "GET", "/", &[]).contains("verdict     miss: "));
    origin.stop();
    let answer = ask(&server, "GET", "/", &[]);
    check_cache_status("detail=stale-if-unreachable", &answer, "the first request");
    let text = text(&server, "GET", "/", &[]);
    let reason = "the last attempt to connect to the origin failed: no address of the origin \
                  accepted a connection";
    assert!(text.contains(reason), "{text}");
    assert!(text.contains("verdict     stale: "), "{text}");
    assert!(text.contains("detail=stale-if-unreachable"), "{text}");
}

/// Nothing that can be observed from outside changes: no counter, no use of a record, no entry of
/// the access log, no request to the origin.
#[test]
fn explaining_changes_nothing() {
    let origin = origin();
    let server = start(&origin, "");
    for target in ["/", "/private", "/vary", "/stale"] {
        ask(&server, "GET", target, &[]);
    }
    let listed = || server.command(&["ls", "--json"]).stdout;
    eventually("the clients' connections end", || server.stat("connections_open") == 0.0);
    // Only the clock, the event loop and idle connections to the origin go on by themselves.
    let counted = || {
        let mut stats = server.stats();
        let goes_on = ["uptime_ms", "origin_connections_open", "loop_turn_us"];
        stats.retain(|name, _| !goes_on.iter().any(|start| name.starts_with(start)));
        stats
    };
    let uses = |listed: &[u8]| {
        let lines = String::from_utf8_lossy(listed).into_owned();
        let objects = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        objects.map(|one| (one["url"].to_string(), one["uses"].to_string())).collect::<Vec<_>>()
    };
    let (before, listed_before) = (counted(), uses(&listed()));
    let targets = ["/", "/private", "/vary", "/stale", "/cold"];
    let asked = || targets.map(|target| origin.count(target));
    let asked_before = asked();
    for _ in 0..5 {
        for target in targets {
            text(&server, "GET", target, &[]);
            json(&server, "POST", target, &["Cache-Control: no-cache"]);
        }
    }
    assert_eq!(counted(), before);
    assert_eq!(uses(&listed()), listed_before);
    assert_eq!(asked(), asked_before);
}

#[test]
fn a_request_that_cannot_be_explained_is_named() {
    let origin = origin();
    let server = start(&origin, "");
    for (arguments, expected) in [
        (&["example.test/"][..], "example.test/: a URL begins with http://"),
        (&["ftp://example.test/"], "ftp://example.test/: a URL begins with http://"),
        (&["http://exa mple.test/"], "the URL's host or port is malformed"),
        (
            &["http://u:secret@example.test/"],
            "http://********@example.test/: a URL cannot have a user",
        ),
        (&["http://example.test/a b"], "the URL's path has bytes that a request cannot have"),
        (&["http://example.test/", "-H", "Accept"], "--header: write NAME: VALUE, not \"Accept\""),
        (&["http://example.test/", "-H", "A: b", "-H", ": c"], "--header: write NAME: VALUE"),
        (&["http://example.test/", "--method", "G T"], "--method: this is not a valid HTTP method"),
    ] {
        let output = explain(&server, arguments[0], &arguments[1..]);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
        assert!(errors.contains(expected), "{arguments:?}: {errors}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    let output = explain(&server, "http://elsewhere.org/", &[]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("no site serves this host"), "{text}");
    assert!(text.contains("shop: *.test"), "{text}");
    assert!(text.contains("verdict     refused: 421, this server does not serve"), "{text}");
}

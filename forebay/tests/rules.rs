//! Header rules in a running server: every hook, sites and routes, storing, answers without the
//! origin, reloads, and counters.

use forebay_testkit::message::Head;
use forebay_testkit::{Client, Origin, Response, Script, Server, ServerBuilder};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// An origin that answers with the request's fields, one per line. The client sets fields of the
/// answer by `X-Answer: name value`.
fn origin() -> Origin {
    Origin::start(|request| {
        let echo = |(name, value): &(String, String)| format!("{name}: {value}\n");
        let fields: String = request.head.fields.iter().map(echo).collect();
        let body = format!("{} {}\n{fields}", request.method, request.target);
        let answers: Vec<&str> = request.head.all("X-Answer").collect();
        let answers: Vec<String> = answers.iter().map(|line| line.replacen(' ', ": ", 1)).collect();
        let mut lines = vec!["Cache-Control: max-age=3600", "ETag: \"v1\"", "X-Origin: 1"];
        lines.extend(answers.iter().map(String::as_str));
        Script::answer("200 OK", &lines, body.as_bytes())
    })
}

/// A server in front of `origin` with these rules for all sites.
fn start(origin: &Origin, rules: &str) -> Server {
    let builder = ServerBuilder::new(PROGRAM).origin(origin);
    let path = builder.path("all.rules");
    std::fs::write(&path, rules).expect("the folder is writable");
    builder.flag("--rules", &path.display().to_string()).start()
}

fn ask(server: &Server, target: &str, fields: &[&str]) -> Response {
    Client::connect(server.address()).ask("GET", target, fields).expect("an answer")
}

fn all(response: &Response, name: &str) -> Vec<String> {
    let head: &Head = &response.head;
    head.all(name).map(str::to_owned).collect()
}

#[test]
fn each_hook_changes_its_message_and_a_hit_runs_the_last_one_only() {
    let origin = origin();
    let server = start(
        &origin,
        "cond %{READ_REQUEST_HDR_HOOK}\nset-header X-Early %{METHOD}\n\
         cond %{SEND_REQUEST_HDR_HOOK}\nset-header X-Out %{HEADER:X-Early}\nrm-header X-Secret\n\
         cond %{READ_RESPONSE_HDR_HOOK}\nset-header X-Origin stored-%{HEADER:X-Origin}\n\
         cond %{SEND_RESPONSE_HDR_HOOK}\nset-header X-Cache %{CACHE}\n\
         add-header X-For %{CLIENT-HEADER:X-Me}\nrm-header ETag",
    );
    let first = ask(&server, "/", &["X-Me: one", "X-Secret: s"]);
    assert!(first.text().contains("x-early: GET") && first.text().contains("x-out: GET"));
    assert!(!first.text().contains("x-secret"), "{}", first.text());
    let second = ask(&server, "/", &["X-Me: two"]);
    for (answer, cache, me) in [(&first, "miss", "one"), (&second, "hit-fresh", "two")] {
        assert_eq!(answer.field("X-Origin"), Some("stored-1"), "{answer:?}");
        assert_eq!((answer.field("X-Cache"), answer.field("X-For")), (Some(cache), Some(me)));
        assert_eq!(answer.field("ETag"), None);
    }
    assert_eq!(origin.request_count(), 1);
    // The rules do not change the stored response, so a client can validate it.
    let third = ask(&server, "/", &["If-None-Match: \"v1\""]);
    assert_eq!((third.status, third.field("X-Cache")), (304, Some("hit-fresh")));
}

#[test]
fn changes_of_the_url_come_before_the_key() {
    let origin = origin();
    let server = start(
        &origin,
        "cond %{READ_REQUEST_HDR_HOOK}\nrm-destination QUERY utm_source,utm_medium\n\
         cond %{READ_REQUEST_HDR_HOOK}\ncond %{CLIENT-URL:PATH} /^old\\/(.*)/\n\
         set-destination PATH new/%{LAST-CAPTURE:1}\n\
         cond %{READ_REQUEST_HDR_HOOK}\ncond %{CLIENT-HEADER:Host} =alias.test\n\
         set-destination HOST main.test",
    );
    for target in ["/a?x=1&utm_source=mail", "/a?utm_medium=b&x=1", "/a?x=1"] {
        let text = ask(&server, target, &[]).text();
        assert!(text.starts_with("GET /a?x=1\n"), "{target}: {text}");
    }
    for target in ["/old/b", "/new/b"] {
        assert!(ask(&server, target, &[]).text().starts_with("GET /new/b\n"), "{target}");
    }
    assert_eq!(origin.request_count(), 2);
    let mut client = Client::connect(server.address());
    for host in ["alias.test", "main.test"] {
        client.send(format!("GET /h HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let text = client.response("GET").expect("an answer").text();
        assert!(text.contains("host: main.test\n"), "{host}: {text}");
    }
    assert_eq!(
        origin.request_count(),
        3,
        "all URLs of a page have one key and reach the origin as one host"
    );
}

#[test]
fn rules_of_server_site_and_route_follow_each_other() {
    let origin = origin();
    let builder = ServerBuilder::new(PROGRAM);
    for (name, last) in [("server", " [L]"), ("site", ""), ("route", "")] {
        let text = format!("cond %{{SEND_RESPONSE_HDR_HOOK}}\nadd-header X-Of {name}{last}\n");
        std::fs::write(builder.path(name), text).expect("the folder is writable");
    }
    let server = builder
        .config(&format!(
            "rules = \"server\"\n[[site]]\nname = \"s\"\nnames = [\"*\"]\n\
             origin = \"http://{}\"\nrules = [\"site\"]\n\
             [[site.route]]\npath_prefix = \"/r\"\nrules = [\"route\"]\n",
            origin.address()
        ))
        .start();
    assert_eq!(all(&ask(&server, "/", &[]), "X-Of"), ["server", "site"]);
    assert_eq!(all(&ask(&server, "/r", &[]), "X-Of"), ["server", "site", "route"]);
}

#[test]
fn rules_answer_without_the_origin_and_change_our_own_answers() {
    let origin = origin();
    let server = start(
        &origin,
        "cond %{READ_REQUEST_HDR_HOOK}\ncond %{CLIENT-URL:PATH} =private\n\
         set-status 403\nset-body \"not for %{IP:CLIENT}\"\n\
         cond %{READ_REQUEST_HDR_HOOK}\ncond %{CLIENT-URL:PATH} =away\n\
         set-redirect 301 https://example.org/%{CLIENT-URL:PATH} [QSA]\n\
         cond %{SEND_RESPONSE_HDR_HOOK}\ncond %{STATUS} =504\n\
         set-status 503\nset-status-reason \"Later, please\"\nset-body \"we are closed\"",
    );
    let refused = ask(&server, "/private", &[]);
    assert_eq!((refused.status, refused.text().as_str()), (403, "not for 127.0.0.1"));
    // A page whose text a client can influence is not sent as HTML.
    assert_eq!(refused.field("Content-Type"), Some("text/plain; charset=utf-8"));
    let away = ask(&server, "/away?a=1", &[]);
    assert_eq!((away.status, away.field("Location")), (301, Some("https://example.org/away?a=1")));
    assert_eq!(server.stat("ruled_answers_total"), 2.0);
    let fault = ask(&server, "/", &["Cache-Control: only-if-cached"]);
    assert_eq!((fault.status, fault.text().as_str()), (503, "we are closed"));
    assert_eq!(fault.head.start, "HTTP/1.1 503 Later, please");
    assert_eq!(origin.request_count(), 0);
    // An answer in the middle of a connection does not end it: the requests after it are served.
    let mut client = Client::connect(server.address());
    for (target, status) in [("/private", 403), ("/x", 200), ("/away", 301), ("/x", 200)] {
        assert_eq!(client.ask("GET", target, &[]).expect("an answer").status, status, "{target}");
    }
}

#[test]
fn rules_decide_about_storing_and_lookup() {
    let origin = origin();
    let server = start(
        &origin,
        "cond %{READ_REQUEST_HDR_HOOK}\ncond %{CLIENT-HEADER:X-Fresh} =yes\n\
         set-http-cntl REQ_CACHEABLE off\n\
         cond %{READ_RESPONSE_HDR_HOOK}\ncond %{HEADER:X-Keep} =no\n\
         set-http-cntl SERVER_NO_STORE on\n\
         cond %{SEND_REQUEST_HDR_HOOK}\nset-header X-Device %{CLIENT-HEADER:User-Agent}",
    );
    for expected in [1, 1, 2] {
        let fields: &[&str] = if expected == 2 { &["X-Fresh: yes"] } else { &[] };
        ask(&server, "/looked", fields);
        assert_eq!(origin.count("/looked"), expected);
    }
    for expected in [1, 2] {
        ask(&server, "/kept", &["X-Answer: X-Keep no"]);
        assert_eq!(origin.count("/kept"), expected, "the answer is not stored");
    }
    // The secondary key is computed from the client's request, not from the request that the origin
    // received.
    for expected in [1, 2] {
        let answer = ask(&server, "/varied", &["X-Answer: Vary X-Device", "User-Agent: a"]);
        assert_eq!(origin.count("/varied"), expected, "{answer:?}");
        assert!(answer.field("Cache-Status").is_some_and(|s| s.contains("ruled-out")));
    }
}

#[test]
fn a_request_made_invalid_by_rules_is_answered_with_500_and_counted() {
    let origin = origin();
    let builder = ServerBuilder::new(PROGRAM).origin(&origin).flag("--target-bytes-max", "64");
    let path = builder.path("all.rules");
    let rules = format!("cond %{{READ_REQUEST_HDR_HOOK}}\nset-destination PATH {}", "x".repeat(99));
    std::fs::write(&path, rules).expect("the folder is writable");
    let server = builder.flag("--rules", &path.display().to_string()).start();
    assert_eq!(ask(&server, "/", &[]).status, 500);
    assert_eq!(server.stat("rules_failed_total"), 1.0);
    assert_eq!(origin.request_count(), 0);
}

#[test]
fn a_client_cannot_undo_the_effect_of_rules() {
    let origin = origin();
    let server = start(
        &origin,
        "cond %{READ_REQUEST_HDR_HOOK}\nset-header X-Address %{IP:CLIENT}\n\
         set-header X-Kept \"%{CLIENT-HEADER:X-Long}\"",
    );
    let named = ask(&server, "/1", &["Connection: X-Address", "X-Address: 10.0.0.1"]).text();
    assert!(named.contains("x-address: 127.0.0.1\n"), "{named}");
    // If a value cannot be set, the client's value is removed nevertheless.
    let long = format!("X-Long: {}", "x".repeat(17_000));
    let spoofed = ask(&server, "/2", &["X-Kept: spoofed", &long]).text();
    assert!(!spoofed.contains("spoofed"), "{spoofed}");
}

/// If a field is not in the key, no value of the client in this field reaches the origin, even if a
/// rule removes the field, appends to it or sets nothing, or if the condition of the rule fails.
/// Each row is a request, and the lines of its fields that the origin may get.
#[test]
fn only_the_lines_that_rules_set_are_forwarded_of_a_field_that_is_not_in_the_key() {
    let (origin, builder) = (origin(), ServerBuilder::new(PROGRAM));
    let early = "cond %{READ_REQUEST_HDR_HOOK}\nset-header X-Real-IP early\n";
    let remap = "cond %{REMAP_PSEUDO_HOOK}\ncond %{CLIENT-HEADER:X-Secure} =yes\n\
         set-header X-Forwarded-Host ruled\nrm-header X-Original-URL\n\
         cond %{REMAP_PSEUDO_HOOK}\nset-header X-Host %{CLIENT-HEADER:X-None}\n\
         cond %{REMAP_PSEUDO_HOOK}\nadd-header X-Method-Override %{METHOD}\n\
         add-header X-Forwarded-Port 80\n\
         cond %{REMAP_PSEUDO_HOOK}\ncond %{CLIENT-HEADER:X-Move} =yes\nset-destination HOST moved";
    for (name, rules) in [("early", early), ("remap", remap)] {
        std::fs::write(builder.path(name), rules).expect("the folder is writable");
    }
    let server = builder
        .config(&format!(
            "rules = \"early\"\n[[site]]\nname = \"s\"\nnames = [\"*\"]\n\
             origin = \"http://{}\"\nrules = \"remap\"\n",
            origin.address()
        ))
        .start();
    let ruled = ["x-real-ip: early", "x-method-override: GET", "x-forwarded-port: 80"];
    let cases: &[(&str, &[&str], Option<&str>)] = &[
        ("a condition that fails", &["X-Forwarded-Host: evil"], None),
        ("a condition that holds", &["X-Forwarded-Host: evil", "X-Secure: yes"], Some("ruled")),
        ("the value of the rule", &["X-Forwarded-Host: ruled"], None),
        ("both", &["X-Forwarded-Host: ruled", "X-Secure: yes"], Some("ruled")),
        ("several lines", &["X-Forwarded-Host: a", "x-forwarded-host: ruled"], None),
        ("a removal that does not run", &["X-Original-URL: /evil"], None),
        ("an empty value", &["X-Host: evil"], None),
        ("an appended value", &["X-Method-Override: evil"], None),
        ("an appended value that the client sends too", &["X-Method-Override: GET"], None),
        ("a constant appended value", &["X-Forwarded-Port: 666", "X-Forwarded-Port: 80"], None),
        ("an early hook", &["X-Real-IP: evil", "X-Forwarded-Host: evil"], None),
        ("another host", &["X-Move: yes", "X-Host: evil", "X-Forwarded-Port: 80"], None),
    ];
    for (number, (name, fields, host)) in cases.iter().enumerate() {
        let text = ask(&server, &format!("/{number}"), fields).text();
        let mut expected: Vec<String> = ruled.map(str::to_owned).into();
        expected.extend(host.map(|host| format!("x-forwarded-host: {host}")));
        expected.sort_unstable();
        let unkeyed = ["x-real-ip", "x-method-", "x-forwarded-host", "x-forwarded-port", "x-orig"];
        let is_unkeyed = |line: &&str| {
            line.starts_with("x-host") || unkeyed.iter().any(|name| line.starts_with(name))
        };
        let mut received: Vec<&str> = text.lines().filter(is_unkeyed).collect();
        received.sort_unstable();
        assert_eq!(received, expected, "{name}");
    }
    // A response that is not shared may depend on the client's fields.
    let mut client = Client::connect(server.address());
    let text = client.ask("DELETE", "/", &["X-Original-URL: mine"]).expect("an answer").text();
    assert!(text.contains("x-original-url: mine"), "{text}");
}

#[test]
fn a_changed_request_is_for_the_same_host_and_site() {
    let origin = origin();
    let server = start(
        &origin,
        "cond %{READ_REQUEST_HDR_HOOK}\nset-header X-Early 1\nset-destination QUERY \"a=1\"",
    );
    let mut client = Client::connect(server.address());
    client.send("GET http://b.test/abs HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let text = client.response("GET").expect("an answer").text();
    assert!(text.contains("host: b.test\n") && text.starts_with("GET /abs?a=1\n"), "{text}");
    client.send("OPTIONS * HTTP/1.1\r\nHost: b.test\r\n\r\n");
    assert_eq!(client.response("OPTIONS").expect("an answer").status, 200);
}

#[test]
fn a_hundred_and_fifty_fields_are_no_error() {
    let origin = origin();
    let lines: String = (0..150).map(|number| format!("set-header X-{number} 1\n")).collect();
    let server = start(&origin, &format!("cond %{{READ_REQUEST_HDR_HOOK}}\n{lines}"));
    let fields: Vec<String> = (0..60).map(|number| format!("X-Own-{number}: 1")).collect();
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    assert_eq!(ask(&server, "/", &fields).status, 200);
}

#[test]
fn variables_of_a_fetch_are_those_of_its_request() {
    let origin = origin();
    let server = start(
        &origin,
        "cond %{READ_RESPONSE_HDR_HOOK}\nset-session-int16 0 77\nset-state-flag 3 on\n\
         cond %{SEND_RESPONSE_HDR_HOOK}\nset-header X-Session %{SESSION-INT16}\n\
         cond %{SEND_RESPONSE_HDR_HOOK}\ncond %{STATE-FLAG:3}\nset-header X-State on",
    );
    let answer = ask(&server, "/", &[]);
    assert_eq!((answer.field("X-Session"), answer.field("X-State")), (Some("77"), Some("on")));
    let hit = ask(&server, "/", &[]);
    assert_eq!((hit.field("X-Session"), hit.field("X-State")), (Some("0"), None));
}

#[test]
fn a_reload_replaces_the_rules_and_a_bad_file_changes_nothing() {
    let origin = origin();
    let server = start(&origin, "cond %{SEND_RESPONSE_HDR_HOOK}\nset-header X-Version 1");
    let mut client = Client::connect(server.address());
    let mut version = || {
        let answer = client.ask("GET", "/", &[]).expect("an answer");
        answer.field("X-Version").map(str::to_owned)
    };
    assert_eq!(version().as_deref(), Some("1"));
    let path = server.path("all.rules");
    std::fs::write(&path, "cond %{SEND_RESPONSE_HDR_HOOK}\nset-header X-Version 2").expect("ours");
    assert!(server.command(&["reload"]).status.success());
    assert_eq!(version().as_deref(), Some("2"));
    std::fs::write(&path, "cond %{SEND_RESPONSE_HDR_HOOK}\nset-haeder X-Version 3").expect("ours");
    let refused = server.command(&["reload"]);
    assert!(!refused.status.success());
    let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(errors.contains("all.rules:2:1") && errors.contains("set-header"), "{errors}");
    assert_eq!(version().as_deref(), Some("2"));
}

#[test]
fn a_missing_or_invalid_file_keeps_the_server_from_starting() {
    let origin = origin();
    let builder = ServerBuilder::new(PROGRAM).origin(&origin);
    let path = builder.path("wrong.rules").display().to_string();
    let missing = builder.clone().flag("--rules", &path).run();
    let errors = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(errors.contains("--rules") && errors.contains("wrong.rules"), "{errors}");
    std::fs::write(&path, b"no-op\nset-header X \xfc\n").expect("the folder is writable");
    let wrong = builder.clone().flag("--rules", &path).run();
    let errors = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(!wrong.status.success() && errors.contains("wrong.rules:2:14"), "{errors}");
    assert!(errors.contains("the byte 0xfc is not UTF-8"), "{errors}");
    std::fs::write(&path, "\ncond %{HEADR:X} =1\nset-header X 1\n")
        .expect("the folder is writable");
    let wrong = builder.flag("--rules", &path).run();
    let errors = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(!wrong.status.success() && errors.contains("wrong.rules:2:8"), "{errors}");
    assert!(errors.contains("did you mean %{HEADER:X}?"), "{errors}");
}

#[test]
fn the_effects_of_each_rule_are_counted() {
    let origin = origin();
    let server = start(
        &origin,
        "cond %{SEND_RESPONSE_HDR_HOOK}\nset-header X-A 1\n\
         cond %{SEND_RESPONSE_HDR_HOOK}\nset-header X-B 2\n\
         cond %{SEND_RESPONSE_HDR_HOOK}\ncond %{CLIENT-HEADER:X-Me} =me\ncounter seen",
    );
    for number in 0..10 {
        let fields: &[&str] = if number < 3 { &["X-Me: me"] } else { &[] };
        ask(&server, "/", fields);
    }
    let metrics = server.metrics();
    let number = |name: &str, line: u32| {
        let begin = format!("forebay_{name}{{file=");
        let label = format!("line=\"{line}\",hook=\"SEND_RESPONSE_HDR_HOOK\"}} ");
        let found = metrics.lines().find(|text| text.starts_with(&begin) && text.contains(&label));
        found.and_then(|text| text.rsplit(' ').next()?.parse::<u64>().ok())
    };
    for (line, runs, matches, bytes) in [(1, 10, 10, 80), (3, 10, 10, 80), (5, 10, 3, 0)] {
        assert_eq!(number("rule_runs_total", line), Some(runs), "{metrics}");
        assert_eq!(number("rule_matches_total", line), Some(matches), "line {line}");
        assert_eq!(number("rule_bytes_total", line), Some(bytes), "line {line}");
    }
    assert!(metrics.contains("forebay_rule_counter_total{name=\"seen\"} 3\n"), "{metrics}");
}

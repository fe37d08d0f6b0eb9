//! `forebay trace` on a running server: the steps of requests as they pass, its filters and limits,
//! and that a tracer that does not read harms no client.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use forebay_testkit::script::answer_head;
use forebay_testkit::{
    Client, Gate, Origin, Response, Script, Server, ServerBuilder, Signal, eventually,
};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// The longest time that a test waits for an admin connection.
const PATIENCE: Duration = Duration::from_secs(20);

/// An answer for each path.
fn origin() -> Origin {
    Origin::start(|request| {
        let fields: &[&str] = match request.target.as_str() {
            "/private" => &["Cache-Control: private"],
            "/stale" => &["Cache-Control: max-age=60", "Age: 100", "ETag: \"s\""],
            _ => &["Cache-Control: max-age=60"],
        };
        let is_confirmed = request.head.field("if-none-match").is_some();
        let status = if is_confirmed { "304 Not Modified" } else { "200 OK" };
        Script::answer(status, fields, if is_confirmed { b"" } else { b"page" })
    })
}

fn start(origin: &Origin, settings: &str) -> Server {
    let config = format!(
        "[[site]]\nname = \"shop\"\nnames = [\"*.test\"]\norigin = \"http://{}\"\n{settings}\n\
         [[site.route]]\npath_prefix = \"/off\"\ncache = false\n",
        origin.address()
    );
    ServerBuilder::new(PROGRAM).config(&config).flag("--workers", "2").start()
}

fn ask(server: &Server, method: &str, target: &str, fields: &[&str]) -> Response {
    Client::connect(server.address()).ask(method, target, fields).expect("an answer")
}

/// A running `forebay trace`, which is ended even if its test fails.
struct Tracing(Option<Child>);

impl Drop for Tracing {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs `forebay trace` with these arguments, and `requests` once it is attached.
fn traced(server: &Server, arguments: &[&str], requests: impl FnOnce()) -> Output {
    let mut command = Command::new(PROGRAM);
    command.arg("trace").args(arguments).arg("--admin").arg(server.admin());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut tracing = Tracing(Some(child.expect("the binary was built")));
    eventually("the trace is open", || server.stat("traces_open") == 1.0);
    requests();
    eventually("the trace ends", || {
        let child = tracing.0.as_mut().expect("it was started");
        child.try_wait().expect("it is a child").is_some()
    });
    tracing.0.take().expect("it was started").wait_with_output().expect("it has ended")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

/// Returns the lines of a trace as JSON; panics unless the command has succeeded.
fn records(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{output:?}");
    let text = stdout(output);
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Returns the steps of a record in short: each name with its result or status, and its detail.
fn steps(record: &Value) -> Vec<String> {
    let steps = record["steps"].as_array().expect("steps");
    let mut before_us = 0;
    let short = |step: &Value| {
        let us = step["us"].as_u64().expect("a time");
        assert!(before_us <= us, "{record:#}");
        before_us = us;
        let mut text = step["step"].as_str().expect("a name").to_owned();
        for fact in ["result", "status", "source", "detail", "fault"] {
            match &step[fact] {
                Value::Null => {}
                Value::String(value) => text += &format!(" {value}"),
                value => text += &format!(" {value}"),
            }
        }
        text
    };
    steps.iter().map(short).collect()
}

/// The steps before the lookup.
const BEGINNING: [&str; 3] = ["request", "route", "key"];

/// A request; its steps from the lookup on, between commas; the beginning of its Cache-Status.
struct TracedCase(&'static str, &'static str, &'static str);

const CASES: &[TracedCase] = &[
    TracedCase(
        "GET /",
        "lookup uri-miss, fetch leads, connection new, origin 200, store stored, \
         response arriving, end",
        "forebay; fwd=uri-miss; fwd-status=200; stored",
    ),
    TracedCase("GET /", "lookup hit, response stored, end", "forebay; hit"),
    TracedCase(
        "GET /private",
        "lookup uri-miss, fetch leads, connection reused, origin 200, store not-stored private, \
         response origin, end",
        "forebay; fwd=uri-miss; fwd-status=200; detail=private",
    ),
    TracedCase(
        "GET /private",
        "lookup uri-miss, fetch declined declined-private, fetch alone, connection reused, \
         origin 200, response origin, end",
        "forebay; fwd=uri-miss; fwd-status=200; detail=declined-private",
    ),
    TracedCase(
        "GET /stale",
        "lookup uri-miss, fetch leads, connection reused, origin 200, store stored, \
         response arriving, end",
        "forebay; fwd=uri-miss; fwd-status=200; stored",
    ),
    TracedCase(
        "GET /stale",
        "lookup stale, fetch leads, connection reused, origin 304, store renewed, \
         response stored, end",
        "forebay; fwd=stale; fwd-status=304; stored",
    ),
    TracedCase(
        "POST /",
        "lookup method method, fetch alone, connection reused, origin 200, response origin, end",
        "forebay; fwd=method; fwd-status=200; detail=method",
    ),
    TracedCase(
        "GET /off",
        "lookup bypass cache-off, fetch alone, connection reused, origin 200, response origin, end",
        "forebay; fwd=bypass; fwd-status=200; detail=cache-off",
    ),
];

#[test]
fn the_steps_of_a_hit_a_miss_and_a_declined_response_have_the_words_of_cache_status() {
    let origin = origin();
    let server = start(&origin, "hit_for_miss_ms = \"60s\"");
    let limit = CASES.len().to_string();
    let fields = &["Cookie: secret=1", "Authorization: Basic c2VjcmV0"][..];
    let output = traced(&server, &["--json", "--limit", &limit], || {
        // One connection has one worker, which has one connection to the origin.
        let mut client = Client::connect(server.address());
        for TracedCase(request, ..) in CASES {
            let (method, target) = request.split_once(' ').expect("two words");
            let answer = client.ask(method, target, &fields[..usize::from(target == "/off")]);
            assert_eq!(answer.expect("an answer").status, 200, "{request}");
        }
    });
    let records = records(&output);
    assert_eq!(records.len(), CASES.len(), "{records:#?}");
    for (record, TracedCase(request, expected, cache)) in records.iter().zip(CASES) {
        let case = format!("{request}: {record:#}");
        let (method, target) = request.split_once(' ').expect("two words");
        let steps = steps(record);
        assert_eq!(&steps[..3], BEGINNING, "{case}");
        // The fetch is a task of its own, so its last step may come after the steps of the request.
        let (mut found, mut wanted) =
            (steps[3..].to_vec(), expected.split(", ").collect::<Vec<_>>());
        found.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(found, wanted, "{case}");
        for (name, value) in [("method", method), ("target", target), ("host", "example.test")] {
            assert_eq!(record[name], value, "{case}");
        }
        assert!(record["status"] == 200 && record["body_bytes"] == 4, "{case}");
        assert!(record["cache"].as_str().is_some_and(|said| said.starts_with(cache)), "{case}");
        let key = &record["steps"][2];
        assert_eq!(key["url"], format!("http://example.test{target}"), "{case}");
        assert!(record["duration_us"].as_u64() > Some(0), "{case}");
    }
    let text = stdout(&output).to_ascii_lowercase();
    assert!(!text.contains("secret") && !text.contains("c2vj"), "{text}");
    eventually("the trace is closed", || server.stat("traces_open") == 0.0);
    assert_eq!(server.stat("traces_total"), 1.0);
    let events = server.errors();
    assert!(events.contains("trace_begun") && events.contains("trace_ended"), "{events}");
}

#[test]
fn a_hedged_request_has_the_connections_of_both_attempts() {
    let (stalling, other) = (Origin::start(|_| Script::new().stall()), origin());
    let config = format!(
        "hedge_ms = \"50ms\"\ncache = false\n[[site]]\nname = \"shop\"\nnames = [\"*\"]\n\
         origin = [\"http://{}\", \"http://{}\"]\n",
        stalling.address(),
        other.address()
    );
    let server = ServerBuilder::new(PROGRAM).config(&config).flag("--workers", "1").start();
    let output = traced(&server, &["--json", "--limit", "1"], || {
        assert_eq!(ask(&server, "GET", "/", &[]).status, 200);
    });
    let after_lookup = "fetch alone, connection new, hedge, connection new, origin 200, \
                        response origin, end";
    let steps = steps(&records(&output)[0]);
    assert!(steps.join(", ").ends_with(after_lookup), "{steps:?}");
}

#[test]
fn text_has_a_line_for_each_step_and_no_request_can_forge_one() {
    let origin = origin();
    let server = start(&origin, "");
    let output = traced(&server, &["--limit", "3"], || {
        ask(&server, "GET", "/a?b", &[]);
        let mut client = Client::connect(server.address());
        client.send("GET /c HTTP/1.1\r\nHost: a.test\r\nUser-Agent: \u{9b}2J\u{202e}\r\n\r\n");
        assert_eq!(client.response("GET").expect("an answer").status, 200);
        client.send("GET /d\" HTTP/1.1\r\nHost: b.test\r\n\r\n");
        let _ = client.response("GET");
    });
    assert!(output.status.success(), "{output:?}");
    let text = stdout(&output);
    let blocks: Vec<_> = text.split_terminator("\n\n").collect();
    assert_eq!(blocks.len(), 3, "{text}");
    let lines: Vec<_> = blocks[0].lines().collect();
    assert!(lines[0].ends_with(" +0000 127.0.0.1"), "{text}");
    for (line, part) in [
        (1, "  request    method=GET host=example.test target=/a?b version=HTTP/1.1"),
        (2, "  route      site=shop route=/"),
        (3, "  key        url=http://example.test/a?b"),
        (4, "  lookup     result=uri-miss"),
    ] {
        assert!(lines[line].ends_with(part), "{part}: {text}");
    }
    let end = "status=200 body_bytes=4 cache=\"forebay; fwd=uri-miss; fwd-status=200; stored\"";
    assert!(blocks[0].contains(end), "{text}");
    assert!(blocks[2].contains("target=\"/"), "{text}");
    let steers = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
    assert!(!text.contains(steers), "{text:?}");
}

#[test]
fn a_follower_is_shown_with_the_fetch_that_it_joined() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |_| {
        let head = answer_head("200 OK", &["Cache-Control: max-age=60"], 4);
        Script::new().wait(&held).send(head).send("page")
    });
    let server = start(&origin, "");
    let output = traced(&server, &["--json", "--limit", "2"], || {
        let mut clients: Vec<_> = (0..2).map(|_| Client::connect(server.address())).collect();
        for (index, client) in clients.iter_mut().enumerate() {
            client.send("GET /slow HTTP/1.1\r\nHost: a.test\r\n\r\n");
            eventually("it waits", || server.stat("requests_total") == (index + 1) as f64);
        }
        gate.open();
        for client in &mut clients {
            assert_eq!(client.response("GET").expect("an answer").text(), "page");
        }
    });
    let records = records(&output);
    let joined: Vec<_> = records
        .iter()
        .map(steps)
        .filter(|steps| steps.contains(&"fetch follows".to_owned()))
        .collect();
    assert_eq!(joined.len(), 1, "{records:#?}");
    assert!(joined[0].contains(&"fetch collapsed".to_owned()), "{joined:?}");
    assert!(!joined[0].iter().any(|step| step.starts_with("origin")), "{joined:?}");
}

#[test]
fn an_origin_that_cannot_be_reached_is_named_as_the_fault() {
    let origin = origin();
    let server = start(&origin, "");
    origin.stop();
    let output = traced(&server, &["--json", "--limit", "1"], || {
        assert_eq!(ask(&server, "GET", "/", &[]).status, 502);
    });
    let steps = steps(&records(&output)[0]);
    let fault = |name: &str| steps.iter().any(|s| s.starts_with(name) && s.contains("connect"));
    assert!(fault("origin ") && fault("response "), "{steps:?}");
}

#[test]
fn a_filter_excludes_other_requests() {
    let origin = origin();
    let server = start(&origin, "");
    for (filter, expected) in [
        (&["http://a.test/news"][..], &["a.test/news/1"][..]),
        (&["--host", "A.TEST"], &["a.test/news/1", "a.test/x"]),
        (&["--path", "/news"], &["a.test/news/1", "b.test/news"]),
        (&["--host", "b.test", "--path", "/n"], &["b.test/news"]),
    ] {
        let limit = expected.len().to_string();
        let arguments = [filter, &["--json", "--limit", &limit]].concat();
        let output = traced(&server, &arguments, || {
            let mut client = Client::connect(server.address());
            for (host, target) in
                [("c.test", "/"), ("a.test", "/news/1"), ("a.test", "/x"), ("b.test", "/news")]
            {
                client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
                assert_eq!(client.response("GET").expect("an answer").status, 200);
            }
        });
        let shown: Vec<_> = records(&output)
            .iter()
            .map(|one| format!("{}{}", one["host"], one["target"]).replace('"', ""))
            .collect();
        assert_eq!(shown, expected, "{filter:?}");
        eventually("the trace is closed", || server.stat("traces_open") == 0.0);
    }
}

#[test]
fn a_bad_filter_is_refused_with_its_reason() {
    let origin = origin();
    let server = start(&origin, "");
    let long = format!("/{}", "x".repeat(3_000));
    for (arguments, code, part) in [
        (&["a.test"][..], 1, "URL-PREFIX: a URL begins with http://"),
        (&["--host", "a b"], 1, "--host: write HOST or HOST:PORT"),
        (&["--path", "news"], 1, "--path: a path begins with /"),
        (&["--path", &long], 1, "--path: a filter has at most 2048 bytes"),
        (&["http://a.test/", "--host", "a.test"], 2, "cannot be used with"),
        (&["--limit", "0"], 2, "0 is not in 1.."),
    ] {
        let output = server.command(&[&["trace"], arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(part), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty(), "{output:?}");
    }
    assert_eq!(server.stat("traces_total"), 0.0);
}

/// Opens a trace at the admin socket, and reads the head of its answer.
fn open_trace(server: &Server, query: &str) -> (UnixStream, String) {
    let mut stream = UnixStream::connect(server.admin()).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time above zero");
    let request = format!("GET /trace{query} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it is open");
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("the answer has a head");
        head.extend_from_slice(&byte);
    }
    (stream, String::from_utf8(head).expect("UTF-8"))
}

/// The number of requests in the test of a tracer that does not read: their records exceed all
/// buffers on the way to the tracer.
const UNREAD: u64 = 3_000;

#[test]
fn a_tracer_that_does_not_read_loses_requests_and_is_told_how_many_while_clients_are_served() {
    let origin = origin();
    let server = start(&origin, "");
    let (mut stream, head) = open_trace(&server, "?json&path=/x");
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("x-ndjson"), "{head}");
    let target = format!("/x{}", "y".repeat(900));
    let mut client = Client::connect(server.address());
    for _ in 0..UNREAD {
        assert_eq!(client.ask("GET", &target, &[]).expect("an answer").status, 200);
    }
    assert_eq!(ask(&server, "GET", "/other", &[]).status, 200);
    assert_eq!(server.stat("traces_open"), 1.0);
    let (mut shown, mut lost, mut text) = (0, 0, String::new());
    let mut piece = vec![0; 64 << 10];
    while shown + lost < UNREAD {
        let count = stream.read(&mut piece).expect("the trace goes on");
        assert!(count > 0, "it ended after {shown} shown and {lost} lost");
        text += str::from_utf8(&piece[..count]).expect("only ASCII is sent");
        // The body is chunked; lines of its framing are not objects.
        while let Some(end) = text.find('\n') {
            let line: String = text.drain(..=end).collect();
            // The server has nothing more to send.
            assert_ne!(line, "\n", "{shown} shown, {lost} lost");
            let Ok(value @ Value::Object(_)) = serde_json::from_str(&line) else { continue };
            shown += u64::from(value["steps"].is_array());
            lost += value["lost"].as_u64().unwrap_or(0);
        }
    }
    assert!(lost > 0 && shown > 256, "{shown} shown, {lost} lost");
    assert_eq!(shown + lost, UNREAD);
    assert_eq!(server.stat("trace_requests_lost_total"), lost as f64);
    drop(stream);
    eventually("the trace is closed", || server.stat("traces_open") == 0.0);
}

#[test]
fn a_fifth_trace_is_refused_until_one_has_ended() {
    let origin = origin();
    let server = start(&origin, "");
    let mut open: Vec<_> = (0..4).map(|_| open_trace(&server, "").0).collect();
    let output = server.command(&["trace"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("4 traces are open"), "{said}");
    assert_eq!(server.stat("traces_refused_total"), 1.0);
    open.pop();
    eventually("a trace is closed", || server.stat("traces_open") == 3.0);
    assert!(open_trace(&server, "").1.starts_with("HTTP/1.1 200"));
}

#[test]
fn a_reload_carries_the_trace_and_a_stop_ends_it_with_its_reason() {
    let origin = origin();
    let mut server = start(&origin, "");
    let output = traced(&server, &["--json", "--limit", "2"], || {
        ask(&server, "GET", "/a", &[]);
        assert!(server.command(&["reload"]).status.success());
        ask(&server, "GET", "/b", &[]);
    });
    assert_eq!(records(&output).len(), 2);
    eventually("the trace is closed", || server.stat("traces_open") == 0.0);
    let output = traced(&server, &[], || {
        ask(&server, "GET", "/c", &[]);
        server.signal(Signal::TERM);
    });
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stdout(&output).contains("target=/c"), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("the server stops"), "{output:?}");
    assert!(server.wait().is_some_and(|status| status.success()));
}

#[test]
fn a_handover_ends_the_trace_and_the_successor_can_be_traced() {
    let origin = origin();
    let old = start(&origin, "");
    let mut new = None;
    let output = traced(&old, &[], || new = Some(old.successor().start()));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("another process serves now; run the command again"), "{said}");
    let new = new.expect("it started");
    let output = traced(&new, &["--json", "--limit", "1"], || {
        ask(&new, "GET", "/", &[]);
    });
    assert_eq!(records(&output).len(), 1);
}

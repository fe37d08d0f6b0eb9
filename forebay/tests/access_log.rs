//! The access log: the content of its lines, and that neither a client nor a slow reader can harm
//! the log or the server.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::path::Path;
use std::process::Command;

use forebay_testkit::script::answer_head;
use forebay_testkit::server::Folder;
use forebay_testkit::{Client, Origin, Script, Server, ServerBuilder, Signal, eventually};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use serde_json::Value;

/// Fields of a request with a Referer and a User-Agent.
const NAMED: &[&str] = &["Referer: http://example.test/before", "User-Agent: gauge/1.0"];

#[test]
fn it_is_off_by_default_and_can_go_to_standard_output() {
    let origin = origin();
    for (flags, count) in [(&[][..], 0), (&[("--access-log", "-")][..], 2)] {
        let mut server = start(&origin, flags);
        let mut client = Client::connect(server.address());
        for _ in 0..2 {
            client.ask("GET", "/a", &[]).expect("served");
        }
        drop(client);
        assert!(server.stop().is_some_and(|status| status.success()));
        let output = server.output();
        let lines: Vec<_> = output.lines().skip(2).collect();
        assert_eq!(lines.len(), count, "{flags:?}: {output}");
        assert!(lines.iter().all(|line| line.starts_with("{\"")), "{output}");
    }
}

/// Method, target and further fields; expected status, body bytes and Cache-Status.
type Answer = (&'static str, &'static str, &'static [&'static str], u16, u64, &'static str);

const ANSWERS: &[Answer] = &[
    ("GET", "/a?x=1", NAMED, 200, 5, "forebay; fwd=uri-miss; fwd-status=200; stored"),
    ("GET", "/a?x=1", NAMED, 200, 5, "forebay; hit; ttl=60"),
    ("GET", "/a?x=1", &["Range: bytes=1-2"], 206, 2, "forebay; hit; ttl=60"),
    ("GET", "/a?x=1", &["If-None-Match: \"e\""], 304, 0, "forebay; hit; ttl=60"),
    ("HEAD", "/a?x=1", NAMED, 200, 0, "forebay; hit; ttl=60"),
    ("POST", "/p", NAMED, 200, 5, "forebay; fwd=method; fwd-status=200; detail=method"),
    ("GET", "/n", &["Cache-Control: only-if-cached"], 504, 0, "forebay; detail=only-if-cached"),
    ("GET", "/cut", NAMED, 499, 0, "forebay; fwd=uri-miss; fwd-status=200; detail=no-store"),
];

#[test]
fn a_line_of_json_has_every_field() {
    let origin = origin();
    let mut server = logging(&origin, &[]);
    let before = unix_ms();
    let mut client = Client::connect(server.address());
    for (method, target, fields, ..) in ANSWERS {
        let _ = client.ask(method, target, fields);
    }
    let mut client = Client::connect(server.address());
    client.send("GET /none HTTP/1.0\r\nHost: other.test\r\n\r\n");
    assert_eq!(client.response("GET").expect("an answer").status, 421);
    assert!(server.stop().is_some_and(|status| status.success()));
    let lines = json_lines(&server.path("access.log"));
    assert_eq!(lines.len(), ANSWERS.len() + 1, "{lines:?}");
    for (line, (method, target, fields, status, body_bytes, cache)) in lines.iter().zip(ANSWERS) {
        let is_named = *fields == NAMED;
        let named = |value| if is_named { value } else { "" };
        let texts = [
            ("client", "127.0.0.1"),
            ("method", method),
            ("host", "example.test"),
            ("target", target),
            ("version", "HTTP/1.1"),
            ("referer", named("http://example.test/before")),
            ("user_agent", named("gauge/1.0")),
        ];
        for (name, value) in texts {
            assert_eq!(line[name], *value, "{name} in {line}");
        }
        assert_eq!(line["status"], *status, "{line}");
        // A second may pass between the storing of the response and the hit.
        let said = line["cache"].as_str().unwrap_or_default().replace("ttl=59", "ttl=60");
        assert_eq!(said, *cache, "{line}");
        if *status < 400 {
            assert_eq!(line["body_bytes"], *body_bytes, "{line}");
        }
        let time_ms = line["time_ms"].as_u64().expect("a time");
        assert!((before - 1000..=unix_ms() + 1000).contains(&time_ms), "{line}");
        // An exchange with the origin takes more than a microsecond, and a hit may take less.
        let duration_us = line["duration_us"].as_u64().expect("a duration");
        assert!(duration_us > 0 || !cache.contains("fwd="), "{line}");
        assert_eq!(line["site"], "a", "{line}");
        // A request that an origin has answered also has the origin and its time, and a request
        // that does not get what it asked for has the reason.
        let is_forwarded = cache.contains("fwd=");
        assert_eq!(line["origin_us"].is_u64(), is_forwarded, "{line}");
        assert_eq!(line["origin_version"] == "HTTP/1.1", is_forwarded, "{line}");
        let count = 14 + usize::from(matches!(status, 499 | 504)) + 3 * usize::from(is_forwarded);
        assert_eq!(line.as_object().map(serde_json::Map::len), Some(count), "{line}");
    }
    let refused = &lines[ANSWERS.len()];
    assert_eq!((&refused["status"], &refused["host"]), (&421.into(), &"other.test".into()));
    assert_eq!((&refused["version"], &refused["cache"]), (&"HTTP/1.0".into(), &"forebay".into()));
}

#[test]
fn a_combined_line_is_what_log_tools_read() {
    let origin = origin();
    let mut server = logging(&origin, &[("--access-log-format", "combined")]);
    let mut client = Client::connect(server.address());
    for (method, fields) in [("GET", NAMED), ("GET", &[]), ("HEAD", NAMED)] {
        client.ask(method, "/a", fields).expect("served");
    }
    assert!(server.stop().is_some_and(|status| status.success()));
    let text = std::fs::read_to_string(server.path("access.log")).expect("the log");
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('"').collect()).collect();
    let named = ("http://example.test/before", "gauge/1.0");
    let cases = [
        ("GET", "5", named, "fwd=uri-miss"),
        ("GET", "5", ("-", "-"), "hit"),
        ("HEAD", "0", named, "hit"),
    ];
    assert_eq!(lines.len(), cases.len(), "{text}");
    for (parts, (method, bytes, (referer, agent), cache)) in lines.iter().zip(cases) {
        let [begin, request, result, from, _, by, took, said, end] = parts[..] else {
            panic!("{parts:?}")
        };
        assert!(begin.starts_with("127.0.0.1 - - [") && begin.ends_with(" +0000] "), "{begin}");
        assert_eq!(begin.len(), "127.0.0.1 - - [10/Oct/2000:13:55:36 +0000] ".len(), "{begin}");
        assert_eq!(request, format!("{method} /a HTTP/1.1"));
        assert_eq!(result, format!(" 200 {bytes} "));
        assert_eq!((from, by), (referer, agent));
        assert!(took.trim().parse::<u64>().is_ok(), "{took}");
        assert!(said.starts_with("forebay; ") && said.contains(cache), "{said}");
        assert!(end.is_empty(), "{end}");
    }
}

#[test]
fn a_client_cannot_forge_a_line_or_a_field_of_one() {
    let agents: [&[u8]; 4] = [
        b"a\" 200 0 \"-\" \"b",
        b"\",\"status\":500,\"x\":\"",
        b"back\\slash\\\" \t tab",
        b"caf\xe9 \xff\xc2\x9b2J",
    ];
    for format in ["json", "combined"] {
        let origin = origin();
        let mut server = logging(&origin, &[("--access-log-format", format)]);
        let mut client = Client::connect(server.address());
        for agent in agents {
            let mut request = b"GET /a HTTP/1.1\r\nHost: example.test\r\nUser-Agent: ".to_vec();
            request.extend_from_slice(agent);
            client.send([&request[..], b"\r\n\r\n"].concat());
            assert_eq!(client.response("GET").expect("served").status, 200);
        }
        assert!(server.stop().is_some_and(|status| status.success()));
        let text = std::fs::read_to_string(server.path("access.log")).expect("UTF-8");
        assert_eq!(text.lines().count(), agents.len(), "{text}");
        assert!(!text.bytes().any(|byte| byte < b' ' && byte != b'\n'), "{text:?}");
        for (line, agent) in text.lines().zip(agents) {
            if format == "json" {
                let value: Value = serde_json::from_str(line).expect(line);
                assert_eq!(value["status"], 200, "{line}");
                assert_eq!(value["user_agent"], *String::from_utf8_lossy(agent), "{line}");
            } else {
                assert_eq!(line.matches('"').count(), 8, "{line}");
            }
        }
    }
}

#[test]
fn one_in_n_answers_is_logged() {
    for (sample, wanted) in [("1", 7), ("3", 3), ("100", 1)] {
        let origin = origin();
        let mut server = logging(&origin, &[("--access-log-sample", sample)]);
        let mut client = Client::connect(server.address());
        for _ in 0..7 {
            client.ask("GET", "/a", &[]).expect("served");
        }
        assert!(server.stop().is_some_and(|status| status.success()));
        let count = json_lines(&server.path("access.log")).len();
        assert_eq!(count, wanted, "one in {sample}");
    }
}

#[test]
fn a_reload_reopens_the_file_for_log_rotation() {
    let origin = origin();
    let mut server = logging(&origin, &[]);
    let (log, rotated) = (server.path("access.log"), server.path("access.log.1"));
    let mut client = Client::connect(server.address());
    client.ask("GET", "/1", &[]).expect("served");
    // Lines of a quiet server appear without another request.
    eventually("the first line is in the log", || json_lines(&log).len() == 1);
    std::fs::rename(&log, &rotated).expect("the folder is writable");
    client.ask("GET", "/2", &[]).expect("served");
    assert!(server.command(&["reload"]).status.success());
    client.ask("GET", "/3", &[]).expect("served");
    assert!(server.stop().is_some_and(|status| status.success()));
    let targets = |path| -> Vec<Value> {
        json_lines(path).iter().map(|line| line["target"].clone()).collect()
    };
    assert_eq!(targets(&rotated), ["/1", "/2"]);
    assert_eq!(targets(&log), ["/3"]);
}

#[test]
fn sigusr1_reopens_the_file_and_no_signal_of_peers_ends_the_server_at_once() {
    let origin = origin();
    let mut server = logging(&origin, &[]);
    let (log, rotated) = (server.path("access.log"), server.path("access.log.1"));
    let mut client = Client::connect(server.address());
    client.ask("GET", "/1", &[]).expect("served");
    eventually("the first line is in the log", || json_lines(&log).len() == 1);
    std::fs::rename(&log, &rotated).expect("the folder is writable");
    server.signal(Signal::USR1);
    eventually("the file is open again", || log.exists());
    eventually("the event is logged", || server.errors().contains("log_reopened"));
    // Every worker has taken the new file when a reload has ended.
    assert!(server.command(&["reload"]).status.success());
    client.ask("GET", "/2", &[]).expect("served");

    server.signal(Signal::USR2);
    eventually("the event is logged", || server.errors().contains("signal_ignored"));
    assert_eq!(client.ask("GET", "/3", &[]).expect("served").status, 200);

    std::fs::remove_file(&log).expect("the file exists");
    std::fs::create_dir(&log).expect("the folder is writable");
    server.signal(Signal::USR1);
    eventually("the failure is logged", || server.errors().contains("log_failed"));
    assert_eq!(client.ask("GET", "/4", &[]).expect("served").status, 200);
    let targets: Vec<_> = json_lines(&rotated).iter().map(|line| line["target"].clone()).collect();
    assert_eq!(targets, ["/1"]);

    server.signal(Signal::QUIT);
    assert!(server.wait().is_some_and(|status| status.success()), "SIGQUIT is no clean end");
}

#[test]
fn lines_that_a_full_disk_refuses_are_counted() {
    let origin = origin();
    let mut server = start(&origin, &[("--access-log", "/dev/full")]);
    let mut client = Client::connect(server.address());
    for _ in 0..3 {
        assert_eq!(client.ask("GET", "/a", &[]).expect("served").status, 200);
    }
    eventually("lost lines are counted", || server.stat("log_lines_failed_total") == 3.0);
    assert_eq!(server.stat("log_lines_dropped_total"), 0.0);
    assert!(server.stop().is_some_and(|status| status.success()));
    assert_eq!(server.errors().matches("log_failed").count(), 1, "{}", server.errors());
}

#[test]
fn a_log_without_a_reader_holds_up_no_request() {
    let origin = origin();
    let builder = builder(&origin, &[("--head-bytes-max", "128KiB")]);
    let path = builder.path("pipe");
    let _open = unread_pipe(&path);
    let mut server = builder.flag("--access-log", &path.display().to_string()).start();
    let mut client = Client::connect(server.address());
    // Long lines fill the pipe and then the queue. After that, lines are dropped.
    let agent = format!("User-Agent: {}", "x".repeat(64 << 10));
    eventually("lines are dropped", || {
        for _ in 0..64 {
            assert_eq!(client.ask("GET", "/a", &[&agent]).expect("served").status, 200);
        }
        server.stat("log_lines_dropped_total") > 0.0
    });
    let reload = server.command(&["reload"]);
    assert!(reload.status.success(), "{reload:?}");
    assert_eq!(client.ask("GET", "/a", &[]).expect("served").status, 200);
    assert_eq!(server.stat("reloads_total"), 1.0);
    assert!(server.stop().is_some_and(|status| status.success()), "the server does not end");
}

/// Lines that are neither in the log nor counted would be lost without a trace.
#[test]
fn lines_that_a_stalled_reader_leaves_at_the_end_are_counted() {
    const REQUESTS: usize = 200;
    for is_replaced in [false, true] {
        let origin = origin();
        let builder = builder(&origin, &[("--head-bytes-max", "128KiB")]);
        let path = builder.path("pipe");
        let mut reader = unread_pipe(&path);
        let mut server = builder.flag("--access-log", &path.display().to_string()).start();
        let mut client = Client::connect(server.address());
        let agent = format!("User-Agent: {}", "x".repeat(8 << 10));
        for _ in 0..REQUESTS {
            assert_eq!(client.ask("GET", "/a", &[&agent]).expect("served").status, 200);
        }
        if is_replaced {
            std::fs::rename(&path, server.path("old")).expect("the folder is ours");
            assert!(server.command(&["reload"]).status.success(), "{}", server.errors());
        }
        assert_eq!(server.stat("log_lines_dropped_total"), 0.0, "the queue has room");
        let file = server.path("run").join(format!("{}.counters", server.address().port()));
        assert!(server.stop().is_some_and(|status| status.success()));
        let counters = Command::new(env!("CARGO_BIN_EXE_forebay"))
            .args(["counters", "--json"])
            .arg(file)
            .output();
        let counters: Value = serde_json::from_slice(&counters.expect("it was built").stdout)
            .expect("counters are JSON");
        let dropped = counters["counters"]["log_lines_dropped_total"].as_u64().unwrap_or(0);
        let written = lines_in_pipe(&mut reader);
        assert!(dropped + written >= REQUESTS as u64, "{is_replaced}: {dropped} + {written}");
        assert!(written < REQUESTS as u64 / 2, "{written}: the pipe is too large");
    }
}

#[test]
fn a_log_that_cannot_be_opened_is_refused_at_the_start_and_at_a_reload() {
    let origin = origin();
    let folder = Folder::new();
    let lonely = folder.path("pipe");
    drop(unread_pipe(&lonely));
    for path in ["/nowhere/access.log", "/", &lonely.display().to_string()] {
        let output = builder(&origin, &[("--access-log", path)]).run();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{path}: {said}");
        assert!(said.contains("access log") && said.contains(path), "{said}");
    }

    let server = logging(&origin, &[]);
    let log = server.path("access.log");
    std::fs::remove_file(&log).expect("the path exists");
    let kinds: [fn(&Path); 2] = [
        |path| std::fs::create_dir(path).expect("the folder is writable"),
        |path| drop(std::fs::remove_dir(path).map(|()| unread_pipe(path))),
    ];
    for (turn, make) in kinds.into_iter().enumerate() {
        make(&log);
        let output = server.command(&["reload"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("access log"), "{turn}: {said}");
    }
    assert_eq!(server.stat("reloads_refused_total"), 2.0);
    let mut client = Client::connect(server.address());
    assert_eq!(client.ask("GET", "/a", &[]).expect("served").status, 200);
}

/// A named pipe that stays open and full: the file holds both ends, and no process reads.
fn unread_pipe(path: &Path) -> File {
    let made = Command::new("mkfifo").arg(path).status().expect("mkfifo is there");
    assert!(made.success());
    OpenOptions::new().read(true).write(true).open(path).expect("the folder is writable")
}

/// The number of whole lines in a pipe.
fn lines_in_pipe(pipe: &mut File) -> u64 {
    let flags = fcntl_getfl(&*pipe).expect("it is open");
    fcntl_setfl(&*pipe, flags | OFlags::NONBLOCK).expect("it is ours");
    let mut bytes = Vec::new();
    // The end of the bytes is an error, because the pipe stays open.
    assert!(pipe.read_to_end(&mut bytes).is_err());
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

fn origin() -> Origin {
    Origin::start(|request| match request.target.as_str() {
        "/p" => Script::answer("200 OK", &["Cache-Control: no-store"], b"taken"),
        "/cut" => {
            let head = answer_head("200 OK", &["Cache-Control: no-store"], 1 << 20);
            Script::new().send(head).send(vec![b'x'; 1 << 19]).close()
        }
        _ => Script::answer("200 OK", &["Cache-Control: max-age=60", "ETag: \"e\""], b"hello"),
    })
}

fn builder(origin: &Origin, flags: &[(&str, &str)]) -> ServerBuilder {
    let site = format!(
        "[[site]]\nname = \"a\"\nnames = [\"example.test\"]\norigin = \"http://{}\"\n",
        origin.address()
    );
    let builder =
        ServerBuilder::new(env!("CARGO_BIN_EXE_forebay")).config(&site).flag("--workers", "1");
    flags.iter().fold(builder, |builder, (name, value)| builder.flag(name, value))
}

fn start(origin: &Origin, flags: &[(&str, &str)]) -> Server {
    builder(origin, flags).start()
}

/// A server that writes the access log to `access.log` in its folder.
fn logging(origin: &Origin, flags: &[(&str, &str)]) -> Server {
    let builder = builder(origin, flags);
    let path = builder.path("access.log").display().to_string();
    builder.flag("--access-log", &path).start()
}

fn json_lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

fn unix_ms() -> u64 {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("after 1970");
    u64::try_from(now.as_millis()).expect("the time fits in 64 bits")
}

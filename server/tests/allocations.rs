//! A RAM hit on a keep-alive connection makes no heap allocation, neither with header rules nor
//! without. The test covers everything from reading a request to writing its response: parsing, the
//! key, the lookup, the head, the body and the counters.
//!
//! The allocator counts the allocations of the whole process. Therefore this file has only one
//! test, whose client allocates its buffers before the measurement.

use std::alloc::System;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use forebay_server::config::{Config, ConfigSource, FlagValue};
use forebay_server::engine::{Hooks, start};
use forebay_testkit::{Origin, Script};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const HITS: usize = 3_000;

/// A request whose response was compressed when it was stored. Its Accept-Encoding is normalised.
const COMPRESSED: &str = "GET /compressed HTTP/1.1\r\nHost: a.example\r\n\
    Accept-Encoding: gzip, deflate, br;q=1.0, zstd\r\n\r\n";

/// A request for each kind of hit, and the beginning of its response.
const KINDS: &[(&str, &str)] = &[
    ("GET /small HTTP/1.1\r\nHost: a.example\r\n\r\n", "HTTP/1.1 200"),
    ("HEAD /small HTTP/1.1\r\nHost: a.example\r\n\r\n", "HTTP/1.1 200"),
    ("GET /large HTTP/1.1\r\nHost: a.example\r\n\r\n", "HTTP/1.1 200"),
    ("GET /large HTTP/1.1\r\nHost: a.example\r\nRange: bytes=100-199\r\n\r\n", "HTTP/1.1 206"),
    ("GET /small HTTP/1.1\r\nHost: a.example\r\nIf-None-Match: \"v1\"\r\n\r\n", "HTTP/1.1 304"),
    ("GET /x/..//caf%C3%A9;v=1 HTTP/1.1\r\nHost: a.example\r\n\r\n", "HTTP/1.1 200"),
    ("GET /varied HTTP/1.1\r\nHost: a.example\r\nAccept-Language: de\r\n\r\n", "HTTP/1.1 200"),
    (
        "GET /small?b=1 HTTP/1.1\r\nHost: a.example\r\nUser-Agent: Mozilla/5.0 (X11; Linux)\r\n\
         Accept: text/html,*/*;q=0.8\r\nAccept-Encoding: gzip, br\r\nAccept-Language: en\r\n\
         Referer: http://a.example/\r\nCookie: a=b; session=0123456789abcdef\r\n\
         Cache-Control: max-stale=5\r\n\r\n",
        "HTTP/1.1 200",
    ),
    (COMPRESSED, "HTTP/1.1 200"),
    ("GET /limited HTTP/1.1\r\nHost: a.example\r\nX-Key: a\r\n\r\n", "HTTP/1.1 200"),
];

/// Returns at least a hundred rules, of all kinds that run on a hit: two `add-header` and two
/// `set-header` rules that always run, values with variables, conditions that match or do not
/// match, regular expressions, and rules that change the request before the lookup.
fn rules() -> String {
    let mut text = String::new();
    let mut rule = |hook: &str, lines: &str| {
        text.push_str(&format!("cond %{{{hook}}}\n{lines}\n\n"));
    };
    rule("SEND_RESPONSE_HDR_HOOK", "add-header X-Add-1 one\nadd-header X-Add-2 two");
    rule("SEND_RESPONSE_HDR_HOOK", "set-header X-Set-1 one\nset-header X-Fixed 2");
    rule("READ_REQUEST_HDR_HOOK", "set-header X-Early %{METHOD}");
    rule("READ_REQUEST_HDR_HOOK", "cond %{CLIENT-URL:PATH} =large\nset-destination QUERY c");
    rule("READ_REQUEST_HDR_HOOK", "cond %{CLIENT-HEADER:Host} =b\nset-destination HOST a.example");
    rule("SEND_RESPONSE_HDR_HOOK", "set-header X-Now \"%{NOW:YEAR} %{ID:UNIQUE} %{IP:CLIENT}\"");
    rule(
        "SEND_RESPONSE_HDR_HOOK",
        "cond %{HEADER:ETag} /v([0-9])/\nset-header X-V %{LAST-CAPTURE:1}",
    );
    rule("SEND_RESPONSE_HDR_HOOK", "rm-header Vary");
    for number in 0..31 {
        let name = format!("X-Number-{number}");
        let equal = format!("cond %{{CLIENT-HEADER:Host}} =a.example\nset-header {name} yes");
        rule("SEND_RESPONSE_HDR_HOOK", &equal);
        let other = format!("cond %{{STATUS}} ={}\nset-header {name} no", 500 + number);
        rule("SEND_RESPONSE_HDR_HOOK", &other);
        let regex =
            format!("cond %{{CLIENT-HEADER:User-Agent}} /bot-{number}[.x]/\nrm-header {name}");
        rule("SEND_RESPONSE_HDR_HOOK", &regex);
    }
    let count = text.matches("cond %{SEND").count() + text.matches("cond %{READ").count();
    assert!(count >= 100, "{count} rules");
    text
}

#[test]
fn a_hit_on_a_kept_connection_allocates_nothing() {
    for rules in [None, Some(rules())] {
        hits_allocate_nothing(rules);
    }
}

fn hits_allocate_nothing(rules: Option<String>) {
    let origin = Origin::start(|request| {
        let body = vec![b'x'; if request.target.starts_with("/large") { 300_000 } else { 1024 }];
        let vary = if request.target == "/varied" { "Vary: accept-language" } else { "X-Fixed: 1" };
        Script::answer(
            "200 OK",
            &["Cache-Control: max-age=3600", "Content-Type: text/css", "ETag: \"v1\"", vary],
            &body,
        )
    });
    let runtime_dir = std::env::temp_dir().join(format!("forebay-heap-{}", std::process::id()));
    let file = std::env::temp_dir().join(format!("forebay-heap-{}.rules", std::process::id()));
    std::fs::write(&file, rules.as_deref().unwrap_or_default()).expect("a file");
    let (address, stopper, server) = serve(origin.address(), &runtime_dir, &file);
    fetch_compressed(address);
    let mut client = TcpStream::connect(address).expect("the server listens");
    client.set_nodelay(true).expect("a socket");
    let mut answer = vec![0; 1 << 20];
    for (request, begin) in KINDS {
        // The first request fetches the response, and the others fill pools and buffers.
        for _ in 0..50 {
            ask(&mut client, request, &mut answer);
        }
        let before = HEAP.stats();
        for _ in 0..HITS {
            let bytes = ask(&mut client, request, &mut answer);
            let head = &answer[..bytes.min(4096)];
            assert!(head.starts_with(begin.as_bytes()), "{request}");
            let is_ruled = head.windows(12).any(|part| part == b"X-Number-30:");
            assert_eq!(is_ruled, rules.is_some(), "{request}");
        }
        let change = HEAP.stats() - before;
        let seen = (change.allocations, change.reallocations);
        assert_eq!(seen, (0, 0), "allocations in {HITS} hits of {request}");
    }
    assert_eq!(
        origin.request_count(),
        7,
        "each URL is fetched once, and all other requests are hits"
    );
    drop(client);
    stopper.stop();
    assert!(server.join().expect("no panic"), "all requests finished");
    // The directory contains only the socket and the counter file of this test.
    let _ = std::fs::remove_dir_all(runtime_dir);
    let _ = std::fs::remove_file(file);
}

fn serve(
    origin: SocketAddr,
    runtime_dir: &Path,
    rules: &Path,
) -> (SocketAddr, forebay_server::engine::Stopper, std::thread::JoinHandle<bool>) {
    let (runtime_dir, rules) = (runtime_dir.display().to_string(), rules.display().to_string());
    let (tell, told) = std::sync::mpsc::channel();
    let server = std::thread::spawn(move || {
        // With several routes, the server examines all readings of a path and compares them with
        // regular expressions, which must not allocate either. Nor must the log of another site.
        let sites = format!(
            "[[site]]\nname = \"s\"\nnames = [\"*\"]\norigin = \"http://{origin}\"\n\
             [[site.route]]\npath_prefix = \"/private/\"\ncache = false\nbefore_regex = true\n\
             [[site.route]]\npath_regex = '\\.(jpg|png)$'\n\
             [[site.route]]\npath_regex = '^/.*[0-9]x'\n\
             [[site.route]]\npath_prefix = \"/compressed\"\ncompress = [\"br\", \"gzip\"]\n\
             [[site.route]]\npath_prefix = \"/limited\"\nbefore_regex = true\n\
             rate_limit = [\"90000/1s\", \"90000/1s by=route\", \"90000/1s by=field:x-key\"]\n\
             concurrency_limit = [\"9\", \"9 by=route\", \"9 by=field:x-key\"]\n\
             [[site]]\nname = \"logged\"\nnames = [\"logged.example\"]\n\
             origin = \"http://{origin}\"\naccess_log = \"/dev/null\"\n"
        );
        let flags = [
            FlagValue { name: "listen", value: "127.0.0.1:0" },
            FlagValue { name: "workers", value: "1" },
            FlagValue { name: "runtime-dir", value: &runtime_dir },
            FlagValue { name: "rules", value: &rules },
        ];
        let config = Config::load(ConfigSource::Toml { text: &sites, file: "sites.toml" }, &flags)
            .expect("a valid configuration");
        let again = config.clone();
        let hooks = Hooks { load: Box::new(move || Ok(again.clone())), applied: Box::new(|_| ()) };
        let running = start(config, hooks).expect("it starts");
        tell.send((running.address, running.stopper())).expect("the test waits");
        running.run().expect("it runs")
    });
    let (address, stopper) = told.recv().expect("the server starts");
    (address, stopper, server)
}

/// Fetches the response that is compressed while it arrives, so it is chunked.
fn fetch_compressed(address: SocketAddr) {
    let mut client = TcpStream::connect(address).expect("the server listens");
    let request = COMPRESSED.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).expect("a connection");
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).expect("an answer");
    assert!(answer.windows(20).any(|part| part == b"content-encoding: br"));
}

/// Sends a request and reads the answer. Returns the length of the answer in bytes.
fn ask(client: &mut TcpStream, request: &str, answer: &mut [u8]) -> usize {
    client.write_all(request.as_bytes()).expect("the connection is kept");
    let mut filled = 0;
    loop {
        let count = client.read(&mut answer[filled..]).expect("an answer");
        assert!(count > 0, "the connection is kept");
        filled += count;
        if let Some(end) = end_of_answer(&answer[..filled], request.starts_with("HEAD")) {
            assert_eq!(end, filled, "more bytes arrived than one answer");
            return filled;
        }
    }
}

/// Returns the length of the whole answer in bytes; `None` until its head has arrived.
fn end_of_answer(answer: &[u8], head_only: bool) -> Option<usize> {
    let head = answer.windows(4).position(|part| part == b"\r\n\r\n")? + 4;
    let length = answer[..head].windows(16).position(|part| part == b"content-length: ");
    let length = length.map_or(0, |at| {
        let digits = answer[at + 16..head].iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'))
    });
    let end = if head_only { head } else { head + length };
    (answer.len() >= end).then_some(end)
}

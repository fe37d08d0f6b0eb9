//! A request that begins after a purge is acknowledged never gets an older response: neither a
//! stored one nor one whose fetch was in progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;

use forebay_testkit::client::request_text;
use forebay_testkit::script::answer_head;
use forebay_testkit::{
    Client, Gate, Origin, Request, Script, Server, ServerBuilder, StopFlag, eventually,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// The ways to purge all pages. The last two are requests of clients.
const WAYS: &[&[&str]] = &[
    &["--host", "example.test"],
    &["--prefix", "http://example.test/p"],
    &["--tag", "all"],
    &["--tag", "all and not none"],
    &["--tag", "not none"],
    &["--host", "example.test", "--soft"],
    &["--tag", "all", "--soft"],
    &["PURGE"],
    &["POST"],
];

fn server(origin: &Origin) -> Server {
    let builder = ServerBuilder::new(PROGRAM).origin(origin).flag("--workers", "2");
    builder.flag("--purge-from", "127.0.0.1").start()
}

/// Purges all pages, and returns after the acknowledgement.
fn purge(server: &Server, client: &mut Client, way: &[&str]) {
    let status = match way {
        ["PURGE"] => client.ask("PURGE", "/", &["Surrogate-Key: all"]),
        ["POST"] => client.ask("POST", "/form", &["Content-Length: 0"]),
        flags => {
            let output = server.command(&[&["purge"][..], flags].concat());
            assert!(output.status.success(), "{output:?}");
            return;
        }
    };
    assert_eq!(status.expect("answered").status, 200, "{way:?}");
}

/// Answers with the version at the time of the request, which is also the entity tag.
fn answer(request: &Request, version: u64, length: usize) -> Script {
    let tag = format!("\"{version}\"");
    let cache_control = match request.target.ends_with("/validated") {
        true => "Cache-Control: max-age=0",
        false => "Cache-Control: max-age=600",
    };
    let etag = format!("ETag: {tag}");
    let mut fields = vec![cache_control, &etag, "Surrogate-Key: all", "Cache-Groups: \"all\""];
    if request.method == "POST" {
        fields.push("Cache-Group-Invalidation: \"all\"");
    }
    if request.head.field("if-none-match") == Some(tag.as_str()) {
        return Script::answer("304 Not Modified", &fields, b"");
    }
    let mut body = version.to_string().into_bytes();
    body.resize(length, b' ');
    Script::new().send(answer_head("200 OK", &fields, body.len())).send(body)
}

fn version_of(client: &mut Client, target: &str) -> u64 {
    let response = client.ask("GET", target, &[]).expect("served");
    assert_eq!(response.status, 200, "{target}");
    response.text().trim().parse().expect("a version")
}

#[test]
fn a_fetch_that_began_before_a_purge_is_neither_followed_nor_stored() {
    for way in WAYS {
        let gate = Gate::new();
        let version = Arc::new(AtomicU64::new(1));
        let (held, seen) = (gate.clone(), Arc::clone(&version));
        let origin = Origin::start(move |request| {
            let script = answer(request, seen.load(SeqCst), 8);
            // The first fetch is delayed and answers with the old version.
            let is_held = request.target == "/p" && request.nth == 0;
            if !is_held {
                return script;
            }
            let head =
                ["Cache-Control: max-age=600", "Surrogate-Key: all", "Cache-Groups: \"all\""];
            Script::new().send(answer_head("200 OK", &head, 1)).wait(&held).send("1")
        });
        let server = server(&origin);
        let mut first = Client::connect(server.address());
        first.send(request_text("GET", "/p", &[]));
        eventually("the page is being fetched", || origin.count("/p") == 1);
        let head = first.peek("GET", |_| true).expect("the response begins");
        assert_eq!(head.status, 200, "{way:?}");
        version.store(2, SeqCst);
        let mut client = Client::connect(server.address());
        purge(&server, &mut client, way);
        assert_eq!(version_of(&mut client, "/p"), 2, "{way:?}: followed");
        gate.open();
        assert_eq!(first.response("GET").expect("whole").text(), "1", "{way:?}");
        for _ in 0..3 {
            assert_eq!(version_of(&mut client, "/p"), 2, "{way:?}: stored");
        }
    }
}

#[test]
fn nothing_older_than_a_purge_is_served_under_load() {
    const TARGETS: &[&str] = &["/p/1", "/p/2", "/p/long", "/p/validated"];
    /// The limit of a client's requests: a hundred times as many as the client makes during all
    /// purges.
    const REQUESTS_MAX: u64 = 100_000;
    let version = Arc::new(AtomicU64::new(1));
    let seen = Arc::clone(&version);
    let origin = Origin::start(move |request| {
        let length = if request.target == "/p/long" { 300_000 } else { 8 };
        answer(request, seen.load(SeqCst), length)
    });
    let server = server(&origin);
    let stop = StopFlag::default();
    thread::scope(|scope| {
        for which in 0..3 {
            let (server, stop) = (&server, &stop);
            scope.spawn(move || {
                let mut client = Client::connect(server.address());
                for step in stop.steps(REQUESTS_MAX) {
                    version_of(&mut client, TARGETS[(which + step as usize) % TARGETS.len()]);
                }
            });
        }
        let check = scope.spawn(|| {
            let _guard = stop.guard();
            let mut client = Client::connect(server.address());
            for round in 0..8 * WAYS.len() {
                let way = WAYS[round % WAYS.len()];
                let now = version.fetch_add(1, SeqCst) + 1;
                purge(&server, &mut client, way);
                for target in TARGETS {
                    let found = version_of(&mut client, target);
                    if found < now {
                        return Some(format!("{target} has {found}, not {now}, after {way:?}"));
                    }
                }
            }
            None
        });
        let wrong = check.join();
        assert_eq!(wrong.expect("no panic"), None);
    });
    assert_eq!(origin.faults(), Vec::<String>::new());
    assert!(server.stat("hits_total") > 100.0 && server.stat("validated_total") > 10.0);
}

//! An origin that cannot be reached: stale responses are still served, and few requests probe
//! whether it is back.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use forebay_testkit::clock::Deadline;
use forebay_testkit::script::answer_head;
use forebay_testkit::{Client, Gate, Origin, Response, Script, Server, ServerBuilder, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");
const STALE: [&str; 2] = ["Cache-Control: max-age=10", "Age: 20"];

fn ask(server: &Server, method: &str, target: &str) -> Response {
    Client::connect(server.address()).ask(method, target, &[]).expect("whole")
}

/// A listener that accepts nothing, and whose queue of connections is full, so that a further
/// connection is neither accepted nor refused.
struct FullListener {
    _listener: TcpListener,
    _queued: Vec<TcpStream>,
}

impl FullListener {
    fn at(address: SocketAddr) -> FullListener {
        let listener = TcpListener::bind(address).expect("the address is free");
        let connect = |_| TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok();
        let queued: Vec<TcpStream> = (0..10_000).map_while(connect).collect();
        assert!(queued.len() < 10_000, "the queue of connections is never full");
        FullListener { _listener: listener, _queued: queued }
    }
}

#[test]
fn one_request_at_a_time_waits_for_an_origin_that_does_not_answer() {
    let origin = Origin::start(|_| Script::answer("200 OK", &STALE, b"old"));
    let address = origin.address();
    let builder = ServerBuilder::new(PROGRAM).origin(&origin).flag("--workers", "1");
    let server = builder.flag("--origin-connect-ms-max", "1s").start();
    ask(&server, "GET", "/");
    origin.stop();
    assert_eq!(ask(&server, "GET", "/").text(), "old");
    let _full = FullListener::at(address);
    // HEAD stores nothing, so some of these requests wait for the origin themselves.
    let (deadline, events) = (Deadline::after(Duration::from_secs(5)), AtomicUsize::new(0));
    let watch = || {
        let mut waits = Vec::new();
        while deadline.remaining().is_some() {
            let sent = events.fetch_add(1, Relaxed);
            let response = ask(&server, "HEAD", "/");
            assert_eq!(response.status, 200);
            let status = response.field("cache-status").expect("every response has one");
            if status.contains("fwd=stale") {
                waits.push((sent, events.fetch_add(1, Relaxed)));
            }
        }
        waits
    };
    let mut waits: Vec<(usize, usize)> = thread::scope(|scope| {
        let watched: Vec<_> = (0..4).map(|_| scope.spawn(watch)).collect();
        watched.into_iter().flat_map(|waits| waits.join().expect("no panic")).collect()
    });
    waits.sort();
    assert!(!waits.is_empty(), "no request has asked the origin");
    let overlap = waits.windows(2).find(|pair| pair[1].0 < pair[0].1);
    assert_eq!(overlap, None, "two requests waited at a time");
}

#[test]
fn a_fetch_that_fails_at_all_origins_does_not_mark_those_that_work_as_down() {
    let gate = Gate::new();
    let works = Origin::start({
        let gate = gate.clone();
        move |request| match request.target.as_str() {
            "/hangs" => Script::new().stall(),
            "/held" => Script::new().wait(&gate).send(answer_head("200 OK", &[], 0)),
            _ => Script::answer("200 OK", &STALE, b"old"),
        }
    });
    let gone = Origin::echo();
    let refusing = gone.address();
    gone.stop();
    // The last failure of the fetch is that of the backup.
    let config = format!(
        "origin_first_byte_ms_max = '2s'\n[[site]]\nname = 'a'\nnames = ['*']\n\
         origin = ['http://{}', {{ url = 'http://{refusing}', backup = true }}]\n",
        works.address()
    );
    let server = ServerBuilder::new(PROGRAM).config(&config).flag("--workers", "1").start();
    let status_of = |target: &'static str| ask(&server, "GET", target).status;
    thread::scope(|scope| {
        // Each of the two fetches below gets an idle connection: a new one would say that the
        // origin works.
        let held = scope.spawn(|| status_of("/held"));
        eventually("it is held", || works.count("/held") == 1);
        assert_eq!(status_of("/"), 200);
        gate.open();
        assert_eq!(held.join().expect("no panic"), 200);
        let leader = scope.spawn(|| status_of("/hangs"));
        eventually("the first fetch hangs", || works.count("/hangs") == 1);
        let follower = scope.spawn(|| status_of("/hangs"));
        assert_eq!(leader.join().expect("no panic"), 502);
        eventually("the follower leads a fetch too", || works.count("/hangs") == 2);
        let response = ask(&server, "GET", "/");
        let status = response.field("cache-status").expect("every response has one");
        assert!(status.contains("fwd=stale"), "the origin that works is not asked: {status}");
        assert_eq!(follower.join().expect("no panic"), 502);
    });
}

/// Answers one request, refuses further connections, and leaves later requests unanswered.
fn answer_once(listener: TcpListener) {
    let (mut stream, _) = listener.accept().expect("the server connects");
    drop(listener);
    let mut text = [0; 4096];
    assert_ne!(stream.read(&mut text).expect("a request"), 0);
    let answer =
        format!("HTTP/1.1 200 OK\r\n{}\r\nContent-Length: 3\r\n\r\nold", STALE.join("\r\n"));
    stream.write_all(answer.as_bytes()).expect("the server reads");
    while stream.read(&mut text).is_ok_and(|count| count > 0) {}
}

#[test]
fn an_idle_connection_that_times_out_does_not_say_that_the_origin_is_back() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound listener has an address");
    thread::spawn(move || answer_once(listener));
    let server = ServerBuilder::new(PROGRAM)
        .flag("--origin", &format!("http://{address}"))
        .flag("--workers", "1")
        .flag("--origin-first-byte-ms-max", "2s")
        .start();
    assert_eq!(ask(&server, "GET", "/").text(), "old");
    thread::scope(|scope| {
        let hanging = scope.spawn(|| ask(&server, "GET", "/hangs"));
        eventually("the idle connection is used", || server.stat("origin_reused_total") == 1.0);
        assert_eq!(ask(&server, "GET", "/").text(), "old");
        assert_eq!(hanging.join().expect("no panic").status, 504);
    });
    let errors = server.errors();
    assert!(!errors.contains("origin_back"), "{errors}");
}

//! An origin that cannot be reached: stale responses are still served, and few requests probe
//! whether it is back.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use forebay_testkit::clock::Deadline;
use forebay_testkit::{Client, Origin, Response, Script, Server, ServerBuilder, eventually};

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
    let hanging = Origin::start(|request| match request.target.as_str() {
        "/hangs" => Script::new().stall(),
        _ => Script::answer("200 OK", &STALE, b"old"),
    });
    let gone = Origin::echo();
    let refusing = gone.address();
    gone.stop();
    // The last failure of the fetch is that of the backup.
    let config = format!(
        "origin_first_byte_ms_max = '1s'\n[[site]]\nname = 'a'\nnames = ['*']\n\
         origin = ['http://{}', {{ url = 'http://{refusing}', backup = true }}]\n",
        hanging.address()
    );
    let server = ServerBuilder::new(PROGRAM).config(&config).flag("--workers", "1").start();
    assert_eq!(ask(&server, "GET", "/").text(), "old");
    thread::scope(|scope| {
        let asked = || ask(&server, "GET", "/hangs").status;
        let leader = scope.spawn(asked);
        eventually("the first origin has it", || hanging.count("/hangs") == 1);
        let follower = scope.spawn(asked);
        assert_eq!([leader, follower].map(|one| one.join().expect("no panic")), [502; 2]);
    });
    assert_eq!(server.stat("collapsed_total"), 1.0);
    let response = ask(&server, "GET", "/");
    let status = response.field("cache-status").expect("every response has one");
    assert!(status.contains("fwd=stale"), "the origin that works is not asked: {status}");
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

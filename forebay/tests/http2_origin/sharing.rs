//! Requests that share connections to an origin.

use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use bytes::Bytes;
use forebay_testkit::{Client, eventually};
use http::{HeaderMap, HeaderValue, Response};

use crate::common::{Exchange, Http2Origin, ask, builder};

const CLIENTS: usize = 20;
const NO_STORE: (&str, &str) = ("cache-control", "no-store");

/// Waits until `count` requests are in progress at the same time.
async fn wait_for(arrived: &'static AtomicUsize, count: usize) {
    arrived.fetch_add(1, Relaxed);
    while arrived.load(Relaxed) < count {
        tokio::task::yield_now().await;
    }
}

#[test]
fn requests_in_progress_at_the_same_time_share_one_connection() {
    static ARRIVED: AtomicUsize = AtomicUsize::new(0);
    let origin = Http2Origin::start(100, |exchange: Exchange| async move {
        wait_for(&ARRIVED, CLIENTS).await;
        let path = exchange.path();
        exchange.answer(&[NO_STORE], path.as_bytes()).await;
    });
    let server = builder(origin.address).start();
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let server = &server;
            scope.spawn(move || {
                let answer = ask(server, "GET", &format!("/{client}?a=b"), &[]);
                assert_eq!((answer.status, answer.text()), (200, format!("/{client}?a=b")));
            });
        }
    });
    assert_eq!(origin.connection_count(), 1);
    assert_eq!(server.stat("origin_http2_connections_total"), 1.0);
    assert_eq!(server.stat("origin_http2_requests_total"), CLIENTS as f64);
    assert_eq!(server.stat("origin_connections_open"), 1.0);
}

#[test]
fn an_origin_with_few_streams_gets_more_connections() {
    static ARRIVED: AtomicUsize = AtomicUsize::new(0);
    let origin = Http2Origin::start(3, |exchange: Exchange| async move {
        if exchange.path() != "/first" {
            wait_for(&ARRIVED, 9).await;
        }
        exchange.answer(&[NO_STORE], b"ok").await;
    });
    let server = builder(origin.address).start();
    assert_eq!(ask(&server, "GET", "/first", &[]).status, 200);
    thread::scope(|scope| {
        for client in 0..9 {
            let server = &server;
            scope.spawn(move || {
                assert_eq!(ask(server, "POST", &format!("/{client}"), &[]).status, 200);
            });
        }
    });
    assert_eq!(origin.connection_count(), 3);
}

#[test]
fn a_request_has_the_pseudo_fields_of_http2_and_no_fields_of_its_connection() {
    let origin = Http2Origin::start(100, |exchange: Exchange| async move {
        let uri = exchange.request.uri().clone();
        let shown = |name| exchange.field(name).unwrap_or_else(|| "-".to_owned());
        let names = ["host", "connection", "te", "keep-alive", "upgrade", "x-a", "via"];
        let text = format!("{uri} {}", names.map(shown).join(" "));
        exchange.answer(&[NO_STORE], text.as_bytes()).await;
    });
    let server = builder(origin.address).start();
    let hop = ["X-A: 1", "Keep-Alive: 5", "Upgrade: h2c"];
    for (te, seen) in [("TE: trailers", "trailers"), ("TE: gzip", "-")] {
        let answer = ask(&server, "POST", "/p?q", &[&hop[..], &[te]].concat());
        let text = answer.text();
        let expected = format!("http://example.test/p?q - - {seen} - - 1 1.1 ");
        assert!(text.starts_with(&expected), "{text}");
    }
}

#[test]
fn bodies_and_trailers_pass_both_ways_and_interim_responses_too() {
    let origin = Http2Origin::start(100, |mut exchange: Exchange| async move {
        let early = Response::builder().status(103).header("link", "</a.css>; rel=preload");
        exchange.respond.send_informational(early.body(()).expect("a head")).expect("it is open");
        let (body, sum) = exchange.read("x-sum").await;
        let head = Response::builder().header("x-sum-was", sum.expect("trailers")).body(());
        let head = head.expect("a head");
        let mut stream = exchange.respond.send_response(head, false).expect("it is open");
        stream.send_data(Bytes::from(body), false).expect("it is open");
        let mut trailers = HeaderMap::new();
        trailers.insert("x-end", HeaderValue::from_static("8"));
        stream.send_trailers(trailers).expect("it is open");
    });
    let server = builder(origin.address).start();
    let mut client = Client::connect(server.address());
    client.send(
        "POST /a HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: close, TE\r\n\
         Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nX-Sum: 7\r\n\r\n",
    );
    let text = String::from_utf8(client.rest().0).expect("text");
    let (early, rest) = text.split_once("\r\n\r\n").expect("an interim response");
    assert!(early.starts_with("HTTP/1.1 103") && early.contains("link: </a.css>"), "{early}");
    assert!(rest.starts_with("HTTP/1.1 200") && rest.contains("x-sum-was: 7"), "{rest}");
    assert!(rest.contains("5\r\nabcde\r\n0\r\nx-end: 8\r\n\r\n"), "{rest}");
}

#[test]
fn a_client_that_does_not_read_does_not_stop_another_on_the_same_connection() {
    const BODY_BYTES: usize = 8 << 20;
    let origin = Http2Origin::start(100, |exchange: Exchange| async move {
        exchange.answer(&[NO_STORE], &vec![b'x'; BODY_BYTES]).await;
    });
    let server = builder(origin.address).start();
    let slow: Vec<_> = (0..20)
        .map(|number| {
            let mut client = Client::connect(server.address());
            client.send(format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n"));
            client
        })
        .collect();
    eventually("all are in progress", || server.stat("origin_http2_requests_total") == 20.0);
    let mut before = -1.0;
    eventually("the slow clients have filled their windows", || {
        let now = server.stat("origin_bytes_in_total");
        std::mem::replace(&mut before, now) == now
    });
    let answer = ask(&server, "GET", "/fast", &[]);
    assert_eq!((answer.status, answer.body.len()), (200, BODY_BYTES));
    assert_eq!(origin.connection_count(), 1);
    drop(slow);
}

#[test]
fn an_idle_connection_closes_and_a_stored_response_needs_none() {
    let origin = Http2Origin::start(100, |exchange: Exchange| async move {
        exchange.answer(&[("cache-control", "max-age=60")], b"stored").await;
    });
    let server = builder(origin.address).flag("--origin-pool-idle-ms-max", "100ms").start();
    for _ in 0..2 {
        assert_eq!(ask(&server, "GET", "/a", &[]).text(), "stored");
    }
    assert_eq!(server.stat("origin_requests_total"), 1.0);
    eventually("it closes", || server.stat("origin_connections_open") == 0.0);
    assert_eq!(ask(&server, "GET", "/b", &[]).text(), "stored");
    assert_eq!(origin.connection_count(), 2);
}

/// Starts a front that reads the line of the PROXY protocol, and passes the bytes behind it on to
/// `inner`.
fn proxy_protocol_front(inner: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut from = stream.expect("a connection");
            let mut to = TcpStream::connect(inner).expect("the origin listens");
            thread::spawn(move || {
                let (mut line, mut byte) = (Vec::new(), [0]);
                while !line.ends_with(b"\r\n") && from.read_exact(&mut byte).is_ok() {
                    line.extend(byte);
                }
                assert!(line.starts_with(b"PROXY TCP4 127.0.0.1 "), "{line:?}");
                let mut answers = to.try_clone().expect("a second handle");
                let mut back = from.try_clone().expect("a second handle");
                thread::spawn(move || io::copy(&mut answers, &mut back));
                let _ = io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Both);
            });
        }
    });
    address
}

#[test]
fn with_the_proxy_protocol_clients_share_no_connection() {
    let origin = Http2Origin::start(100, |exchange: Exchange| async move {
        exchange.answer(&[NO_STORE], b"ok").await;
    });
    let front = proxy_protocol_front(origin.address);
    let server = builder(front).flag("--origin-proxy-protocol", "v1").start();
    let mut clients = [(), (), ()].map(|()| Client::connect(server.address()));
    for _ in 0..3 {
        for client in &mut clients {
            assert_eq!(client.ask("GET", "/a", &[]).expect("an answer").text(), "ok");
        }
    }
    assert_eq!(server.stat("origin_http2_requests_total"), 9.0);
    assert_eq!(origin.connection_count(), 3, "one for each client connection");
}

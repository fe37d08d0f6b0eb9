//! An origin that speaks HTTP/2 and falls silent while a request waits for it. The times until a
//! PING are minutes, so only virtual time can show them.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forebay_cache::Store;
use forebay_shm::CounterFile;
use tokio::sync::mpsc;
use tokio::task::LocalSet;
use tokio::time::{Instant, timeout};

use super::rng::Rng;
use super::wire::{OriginStream, PendingConnections};
use crate::clock::simulated::VirtualClocks;
use crate::config::Config;
use crate::counters::COUNTERS;
use crate::engine::{WorkerCommand, work};
use crate::fetch::{Hosts, Resolver};
use crate::limits::{HTTP2_PING_MS, HTTP2_PONG_MS_MAX};
use crate::log::LogSenders;
use crate::purger::InlinePurger;
use crate::rate_limits::RateLimiter;
use crate::transport::tls::WorkerTls;
use crate::transport::{Connecting, Connector, OriginConnection};
use crate::worker::{Worker, WorkerParts};

const CONFIG: &str = "origin_first_byte_ms_max = \"1h\"\n\
                      [[site]]\nname = \"a\"\nnames = [\"*\"]\norigin = \"http://10.0.0.1\"\n\
                      origin_http2 = \"always\"\n";

/// Opens connections to the origin of these tests.
struct QueueConnector(PendingConnections);

impl Connector for QueueConnector {
    fn connect_socket(&self, _: &Path) -> Connecting {
        Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
    }

    fn connect(&self, server: SocketAddr) -> Connecting {
        let io = Box::new(OriginStream(self.0.connect(server, Rng::of(&[1]))));
        Box::pin(async { Ok(OriginConnection { io, ends: None, is_http2: false }) })
    }
}

/// The behaviour of an origin's connection after its first request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AfterRequest {
    /// Nothing is read any more, so no PING is answered.
    FallsSilent,
    /// PINGs are answered, and the response comes after an hour less a minute.
    AnswersLate,
}

/// Serves the connections of the origin: the first one as `first` says, and the others at once. The
/// body of a response is the number of its connection.
async fn serve_origin(queue: PendingConnections, first: AfterRequest) {
    for number in 0.. {
        let (end, _) = std::future::poll_fn(|cx| queue.poll_next(cx)).await;
        tokio::task::spawn_local(async move {
            let handshake = h2::server::handshake(OriginStream(end)).await;
            let mut connection = handshake.expect("the preface of a client");
            while let Some(Ok((_request, mut respond))) = connection.accept().await {
                if number == 0 && first == AfterRequest::FallsSilent {
                    return std::future::pending().await;
                }
                tokio::task::spawn_local(async move {
                    if number == 0 {
                        tokio::time::sleep(Duration::from_secs(59 * 60)).await;
                    }
                    let response = http::Response::builder().header("cache-control", "no-store");
                    let response = response.body(()).expect("a response");
                    let mut body = respond.send_response(response, false).expect("a stream");
                    body.send_data(Bytes::from(format!("connection {number}")), true).expect("it");
                });
            }
        });
    }
}

/// Starts a worker that accepts clients from `clients`, and connects to the origin at `origin`.
fn start_worker(clients: &PendingConnections, origin: &PendingConnections) {
    let config = Config::from_toml(CONFIG, "simulated").unwrap_or_else(|errors| panic!("{errors}"));
    let store = Store::open(config.server.store(1)).expect("a store");
    let counters = CounterFile::create(None, COUNTERS, 1).expect("memory");
    let worker = Rc::new(Worker::new(WorkerParts {
        store: store.join().expect("a place"),
        purger: InlinePurger::new().0,
        hosts: Arc::new(Hosts::new(Resolver::system())),
        limiter: Arc::new(RateLimiter::new(&config)),
        connector: Box::new(QueueConnector(origin.clone())),
        tls: Rc::new(WorkerTls::new(None)),
        counters: counters.slot(0),
        access_logs: LogSenders::default(),
        process_id: "00000000-0000-4000-8000-000000000000".into(),
        index: 0,
        via: "forebay-simulated".into(),
        config,
    }));
    let (commands, received) = mpsc::unbounded_channel();
    let listeners = vec![clients.listener()];
    tokio::task::spawn_local(async move {
        let _commands = commands.clone();
        let _ = commands.send(WorkerCommand::Accept { further: Vec::new() });
        work(worker, listeners, received).await;
    });
}

/// Sends a request, and returns the text of the response and the seconds until it arrived.
async fn ask(clients: &PendingConnections, method: &str) -> (String, u64) {
    let began = Instant::now();
    let client = clients.connect(SocketAddr::from(([10, 0, 0, 9], 1024)), Rng::of(&[2]));
    let length = if method == "POST" { "Content-Length: 0\r\n" } else { "" };
    let request = format!("{method} /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{length}\r\n");
    client.write(request.as_bytes()).await.expect("the worker reads");
    let mut text = Vec::new();
    loop {
        match client.read().await {
            Ok(bytes) if !bytes.is_empty() => text.extend_from_slice(&bytes),
            _ => break,
        }
    }
    (String::from_utf8_lossy(&text).into_owned(), began.elapsed().as_secs())
}

/// Runs `test` with the queue of clients of a worker, in front of an origin with this behaviour.
fn with_worker<F: Future<Output = ()>>(
    first: AfterRequest,
    test: impl FnOnce(PendingConnections) -> F,
) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    LocalSet::new().block_on(&runtime.expect("an event loop"), async {
        let _clocks = VirtualClocks::start(1_700_000_000);
        let (clients, origin) = (PendingConnections::default(), PendingConnections::default());
        tokio::task::spawn_local(serve_origin(origin.clone(), first));
        start_worker(&clients, &origin);
        let limit = Duration::from_secs(2 * 3600);
        timeout(limit, test(clients)).await.expect("the test ends");
    });
}

#[test]
fn a_silent_origin_loses_its_connection_after_a_ping_and_the_request_is_sent_again() {
    // The silence counts from the end of a period in which bytes arrived.
    let (least_s, most_s) = (HTTP2_PING_MS / 1000, (2 * HTTP2_PING_MS) / 1000);
    let pong_s = HTTP2_PONG_MS_MAX / 1000;
    for (method, status, says) in [("GET", "200", "connection 1"), ("POST", "502", "origin")] {
        with_worker(AfterRequest::FallsSilent, |clients| async move {
            let (text, seconds) = ask(&clients, method).await;
            assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{method}: {text}");
            assert!(text.contains(says), "{method}: {text}");
            let is_expected = (least_s + pong_s..=most_s + pong_s).contains(&seconds);
            assert!(is_expected, "{method}: {seconds} s");
            // The connection was replaced.
            let (text, seconds) = ask(&clients, "POST").await;
            let is_other = text.contains("connection ") && !text.contains("connection 0");
            assert!(is_other && seconds < 2, "{seconds} s: {text}");
        });
    }
}

#[test]
fn an_origin_that_answers_pings_keeps_its_connection() {
    with_worker(AfterRequest::AnswersLate, |clients| async move {
        let (text, seconds) = ask(&clients, "POST").await;
        assert!(text.contains("connection 0"), "{text}");
        assert!((59 * 60..59 * 60 + 2).contains(&seconds), "{seconds} s");
    });
}

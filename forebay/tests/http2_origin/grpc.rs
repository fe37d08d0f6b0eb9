//! Calls of gRPC: both sides speak HTTP/2.

use bytes::Bytes;
use forebay_testkit::{Origin, Script, Server, ServerBuilder};
use h2::client::SendRequest;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::task::LocalSet;

use crate::common::{Exchange, Http2Origin, ask, builder};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// Runs `test` with a connection to the server.
fn with_client<F: Future<Output = ()>>(
    server: &Server,
    test: impl FnOnce(SendRequest<Bytes>) -> F,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    LocalSet::new().block_on(&runtime.expect("an event loop"), async {
        let stream = tokio::net::TcpStream::connect(server.address()).await.expect("it listens");
        let (client, connection) = h2::client::handshake(stream).await.expect("a handshake");
        let driver = tokio::task::spawn_local(connection);
        test(client).await;
        driver.abort();
    });
}

/// Begins a call.
fn call(
    client: &mut SendRequest<Bytes>,
    kind: &str,
) -> (h2::client::ResponseFuture, SendStream<Bytes>) {
    let request = Request::post("http://a.example/Service/Method")
        .header("content-type", kind)
        .header("te", "trailers")
        .header("grpc-timeout", "10S");
    client.send_request(request.body(()).expect("a request"), false).expect("an open connection")
}

fn shown(response: &Response<RecvStream>, name: &str) -> String {
    let value = response.headers().get(name);
    value.map_or("-".to_owned(), |value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

#[test]
fn messages_pass_both_ways_at_once_and_the_call_ends_with_its_trailers() {
    let origin = Http2Origin::start(100, |mut exchange: Exchange| async move {
        let fields = ["te", "grpc-timeout", "content-length"].map(|name| exchange.field(name));
        assert_eq!(fields, [Some("trailers".to_owned()), Some("10S".to_owned()), None]);
        let head = Response::builder().header("content-type", "application/grpc");
        let head = head.header("cache-control", "max-age=60").body(()).expect("a head");
        let mut stream = exchange.respond.send_response(head, false).expect("it is open");
        let body = exchange.request.body_mut();
        while let Some(Ok(piece)) = body.data().await {
            body.flow_control().release_capacity(piece.len()).expect("it is open");
            stream.send_data(piece, false).expect("it is open");
        }
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        let details = HeaderValue::try_from("x".repeat(20_000)).expect("a value");
        trailers.insert("details-bin", details);
        stream.send_trailers(trailers).expect("it is open");
    });
    let server = builder(origin.address).flag("--http2", "true").start();
    with_client(&server, |mut client| async move {
        for _ in 0..2 {
            let (response, mut sending) = call(&mut client, "application/grpc+proto");
            let response = response.await.expect("a head, before any message is sent");
            assert_eq!(shown(&response, "content-type"), "application/grpc");
            let mut receiving = response.into_body();
            for number in 0..5 {
                let message = Bytes::from(format!("message {number}"));
                sending.send_data(message.clone(), false).expect("an open call");
                let answer = receiving.data().await.expect("a message").expect("an open call");
                assert_eq!(answer, message);
                receiving.flow_control().release_capacity(answer.len()).expect("it is open");
            }
            sending.send_data(Bytes::new(), true).expect("an open call");
            assert!(receiving.data().await.is_none());
            let trailers = receiving.trailers().await.expect("a whole call").expect("trailers");
            assert_eq!(trailers["grpc-status"], "0");
            assert_eq!(trailers["details-bin"].len(), 20_000);
        }
    });
    assert_eq!(server.stat("origin_requests_total"), 2.0, "a call was answered from the store");
}

#[test]
fn a_response_that_is_only_a_head_stays_one() {
    let origin = Http2Origin::start(100, |mut exchange: Exchange| async move {
        let head = Response::builder().header("content-type", "application/grpc");
        let head = head.header("grpc-status", "5").body(()).expect("a head");
        exchange.respond.send_response(head, true).expect("it is open");
    });
    let server = builder(origin.address).flag("--http2", "true").start();
    with_client(&server, |mut client| async move {
        let (response, _sending) = call(&mut client, "application/grpc");
        let response = response.await.expect("a head");
        assert_eq!(shown(&response, "grpc-status"), "5");
        assert!(response.body().is_end_stream(), "the end is in a frame of its own");
    });
}

#[test]
fn a_message_of_declared_length_is_followed_by_its_trailers() {
    let origin = Http2Origin::start(100, |mut exchange: Exchange| async move {
        let head = Response::builder().header("content-type", "application/grpc");
        let head = head.header("content-length", "7").body(()).expect("a head");
        let mut stream = exchange.respond.send_response(head, false).expect("it is open");
        stream.send_data(Bytes::from_static(b"message"), false).expect("it is open");
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        stream.send_trailers(trailers).expect("it is open");
    });
    let server = builder(origin.address).flag("--http2", "true").start();
    with_client(&server, |mut client| async move {
        let (response, _sending) = call(&mut client, "application/grpc");
        let mut receiving = response.await.expect("a head").into_body();
        let message = receiving.data().await.expect("a message").expect("an open call");
        assert_eq!(message, "message");
        let trailers = receiving.trailers().await.expect("a whole call").expect("trailers");
        assert_eq!(trailers["grpc-status"], "0");
    });
}

#[test]
fn errors_of_the_server_are_statuses_of_grpc() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let nowhere = free.local_addr().expect("it is bound");
    drop(free);
    let http1 = Origin::start(|_| Script::answer("200 OK", &[], b"not for gRPC"));
    let over_http1 = ServerBuilder::new(PROGRAM).origin(&http1).flag("--workers", "1");
    for (builder, message) in [
        (builder(nowhere), "no address of the origin accepted a connection"),
        (over_http1, "gRPC needs HTTP/2 to the origin: see the setting origin_http2"),
    ] {
        let server = builder.flag("--http2", "true").start();
        with_client(&server, |mut client| async move {
            let (response, _sending) = call(&mut client, "application/grpc");
            let response = response.await.expect("a head");
            let names = ["content-type", "grpc-status", "grpc-message"];
            let fields = names.map(|name| shown(&response, name));
            assert_eq!(fields, ["application/grpc", "14", message]);
            assert_eq!(response.status(), 200);
            assert!(response.body().is_end_stream());
        });
        // Other requests get a status of HTTP.
        with_client(&server, |mut client| async move {
            let (response, mut sending) = call(&mut client, "application/grpc-web");
            sending.send_data(Bytes::from_static(b"x"), true).expect("an open call");
            let status = response.await.expect("a head").status();
            assert!(status == 502 || status == 200 && message.contains("gRPC"), "{status}");
        });
    }
    assert_eq!(http1.request_count(), 1, "only the call of gRPC-Web");
}

#[test]
fn only_a_post_is_a_call() {
    let origin =
        Origin::start(|_| Script::answer("200 OK", &["Cache-Control: max-age=60"], b"stored"));
    let server = ServerBuilder::new(PROGRAM).origin(&origin).flag("--workers", "1").start();
    let kind = ["Content-Type: application/grpc"];
    for _ in 0..2 {
        let answer = ask(&server, "GET", "/a", &kind);
        assert_eq!((answer.status, answer.text()), (200, "stored".to_owned()));
    }
    assert_eq!(origin.request_count(), 1);
    assert_eq!(ask(&server, "POST", "/a", &kind).status, 502);
}

//! Uses the `h2` crate as the client. Requests and responses must arrive as they were sent, with
//! windows and reads of every size, and with streams that the client resets.

mod support;

use std::pin::pin;

use bytes::Bytes;
use forebay_http2::limits::ConnectionLimits;
use h2::client::{Builder, SendRequest};
use http::{HeaderName, HeaderValue, Request};
use support::{Responder, add};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::LocalSet;

/// Marsaglia's xorshift generator.
#[derive(Clone)]
struct Xorshift(u64);

impl Xorshift {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }
}

/// Runs a server on its end of a pipe until the client closes it or the drain is complete.
async fn serve(mut pipe: DuplexStream, mut random: Xorshift, drain_after: usize) -> Responder {
    let limits = ConnectionLimits { streams_max: 20, ..ConnectionLimits::default() };
    let mut responder = Responder::new(limits);
    // The client ends a connection that sends many frames of less than 256 bytes.
    responder.grant_bytes_max = 1_000 + random.below(20_000);
    let mut input = Vec::new();
    let mut space = vec![0; 1 + random.below(20_000)];
    loop {
        responder.pump().expect("the client is honest");
        if responder.completed >= drain_after {
            responder.connection.begin_drain(&mut responder.out);
        }
        if pipe.write_all(&responder.out).await.is_err() {
            return responder;
        }
        responder.out.clear();
        if responder.connection.is_drained() {
            return responder;
        }
        match pipe.read(&mut space).await {
            Ok(count) if count > 0 => input.extend_from_slice(&space[..count]),
            _ => return responder,
        }
        let consumed = responder.feed(&input, 0).expect("the client is honest");
        input.drain(..consumed);
    }
}

/// Sends one request with random fields and a random body, and checks its response. Returns false
/// if the client has reset the stream.
async fn exchange(mut client: SendRequest<Bytes>, mut random: Xorshift) -> bool {
    client = client.ready().await.expect("the connection is open");
    let size = if random.below(4) == 0 { random.below(300_000) } else { random.below(2_000) };
    let ends = if random.below(3) == 0 { "t" } else { "" };
    let body_bytes = if random.below(3) == 0 { random.below(200_000) } else { 0 };
    let uri = format!("http://a.example/{size}{ends}");
    let mut request = Request::builder().method("POST").uri(uri);
    let mut digest = 0;
    for _ in 0..random.below(20) {
        let name = format!("x-{}", random.below(12));
        let letters = if random.below(2) == 0 { "ab" } else { "~\u{7b}\\^z0" };
        let value = letters.repeat(random.below(40));
        digest = add(add(digest, name.as_bytes()), value.as_bytes());
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
        request = request.header(name, HeaderValue::from_str(&value).expect("a value"));
    }
    let request = request.body(()).expect("a request");
    let (response, mut body) = client.send_request(request, body_bytes == 0).expect("it is ready");
    if body_bytes > 0 {
        let gives_up = random.below(8) == 0;
        body.send_data(Bytes::from(vec![b'u'; body_bytes]), !gives_up).expect("an open stream");
        if gives_up {
            body.send_reset(h2::Reason::CANCEL);
            return false;
        }
    }
    if random.below(12) == 0 {
        return false;
    }
    let response = response.await.expect("a response");
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["x-received"], body_bytes.to_string());
    assert_eq!(response.headers()["x-digest"], digest.to_string());
    let mut arrived = 0;
    let mut body = response.into_body();
    while let Some(data) = body.data().await {
        let data = data.expect("the body arrives");
        arrived += data.len();
        assert!(data.iter().all(|byte| *byte == b'x'));
        body.flow_control().release_capacity(data.len()).expect("its own bytes");
    }
    assert_eq!(arrived, size, "the body's length");
    let trailers = body.trailers().await.expect("the stream ends");
    assert_eq!(trailers.is_some_and(|fields| fields["x-end"] == "yes"), !ends.is_empty());
    true
}

#[tokio::test(flavor = "current_thread")]
async fn an_independent_client_agrees() {
    let seed = std::env::var("FOREBAY_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or(0x9e37_79b9_7f4a_7c15);
    println!("FOREBAY_SEED={seed}");
    let mut random = Xorshift(seed);
    for round in 0..40 {
        let (near, far) = duplex(1 + random.below(100_000));
        let window = [1_000, 65_535, 1 << 20][random.below(3)];
        let table = [0, 100, 4096, 65_536][random.below(4)];
        let mut builder = Builder::new();
        builder.initial_window_size(window).header_table_size(table).enable_push(false);
        let local = LocalSet::new();
        let (for_server, mut for_client) = (random.clone(), random.clone());
        random.below(2);
        local
            .run_until(async move {
                let server = tokio::task::spawn_local(serve(far, for_server, usize::MAX));
                let (client, connection) = builder.handshake(near).await.expect("a handshake");
                let driver = tokio::task::spawn_local(connection);
                let exchanges: Vec<_> = (0..40)
                    .map(|_| {
                        for_client.below(2);
                        let random = for_client.clone();
                        tokio::task::spawn_local(exchange(client.clone(), random))
                    })
                    .collect();
                let mut whole = 0;
                for exchange in exchanges {
                    whole += usize::from(exchange.await.expect("no panic"));
                }
                assert!(whole >= 20, "round {round}: {whole} exchanges were whole");
                drop(client);
                driver.await.expect("no panic").expect("the connection ends well");
                let responder = server.await.expect("no panic");
                assert!(responder.completed >= whole, "round {round}");
                assert_eq!(responder.connection.streams_in_use(), 0, "round {round}");
            })
            .await;
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_client_sends_the_refused_requests_elsewhere() {
    LocalSet::new()
        .run_until(async {
            let (near, far) = duplex(1 << 16);
            let server = tokio::task::spawn_local(serve(far, Xorshift(7), 5));
            let (client, connection): (SendRequest<Bytes>, _) =
                h2::client::handshake(near).await.expect("a handshake");
            let driver = tokio::task::spawn_local(connection);
            let mut served = 0;
            loop {
                let Ok(mut ready) = client.clone().ready().await else {
                    break;
                };
                let request = Request::get("http://a.example/10").body(()).expect("a request");
                let Ok((response, _)) = ready.send_request(request, true) else {
                    break;
                };
                let response = pin!(response);
                assert_eq!(response.await.expect("a response").status(), 200);
                served += 1;
                assert!(served < 20, "the connection ends");
            }
            assert!(served >= 5);
            drop(client);
            driver.await.expect("no panic").expect("no error");
            assert!(server.await.expect("no panic").connection.is_drained());
        })
        .await;
}

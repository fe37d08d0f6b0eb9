//! HTTP/2 by prior knowledge: an independent client gets the responses that a client of HTTP/1.1
//! gets, and a hostile one reaches no origin.

use std::io::{Read, Write};
use std::net::TcpStream;

use bytes::Bytes;
use forebay_testkit::{Client, Origin, PATIENCE, Script, Server, ServerBuilder, eventually};
use h2::client::{Builder, SendRequest};
use http::{HeaderMap, Request};
use tokio::task::LocalSet;

/// The origin of these tests. `/stored/N` is storable and has N bytes, `/cut` breaks off, `/early`
/// sends an interim response, and `/trailers` ends with trailers. Any other path answers once the
/// request's body has been read.
fn origin() -> Origin {
    Origin::start(|request| {
        if let Some(size) = request.target.strip_prefix("/stored/") {
            let body = vec![b'x'; size.parse().expect("a size")];
            return Script::answer("200 OK", &["Cache-Control: max-age=3600"], &body);
        }
        match &request.target[..] {
            "/cut" => Script::new().send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc").close(),
            "/early" => Script::new()
                .send("HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n")
                .send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
            "/trailers" => Script::new().send(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n\
                 3\r\nabc\r\n0\r\nX-Sum: 7\r\n\r\n",
            ),
            _ => Script::answer("200 OK", &["Cache-Control: no-store"], b"read"),
        }
    })
}

fn start(origin: &Origin, flags: &[(&str, &str)]) -> Server {
    let builder = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay")).origin(origin);
    let builder = builder.flag("--workers", "1").flag("--http2", "true");
    flags.iter().fold(builder, |builder, (name, value)| builder.flag(name, value)).start()
}

/// Runs `test` with a connection of the `h2` crate, and ends the connection.
fn with_client<F: Future<Output = ()>>(
    server: &Server,
    builder: &Builder,
    test: impl FnOnce(SendRequest<Bytes>) -> F,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let local = LocalSet::new();
    local.block_on(&runtime.expect("an event loop"), async {
        let stream = tokio::net::TcpStream::connect(server.address()).await.expect("it listens");
        let (client, connection) = builder.handshake(stream).await.expect("a handshake");
        let driver = tokio::task::spawn_local(connection);
        test(client).await;
        driver.abort();
    });
}

struct Answer {
    status: u16,
    fields: HeaderMap,
    body: Vec<u8>,
    trailers: Option<HeaderMap>,
}

/// Sends a request with a body in pieces, and reads its response.
async fn ask(
    client: &SendRequest<Bytes>,
    request: Request<()>,
    pieces: &[&[u8]],
) -> Result<Answer, h2::Error> {
    let mut client = client.clone().ready().await?;
    let (response, mut body) = client.send_request(request, pieces.is_empty())?;
    for (at, piece) in pieces.iter().enumerate() {
        body.send_data(Bytes::copy_from_slice(piece), at + 1 == pieces.len())?;
    }
    let response = response.await?;
    let (status, fields) = (response.status().as_u16(), response.headers().clone());
    let (mut stream, mut body) = (response.into_body(), Vec::new());
    while let Some(data) = stream.data().await {
        let data = data?;
        stream.flow_control().release_capacity(data.len())?;
        body.extend_from_slice(&data);
    }
    Ok(Answer { status, fields, body, trailers: stream.trailers().await? })
}

fn get(path: &str) -> Request<()> {
    Request::get(format!("http://a.example{path}")).body(()).expect("a request")
}

#[test]
fn hits_and_misses_of_all_sizes_arrive_over_many_streams() {
    let origin = origin();
    let server = start(&origin, &[("--access-log", "-")]);
    let sizes = [0, 1, 1_000, 16_384, 70_000, 3_000_000];
    for window in [2_000, 65_535, 1 << 20] {
        with_client(&server, Builder::new().initial_window_size(window), |client| async move {
            let answers: Vec<_> = (0..60)
                .map(|number| {
                    let size = sizes[number % if window == 2_000 { 5 } else { 6 }];
                    let client = client.clone();
                    let path = format!("/stored/{size}");
                    tokio::task::spawn_local(async move {
                        (size, ask(&client, get(&path), &[]).await.expect("an answer"))
                    })
                })
                .collect();
            for answer in answers {
                let (size, answer) = answer.await.expect("no panic");
                assert_eq!(answer.status, 200);
                assert_eq!(answer.body.len(), size);
                assert_eq!(answer.fields["content-length"], size.to_string());
                assert!(!answer.fields.contains_key("transfer-encoding"));
            }
        });
    }
    assert_eq!(origin.request_count(), sizes.len(), "each is fetched once");
    assert_eq!(server.stat("http2_requests_total"), 180.0);
    assert_eq!(server.stat("http2_connections_total"), 3.0);
    assert_eq!(server.stat("http2_errors_total"), 0.0);
    eventually("the connections are closed", || server.stat("connections_open") == 0.0);
    let logged = || server.output().lines().filter(|line| line.contains("HTTP/2")).count();
    eventually("each request is logged", || logged() == 180);
}

#[test]
fn bodies_trailers_and_interim_responses_pass() {
    let origin = origin();
    let server = start(&origin, &[]);
    with_client(&server, &Builder::new(), |client| async move {
        let long = vec![b'u'; 300_000];
        for (length, pieces) in [
            (None, &[&b"abc"[..], b"", b"def"][..]),
            (Some("6"), &[b"abc", b"def"]),
            (None, &[&long]),
            (Some("300000"), &[&long]),
        ] {
            let mut request = Request::post("http://a.example/echo");
            if let Some(length) = length {
                request = request.header("content-length", length);
            }
            let request = request.body(()).expect("a request");
            let answer = ask(&client, request, pieces).await.expect("an answer");
            assert_eq!((answer.status, &answer.body[..]), (200, &b"read"[..]), "{length:?}");
        }
        let request = Request::get("http://a.example/trailers").header("te", "trailers");
        let answer = ask(&client, request.body(()).expect("a request"), &[]).await;
        let answer = answer.expect("an answer");
        assert_eq!((answer.status, &answer.body[..]), (200, &b"abc"[..]));
        assert_eq!(answer.trailers.expect("trailers")["x-sum"], "7");
        let head = Request::head("http://a.example/stored/500").body(()).expect("a request");
        let answer = ask(&client, head, &[]).await.expect("an answer");
        assert_eq!(
            (answer.fields["content-length"].as_bytes(), answer.body.len()),
            (&b"500"[..], 0)
        );
        let answer = ask(&client, get("/early"), &[]).await.expect("an answer");
        assert_eq!((answer.status, &answer.body[..]), (200, &b"ok"[..]));
    });
    let requests = origin.requests();
    assert!(origin.faults().is_empty(), "{:?}", origin.faults());
    assert!(requests.iter().all(|request| request.is_whole));
    let sizes: Vec<_> = origin.requests_below("/echo").iter().map(|one| one.body.len()).collect();
    assert_eq!(sizes, [6, 6, 300_000, 300_000]);
    let first = &origin.requests_below("/echo")[0];
    assert_eq!(first.body, b"abcdef");
}

#[test]
fn a_response_that_breaks_off_resets_its_stream_only() {
    let origin = origin();
    let server = start(&origin, &[]);
    with_client(&server, &Builder::new(), |client| async move {
        let error = ask(&client, get("/cut"), &[]).await.err().expect("no whole response");
        assert_eq!(error.reason(), Some(h2::Reason::INTERNAL_ERROR), "{error}");
        let answer = ask(&client, get("/stored/10"), &[]).await.expect("the others go on");
        assert_eq!(answer.body.len(), 10);
        let mut given_up = client.clone().ready().await.expect("an open connection");
        for _ in 0..50 {
            given_up = given_up.ready().await.expect("an open connection");
            let request = given_up.send_request(get("/stored/3000000"), true);
            drop(request.expect("an open connection"));
        }
        let answer = ask(&client, get("/stored/20"), &[]).await.expect("the others go on");
        assert_eq!(answer.body.len(), 20);
    });
    assert_eq!(server.stat("http2_errors_total"), 0.0);
}

#[test]
fn without_the_setting_the_preface_is_refused() {
    let origin = origin();
    let server = start(&origin, &[("--http2", "false")]);
    let mut client = Client::connect(server.address());
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert_eq!(client.response("GET").expect("an answer").status, 505);
}

#[test]
fn a_drain_serves_the_requests_under_way() {
    let origin = origin();
    let mut server = start(&origin, &[]);
    let id = server.id();
    with_client(&server, &Builder::new(), |client| async move {
        ask(&client, get("/stored/10"), &[]).await.expect("an answer");
        let mut asked = client.clone().ready().await.expect("an open connection");
        let request = Request::post("http://a.example/echo").body(()).expect("a request");
        let (response, mut body) = asked.send_request(request, false).expect("it is ready");
        body.send_data(Bytes::from_static(b"abc"), false).expect("an open stream");
        let sent = std::process::Command::new("kill").arg(id.to_string()).status();
        assert!(sent.expect("kill runs").success());
        // These requests are served, or refused by the second GOAWAY.
        for _ in 0..10_000 {
            if ask(&client, get("/stored/10"), &[]).await.is_err() {
                break;
            }
        }
        body.send_data(Bytes::from_static(b"def"), true).expect("an open stream");
        let response = response.await.expect("it is served");
        assert_eq!(response.status(), 200);
    });
    assert!(server.wait().expect("it ends").success());
}

/// A connection that writes raw frames.
struct RawClient(TcpStream);

impl RawClient {
    fn connect(server: &Server) -> RawClient {
        let mut stream = TcpStream::connect(server.address()).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").expect("an open connection");
        let mut client = RawClient(stream);
        client.frame(4, 0, 0, b"");
        client.frame(4, 1, 0, b"");
        client
    }

    /// Sends a frame; the server may have closed the connection.
    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        let length = payload.len();
        let mut frame = vec![(length >> 16) as u8, (length >> 8) as u8, length as u8, kind, flags];
        frame.extend([24, 16, 8, 0].map(|shift| (stream >> shift) as u8));
        frame.extend_from_slice(payload);
        self.0.write_all(&frame).is_ok()
    }

    /// Sends a request as literals without indexing.
    fn request(&mut self, stream: u32, lines: &[(&str, &str)]) {
        let mut block = Vec::new();
        for (name, value) in lines {
            block.push(0);
            for text in [name, value] {
                block.push(u8::try_from(text.len()).expect("a short text"));
                block.extend_from_slice(text.as_bytes());
            }
        }
        self.frame(1, 5, stream, &block);
    }

    /// Reads until a PING is answered, and returns the kinds and streams of all frames before.
    fn until_pong(&mut self) -> Vec<(u8, u32)> {
        self.frame(6, 0, 0, b"pingpong");
        let mut frames = Vec::new();
        loop {
            let mut head = [0; 9];
            self.0.read_exact(&mut head).expect("a frame");
            let [high, middle, low, kind, flags, stream @ ..] = head;
            let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
            let mut payload = vec![0; length];
            self.0.read_exact(&mut payload).expect("a whole frame");
            if (kind, flags) == (6, 1) {
                return frames;
            }
            let stream = stream.iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
            frames.push((kind, stream));
        }
    }
}

#[test]
fn no_request_that_would_smuggle_reaches_the_origin() {
    let origin = origin();
    let server = start(&origin, &[]);
    let base = [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/")];
    let with = |line: (&'static str, &'static str)| [&base[..], &[line]].concat();
    let instead = |line: (&'static str, &'static str)| -> Vec<(&str, &str)> {
        base.iter().map(|other| if other.0 == line.0 { line } else { *other }).collect()
    };
    let vectors = [
        with(("x", "a\r\nhost: b")),
        with(("x", "a\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n")),
        with(("x\r\nhost", "b")),
        with(("transfer-encoding", "chunked")),
        with(("content-length", "5")),
        with(("connection", "close")),
        with(("host", "b")),
        with(("Host", "a")),
        with((":path", "/")),
        instead((":path", "/ HTTP/1.1\r\nhost: a\r\n\r\nGET /evil")),
        instead((":path", "/ HTTP/1.1")),
        instead((":path", "http://b/")),
        instead((":method", "GET /evil HTTP/1.1\r\nhost: a\r\n\r\nGET")),
        instead((":authority", "a\r\nx: y")),
        instead((":authority", "u@a")),
        instead((":scheme", "https")),
    ];
    for lines in vectors {
        let mut client = RawClient::connect(&server);
        client.request(1, &lines);
        let frames = client.until_pong();
        assert!(frames.contains(&(3, 1)), "{lines:?} is not reset: {frames:?}");
    }
    assert_eq!(origin.requests().len(), 0, "{:?}", origin.requests());
}

#[test]
fn floods_end_their_connection_and_no_other() {
    let origin = origin();
    let server = start(&origin, &[]);
    let get = b"\x82\x86\x84\x01\x01a";
    type Flood = (&'static str, fn(&mut RawClient, u32, &[u8]) -> bool);
    let floods: [Flood; 4] = [
        ("PING", |client, _, _| client.frame(6, 0, 0, &[0; 8])),
        ("SETTINGS", |client, _, _| client.frame(4, 0, 0, b"\0\x04\0\0\xff\xff")),
        ("rapid reset", |client, round, get| {
            let stream = 2 * round + 1;
            client.frame(1, 5, stream, get) && client.frame(3, 0, stream, b"\0\0\0\x08")
        }),
        ("malformed requests", |client, round, _| client.frame(1, 5, 2 * round + 1, b"\x82")),
    ];
    for (name, flood) in floods {
        let before = server.stat("http2_errors_total");
        let mut client = RawClient::connect(&server);
        let mut reader = client.0.try_clone().expect("few files are open");
        // The answers are read, so that only the budget ends the flood.
        let reading = std::thread::spawn(move || reader.read_to_end(&mut Vec::new()));
        for round in 0..20_000 {
            if !flood(&mut client, round, get) {
                break;
            }
        }
        eventually(name, || server.stat("http2_errors_total") == before + 1.0);
        drop(client);
        let _ = reading.join().expect("no panic");
        with_client(&server, &Builder::new(), |client| async move {
            let answer =
                ask(&client, self::get("/stored/10"), &[]).await.expect("another client is served");
            assert_eq!(answer.status, 200);
        });
    }
    assert!(server.stat("http2_glitches_total") > 400.0);
}

#[test]
fn an_idle_connection_ends_after_its_time() {
    let origin = origin();
    let server = start(&origin, &[("--idle-ms-max", "200")]);
    let mut client = RawClient::connect(&server);
    client.request(
        1,
        &[(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/stored/5")],
    );
    let mut rest = Vec::new();
    client.0.read_to_end(&mut rest).expect("the server closes the connection");
    assert!(rest.windows(5).any(|part| part == b"xxxxx"));
    eventually("it is counted", || server.stat("idle_timeouts_total") == 1.0);
}

//! HTTP/2 by prior knowledge: an independent client gets the responses that a client of HTTP/1.1
//! gets, and a hostile one reaches no origin.

use std::io::{Read, Write};

use bytes::Bytes;
use forebay_testkit::server::Folder;
use forebay_testkit::{Client, Origin, PATIENCE, Script, Server, ServerBuilder, eventually};
use h2::client::Builder;
use http::Request;

use crate::common::{
    RawClient, ask, assert_floods_are_bounded, assert_silent_client_is_served, frame_bytes, get,
    origin, with_client,
};

fn start(origin: &Origin, flags: &[(&str, &str)]) -> Server {
    let builder = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay")).origin(origin);
    let builder = builder.flag("--workers", "1").flag("--http2", "true");
    flags.iter().fold(builder, |builder, (name, value)| builder.flag(name, value)).start()
}

#[test]
fn a_request_has_the_route_whose_conditions_it_meets() {
    let origin = origin();
    let config = format!(
        "workers = 1\nhttp2 = true\n\
         [[site]]\nname = 'a'\nnames = ['*']\norigin = 'http://{}'\n\
         [[site.route]]\npath_prefix = '/'\nwith_cookies = ['beta=1']\nrespond = '200 beta'\n\
         [[site.route]]\npath_prefix = '/'\nwith_query = ['v=2']\nrespond = '200 query'\n\
         [[site.route]]\npath_prefix = '/'\nmethods = ['PUT']\nrespond = '200 put'\n",
        origin.address()
    );
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay")).config(&config).start();
    with_client(server.address(), &Builder::new(), |client| async move {
        for (method, path, cookies, expected) in [
            // Browsers send each cookie in a line of its own.
            ("GET", "/", &["a=1", "beta=1", "c=2"][..], "beta"),
            ("GET", "/", &["a=1; be%74a=1"], "beta"),
            ("GET", "/", &["a=1", "beta=2"], "read"),
            ("GET", "/?a&v=2", &["a=1"], "query"),
            ("PUT", "/", &[], "put"),
            ("POST", "/", &[], "read"),
        ] {
            let mut request = get("http", path);
            *request.method_mut() = method.parse().expect("a method");
            for cookie in cookies {
                request.headers_mut().append("cookie", cookie.parse().expect("a value"));
            }
            let answer = ask(&client, request, &[]).await.expect("an answer");
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            assert!(text.starts_with(expected), "{method} {path} {cookies:?}: {text}");
        }
    });
}

/// A browser sends many requests with one password at the same time; they wait for one check.
#[test]
fn only_users_are_served_and_their_streams_share_the_check_of_the_password() {
    let (origin, folder) = (origin(), Folder::new());
    let users = folder.path("users");
    let user = "ann:$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n";
    std::fs::write(&users, user).expect("it is written");
    let server = start(&origin, &[("--basic-auth", &users.display().to_string())]);
    with_client(server.address(), &Builder::new(), |client| async move {
        let none = [("", 401)].repeat(20);
        // `ann:wrong` and `ann:secret`
        let wrong = [("Basic YW5uOndyb25n", 401)].repeat(20);
        let right = [("Basic YW5uOnNlY3JldA==", 200)].repeat(20);
        let asked: Vec<_> = [none, wrong, right]
            .concat()
            .into_iter()
            .map(|(value, status)| {
                let (client, mut request) = (client.clone(), get("http", "/stored/1"));
                if !value.is_empty() {
                    let value = value.parse().expect("a value");
                    request.headers_mut().insert("authorization", value);
                }
                tokio::task::spawn_local(async move {
                    (status, ask(&client, request, &[]).await.expect("an answer"))
                })
            })
            .collect();
        for answer in asked {
            let (status, answer) = answer.await.expect("no panic");
            assert_eq!(answer.status, status);
            assert_eq!(answer.fields.contains_key("www-authenticate"), status == 401);
        }
    });
    assert_eq!(origin.request_count(), 1, "one stored response serves all users");
    assert_eq!(server.stat("password_checks_refused_total"), 0.0);
}

/// Streams count like requests of other connections of the client.
#[test]
fn a_rate_limit_counts_streams() {
    let origin = origin();
    let server = start(&origin, &[("--rate-limit", "5/1h")]);
    with_client(server.address(), &Builder::new(), |client| async move {
        let asked = (0..20).map(|_| {
            let client = client.clone();
            tokio::task::spawn_local(async move {
                ask(&client, get("http", "/stored/1"), &[]).await.expect("an answer")
            })
        });
        let asked: Vec<_> = asked.collect();
        let mut admitted = 0;
        for answer in asked {
            let answer = answer.await.expect("no panic");
            match answer.status {
                200 => admitted += 1,
                429 => assert_eq!(answer.fields["ratelimit-policy"], "\"address\";q=5;w=3600"),
                other => panic!("status {other}"),
            }
        }
        assert_eq!(admitted, 5);
    });
    let response = Client::connect(server.address()).ask("GET", "/stored/1", &[]);
    assert_eq!(response.expect("an answer").status, 429);
}

#[test]
fn hits_and_misses_of_all_sizes_arrive_over_many_streams() {
    let origin = origin();
    let server = start(&origin, &[("--access-log", "-")]);
    let sizes = [0, 1, 1_000, 16_384, 70_000, 3_000_000];
    for window in [2_000, 65_535, 1 << 20] {
        with_client(
            server.address(),
            Builder::new().initial_window_size(window),
            |client| async move {
                let answers: Vec<_> = (0..60)
                    .map(|number| {
                        let size = sizes[number % if window == 2_000 { 5 } else { 6 }];
                        let client = client.clone();
                        let path = format!("/stored/{size}");
                        tokio::task::spawn_local(async move {
                            (size, ask(&client, get("http", &path), &[]).await.expect("an answer"))
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
            },
        );
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
fn a_client_that_sends_nothing_while_it_reads_is_served() {
    let origin = origin();
    let server = start(&origin, &[]);
    assert_silent_client_is_served(server.address(), "http");
}

#[test]
fn bodies_trailers_and_interim_responses_pass() {
    let origin = origin();
    let server = start(&origin, &[]);
    with_client(server.address(), &Builder::new(), |client| async move {
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
        let answer = ask(&client, get("http", "/early"), &[]).await.expect("an answer");
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
    with_client(server.address(), &Builder::new(), |client| async move {
        let error = ask(&client, get("http", "/cut"), &[]).await.err().expect("no whole response");
        assert_eq!(error.reason(), Some(h2::Reason::INTERNAL_ERROR), "{error}");
        let answer = ask(&client, get("http", "/stored/10"), &[]).await.expect("the others go on");
        assert_eq!(answer.body.len(), 10);
        let mut given_up = client.clone().ready().await.expect("an open connection");
        for _ in 0..50 {
            given_up = given_up.ready().await.expect("an open connection");
            let request = given_up.send_request(get("http", "/stored/3000000"), true);
            drop(request.expect("an open connection"));
        }
        let answer = ask(&client, get("http", "/stored/20"), &[]).await.expect("the others go on");
        assert_eq!(answer.body.len(), 20);
    });
    assert_eq!(server.stat("http2_errors_total"), 0.0);
}

/// Frames that arrive together are read together, so no stream has begun to wait before its reset.
#[test]
fn a_stream_that_is_reset_at_once_causes_no_request_to_the_origin() {
    let origin = origin();
    let server = start(&origin, &[]);
    let mut client = RawClient::connect(server.address());
    let mut burst = Vec::new();
    for stream in (1..100).step_by(2) {
        // GET, http, the authority `a` and the path `/read`
        let block = b"\x82\x86\x01\x01a\x04\x05/read";
        burst.extend(frame_bytes(1, 5, stream, block));
        burst.extend(frame_bytes(3, 0, stream, b"\0\0\0\x08"));
    }
    client.0.write_all(&burst).expect("an open connection");
    client.until_pong();
    with_client(server.address(), &Builder::new(), |client| async move {
        assert_eq!(
            ask(&client, get("http", "/stored/10"), &[]).await.expect("an answer").status,
            200
        );
    });
    assert_eq!(origin.request_count(), 1, "only the stream that was not reset");
    assert_eq!(server.stat("http2_resets_total"), 50.0);
}

#[test]
fn a_stream_that_is_reset_is_no_longer_in_progress() {
    let origin = origin();
    let server = start(&origin, &[("--concurrency-limit", "1 by=route")]);
    with_client(server.address(), &Builder::new(), |client| async move {
        let mut asked = client.clone().ready().await.expect("an open connection");
        let request = Request::post("http://a.example/echo").body(()).expect("a request");
        let (_response, mut body) = asked.send_request(request, false).expect("it is ready");
        body.send_data(Bytes::from_static(b"abc"), false).expect("an open stream");
        let status =
            || async { ask(&client, get("http", "/echo"), &[]).await.expect("an answer").status };
        assert_eq!(status().await, 503);
        body.send_reset(h2::Reason::CANCEL);
        for _ in 0..10_000 {
            if status().await == 200 {
                return;
            }
        }
        panic!("the request is still in progress");
    });
}

#[test]
fn a_quiet_stream_ends_at_the_origin_soon_after_its_client_has_reset_it() {
    let origin = Origin::start(|_| {
        let head =
            "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nTransfer-Encoding: chunked\r\n\r\n";
        Script::new().send(format!("{head}2\r\nab\r\n")).stall()
    });
    let server = start(&origin, &[("--origin-idle-ms-max", "10m")]);
    let open = || origin.connections().iter().filter(|one| !one.is_closed).count();
    with_client(server.address(), &Builder::new(), |client| async move {
        let mut asked = client.clone().ready().await.expect("an open connection");
        let (response, mut body) =
            asked.send_request(get("http", "/events"), true).expect("it is ready");
        assert_eq!(response.await.expect("a head").status(), 200);
        assert_eq!(open(), 1);
        body.send_reset(h2::Reason::CANCEL);
        // The connection stays open, and its task goes on.
        let ended = async {
            while open() == 1 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, ended).await.expect("the fetch ends");
    });
    assert_eq!(server.stat("clients_left_total"), 1.0);
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
    with_client(server.address(), &Builder::new(), |client| async move {
        ask(&client, get("http", "/stored/10"), &[]).await.expect("an answer");
        let mut asked = client.clone().ready().await.expect("an open connection");
        let request = Request::post("http://a.example/echo").body(()).expect("a request");
        let (response, mut body) = asked.send_request(request, false).expect("it is ready");
        body.send_data(Bytes::from_static(b"abc"), false).expect("an open stream");
        let sent = std::process::Command::new("kill").arg(id.to_string()).status();
        assert!(sent.expect("kill runs").success());
        // These requests are served, or refused by the second GOAWAY.
        for _ in 0..10_000 {
            if ask(&client, get("http", "/stored/10"), &[]).await.is_err() {
                break;
            }
        }
        body.send_data(Bytes::from_static(b"def"), true).expect("an open stream");
        let response = response.await.expect("it is served");
        assert_eq!(response.status(), 200);
    });
    assert!(server.wait().expect("it ends").success());
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
        let mut client = RawClient::connect(server.address());
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
    assert_floods_are_bounded(&server, server.address(), "http");
}

#[test]
fn an_idle_connection_ends_after_its_time() {
    let origin = origin();
    let server = start(&origin, &[("--idle-ms-max", "200")]);
    let mut client = RawClient::connect(server.address());
    client.request(
        1,
        &[(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/stored/5")],
    );
    let mut rest = Vec::new();
    client.0.read_to_end(&mut rest).expect("the server closes the connection");
    assert!(rest.windows(5).any(|part| part == b"xxxxx"));
    eventually("it is counted", || server.stat("idle_timeouts_total") == 1.0);
}

#[test]
fn streams_have_the_sites_of_their_address() {
    let origin = origin();
    let sockets = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").expect("a port"));
    let [first, second] = sockets.map(|socket| socket.local_addr().expect("it is bound"));
    let config = format!(
        "[[site]]\nname = 's'\nnames = ['a.example']\norigin = 'http://{}'\nlisten = '{second}'\n",
        origin.address()
    );
    let builder =
        ServerBuilder::new(env!("CARGO_BIN_EXE_forebay")).config(&config).flag("--http2", "true");
    let _server = builder.flag("--listen", &format!("{first},{second}")).start();
    for (address, expected) in [(first, 421), (second, 200)] {
        with_client(address, &Builder::new(), |client| async move {
            let answer = ask(&client, get("http", "/stored/10"), &[]).await.expect("an answer");
            assert_eq!(answer.status, expected, "{address}");
        });
    }
}

#[test]
fn connect_is_refused_over_http2_although_its_site_has_tunnels() {
    let origin = origin();
    let server = start(&origin, &[("--connect-ports", "443")]);
    with_client(server.address(), &Builder::new(), |client| async move {
        let early: &[&[u8]] = &[b"early"];
        for pieces in [&[], early] {
            let request = Request::connect("a.example:443").body(()).expect("a request");
            let answer = ask(&client, request, pieces).await.expect("an answer");
            assert_eq!(answer.status, 501, "{pieces:?}");
        }
    });
    assert_eq!((server.stat("tunnels_total"), origin.request_count()), (0.0, 0));
}

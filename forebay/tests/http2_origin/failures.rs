//! Origins that refuse requests, end connections, and violate the protocol.

use std::net::SocketAddr;
use std::time::Duration;

use forebay_testkit::clock::holds_within;
use forebay_testkit::{Client, Server, ServerBuilder, eventually};

use crate::common::{END_STREAM, PROGRAM, RawConnection, ask, builder, raw_origin};

/// Answers every request with the number of the connection.
fn answer_all(mut connection: RawConnection) {
    while let Some(stream) = connection.request() {
        let text = connection.number.to_string();
        connection.answer(stream, text.as_bytes());
    }
}

const BODY: &str = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";

fn post(server: &Server) -> (u16, String) {
    let mut client = Client::connect(server.address());
    client.send(BODY);
    let answer = client.response("POST").expect("an answer");
    (answer.status, answer.text())
}

#[test]
fn a_refused_stream_is_sent_again_with_its_body() {
    let origin = raw_origin(|mut connection| {
        let mut count = 0;
        while let Some(stream) = connection.request() {
            count += 1;
            match count % 2 {
                1 => connection.reset(stream, 7),
                _ => connection.answer(stream, b"second"),
            }
        }
    });
    let server = builder(origin).start();
    assert_eq!(ask(&server, "GET", "/a", &[]).text(), "second");
    assert_eq!(post(&server), (200, "second".to_owned()));
    assert_eq!(server.stat("origin_http2_refused_total"), 2.0);
    assert_eq!(server.stat("origin_connections_total"), 1.0);
}

/// Returns the body of the request that is refused twice. Its first chunk is one byte longer than
/// the first window of a stream.
fn long_body() -> Vec<u8> {
    (0..(65_536 + 4 * 16_384)).map(|number: u32| (number / 251) as u8).collect()
}

#[test]
fn a_request_that_is_refused_twice_loses_no_part_of_its_body() {
    let origin = raw_origin(|mut connection| {
        connection.widen(0, 1 << 20);
        let (first, _) = connection.body(65_535).expect("a request");
        // The server takes a second piece for this stream, and only one for the next stream.
        connection.widen(first, 1_000);
        connection.body(1_000).expect("a second piece");
        connection.reset(first, 7);
        let (second, _) = connection.body(65_535).expect("a second attempt");
        connection.reset(second, 7);
        connection.set(4, 1 << 20);
        let (third, body) = connection.body(usize::MAX).expect("a third attempt");
        let is_whole = body == long_body();
        connection.answer(third, format!("{} {is_whole}", body.len()).as_bytes());
    });
    let server = builder(origin).start();
    let mut client = Client::connect(server.address());
    client.send("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    let body = long_body();
    let (first, rest) = body.split_at(65_536);
    for piece in std::iter::once(first).chain(rest.chunks(16_384)) {
        client.send(format!("{:x}\r\n", piece.len()));
        client.send(piece);
        client.send("\r\n");
    }
    client.send("0\r\n\r\n");
    let answer = client.response("POST").expect("an answer");
    assert_eq!((answer.status, answer.text()), (200, format!("{} true", body.len())));
}

#[test]
fn an_origin_that_permits_no_streams_for_a_while_gets_requests_again() {
    let origin = raw_origin(|mut connection| {
        if connection.number > 0 {
            return answer_all(connection);
        }
        let stream = connection.request().expect("a request");
        connection.set(3, 0);
        connection.answer(stream, b"the last one");
        while connection.read().is_some() {}
    });
    let server = builder(origin).start();
    assert_eq!(ask(&server, "GET", "/a", &[]).text(), "the last one");
    for _ in 0..2 {
        assert_eq!(ask(&server, "GET", "/b", &[]).text(), "1");
    }
}

#[test]
fn an_origin_that_refuses_everything_gets_few_requests() {
    let origin = raw_origin(|mut connection| {
        while let Some(stream) = connection.request() {
            connection.reset(stream, 7);
        }
    });
    let server = builder(origin).start();
    let answer = ask(&server, "GET", "/a", &[]);
    assert_eq!(answer.status, 502);
    assert!(answer.text().contains("without processing it"), "{}", answer.text());
    assert_eq!(server.stat("origin_http2_refused_total"), 3.0);
    // Only the first repeat is free.
    let server = builder(origin).flag("--origin-retry-percent", "0").start();
    assert_eq!(ask(&server, "GET", "/a", &[]).status, 502);
    assert_eq!(ask(&server, "GET", "/b", &[]).status, 502);
    assert_eq!(server.stat("origin_http2_refused_total"), 4.0);
}

#[test]
fn other_resets_are_not_sent_again_unless_the_request_may_be_repeated() {
    let origin = raw_origin(|mut connection| {
        let mut count = 0;
        while let Some(stream) = connection.request() {
            count += 1;
            match count {
                1 => connection.answer(stream, b"first"),
                2 | 3 => connection.reset(stream, 2),
                _ => connection.answer(stream, b"again"),
            }
        }
    });
    let server = builder(origin).start();
    assert_eq!(ask(&server, "GET", "/a", &[]).text(), "first");
    assert_eq!(post(&server).0, 502);
    assert_eq!(ask(&server, "GET", "/c", &[]).text(), "again");
}

#[test]
fn a_goaway_loses_no_request() {
    let origin = raw_origin(|mut connection| {
        if connection.number > 0 {
            return answer_all(connection);
        }
        let first = connection.request().expect("a request");
        let second = connection.request().expect("a second one");
        connection.go_away(first);
        connection.answer(first, b"processed");
        assert!(second > first);
        // The connection stays open until the server closes it.
        while connection.read().is_some() {}
    });
    let server = builder(origin).start();
    let mut clients = [(), ()].map(|()| Client::connect(server.address()));
    for (client, count) in clients.iter_mut().zip([1.0, 2.0]) {
        client.send(BODY);
        eventually("it is sent", || server.stat("origin_http2_requests_total") >= count);
    }
    let answers = clients.map(|mut client| client.response("POST").expect("an answer").text());
    assert_eq!(answers, ["processed", "1"]);
    assert_eq!(ask(&server, "GET", "/later", &[]).text(), "1");
    eventually("it is counted", || server.stat("origin_http2_goaways_total") == 1.0);
    eventually("it is closed", || server.stat("origin_connections_open") == 1.0);
}

#[test]
fn a_connection_that_ends_costs_only_requests_that_must_not_be_repeated() {
    let origin = raw_origin(|mut connection| {
        if connection.number > 1 {
            return answer_all(connection);
        }
        let Some(stream) = connection.request() else { return };
        if connection.number == 0 {
            connection.answer(stream, b"0");
        }
        connection.request();
        connection.close();
    });
    let server = builder(origin).start();
    assert_eq!(ask(&server, "GET", "/a", &[]).text(), "0");
    assert_eq!(post(&server).0, 502);
    // The connection that is open now ends with this request.
    let mut first = Client::connect(server.address());
    first.send("GET /b HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("it is sent", || server.stat("origin_http2_requests_total") == 3.0);
    let second = ask(&server, "GET", "/c", &[]).text();
    let first = first.response("GET").expect("an answer").text();
    // One of the requests may be the reason, so no other request shares its new connection.
    let (low, high) = if first < second { (first, second) } else { (second, first) };
    assert_eq!((&*low, &*high), ("2", "3"));
    assert_eq!(ask(&server, "GET", "/d", &[]).text(), "4");
}

/// An origin whose responses to the first requests are broken by `answer`.
fn breaking(answer: fn(RawConnection)) -> (Server, SocketAddr) {
    let origin = raw_origin(answer);
    (builder(origin).start(), origin)
}

const STORABLE: (&str, &str) = ("cache-control", "max-age=60");

#[test]
fn a_body_that_is_incomplete_is_cut_off_and_never_stored() {
    let origins: [fn(RawConnection); 5] = [
        |mut connection| {
            while let Some(stream) = connection.request() {
                connection.head(stream, false, &[(":status", "200"), STORABLE]);
                connection.frame(0, 0, stream, b"half");
                connection.reset(stream, 8);
            }
        },
        |mut connection| {
            while let Some(stream) = connection.request() {
                connection.head(stream, false, &[(":status", "200"), STORABLE]);
                connection.frame(0, 0, stream, b"half");
                connection.reset(stream, 0);
            }
        },
        |mut connection| {
            while let Some(stream) = connection.request() {
                let length = ("content-length", "9");
                connection.head(stream, false, &[(":status", "200"), STORABLE, length]);
                connection.frame(0, END_STREAM, stream, b"half");
            }
        },
        |mut connection| {
            while let Some(stream) = connection.request() {
                let length = ("content-length", "2");
                connection.head(stream, false, &[(":status", "200"), STORABLE, length]);
                connection.frame(0, END_STREAM, stream, b"half");
            }
        },
        |mut connection| {
            if let Some(stream) = connection.request() {
                connection.head(stream, false, &[(":status", "200"), STORABLE]);
                connection.frame(0, 0, stream, b"half");
                connection.close();
            }
        },
    ];
    for (number, answer) in origins.into_iter().enumerate() {
        let (server, _) = breaking(answer);
        for turn in 1..3 {
            let mut client = Client::connect(server.address());
            let answer = client.ask("GET", "/a", &[]);
            let is_whole = answer.is_ok_and(|answer| answer.status == 200);
            assert!(!is_whole, "{number}: the incomplete response looks complete");
            assert_eq!(server.stat("origin_requests_total"), f64::from(turn), "{number}: a hit");
        }
        assert_eq!(server.stat("hits_total"), 0.0, "{number}");
    }
}

#[test]
fn content_where_none_may_be_is_refused() {
    let (server, _) = breaking(|mut connection| {
        while let Some(stream) = connection.request() {
            connection.head(stream, false, &[(":status", "204")]);
            connection.frame(0, END_STREAM, stream, b"HTTP/1.1 200 OK\r\n\r\n");
        }
    });
    let mut client = Client::connect(server.address());
    client.send("GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let text = String::from_utf8_lossy(&client.rest().0).into_owned();
    assert!(!text.contains("HTTP/1.1 200 OK"), "{text}");
}

#[test]
fn heads_that_are_too_large_or_malformed_are_refused() {
    let origin = raw_origin(|mut connection| {
        let mut count = 0;
        while let Some(stream) = connection.request() {
            count += 1;
            let long = "x".repeat(30_000);
            let lines = [(":status", "200"), ("a", &*long), ("b", &*long), ("c", &*long)];
            match count {
                1 => connection.head(stream, true, &lines),
                2 => connection.head(stream, true, &[(":status", "200"), ("connection", "x")]),
                3 => connection.head(stream, true, &[(":status", "101")]),
                4 => connection.head(stream, true, &[("a", "no status")]),
                _ => connection.answer(stream, b"well"),
            }
        }
    });
    let server = builder(origin).start();
    for reason in ["too large", "malformed", "", "malformed"] {
        let answer = ask(&server, "POST", "/a", &[]);
        assert_eq!(answer.status, 502, "{reason}: {}", answer.text());
        assert!(answer.text().contains(reason), "{reason}: {}", answer.text());
    }
    assert_eq!(ask(&server, "GET", "/b", &[]).text(), "well");
}

#[test]
fn malformed_heads_retire_a_connection_before_they_end_it_for_others() {
    let origin = raw_origin(|mut connection| {
        if connection.number > 0 {
            return answer_all(connection);
        }
        while let Some(stream) = connection.request() {
            connection.head(stream, true, &[("a", "no status")]);
        }
    });
    let server = builder(origin).start();
    let mut refused = 0;
    let last = loop {
        let answer = ask(&server, "POST", "/a", &[]);
        if answer.status == 200 {
            break answer.text();
        }
        refused += 1;
        assert!(refused <= 100, "the connection takes too many requests");
    };
    assert_eq!((refused, last), (100, "1".to_owned()));
}

#[test]
fn trailers_that_are_too_large_or_malformed_break_the_body_off() {
    let origin = raw_origin(|mut connection| {
        while let Some(stream) = connection.request() {
            let (long, longest) = ("x".repeat(40_000), "x".repeat(270_000));
            connection.head(stream, false, &[(":status", "200"), STORABLE]);
            connection.frame(0, 0, stream, b"body");
            match connection.number {
                0 => connection.head(stream, true, &[("a", &*long), ("b", &*long), ("c", "d")]),
                // The crate leaves out a field of this size, and all fields behind it.
                1 => connection.head(stream, true, &[("a", &*longest)]),
                2 => connection.head(stream, true, &[("a", "b"), ("c", &*longest), ("d", "e")]),
                _ => connection.head(stream, true, &[("a", "b")]),
            }
            connection.go_away(stream);
        }
    });
    let server = builder(origin).start();
    for number in 0..3 {
        let mut client = Client::connect(server.address());
        // The fault may arrive before the head of the answer has left.
        let broken = client.ask("GET", "/a", &["TE: trailers"]);
        let looks_whole = broken.is_ok_and(|answer| answer.status != 502);
        assert!(!looks_whole, "{number}: the body looks whole");
    }
    assert_eq!(server.stat("origin_bad_answers_total"), 3.0);
    let answer = ask(&server, "GET", "/a", &["TE: trailers"]);
    assert_eq!((answer.status, answer.text()), (200, "body".to_owned()));
    assert_eq!(server.stat("hits_total"), 0.0);
}

#[test]
fn an_origin_that_is_silent_gets_a_new_connection() {
    let origin = raw_origin(|mut connection| match connection.number {
        0 => while connection.read().is_some() {},
        _ => answer_all(connection),
    });
    let server = builder(origin).flag("--origin-first-byte-ms-max", "1500ms").start();
    assert_eq!(ask(&server, "GET", "/a", &[]).status, 504);
    assert_eq!(ask(&server, "GET", "/b", &[]).text(), "1");
}

#[test]
fn a_connection_that_ends_is_one_failure_of_its_origin() {
    let origins = [(), ()].map(|()| {
        raw_origin(|mut connection| {
            if connection.number > 0 {
                return answer_all(connection);
            }
            for _ in 0..3 {
                connection.request();
            }
            connection.close();
        })
    });
    let config = format!(
        "[[site]]\nname = \"a\"\nnames = [\"*\"]\norigin_http2 = \"always\"\n\
         origin = [\"http://{}\", \"http://{}\"]\n",
        origins[0], origins[1]
    );
    let server = ServerBuilder::new(PROGRAM).config(&config).flag("--workers", "1").start();
    let clients: Vec<_> = (1..6)
        .map(|count| {
            let mut client = Client::connect(server.address());
            client.send(BODY);
            let is_sent = || server.stat("origin_http2_requests_total") >= f64::from(count);
            eventually("it is sent", is_sent);
            client
        })
        .collect();
    // One of the two origins has got three of five requests.
    eventually("they fail", || server.stat("origin_bad_answers_total") >= 3.0);
    assert_eq!(server.stat("origin_ejections_total"), 0.0);
    drop(clients);
}

#[test]
fn an_origin_that_reads_nothing_does_not_keep_its_connection_open() {
    let origin = raw_origin(|mut connection| {
        connection.set(4, 1 << 30);
        connection.widen(0, 1 << 30);
        let (_sender, never) = std::sync::mpsc::channel::<()>();
        let _ = never.recv();
    });
    let server = builder(origin).flag("--origin-first-byte-ms-max", "1500ms").start();
    let mut client = Client::connect(server.address());
    client.send(format!("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", 64 << 20));
    let piece = vec![b'x'; 1 << 20];
    while client.send(&piece) {}
    drop(client);
    let is_closed = || server.stat("origin_connections_open") == 0.0;
    assert!(holds_within(Duration::from_secs(30), is_closed), "the connection stays open");
}

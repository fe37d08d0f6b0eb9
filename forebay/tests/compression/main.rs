//! Compression of stored responses over real sockets: every body is decoded and compared with the
//! origin's.

mod arriving;
mod decompressing;
mod sharing;

use std::io::Read;

use forebay_testkit::{Client, Origin, Request, Response, Script, Server, ServerBuilder};

const COMPRESS: &str = "compress = [\"zstd\", \"br\", \"gzip\"]\n";

/// Returns a text of this length whose lines contain different numbers, so that a part in a wrong
/// place is noticed.
fn text(bytes: usize) -> Vec<u8> {
    let mut text = Vec::new();
    let mut number = 7_u64;
    while text.len() < bytes {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        text.extend(format!("<p class=\"row\">{} of many</p>\n", number >> 44).bytes());
    }
    text.truncate(bytes);
    text
}

fn page(fields: &[&str], body: &[u8]) -> Script {
    let mut all = vec!["Content-Type: text/html; charset=utf-8"];
    all.extend(fields);
    if !fields.iter().any(|field| field.starts_with("Cache-Control")) {
        all.push("Cache-Control: max-age=60");
    }
    Script::answer("200 OK", &all, body)
}

fn start(origin: &Origin, settings: &str) -> Server {
    let site = "[[site]]\nname = \"a\"\nnames = [\"*\"]\n";
    let config = format!("{site}origin = \"http://{}\"\n{settings}", origin.address());
    let builder = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay"));
    builder.config(&config).flag("--workers", "1").start()
}

fn ask(server: &Server, target: &str, fields: &[&str]) -> Response {
    let mut client = Client::connect(server.address());
    client.ask("GET", target, fields).expect("an answer")
}

fn accepting(server: &Server, target: &str, codings: &str) -> Response {
    ask(server, target, &[&format!("Accept-Encoding: {codings}")])
}

/// Decodes the body of a response by its Content-Encoding.
fn decoded(response: &Response) -> Vec<u8> {
    assert!(response.is_whole, "{response:?}");
    let (bytes, mut body) = (&*response.body, Vec::new());
    match response.field("content-encoding") {
        None => return bytes.to_vec(),
        Some("zstd") => body = zstd::decode_all(bytes).expect("zstd"),
        Some("br") => {
            brotli::Decompressor::new(bytes, 4096).read_to_end(&mut body).expect("br");
        }
        Some("gzip") => {
            flate2::read::GzDecoder::new(bytes).read_to_end(&mut body).expect("gzip");
        }
        Some(other) => panic!("{other}"),
    }
    body
}

fn is_hit(response: &Response) -> bool {
    response.field("cache-status").is_some_and(|status| status.contains("; hit"))
}

fn accept_encoding(request: &Request) -> &str {
    request.head.field("accept-encoding").unwrap_or("none")
}

/// Each row is the field of a client, its normal form and the coding of its response.
#[test]
fn a_client_gets_the_coding_that_it_prefers_and_shares_it_with_its_like() {
    let body = text(200_000);
    let cases: &[(&str, &str, Option<&str>)] = &[
        ("gzip, deflate, br, zstd", "br, gzip, zstd", Some("zstd")),
        ("zstd, br,gzip", "br, gzip, zstd", Some("zstd")),
        ("*", "br, gzip, zstd", Some("zstd")),
        ("identity;q=0, *;q=0.5", "br, gzip, zstd", Some("zstd")),
        ("br;q=0.9, gzip;q=0.9, zstd;q=0.1", "br, gzip", Some("br")),
        ("gzip, br", "br, gzip", Some("br")),
        ("br", "br", Some("br")),
        ("BR;q=0.3, identity;q=0.2", "br", Some("br")),
        ("gzip", "gzip", Some("gzip")),
        ("gzip;q=1.0, *;q=0.5", "gzip", Some("gzip")),
        ("identity;q=0, gzip;q=0.001", "gzip", Some("gzip")),
        ("gzip;q=0.5, identity", "identity", None),
        ("identity", "identity", None),
        ("identity;q=0", "identity", None),
        ("*;q=0", "identity", None),
        ("gzip;q=0, br;q=0, zstd;q=0", "identity", None),
        ("deflate", "identity", None),
        ("gzip;q=2", "identity", None),
        ("", "identity", None),
    ];
    for is_reversed in [false, true] {
        let sent = body.clone();
        let origin = Origin::start(move |_| page(&["ETag: \"v1\"", "Accept-Ranges: bytes"], &sent));
        let server = start(&origin, COMPRESS);
        let mut order = cases.to_vec();
        if is_reversed {
            order.reverse();
        }
        let mut forms = Vec::new();
        for (field, form, coding) in order {
            let response = accepting(&server, "/a", field);
            let case = format!("{field:?}: {:?}", response.head);
            assert_eq!(response.status, 200, "{case}");
            assert_eq!(response.field("content-encoding"), coding, "{case}");
            assert!(decoded(&response) == body, "{case}");
            assert_eq!(response.field("vary"), Some("accept-encoding"), "{case}");
            let tag = if coding.is_some() { "W/\"v1\"" } else { "\"v1\"" };
            assert_eq!(response.field("etag"), Some(tag), "{case}");
            let ranges = if coding.is_some() { "none" } else { "bytes" };
            assert_eq!(response.field("accept-ranges"), Some(ranges), "{case}");
            assert_eq!(is_hit(&response), forms.contains(&form), "{case}");
            if is_hit(&response) {
                let length = response.body.len().to_string();
                assert_eq!(response.field("content-length"), Some(&*length), "{case}");
                assert!(coding.is_none() || response.body.len() < body.len() / 3, "{case}");
            }
            forms.push(form);
        }
        let mut received: Vec<_> =
            origin.requests().iter().map(|asked| accept_encoding(asked).to_owned()).collect();
        received.sort_unstable();
        forms.sort_unstable();
        forms.dedup();
        assert_eq!(received, forms, "the origin gets each form once");
        let response = ask(&server, "/a", &[]);
        assert!(response.body == body && response.field("content-encoding").is_none());
        assert_eq!(server.stat("responses_compressed_total"), 4.0);
        assert_eq!(server.stat("compress_bytes_in_total"), 4.0 * body.len() as f64);
        assert!(server.stat("compress_bytes_out_total") < 1.5 * body.len() as f64);
        assert_eq!(server.stat("compress_not_accepted_total"), 2.0);
        assert_eq!(server.stat("compressions_open"), 0.0);
    }
}

#[test]
fn bodies_of_every_length_come_back_whole_in_every_coding() {
    for bytes in [1024, 16 << 10, (16 << 10) + 1, 100_000, 3 << 20] {
        for is_chunked in [false, true] {
            let (body, sent) = (text(bytes), text(bytes));
            let origin = Origin::start(move |_| {
                if !is_chunked {
                    return page(&[], &sent);
                }
                let head = "HTTP/1.1 200 OK\r\nContent-Type: TEXT/css\r\n\
                    Cache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n";
                let mut script = Script::new().send(head);
                for chunk in sent.chunks(10_000) {
                    let line = format!("{:x}\r\n", chunk.len());
                    script = script.send([line.as_bytes(), chunk, b"\r\n"].concat());
                }
                script.send("0\r\n\r\n")
            });
            let server = start(&origin, COMPRESS);
            for coding in ["zstd", "br", "gzip"] {
                for is_stored in [false, true] {
                    let response = accepting(&server, "/a", coding);
                    let case = format!("{coding} {bytes} {is_chunked} {:?}", response.head);
                    assert_eq!(response.field("content-encoding"), Some(coding), "{case}");
                    assert!(decoded(&response) == body, "{case}");
                    assert_eq!(is_hit(&response), is_stored, "{case}");
                }
            }
        }
    }
}

type Uncompressed = (&'static str, &'static str, &'static [&'static str], &'static [&'static str]);

/// Each row is a counter, a status, the fields of a response, and those of the request.
const UNCOMPRESSED: &[Uncompressed] = &[
    ("compress_type_total", "200 OK", &["Content-Type: image/png"], &[]),
    ("compress_type_total", "200 OK", &[], &[]),
    ("compress_type_total", "200 OK", &["Content-Type: text/a", "Content-Type: text/b"], &[]),
    ("compress_status_total", "404 Not Found", &["Content-Type: text/html"], &[]),
    (
        "compress_encoded_total",
        "200 OK",
        &["Content-Type: text/html", "Content-Encoding: gzip"],
        &[],
    ),
    (
        "compress_no_transform_total",
        "200 OK",
        &["Content-Type: text/html", "Cache-Control: No-Transform"],
        &[],
    ),
    (
        "compress_origin_varies_total",
        "200 OK",
        &["Content-Type: text/html", "Vary: Origin, accept-Encoding"],
        &[],
    ),
    ("compress_personal_total", "200 OK", &["Content-Type: text/html", "Vary: Cookie"], &[]),
    (
        "compress_personal_total",
        "200 OK",
        &["Content-Type: text/html", "Cache-Control: public", "Vary: Authorization"],
        &["Authorization: Basic eDp5"],
    ),
    (
        "compress_digest_total",
        "200 OK",
        &["Content-Type: text/html", "Content-Digest: sha-256=:eA==:"],
        &[],
    ),
    ("compress_digest_total", "200 OK", &["Content-Type: text/html", "ETag: v1"], &[]),
    (
        "compress_digest_total",
        "200 OK",
        &["Content-Type: text/html", "X-Amz-Checksum-CRC32: eA=="],
        &[],
    ),
    (
        "compress_digest_total",
        "200 OK",
        &["Content-Type: text/html", "X-Goog-Hash: crc32c=eA=="],
        &[],
    ),
    ("compress_type_total", "200 OK", &["Content-Type: text/event-stream"], &[]),
    (
        "compress_personal_total",
        "200 OK",
        &["Content-Type: text/html", "ETag: \"a\"", "Cache-Control: no-cache"],
        &["Cookie: session=1"],
    ),
    (
        "compress_not_accepted_total",
        "200 OK",
        &["Content-Type: text/html"],
        &["Cache-Control: no-transform"],
    ),
];

#[test]
fn responses_that_must_not_be_compressed_are_stored_as_they_are() {
    for (counter, status, fields, asked) in UNCOMPRESSED {
        let (body, sent) = (text(5000), text(5000));
        let origin = Origin::start(move |request| {
            if request.head.field("if-none-match").is_some() {
                return Script::new().send("HTTP/1.1 304 Not Modified\r\n\r\n");
            }
            Script::answer(status, &[&["Cache-Control: max-age=60"], *fields].concat(), &sent)
        });
        let server = start(&origin, COMPRESS);
        let asked = [&["Accept-Encoding: zstd, br, gzip"], *asked].concat();
        let own = |field: &&&str| field.starts_with("Content-Encoding");
        for _ in 0..2 {
            let response = ask(&server, "/a", &asked);
            let case = format!("{fields:?}: {:?}", response.head);
            assert!(response.body == body, "{case}");
            let coding = fields.iter().find(own).map(|_| "gzip");
            assert_eq!(response.field("content-encoding"), coding, "{case}");
        }
        let case = format!("{fields:?}");
        assert_eq!(server.stat(counter), 1.0, "{case}");
        assert_eq!(server.stat("responses_compressed_total"), 0.0, "{case}");
        let requests = 1 + usize::from(fields.contains(&"Cache-Control: no-cache"));
        assert_eq!(origin.request_count(), requests, "{case}");
    }
}

#[test]
fn only_stored_responses_of_the_right_size_are_compressed() {
    let origin = Origin::start(|request| match &*request.target {
        "/private" => page(&["Cache-Control: private"], &text(5000)),
        "/small" => page(&[], &text(1023)),
        "/empty" => page(&[], b""),
        _ => page(&[], &text(5000)),
    });
    let server = start(&origin, COMPRESS);
    let coding = "Accept-Encoding: gzip";
    let cases = [
        ("GET", "/private", 5000),
        ("POST", "/post", 5000),
        ("GET", "/small", 1023),
        ("GET", "/empty", 0),
    ];
    for (method, target, bytes) in cases {
        let mut client = Client::connect(server.address());
        let fields = if method == "POST" { &[coding, "Content-Length: 0"][..] } else { &[coding] };
        let response = client.ask(method, target, fields).expect("an answer");
        assert!(response.body == text(bytes), "{target}");
        assert_eq!(response.field("content-encoding"), None, "{target}");
    }
    assert_eq!(server.stat("compress_small_total"), 2.0);
    let response = ask(&server, "/nostore", &[coding, "Cache-Control: no-store"]);
    assert!(response.field("content-encoding").is_none() && response.body == text(5000));
    assert_eq!(server.stat("responses_compressed_total"), 0.0);

    let site = "compressions_max = 0\n[[site]]\nname = \"a\"\nnames = [\"*\"]\n";
    let config = format!("{site}origin = \"http://{}\"\n{COMPRESS}", origin.address());
    let builder = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay")).config(&config);
    let full = builder.flag("--workers", "1").start();
    for hits in [false, true] {
        let response = accepting(&full, "/a", "gzip");
        assert!(response.body == text(5000) && is_hit(&response) == hits);
        assert_eq!(response.field("vary"), Some("accept-encoding"));
    }
    assert_eq!(full.stat("compress_busy_total"), 1.0);
    let plain = start(&origin, "");
    let response = accepting(&plain, "/a", "gzip, br;q=0.5");
    assert!(response.body == text(5000) && response.field("vary").is_none());
    let last = origin.requests().pop().expect("a request");
    assert_eq!(accept_encoding(&last), "br;q=0.500, gzip", "nothing changes without the setting");
}

#[test]
fn ranges_and_heads_are_those_of_the_selected_form() {
    let modified = "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT";
    let origin = Origin::start(move |_| {
        page(&["ETag: \"v1\"", modified, "Accept-Ranges: bytes"], &text(50_000))
    });
    let server = start(&origin, COMPRESS);
    for coding in ["br", "identity"] {
        accepting(&server, "/a", coding);
    }
    let encoded = accepting(&server, "/a", "br");
    assert!(is_hit(&encoded));
    let br = "Accept-Encoding: br";
    let since = modified.replace("Last-Modified", "If-Range");
    for more in ["X-A: b", "If-Range: \"v1\"", "If-Range: W/\"v1\"", &since] {
        for range in ["Range: bytes=0-9", "Range: bytes=90000-", "Range: bytes=0-1,5-6"] {
            let response = ask(&server, "/a", &[br, range, more]);
            let case = format!("{range} {more}: {:?}", response.head);
            assert_eq!(response.status, 200, "a compressed body has no ranges: {case}");
            assert!(response.body == encoded.body && is_hit(&response), "{case}");
        }
    }
    let response = ask(&server, "/a", &["Accept-Encoding: identity", "Range: bytes=10-19"]);
    assert_eq!((response.status, &*response.body), (206, &text(50_000)[10..20]));
    assert_eq!(response.field("content-range"), Some("bytes 10-19/50000"));
    let url = "http://example.test/a";
    let explained = server.command(&["explain", url, "--header", br]);
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(explained.contains("compressed by this server"), "{explained}");
    let mut client = Client::connect(server.address());
    let head = client.ask("HEAD", "/a", &[br]).expect("an answer");
    assert_eq!(head.field("content-length"), Some(&*encoded.body.len().to_string()));
    assert_eq!(head.field("content-encoding"), Some("br"));
    assert_eq!(origin.request_count(), 2);
}

#[test]
fn a_range_request_that_comes_first_is_not_compressed() {
    let origin = Origin::start(|request| match request.head.field("range") {
        Some(_) => {
            let fields = ["Content-Type: text/html", "Content-Range: bytes 0-9999/10000"];
            let fields = [&fields[..], &["ETag: \"v1\"", "Cache-Control: max-age=60"]].concat();
            Script::answer("206 Partial Content", &fields, &text(10_000))
        }
        None => page(&["ETag: \"v1\""], &text(10_000)),
    });
    let server = start(&origin, COMPRESS);
    let br = "Accept-Encoding: br";
    let part = ask(&server, "/a", &[br, "Range: bytes=5-9"]);
    assert_eq!((part.status, &*part.body), (206, &text(10_000)[5..10]));
    assert_eq!(part.field("content-encoding"), None);
    let whole = ask(&server, "/a", &[br]);
    assert!(decoded(&whole) == text(10_000));
    assert_eq!(server.stat("responses_compressed_total"), 0.0);
}

/// The whole response to a request for a range is a variant like others.
#[test]
fn a_range_request_without_a_coding_leaves_other_clients_their_codings() {
    for has_parts in [false, true] {
        let modified = "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT";
        let origin = Origin::start(move |request| match request.head.field("range") {
            Some(_) if has_parts => {
                let fields = ["Content-Type: text/html", "Content-Range: bytes 0-9999/10000"];
                let control = "Cache-Control: max-age=60";
                let fields = [&fields[..], &["ETag: \"v1\"", modified, control]].concat();
                Script::answer("206 Partial Content", &fields, &text(10_000))
            }
            _ => page(&["ETag: \"v1\"", modified], &text(10_000)),
        });
        let server = start(&origin, COMPRESS);
        let first = ask(&server, "/a", &["Range: bytes=0-9"]);
        assert_eq!((first.status, first.field("vary")), (206, Some("accept-encoding")));
        let part = ask(&server, "/a", &["Range: bytes=5-9"]);
        assert!(is_hit(&part) && part.body == text(10_000)[5..10], "{part:?}");
        let since = modified.replace("Last-Modified", "If-Range");
        let whole = ask(&server, "/a", &["Range: bytes=5-9", &since]);
        assert_eq!(whole.status, 200, "a date does not say which form the client has");
        let compressed = accepting(&server, "/a", "br");
        assert_eq!(compressed.field("content-encoding"), Some("br"), "{has_parts}");
        assert!(decoded(&compressed) == text(10_000));
    }
}

#[test]
fn a_request_with_a_cookie_leaves_other_clients_their_codings() {
    let origin = Origin::start(|_| page(&["ETag: \"a\"", "Cache-Control: no-cache"], &text(5000)));
    let server = start(&origin, COMPRESS);
    let own = ask(&server, "/a", &["Accept-Encoding: gzip", "Cookie: session=1"]);
    assert!(own.field("content-encoding").is_none() && own.body == text(5000));
    assert_eq!(own.field("vary"), Some("accept-encoding"));
    let other = accepting(&server, "/a", "br");
    assert_eq!(other.field("content-encoding"), Some("br"));
}

#[test]
fn a_client_validates_the_compressed_form_by_its_weak_tag() {
    let origin = Origin::start(|_| page(&["ETag: \"v1\""], &text(5000)));
    let server = start(&origin, COMPRESS);
    for coding in ["zstd", "br", "gzip", "identity"] {
        accepting(&server, "/a", coding);
        for tag in ["W/\"v1\"", "\"v1\"", "*", "\"x\", W/\"v1\""] {
            let fields = [format!("Accept-Encoding: {coding}"), format!("If-None-Match: {tag}")];
            let response = ask(&server, "/a", &[&fields[0], &fields[1]]);
            assert_eq!(response.status, 304, "{fields:?}");
            let own = if coding == "identity" { "\"v1\"" } else { "W/\"v1\"" };
            assert_eq!(response.field("etag"), Some(own), "{fields:?}");
            assert_eq!(response.field("vary"), Some("accept-encoding"), "{fields:?}");
        }
        let fields = [format!("Accept-Encoding: {coding}"), "If-None-Match: \"v2\"".to_owned()];
        assert_eq!(ask(&server, "/a", &[&fields[0], &fields[1]]).status, 200);
    }
}

/// The request for validation has the origin's entity tag, not that of the compressed form. The 304
/// has fields that the compressed form lacks.
#[test]
fn a_304_renews_the_compressed_form_unless_it_forbids_that() {
    let origin = Origin::start(|request| {
        let is_known = request.head.field("if-none-match") == Some("\"v1\"");
        let control = match &*request.target {
            "/forbids" => "Cache-Control: no-cache, no-transform",
            _ => "Cache-Control: no-cache",
        };
        let fields =
            ["ETag: \"v1\"", "Vary: Origin", "Accept-Ranges: bytes", "X-New: yes", control];
        match is_known {
            true => Script::new()
                .send(format!("HTTP/1.1 304 Not Modified\r\n{}\r\n\r\n", fields.join("\r\n"))),
            false if request.target == "/forbids" && request.head.field("x-late").is_none() => {
                page(&["ETag: \"v1\"", "Vary: Origin", "Cache-Control: no-cache"], &text(5000))
            }
            false => page(&[&fields[..3], &[control]].concat(), &text(5000)),
        }
    });
    let server = start(&origin, COMPRESS);
    for coding in ["br", "gzip", "identity"] {
        let first = accepting(&server, "/a", coding);
        for _ in 0..3 {
            let again = accepting(&server, "/a", coding);
            let case = format!("{coding}: {:?}", again.head);
            assert!(again.body == first.body && decoded(&again) == text(5000), "{case}");
            for field in ["etag", "content-encoding", "accept-ranges"] {
                assert_eq!(again.field(field), first.field(field), "{case}");
            }
            assert_eq!(again.field("x-new"), Some("yes"), "{case}");
            let vary: Vec<_> = again.head.fields.iter().filter(|line| is_vary(&line.0)).collect();
            assert_eq!(vary.len(), 2, "{case}");
            let last = origin.requests().pop().expect("a request");
            assert_eq!(last.head.field("if-none-match"), Some("\"v1\""), "{case}");
        }
    }
    assert_eq!(origin.request_count(), 3 * 4, "each 304 sufficed");
    let first = accepting(&server, "/forbids", "br");
    assert_eq!(first.field("content-encoding"), Some("br"));
    let again = ask(&server, "/forbids", &["Accept-Encoding: br", "X-Late: 1"]);
    assert_eq!(again.field("content-encoding"), None, "{:?}", again.head);
    assert!(again.body == text(5000));
}

fn is_vary(name: &str) -> bool {
    name.eq_ignore_ascii_case("vary")
}

#[test]
fn a_purge_removes_every_form() {
    let origin = Origin::start(|_| page(&[], &text(5000)));
    let server = start(&origin, &format!("{COMPRESS}purge_from = [\"127.0.0.1\"]\n"));
    let codings = ["zstd", "br", "gzip", "identity"];
    for round in 1..3 {
        for coding in codings {
            assert!(!is_hit(&accepting(&server, "/a", coding)), "{coding}");
            assert!(is_hit(&accepting(&server, "/a", coding)), "{coding}");
        }
        assert_eq!(origin.request_count(), 4 * round);
        let mut client = Client::connect(server.address());
        let purged = client.ask("PURGE", "/a", &["Accept-Encoding: br"]).expect("an answer");
        assert_eq!(purged.status, 200);
    }
}

//! Responses whose content coding is taken off for clients that do not accept it.

use std::io::{Read, Write};

use forebay_testkit::client::request_text;
use forebay_testkit::script::answer_head;
use forebay_testkit::{Client, Gate, Origin, Response, Script, eventually};

use super::{accept_encoding, accepting, ask, decoded, is_hit, page, start, text};

pub(super) const DECOMPRESS: &str = "decompress = true\n";

pub(super) fn encoded(coding: &str, body: &[u8]) -> Vec<u8> {
    match coding {
        "zstd" => zstd::encode_all(body, 3).expect("memory"),
        "br" => {
            let mut encoded = Vec::new();
            let mut encoder = brotli::CompressorReader::new(body, 4096, 5, 20);
            encoder.read_to_end(&mut encoded).expect("memory");
            encoded
        }
        _ => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Default::default());
            encoder.write_all(body).expect("memory");
            encoder.finish().expect("memory")
        }
    }
}

/// A page that the origin sends with this coding, whatever the client accepts.
fn encoded_page(coding: &str, fields: &[&str], body: &[u8]) -> Script {
    let coding_field = format!("Content-Encoding: {coding}");
    page(&[&[&*coding_field], fields].concat(), &encoded(coding, body))
}

pub(super) fn is_decompressed(response: &Response, body: &[u8]) -> bool {
    response.is_whole
        && response.field("content-encoding").is_none()
        && response.field("vary").is_some_and(|vary| vary.contains("ccept-"))
        && response.body == body
}

#[test]
fn a_client_that_refuses_the_coding_gets_its_own_variant() {
    let body = text(20_000);
    for coding in ["gzip", "br", "zstd", "x-gzip", "GZIP"] {
        let sent = body.clone();
        let origin = Origin::start(move |_| {
            encoded_page(coding, &["ETag: \"v1\"", "Accept-Ranges: bytes", "Digest: x"], &sent)
        });
        let server = start(&origin, DECOMPRESS);
        let name = if coding.contains('z') && coding != "zstd" { "gzip" } else { coding };
        let other = if name == "br" { "gzip" } else { "br" };
        let mut forms = Vec::new();
        for accepted in [other, "identity", name, "*", "*;q=0", &format!("{name};q=0, *"), "none"] {
            let line = format!("Accept-Encoding: {accepted}");
            let fields = if accepted == "none" { vec![] } else { vec![&*line] };
            let response = ask(&server, "/a", &fields);
            let case = format!("{coding} for {accepted}: {:?}", response.head);
            let form = accept_encoding(&origin.requests().pop().expect("a request")).to_owned();
            let keeps = accepted == name || accepted == "*";
            assert_eq!(response.field("vary"), Some("accept-encoding"), "{case}");
            if keeps {
                assert_eq!(response.field("content-encoding"), Some(coding), "{case}");
                assert!(response.body == encoded(coding, &body), "{case}");
                assert_eq!(response.field("etag"), Some("\"v1\""), "{case}");
                assert_eq!(response.field("accept-ranges"), Some("bytes"), "{case}");
            } else {
                assert!(is_decompressed(&response, &body), "{case}");
                assert_eq!(response.field("etag"), Some("W/\"v1\""), "{case}");
                assert_eq!(response.field("accept-ranges"), Some("none"), "{case}");
                assert!(response.field("digest").is_none(), "{case}");
            }
            assert_eq!(is_hit(&response), accepted == "*;q=0", "{case}");
            if is_hit(&response) {
                let length = body.len().to_string();
                assert_eq!(response.field("content-length"), Some(&*length), "{case}");
            } else {
                forms.push(form);
            }
        }
        let mut unique = forms.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), forms.len(), "each form is fetched once: {forms:?}");
        assert_eq!(server.stat("responses_decompressed_total"), 4.0);
        assert_eq!(server.stat("decompress_bytes_out_total"), 4.0 * body.len() as f64);
        assert_eq!(server.stat("decompressions_open"), 0.0);
        let url = "http://example.test/a";
        let explained = server.command(&["explain", url, "--header", "Accept-Encoding: identity"]);
        let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
        assert!(explained.contains("decompressed by this server"), "{explained}");
    }
}

#[test]
fn bodies_of_every_length_come_back_whole_stored_or_not() {
    for bytes in [0, 1, 5000, 100_000, 1 << 20] {
        for is_chunked in [false, true] {
            let bodies =
                ["gzip", "br", "zstd"].map(|coding| (coding, encoded(coding, &text(bytes))));
            let origin = Origin::start(move |request| {
                let coding = request.target.trim_start_matches(['/', 'p']).to_owned();
                let control = match request.target.starts_with("/p") {
                    true => "Cache-Control: private",
                    false => "Cache-Control: max-age=60",
                };
                let known = bodies.iter().find(|(name, _)| *name == coding);
                let encoded = &known.expect("a known coding").1;
                let coding = format!("Content-Encoding: {coding}");
                if !is_chunked {
                    return Script::answer("200 OK", &[control, &coding], encoded);
                }
                let head = format!("HTTP/1.1 200 OK\r\n{control}\r\n{coding}\r\n");
                let mut script = Script::new().send(head + "Transfer-Encoding: chunked\r\n\r\n");
                for chunk in encoded.chunks(10_000) {
                    let line = format!("{:x}\r\n", chunk.len());
                    script = script.send([line.as_bytes(), chunk, b"\r\n"].concat());
                }
                script.send("0\r\nDigest: x\r\n\r\n")
            });
            let server = start(&origin, DECOMPRESS);
            for target in ["/gzip", "/br", "/zstd", "/pgzip", "/pbr", "/pzstd"] {
                for is_again in [false, true] {
                    let response = ask(&server, target, &[]);
                    let case = format!("{target} {bytes} {is_chunked} {:?}", response.head);
                    assert!(is_decompressed(&response, &text(bytes)), "{case}");
                    assert_eq!(is_hit(&response), is_again && !target.starts_with("/p"), "{case}");
                    assert!(response.trailers.is_empty(), "{case}");
                }
            }
            let post =
                Client::connect(server.address()).ask("POST", "/gzip", &["Content-Length: 0"]);
            assert!(is_decompressed(&post.expect("an answer"), &text(bytes)));
            let mut client = Client::connect(server.address());
            client.send("GET /pgzip HTTP/1.0\r\nHost: example.test\r\n\r\n");
            let old = client.response("GET").expect("an answer");
            assert!(old.body == text(bytes) && old.field("content-encoding").is_none());
        }
    }
}

#[test]
fn responses_that_must_not_be_changed_keep_their_coding() {
    let cases: [(&str, &[&str], &[&str], f64); 6] = [
        ("gzip", &["Cache-Control: max-age=60, no-transform"], &[], 1.0),
        ("gzip", &["CDN-Cache-Control: no-transform, max-age=60"], &[], 1.0),
        ("gzip", &[], &["Cache-Control: no-transform"], 2.0),
        ("deflate", &[], &[], 0.0),
        ("gzip, br", &[], &[], 0.0),
        ("", &[], &[], 0.0),
    ];
    for (coding, fields, asked, count) in cases {
        let origin = Origin::start(move |_| {
            let coding = format!("Content-Encoding: {coding}");
            page(&[&[&*coding], fields].concat(), b"as it is")
        });
        let server = start(&origin, DECOMPRESS);
        for _ in 0..2 {
            let response = ask(&server, "/a", asked);
            let case = format!("{coding} {fields:?} {asked:?}: {:?}", response.head);
            assert_eq!(response.text(), "as it is", "{case}");
            assert_eq!(response.field("content-encoding"), Some(coding), "{case}");
            assert!(response.field("vary").is_none(), "{case}");
        }
        assert_eq!(server.stat("decompress_no_transform_total"), count, "{coding} {fields:?}");
        assert_eq!(server.stat("responses_decompressed_total"), 0.0);
    }
    // A stored variant without the coding does not answer a request that forbids changes.
    let origin = Origin::start(|_| encoded_page("gzip", &[], &text(5000)));
    let server = start(&origin, DECOMPRESS);
    assert!(is_decompressed(&ask(&server, "/a", &[]), &text(5000)));
    let literal = ask(&server, "/a", &["Cache-Control: no-transform"]);
    assert!(literal.body == encoded("gzip", &text(5000)));
    let status = literal.field("cache-status").expect("a status");
    assert!(status.ends_with("detail=no-transform"), "{status}");
    assert!(is_hit(&ask(&server, "/a", &[])));
    let plain = start(&origin, "");
    assert!(ask(&plain, "/a", &[]).field("content-encoding").is_some(), "it is off by default");
}

#[test]
fn ranges_heads_and_conditions_are_those_of_the_decompressed_form() {
    let body = text(50_000);
    let sent = body.clone();
    let origin = Origin::start(move |request| {
        let encoded = encoded("gzip", &sent);
        let fields = ["ETag: \"v1\"", "Accept-Ranges: bytes", "Content-Encoding: gzip"];
        let part = |first: usize, last: usize| {
            let range = format!("Content-Range: bytes {first}-{last}/{}", encoded.len());
            let control = "Cache-Control: max-age=60";
            let fields = [&fields[..], &[&range, control]].concat();
            Script::answer("206 Partial Content", &fields, &encoded[first..=last])
        };
        match (&*request.method, request.head.field("range")) {
            ("HEAD", _) => {
                let head = answer_head("200 OK", &fields, encoded.len());
                Script::new().send(head)
            }
            (_, Some("bytes=5-9")) => part(5, 9),
            (_, Some(_)) => part(0, encoded.len() - 1),
            _ => page(&fields, &encoded),
        }
    });
    let server = start(&origin, DECOMPRESS);
    let head = Client::connect(server.address()).ask("HEAD", "/a", &[]).expect("an answer");
    assert_eq!((head.status, head.field("content-length")), (200, None), "{head:?}");
    assert_eq!((head.field("content-encoding"), head.field("etag")), (None, Some("W/\"v1\"")));
    // The part that the origin sends cannot be decoded, so the whole response is requested.
    let part = ask(&server, "/a", &["Range: bytes=5-9"]);
    assert_eq!(part.status, 200, "{:?}", part.head);
    assert!(is_decompressed(&part, &body));
    assert_eq!(origin.request_count(), 3);
    let ranges = ["bytes=5-9", "bytes=49999-", "bytes=0-1,5-6"];
    for range in ranges {
        for more in ["X-A: b", "If-Range: \"v1\"", "If-Range: W/\"v1\""] {
            let response = ask(&server, "/a", &[&format!("Range: {range}"), more]);
            let case = format!("{range} {more}: {:?}", response.head);
            assert!(response.status == 200 && is_decompressed(&response, &body), "{case}");
            assert!(is_hit(&response), "{case}");
        }
    }
    let head = Client::connect(server.address()).ask("HEAD", "/a", &[]).expect("an answer");
    assert_eq!(head.field("content-length"), Some("50000"));
    for (tag, status) in [("W/\"v1\"", 304), ("\"v1\"", 304), ("\"v2\"", 200)] {
        let response = ask(&server, "/a", &[&format!("If-None-Match: {tag}")]);
        assert_eq!((response.status, response.field("etag")), (status, Some("W/\"v1\"")), "{tag}");
    }
    assert_eq!(origin.request_count(), 3);
    let other = ask(&server, "/a", &["Accept-Encoding: gzip", "Range: bytes=5-9"]);
    assert_eq!((other.status, &*other.body), (206, &encoded("gzip", &body)[5..10]));
}

const ENCODED_DATE: &str = "Thu, 01 Jan 2026 00:00:00 GMT";

/// An origin that sends parts of an encoded body, or of a plain one for `/plain`.
fn encoded_parts() -> Origin {
    Origin::start(|request| {
        let coding = if request.target == "/plain" { "identity" } else { "gzip" };
        let body = if coding == "gzip" { encoded("gzip", &text(9000)) } else { text(9000) };
        let date = &*format!("Last-Modified: {ENCODED_DATE}");
        let coding = format!("Content-Encoding: {coding}");
        let mut fields = vec![date, "Cache-Control: no-store"];
        if request.target != "/plain" {
            fields.push(&coding);
        }
        let total = body.len();
        let first = request.head.field("range").and_then(|range| range.split(['=', '-']).nth(1));
        match first.map(|first| first.parse::<usize>().expect("a number")) {
            None => Script::answer("200 OK", &fields, &body),
            Some(first) if first < total => {
                let range = format!("Content-Range: bytes {first}-{}/{total}", total - 1);
                fields.push(&range);
                Script::answer("206 Partial Content", &fields, &body[first..])
            }
            Some(_) => {
                let range = format!("Content-Range: bytes */{total}");
                Script::answer("416 Range Not Satisfiable", &[&range], b"no such range")
            }
        }
    })
}

/// A part of the encoded body must not be appended to a decoded one.
#[test]
fn a_range_that_passes_through_gets_no_part_of_the_encoded_body() {
    let origin = encoded_parts();
    for settings in [DECOMPRESS, "decompress = true\ncache = false\n"] {
        let server = start(&origin, settings);
        let date = &*format!("If-Range: {ENCODED_DATE}");
        let encoded_bytes = encoded("gzip", &text(9000)).len();
        assert!(encoded_bytes < 8000);
        for (range, date) in [("bytes=5-", date), ("bytes=8000-", date), ("bytes=5-", "X-A: b")] {
            let range = format!("Range: {range}");
            let whole = ask(&server, "/gzip", &[&range, date]);
            let case = format!("{settings} {range} {date}: {:?}", whole.head);
            assert_eq!(whole.status, 200, "{case}");
            assert!(is_decompressed(&whole, &text(9000)), "{case}");
            let gzip = "Accept-Encoding: gzip, br, zstd";
            let part = ask(&server, "/gzip", &[&range, date, gzip]);
            let expected = if range.contains("8000") { 416 } else { 206 };
            assert_eq!(part.status, expected, "{case}: {:?}", part.head);
            let kept = ask(&server, "/gzip", &[&range, date, "Cache-Control: no-transform"]);
            assert_eq!(kept.status, expected, "{case}: {:?}", kept.head);
        }
        let refused = ask(&server, "/plain", &["Range: bytes=9000-"]);
        assert_eq!((refused.status, refused.body.len()), (416, 0), "{:?}", refused.head);
        assert_eq!(refused.field("content-range"), Some("bytes */9000"));
        let part = ask(&server, "/plain", &["Range: bytes=8990-"]);
        assert_eq!((part.status, &*part.body), (206, &text(9000)[8990..]));
    }
}

#[test]
fn a_range_with_a_length_or_content_gets_no_part_of_the_encoded_body() {
    let origin = encoded_parts();
    let contents = [
        "Content-Length: 0\r\n\r\n",
        "Content-Length: 1\r\n\r\nx",
        "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
    ];
    for settings in [DECOMPRESS, "decompress = true\ncache = false\n"] {
        let server = start(&origin, &format!("{settings}content_of_get = true\n"));
        for (content, first) in contents.iter().flat_map(|one| [(one, 5), (one, 8000)]) {
            let send = |target: &str, more: &str| {
                let mut client = Client::connect(server.address());
                client.send(format!(
                    "GET {target} HTTP/1.1\r\nHost: example.test\r\nRange: bytes={first}-\r\n\
                     If-Range: {ENCODED_DATE}\r\n{more}{content}"
                ));
                client.response("GET").expect("an answer")
            };
            let whole = send("/gzip", "");
            let case = format!("{settings} {content} {first}: {:?}", whole.head);
            assert_eq!(whole.status, 200, "{case}");
            assert!(is_decompressed(&whole, &text(9000)), "{case}");
            let expected = if first == 8000 { 416 } else { 206 };
            let part = send("/gzip", "Accept-Encoding: gzip, br, zstd\r\n");
            assert_eq!(part.status, expected, "{case}: {:?}", part.head);
        }
    }
}

#[test]
fn a_decompressed_response_is_validated_with_the_origins_tag() {
    for forbids in [false, true] {
        let origin = Origin::start(move |request| match request.head.field("if-none-match") {
            Some(tag) => {
                assert_eq!(tag, "\"v1\"");
                let control = if forbids { "no-transform, max-age=60" } else { "max-age=60" };
                let fields = format!("ETag: \"v1\"\r\nCache-Control: {control}\r\nX-New: 1");
                Script::new().send(format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n\r\n"))
            }
            None => encoded_page("gzip", &["ETag: \"v1\"", "Cache-Control: max-age=0"], &text(999)),
        });
        let server = start(&origin, DECOMPRESS);
        assert!(is_decompressed(&ask(&server, "/a", &[]), &text(999)));
        eventually("it is stored", || server.stat("stored_total") == 1.0);
        let renewed = ask(&server, "/a", &[]);
        assert!(is_decompressed(&renewed, &text(999)), "{renewed:?}");
        assert_eq!(renewed.field("etag"), Some("W/\"v1\""));
        assert_eq!(renewed.field("x-new").is_some(), !forbids, "{:?}", renewed.head);
        assert_eq!(is_hit(&ask(&server, "/a", &[])), !forbids);
    }
    // A conditional request that passes through keeps the form of the client's tag.
    let origin = Origin::start(|request| {
        let field =
            if request.head.field("if-none-match").is_some() { "304 Not Modified" } else { "" };
        match field {
            "" => encoded_page("gzip", &["ETag: \"v1\"", "Cache-Control: no-store"], &text(999)),
            status => Script::new().send(format!("HTTP/1.1 {status}\r\nETag: \"v1\"\r\n\r\n")),
        }
    });
    let server = start(&origin, "decompress = true\ncache = false\n");
    let weak = ask(&server, "/a", &["If-None-Match: W/\"v1\""]);
    assert_eq!((weak.status, weak.field("etag")), (304, Some("W/\"v1\"")));
    let strong = ask(&server, "/a", &["If-None-Match: \"v1\""]);
    assert_eq!((strong.status, strong.field("etag")), (304, Some("\"v1\"")));
}

#[test]
fn a_body_that_cannot_be_decoded_or_explodes_breaks_off() {
    let bomb = encoded("gzip", &vec![0; 32 << 20]);
    let origin = Origin::start(move |request| {
        let whole = encoded("gzip", &text(200_000));
        let bytes = match request.target.trim_start_matches("/private") {
            "/cut" => whole[..whole.len() - 9].to_vec(),
            "/changed" => [&whole[..5000], &[0x55; 100], &whole[5100..]].concat(),
            "/longer" => [&*whole, b"garbage"].concat(),
            "/bomb" => bomb.clone(),
            _ => whole,
        };
        let control = match request.target.starts_with("/private") {
            true => "Cache-Control: private",
            false => "Cache-Control: max-age=60",
        };
        Script::answer("200 OK", &["Content-Encoding: gzip", control], &bytes)
    });
    let server = start(&origin, DECOMPRESS);
    let mut failed = 0.0;
    for way in ["", "/private"] {
        for what in ["/cut", "/changed", "/longer", "/bomb"] {
            let mut client = Client::connect(server.address());
            let answer = client.ask("GET", &format!("{way}{what}"), &[]);
            let is_broken = match &answer {
                Ok(answer) => answer.status == 502,
                Err(_) => true,
            };
            assert!(is_broken, "{way}{what}: {:?}", answer.map(|answer| answer.head));
            failed += 1.0;
            eventually("it is counted", || server.stat("decompress_failed_total") == failed);
        }
    }
    assert!(server.stat("decompress_bytes_out_total") < (16 << 20) as f64);
    assert_eq!(server.stat("stored_total"), 0.0);
    assert_eq!(server.stat("decompressions_open"), 0.0);
    assert!(server.errors().contains("compressed body"), "{}", server.errors());
    for target in ["/whole", "/private"] {
        assert!(is_decompressed(&ask(&server, target, &[]), &text(200_000)), "{target}");
    }
    let encoded = accepting(&server, "/cut", "gzip");
    assert_eq!(encoded.status, 200, "a client that accepts the coding gets the bytes as they are");
}

#[test]
fn the_limit_of_stored_bodies_applies_to_the_decoded_bytes() {
    let origin = Origin::start(|_| encoded_page("gzip", &[], &text(300_000)));
    let server = start(&origin, "decompress = true\nobject_bytes_max = '200KiB'\n");
    for _ in 0..2 {
        let response = ask(&server, "/a", &[]);
        assert!(is_decompressed(&response, &text(300_000)) && !is_hit(&response));
    }
    assert_eq!(server.stat("stored_total"), 0.0);
    assert!(!is_hit(&accepting(&server, "/a", "gzip")));
    eventually("it is stored", || is_hit(&accepting(&server, "/a", "gzip")));
}

#[test]
fn beyond_its_places_a_worker_passes_responses_on_as_they_are() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |request| {
        let body = encoded("gzip", &text(50_000));
        if request.target != "/slow" {
            return encoded_page("gzip", &[], &text(50_000));
        }
        let (beginning, rest) = body.split_at(2000);
        let fields = ["Content-Encoding: gzip", "Cache-Control: max-age=60"];
        let head = answer_head("200 OK", &fields, body.len());
        Script::new().send(head).send(beginning).wait(&held).send(rest)
    });
    let site = "decompressions_max = 1\n[[site]]\nname = \"a\"\nnames = [\"*\"]\n";
    let config = format!("{site}origin = \"http://{}\"\n{DECOMPRESS}", origin.address());
    let builder = forebay_testkit::ServerBuilder::new(env!("CARGO_BIN_EXE_forebay"));
    let server = builder.config(&config).flag("--workers", "1").start();
    let mut slow = Client::connect(server.address());
    slow.send(request_text("GET", "/slow", &[]));
    // Bytes that have been decoded reach the client at once.
    slow.peek("GET", |response| response.body.len() > 4000).expect("the beginning");
    let other = ask(&server, "/a", &[]);
    assert!(decoded(&other) == text(50_000) && other.field("content-encoding") == Some("gzip"));
    assert!(server.stat("decompress_busy_total") >= 1.0);
    gate.open();
    assert!(is_decompressed(&slow.response("GET").expect("an answer"), &text(50_000)));
    for hits in [false, true] {
        let response = ask(&server, "/a", &[]);
        assert!(is_decompressed(&response, &text(50_000)), "{:?}", response.head);
        assert_eq!(is_hit(&response), hits);
    }
}

/// A browser keeps the origin's gzip, although this server makes other codings.
#[test]
fn a_coding_that_is_not_in_compress_is_still_accepted() {
    let origin = Origin::start(|request| match &*request.target {
        "/gzip" => encoded_page("gzip", &[], &text(20_000)),
        _ => page(&[], &text(20_000)),
    });
    let server = start(&origin, "decompress = true\ncompress = [\"zstd\", \"br\"]\n");
    let cases = [
        ("/gzip", "gzip, deflate, br, zstd", Some("gzip"), "br, gzip, zstd"),
        ("/gzip", "br", None, "br"),
        ("/plain", "gzip, deflate, br, zstd", Some("zstd"), "br, gzip, zstd"),
        ("/plain", "gzip", None, "gzip"),
    ];
    for (target, accepted, coding, form) in cases {
        for hits in [false, true] {
            let response = accepting(&server, target, accepted);
            let case = format!("{target} {accepted}: {:?}", response.head);
            assert_eq!(response.field("content-encoding"), coding, "{case}");
            assert!(decoded(&response) == text(20_000) && is_hit(&response) == hits, "{case}");
        }
        assert_eq!(accept_encoding(&origin.requests().pop().expect("a request")), form);
    }
}

/// The origin compresses, and this server compresses what the origin does not.
#[test]
fn both_directions_work_on_one_route() {
    let origin = Origin::start(|request| match &*request.target {
        "/gzip" => encoded_page("gzip", &["ETag: \"v1\""], &text(20_000)),
        _ => page(&["ETag: \"v1\""], &text(20_000)),
    });
    let server = start(&origin, "decompress = true\ncompress = [\"br\", \"gzip\"]\n");
    for _ in 0..2 {
        for (target, accepted, coding) in [
            ("/gzip", "gzip", Some("gzip")),
            ("/gzip", "br", None),
            ("/gzip", "identity", None),
            ("/plain", "gzip", Some("gzip")),
            ("/plain", "br", Some("br")),
            ("/plain", "identity", None),
        ] {
            let response = accepting(&server, target, accepted);
            assert_eq!(response.field("content-encoding"), coding, "{target} {accepted}");
            assert!(decoded(&response) == text(20_000), "{target} {accepted}");
        }
    }
    assert_eq!(origin.request_count(), 6);
}

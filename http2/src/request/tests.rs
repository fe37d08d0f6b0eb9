//! Requests that would smuggle or split a message after their conversion to HTTP/1.1, and requests
//! that are accepted.

use forebay_http::fields::FieldId;
use forebay_http::framing::{BodyFraming, request_framing};
use forebay_http::request::{HeadLimits, RequestParts, parse_request};
use forebay_http::target::{Scheme, request_target};

use super::MalformedRequest::{self, *};
use super::*;
use crate::field_list::ListLimits;
use crate::line::DecodedLine;

const LIMITS: ListLimits = ListLimits { list_bytes_max: 16_384, line_count_max: 64 };
const HEAD_LIMITS: HeadLimits =
    HeadLimits { head_bytes_max: 16_384, field_count_max: 64, target_bytes_max: 4096 };
const BASE: [(&str, &str); 4] =
    [(":method", "POST"), (":scheme", "http"), (":authority", "a.example"), (":path", "/p?q")];

type Lines = &'static [(&'static str, &'static str)];

/// Returns a list from Latin-1 text.
fn list_of(lines: &[(&str, &str)]) -> FieldList {
    let latin1 = |text: &str| -> Vec<u8> {
        text.chars().map(|c| u8::try_from(c).expect("Latin-1")).collect()
    };
    let mut list = FieldList::new(LIMITS);
    for (name, value) in lines {
        list.push(DecodedLine::of(&latin1(name), &latin1(value)));
    }
    list
}

/// Returns the base request with the pseudo-fields of `lines` in place of its own, followed by the
/// other lines. The value `-` removes a pseudo-field.
fn changed(lines: Lines) -> Vec<(&'static str, &'static str)> {
    let is_base = |name: &str| BASE.iter().any(|(base, _)| *base == name);
    let mut all: Vec<_> = BASE
        .iter()
        .map(|(name, value)| *lines.iter().find(|line| line.0 == *name).unwrap_or(&(name, value)))
        .filter(|(_, value)| *value != "-")
        .collect();
    all.extend(lines.iter().filter(|(name, _)| !is_base(name)));
    all
}

fn check(list: &FieldList, is_last: bool) -> Result<RequestIndex, MalformedRequest> {
    let context = CheckContext { scheme: Scheme::Http, extended_connect: false, is_last };
    check_request(list, &context)
}

/// Requests whose HTTP/1.1 form would be a different message, or two messages.
const SMUGGLING: &[(Lines, MalformedRequest)] = &[
    // A line end, or another control character, in each part of a line.
    (&[("x", "a\r\nhost: b")], FieldValue),
    (&[("x", "a\nhost: b")], FieldValue),
    (&[("x", "a\rhost: b")], FieldValue),
    (&[("x", "a\0b")], FieldValue),
    (&[("x", "a\r\n\r\nGET /evil HTTP/1.1\r\nhost: b\r\n\r\n")], FieldValue),
    (&[("x", "a\r\n b")], FieldValue),
    (&[("x", "\r\n")], FieldValue),
    (&[("x", "a\r")], FieldValue),
    (&[("x", "a\u{b}")], FieldValue),
    (&[("x", "a\u{c}b")], FieldValue),
    (&[("x", "\u{7f}")], FieldValue),
    (&[("x", "a\u{1}")], FieldValue),
    (&[("cookie", "a=b\r\nx: y")], FieldValue),
    (&[("host", "a.example\r\nx: y")], FieldValue),
    (&[("content-length", "0\r\n")], FieldValue),
    (&[("te", "trailers\r\nx: y")], FieldValue),
    (&[("x\r\nhost", "b")], FieldName),
    (&[("x\r\n\r\nGET /evil", "b")], FieldName),
    (&[("x\nhost", "b")], FieldName),
    (&[("x\0", "b")], FieldName),
    (&[("x: y\r\nz", "b")], FieldName),
    (&[(":path", "/ HTTP/1.1\r\nhost: b\r\nx: ")], FieldValue),
    (&[(":path", "/\r\n\r\nGET /evil HTTP/1.1")], FieldValue),
    (&[(":path", "/\n")], FieldValue),
    (&[(":path", "/\0")], FieldValue),
    (&[(":method", "GET / HTTP/1.1\r\nhost: b\r\n\r\nGET")], FieldValue),
    (&[(":method", "GET\r\n")], FieldValue),
    (&[(":method", "GET\0")], FieldValue),
    (&[(":authority", "a.example\r\nx: y")], FieldValue),
    (&[(":authority", "a.example\n")], FieldValue),
    (&[(":scheme", "http\r\n")], FieldValue),
    (&[(":scheme", "http\0")], FieldValue),
    // A request line that reads differently.
    (&[(":path", "/ HTTP/1.1")], Path),
    (&[(":path", "/a b")], Path),
    (&[(":path", "/a\tb")], Path),
    (&[(":path", "/a#b")], Path),
    (&[(":path", "/a\u{e9}")], Path),
    (&[(":path", "/\u{80}")], Path),
    (&[(":path", "")], Path),
    (&[(":path", "a")], Path),
    (&[(":path", "?q")], Path),
    (&[(":path", "*")], Path),
    (&[(":path", "http://b.example/")], Path),
    (&[(":path", "https://b.example/")], Path),
    (&[(":path", "\\\\b")], Path),
    (&[(":path", "@b.example/")], Path),
    (&[(":path", "-")], MissingPseudo),
    (&[(":method", "")], Method),
    (&[(":method", "GET /evil HTTP/1.1")], Method),
    (&[(":method", "G ET")], Method),
    (&[(":method", "GET,POST")], Method),
    (&[(":method", "GET/")], Method),
    (&[(":method", "G\u{e9}T")], Method),
    (&[(":method", "G:T")], Method),
    (&[(":method", "-")], MissingPseudo),
    (&[(":method", "CONNECT")], Connect),
    (&[(":scheme", "https")], Scheme),
    (&[(":scheme", "")], Scheme),
    (&[(":scheme", "http://b.example/?")], Scheme),
    (&[(":scheme", "file")], Scheme),
    (&[(":scheme", "-")], MissingPseudo),
    (&[(":scheme", "http ")], FieldValue),
    // A host that two recipients read differently.
    (&[(":authority", "")], Authority),
    (&[(":authority", "a.example/")], Authority),
    (&[(":authority", "user@a.example")], Authority),
    (&[(":authority", "a.example:")], Authority),
    (&[(":authority", "a.example:080")], Authority),
    (&[(":authority", "a.example, b.example")], Authority),
    (&[(":authority", "a.example b.example")], Authority),
    (&[(":authority", "a.example?")], Authority),
    (&[(":authority", "a.example\\b")], Authority),
    (&[(":authority", " a.example")], FieldValue),
    (&[(":authority", "-")], MissingHost),
    (&[("host", "b.example")], HostConflict),
    (&[("host", "a.example:81")], HostConflict),
    (&[("host", "")], Authority),
    (&[("host", "a.example, b.example")], Authority),
    (&[("host", "a.example"), ("host", "a.example")], HostConflict),
    (&[(":authority", "-"), ("host", "a.example"), ("host", "b.example")], HostConflict),
    (&[("Host", "b.example")], FieldName),
    // A body that two recipients read differently.
    (&[("transfer-encoding", "chunked")], ConnectionField),
    (&[("transfer-encoding", "identity")], ConnectionField),
    (&[("transfer-encoding", "")], ConnectionField),
    (&[("Transfer-Encoding", "chunked")], FieldName),
    (&[("transfer-encoding ", "chunked")], FieldName),
    (&[("transfer-encoding\t", "chunked")], FieldName),
    (&[(" transfer-encoding", "chunked")], FieldName),
    (&[("transfer-encoding:", "chunked")], FieldName),
    (&[("transfer-encoding", "chunked"), ("content-length", "3")], ConnectionField),
    (&[("content-length", "3"), ("content-length", "3")], ContentLength),
    (&[("content-length", "3"), ("content-length", "4")], ContentLength),
    (&[("content-length", "3, 3")], ContentLength),
    (&[("content-length", "+3")], ContentLength),
    (&[("content-length", "-3")], ContentLength),
    (&[("content-length", "0x3")], ContentLength),
    (&[("content-length", "3.0")], ContentLength),
    (&[("content-length", "")], ContentLength),
    (&[("content-length", " 3")], FieldValue),
    (&[("content-length", "18446744073709551616")], ContentLength),
    (&[("content-length", "3"), ("content-length", "")], ContentLength),
    (&[("content-length ", "3")], FieldName),
    (&[("content length", "3")], FieldName),
    // Fields that concern one connection.
    (&[("connection", "close")], ConnectionField),
    (&[("connection", "transfer-encoding")], ConnectionField),
    (&[("connection", "host")], ConnectionField),
    (&[("proxy-connection", "keep-alive")], ConnectionField),
    (&[("keep-alive", "timeout=5")], ConnectionField),
    (&[("upgrade", "websocket")], ConnectionField),
    (&[("upgrade", "h2c")], ConnectionField),
    (&[("http2-settings", "AAMAAABkAAQCAAAAAAIAAAAA")], ConnectionField),
    (&[("te", "chunked")], Te),
    (&[("te", "trailers, chunked")], Te),
    (&[("te", "")], Te),
    // Names and pseudo-fields.
    (&[("", "x")], FieldName),
    (&[("X", "y")], FieldName),
    (&[("x y", "z")], FieldName),
    (&[("x\u{e9}", "z")], FieldName),
    (&[("x(", "z")], FieldName),
    (&[("x", " y")], FieldValue),
    (&[("x", "y\t")], FieldValue),
    (&[("x", "y"), (":late", "1")], PseudoAfterField),
    (&[(":status", "200")], UnknownPseudo),
    (&[(":protocol", "websocket")], UnknownPseudo),
    (&[(":", "x")], UnknownPseudo),
    (&[(":Path", "/")], UnknownPseudo),
    (&[(":path ", "/")], UnknownPseudo),
];

#[test]
fn no_request_that_would_smuggle_passes() {
    let mut count = 0;
    for (lines, expected) in SMUGGLING {
        for is_last in [false, true] {
            let found = check(&list_of(&changed(lines)), is_last).map(|_| ());
            assert_eq!(found, Err(*expected), "{lines:?} {is_last}");
        }
        count += 1;
    }
    assert!(count >= 100, "only {count} vectors");
}

/// The two crates have tables of their own; a debug build compares the parts of each head.
#[test]
fn each_byte_is_as_valid_as_for_the_parser_of_http1() {
    for byte in 0..=u8::MAX {
        let text = char::from(byte).to_string();
        let around = format!("a{text}b");
        for (place, lines, head) in [
            (
                "name",
                [("x", "y"), (&*around, "v")],
                format!("POST / HTTP/1.1\r\n{around}: v\r\n\r\n"),
            ),
            (
                "value",
                [("x", "y"), ("n", &*around)],
                format!("POST / HTTP/1.1\r\nn: {around}\r\n\r\n"),
            ),
            ("method", [(":method", &*around), ("x", "y")], format!("{around} / HTTP/1.1\r\n\r\n")),
            (
                "path",
                [(":path", &*format!("/{text}")), ("x", "y")],
                format!("GET /{text} HTTP/1.1\r\n\r\n"),
            ),
        ] {
            let base = BASE.iter().filter(|(name, _)| *name != lines[0].0);
            let mut all: Vec<(&str, &str)> = base.copied().collect();
            let at = if lines[0].0.starts_with(':') { 0 } else { all.len() };
            all.insert(at, lines[0]);
            all.push(lines[1]);
            let list = list_of(&all);
            let is_accepted = check(&list, true).is_ok();
            let head: Vec<u8> = head.chars().map(|c| c as u8).collect();
            let parsed = parse_request(&head, &HEAD_LIMITS, &mut RequestParts::default());
            let is_upper_case = place == "name" && byte.is_ascii_uppercase();
            // A colon ends the name for the parser of HTTP/1.1.
            let is_other = is_upper_case || place == "name" && byte == b':';
            assert_eq!(is_accepted, parsed == Ok(Some(head.len())) && !is_other, "{place} {byte}");
        }
    }
}

#[test]
fn pseudo_fields_occur_once_and_first() {
    let [method, scheme, authority, path] = BASE;
    for (lines, expected) in [
        (&[method, method, scheme, authority, path][..], RepeatedPseudo),
        (&[method, scheme, authority, path, path], RepeatedPseudo),
        (&[method, scheme, authority, authority, path], RepeatedPseudo),
        (&[method, scheme, scheme, authority, path], RepeatedPseudo),
        (&[("x", "y"), method, scheme, authority, path], PseudoAfterField),
        (&[method, scheme, authority, ("x", "y"), path], PseudoAfterField),
        (&[(":method", "CONNECT"), scheme, authority, path], Connect),
        (&[(":method", "CONNECT")], MissingHost),
        (&[(":method", "CONNECT"), ("host", "a.example")], Connect),
        (&[], MissingPseudo),
    ] {
        assert_eq!(check(&list_of(lines), true).map(|_| ()), Err(expected), "{lines:?}");
    }
    let length = changed(&[("content-length", "3")]);
    assert_eq!(check(&list_of(&length), true).map(|_| ()), Err(ContentLength));
}

/// Requests that are accepted, and their HTTP/1.1 heads; `~` stands for CR LF.
const PASSING: &[(Lines, bool, &str)] = &[
    (&[(":method", "GET")], true, "GET /p?q HTTP/1.1~host: a.example~~"),
    (&[(":method", "GET"), ("host", "A.example:80")], true, "GET /p?q HTTP/1.1~host: a.example~~"),
    (
        &[(":authority", "-"), ("host", "b.example:8080"), ("x", "")],
        true,
        "POST /p?q HTTP/1.1~host: b.example:8080~x: ~~",
    ),
    (
        &[("content-length", "3"), ("te", "trailers")],
        false,
        "POST /p?q HTTP/1.1~host: a.example~te: trailers~content-length: 3~~",
    ),
    (&[("content-length", "007")], false, "POST /p?q HTTP/1.1~host: a.example~content-length: 7~~"),
    (&[("content-length", "0")], true, "POST /p?q HTTP/1.1~host: a.example~content-length: 0~~"),
    (
        &[("expect", "100-continue")],
        false,
        "POST /p?q HTTP/1.1~host: a.example~expect: 100-continue~transfer-encoding: chunked~~",
    ),
    (&[(":method", "OPTIONS"), (":path", "*")], true, "OPTIONS * HTTP/1.1~host: a.example~~"),
    (
        &[("cookie", "a=b"), ("x", "y"), ("cookie", ""), ("cookie", "c=d; e"), ("x", "z")],
        true,
        "POST /p?q HTTP/1.1~host: a.example~x: y~x: z~cookie: a=b; c=d; e~~",
    ),
    (&[("cookie", ""), ("cookie", "")], true, "POST /p?q HTTP/1.1~host: a.example~~"),
    (
        &[(":path", "//evil.example/%0d%0aX:%20y"), ("x", "\u{e9} a\tb")],
        true,
        "POST //evil.example/%0d%0aX:%20y HTTP/1.1~host: a.example~x: \u{e9} a\tb~~",
    ),
];

#[test]
fn a_request_becomes_one_head_that_the_server_parses() {
    for (lines, is_last, expected) in PASSING {
        let list = list_of(&changed(lines));
        let request = CheckedRequest::new(&list, check(&list, *is_last).expect(expected));
        let (mut head, mut parts) = (Vec::new(), RequestParts::default());
        let writer = request.write_http1_head((&mut head, &mut parts));
        assert_eq!(writer.end(&HEAD_LIMITS).ok(), Some(head.len()), "{lines:?}");
        let shown: String = head.iter().map(|byte| char::from(*byte)).collect();
        assert_eq!(shown.replace("\r\n", "~"), *expected, "{lines:?}");
        let parsed = parts.head(&head);
        assert_eq!(parsed.method().as_bytes(), request.method());
        let target = request_target(parsed).expect(expected);
        assert_eq!(target.path_query, request.path());
        assert_eq!(parsed.fields().all(FieldId::Host).count(), 1);
        let framing = match (request.content_length(), is_last) {
            (Some(length), _) => BodyFraming::Length(length),
            (None, true) => BodyFraming::None,
            (None, false) => BodyFraming::Chunked,
        };
        assert_eq!(request_framing(parsed), Ok(framing), "{shown}");
    }
}

#[test]
fn connect_has_an_authority_or_a_protocol() {
    let context = CheckContext { scheme: Scheme::Http, extended_connect: true, is_last: false };
    let head = |lines: &[(&str, &str)]| {
        let list = list_of(lines);
        let index = check_request(&list, &context)?;
        let (mut head, mut parts) = (Vec::new(), RequestParts::default());
        let writer = CheckedRequest::new(&list, index).write_http1_head((&mut head, &mut parts));
        assert_eq!(writer.end(&HEAD_LIMITS).ok(), Some(head.len()), "{lines:?}");
        Ok(String::from_utf8_lossy(&head).replace("\r\n", "~"))
    };
    let [_, scheme, authority, path] = BASE;
    let (connect, protocol) = ((":method", "CONNECT"), (":protocol", "websocket"));
    for (lines, expected) in [
        (
            &[connect, authority][..],
            Ok("CONNECT a.example HTTP/1.1~host: a.example~transfer-encoding: chunked~~"),
        ),
        (
            &[connect, protocol, scheme, authority, path],
            Ok("GET /p?q HTTP/1.1~host: a.example~connection: upgrade~upgrade: websocket~~"),
        ),
        (&[connect, protocol, authority], Err(MissingPseudo)),
        (&[connect, (":protocol", "a b"), scheme, authority, path], Err(Connect)),
        (&[(":method", "GET"), protocol, scheme, authority, path], Err(Connect)),
        (&[connect, protocol, scheme, path, ("host", "a.example")], Err(Connect)),
    ] {
        assert_eq!(head(lines), expected.map(str::to_owned), "{lines:?}");
    }
}

#[test]
fn trailers_decide_about_nothing() {
    for (line, expected) in [
        (("grpc-status", "0"), Ok(())),
        (("x", ""), Ok(())),
        ((":path", "/"), Err(UnknownPseudo)),
        ((":status", "200"), Err(UnknownPseudo)),
        (("content-length", "3"), Err(TrailerField)),
        (("transfer-encoding", "chunked"), Err(TrailerField)),
        (("host", "b"), Err(TrailerField)),
        (("te", "trailers"), Err(TrailerField)),
        (("trailer", "x"), Err(TrailerField)),
        (("connection", "close"), Err(TrailerField)),
        (("X", "y"), Err(FieldName)),
        (("x\r\n", "y"), Err(FieldName)),
        (("x", "y\r\nz"), Err(FieldValue)),
    ] {
        assert_eq!(check_trailers(&list_of(&[line])), expected, "{line:?}");
    }
}

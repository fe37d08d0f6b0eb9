use super::*;
use crate::{
    error::{FramingError, LineError, RequestError::*},
    fields::FieldId,
    testing::{LIMITS, RequestVector, check, judge},
};

#[test]
fn request_lines_are_exact() {
    check(REQUEST_LINES);
}

const REQUEST_LINES: &[RequestVector] = &[
    ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", Ok("GET a/")),
    ("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET", Ok("GET a/ +3")),
    ("GET / HTTP/1.0\r\n\r\n", Ok("GET / 1.0")),
    ("GET / HTTP/1.9\r\nHost: a\r\n\r\n", Ok("GET a/")),
    ("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Ok("GET a/")),
    ("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Err(LeadingLines)),
    ("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Err(Line(LineError::BareLf))),
    ("\r\n\r", Ok("more")),
    ("", Ok("more")),
    ("GET", Ok("more")),
    ("get / HTTP/1.1\r\nHost: a\r\n\r\n", Ok("get a/")),
    ("M-SEARCH /x HTTP/1.1\r\nHost: a\r\n\r\n", Ok("M-SEARCH a/x")),
    ("GE(T / HTTP/1.1\r\nHost: a\r\n\r\n", Err(InvalidMethod)),
    ("G\u{c3}\u{89}T / HTTP/1.1\r\nHost: a\r\n\r\n", Err(InvalidMethod)),
    ("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", Err(InvalidMethod)),
    ("\"GET\" / HTTP/1.1\r\nHost: a\r\n\r\n", Err(InvalidMethod)),
    (
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345 / HTTP/1.1\r\nHost: a\r\n\r\n",
        Ok("ABCDEFGHIJKLMNOPQRSTUVWXYZ012345 a/"),
    ),
    ("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456 / HTTP/1.1\r\nHost: a\r\n\r\n", Err(MethodTooLong)),
    (" GET / HTTP/1.1\r\nHost: a\r\n\r\n", Err(InvalidRequestLine)),
    ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", Err(InvalidRequestLine)),
    ("GET /  HTTP/1.1\r\nHost: a\r\n\r\n", Err(InvalidRequestLine)),
    ("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", Err(InvalidRequestLine)),
    ("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", Err(InvalidRequestLine)),
    ("GET /\tHTTP/1.1\r\nHost: a\r\n\r\n", Err(InvalidTarget)),
    ("GET\r\n\r\n", Err(InvalidRequestLine)),
    ("GET /\r\n", Err(InvalidRequestLine)),
    ("GET / \r\n\r\n", Err(InvalidVersion)),
    ("GET HTTP/1.1\r\nHost: a\r\n\r\n", Err(InvalidRequestLine)),
    ("GET / http/1.1\r\nHost: a\r\n\r\n", Err(InvalidVersion)),
    ("GET / HTTP/1.1x\r\nHost: a\r\n\r\n", Err(InvalidVersion)),
    ("GET / HTTP/1.\r\nHost: a\r\n\r\n", Err(InvalidVersion)),
    ("GET / HTTP/11\r\nHost: a\r\n\r\n", Err(InvalidVersion)),
    ("GET / HTTP/1,1\r\nHost: a\r\n\r\n", Err(InvalidVersion)),
    ("GET / HTTP/+.1\r\nHost: a\r\n\r\n", Err(InvalidVersion)),
    ("GET / HTTP/01.1\r\nHost: a\r\n\r\n", Err(InvalidVersion)),
    ("GET / HTTPS/1.1\r\nHost: a\r\n\r\n", Err(InvalidVersion)),
    ("GET / ICY/1.1\r\nHost: a\r\n\r\n", Err(InvalidVersion)),
    ("GET / HTTP/0.9\r\nHost: a\r\n\r\n", Err(UnsupportedVersion)),
    ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", Err(UnsupportedVersion)),
    ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Err(UnsupportedVersion)),
    ("\x16\x03\x01\x02\x00\x01", Err(Line(LineError::Control))),
    ("GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", Err(Line(LineError::Control))),
    ("GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n", Err(Line(LineError::Control))),
    ("GET / HTTP/1.1\nHost: a\r\n\r\n", Err(Line(LineError::BareLf))),
    ("GET / HTTP/1.1\rHost: a\r\n\r\n", Err(Line(LineError::BareCr))),
    ("GET / HTTP/1.1\r\r\nHost: a\r\n\r\n", Err(Line(LineError::BareCr))),
];

#[test]
fn field_lines_are_exact() {
    check(FIELD_LINES);
}

const FIELD_LINES: &[RequestVector] = &[
    ("GET / HTTP/1.1\r\nhOsT:a\r\n\r\n", Ok("GET a/")),
    ("GET / HTTP/1.1\r\nHost: \t a \t\r\n\r\n", Ok("GET a/")),
    ("GET / HTTP/1.1\r\nHost: a\r\nX:\r\n\r\n", Ok("GET a/")),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: \t \r\n\r\n", Ok("GET a/")),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: a\tb\u{ff}\u{80}:c\r\n\r\n", Ok("GET a/")),
    ("GET / HTTP/1.1\r\nHost: a\r\n!#$%&'*+-.^_`|~0Az: b\r\n\r\n", Ok("GET a/")),
    ("GET / HTTP/1.1\r\nHost: a\r\n", Ok("more")),
    ("GET / HTTP/1.1\r\nHost: a\r\n\r", Ok("more")),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: b\n\r\n", Err(Line(LineError::BareLf))),
    ("GET / HTTP/1.1\r\nHost: a\n\n", Err(Line(LineError::BareLf))),
    ("GET / HTTP/1.1\r\nHost: a\r\n\n", Err(Line(LineError::BareLf))),
    ("GET / HTTP/1.1\r\nHost: a\r\n\rX", Err(Line(LineError::BareCr))),
    ("GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", Err(Line(LineError::BareCr))),
    ("GET / HTTP/1.1\r\nHost: a\r\r\n\r\n", Err(Line(LineError::BareCr))),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n", Err(Line(LineError::Control))),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: \x1b[0m\r\n\r\n", Err(Line(LineError::Control))),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: \x7f\r\n\r\n", Err(Line(LineError::Control))),
    ("GET / HTTP/1.1\r\nHost: a\r\nX\0: b\r\n\r\n", Err(Line(LineError::Control))),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n", Err(Line(LineError::Folded))),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n\tc: d\r\n\r\n", Err(Line(LineError::Folded))),
    ("GET / HTTP/1.1\r\n Host: a\r\n\r\n", Err(Line(LineError::Folded))),
    ("GET / HTTP/1.1\r\nHost: a\r\n \r\n\r\n", Err(Line(LineError::Folded))),
    ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", Err(Line(LineError::SpaceAfterName))),
    ("GET / HTTP/1.1\r\nHost\t: a\r\n\r\n", Err(Line(LineError::SpaceAfterName))),
    ("GET / HTTP/1.1\r\nHost: a\r\nX Y: b\r\n\r\n", Err(Line(LineError::SpaceAfterName))),
    ("GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", Err(Line(LineError::EmptyName))),
    ("GET / HTTP/1.1\r\nHost: a\r\n:\r\n\r\n", Err(Line(LineError::EmptyName))),
    ("GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n", Err(Line(LineError::MissingColon))),
    ("GET / HTTP/1.1\r\nHost: a\r\nX=b\r\n\r\n", Err(Line(LineError::MissingColon))),
    ("GET / HTTP/1.1\r\nHost: a\r\nX(): b\r\n\r\n", Err(Line(LineError::InvalidName))),
    ("GET / HTTP/1.1\r\nHost: a\r\n\"X\": b\r\n\r\n", Err(Line(LineError::InvalidName))),
    ("GET / HTTP/1.1\r\nHost: a\r\nX\u{e9}: b\r\n\r\n", Err(Line(LineError::InvalidName))),
    ("GET / HTTP/1.1\r\nHost: a\r\nX,Y: b\r\n\r\n", Err(Line(LineError::InvalidName))),
];

#[test]
fn an_expectation_is_100_continue_or_refused() {
    check(AN_EXPECTATION_IS_100_CONTINUE_OR_REFUSED);
}

const AN_EXPECTATION_IS_100_CONTINUE_OR_REFUSED: &[RequestVector] = &[
    ("PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\n\r\n", Ok("PUT a/ continue")),
    ("PUT / HTTP/1.0\r\nExpect: anything\r\n\r\n", Ok("PUT / 1.0")),
    ("PUT / HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\n\r\n", Err(UnknownExpectation)),
    ("PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue, x\r\n\r\n", Err(UnknownExpectation)),
    ("PUT / HTTP/1.1\r\nHost: a\r\nExpect:\r\n\r\n", Ok("PUT a/")),
];

#[test]
fn limits_are_exact_to_the_byte() {
    let head = |target: usize, field_count: usize, value: usize| {
        let mut head = format!("GET /{} HTTP/1.1\r\nHost: a\r\n", "t".repeat(target - 1));
        (1..field_count).for_each(|_| head += "x:\r\n");
        head.truncate(head.len() - 2);
        head + &"v".repeat(value) + "\r\n\r\n"
    };
    let fill = |total: usize| head(1, 2, total - head(1, 2, 0).len());
    let long_line = format!("GET /{}", "t".repeat(300));
    for (text, expected) in [
        (head(60, 1, 0), Ok(Some(86))),
        (head(61, 1, 0), Err(RequestError::TargetTooLong)),
        (long_line, Err(RequestError::TargetTooLong)),
        (head(1, 6, 0), Ok(Some(47))),
        (head(1, 7, 0), Err(RequestError::TooManyFields)),
        (fill(400), Ok(Some(400))),
        (fill(400) + "next", Ok(Some(400))),
        (fill(401), Err(RequestError::HeadTooLarge)),
        (fill(900), Err(RequestError::HeadTooLarge)),
    ] {
        let whole = parse_request(text.as_bytes(), &LIMITS, &mut RequestParts::default());
        assert_eq!(whole, expected, "{text:?}");
        for split in 0..text.len() {
            let mut parts = RequestParts::default();
            let mut verdict = parse_request(&text.as_bytes()[..split], &LIMITS, &mut parts);
            if verdict == Ok(None) {
                verdict = parse_request(text.as_bytes(), &LIMITS, &mut parts);
            }
            assert_eq!(verdict, expected, "split at {split}: {text:?}");
        }
    }
}

#[test]
fn a_field_name_has_a_limit_of_its_own() {
    let limits = HeadLimits { head_bytes_max: 1 << 20, field_count_max: 9, target_bytes_max: 9 };
    for (len, expected) in [
        (usize::from(u16::MAX), None),
        (usize::from(u16::MAX) + 1, Some(RequestError::Line(LineError::NameTooLong))),
    ] {
        let text = format!("GET / HTTP/1.1\r\n{}: a\r\n\r\n", "n".repeat(len));
        let verdict = parse_request(text.as_bytes(), &limits, &mut RequestParts::default());
        assert_eq!(verdict.err(), expected, "{len}");
    }
}

#[test]
fn each_byte_is_searched_once() {
    let limits = HeadLimits { head_bytes_max: 1 << 20, field_count_max: 9, target_bytes_max: 99 };
    let mut parts = RequestParts::default();
    let text = format!("GET / HTTP/1.1\r\nCookie: {}", "c".repeat(5_000));
    for len in 0..text.len() {
        let bytes = &text.as_bytes()[..len];
        assert_eq!(parse_request(bytes, &limits, &mut parts), Ok(None));
        // A CR at the end is searched again when the next byte arrives.
        let waiting = usize::from(bytes.ends_with(b"\r"));
        assert_eq!(parts.scan.searched(), len - waiting, "after {len} bytes");
    }
}

#[test]
fn parts_restart_after_each_result() {
    let mut parts = RequestParts::default();
    let good = b"POST /x HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n";
    for _ in 0..2 {
        assert_eq!(judge(good, &mut parts).as_deref(), Ok("POST a/x"));
        assert_eq!(parts.head(good).fields().count(), 2);
        assert_eq!(parts.head(good).fields().first(FieldId::Host), Some(&b"a"[..]));
        assert!(judge(b"POST /x HTTP/1.1\r\nHost: a\r\n\n", &mut parts).is_err());
        assert_eq!(judge(b"POST /x HTTP/1.1\r\nHo", &mut parts).as_deref(), Ok("more"));
        parts.clear();
    }
}

#[test]
fn error_statuses_are_those_of_the_rfc() {
    for (error, status) in [
        (RequestError::InvalidMethod, 400),
        (RequestError::TargetTooLong, 414),
        (RequestError::UnknownExpectation, 417),
        (RequestError::HeadTooLarge, 431),
        (RequestError::TooManyFields, 431),
        (RequestError::MethodNotImplemented, 501),
        (RequestError::Framing(FramingError::UnknownCoding), 501),
        (RequestError::Framing(FramingError::InvalidCoding), 400),
        (RequestError::UnsupportedVersion, 505),
    ] {
        assert_eq!(error.status(), status, "{error}");
    }
}

#[test]
fn only_standard_methods_are_known_safe_or_idempotent() {
    for (token, safe, idempotent) in [
        ("GET", true, true),
        ("HEAD", true, true),
        ("OPTIONS", true, true),
        ("TRACE", true, true),
        ("PUT", false, true),
        ("DELETE", false, true),
        ("POST", false, false),
        ("PATCH", false, false),
        ("CONNECT", false, false),
        ("PROPFIND", false, false),
        ("get", false, false),
    ] {
        let method = Method::of(token.as_bytes());
        assert_eq!(method.as_bytes(), token.as_bytes());
        assert_eq!((method.is_safe(), method.is_idempotent()), (safe, idempotent), "{token}");
    }
}

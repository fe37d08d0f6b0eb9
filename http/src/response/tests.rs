use super::*;
use crate::{
    error::{FramingError::*, OriginError::*},
    testing::latin1,
};

const LIMITS: OriginLimits = OriginLimits { head_bytes_max: 200, field_count_max: 5 };

type Vector = (&'static str, Result<&'static str, OriginError>);

type Verdict = Result<Option<String>, OriginError>;

fn judge(bytes: &[u8], method: Method<'_>) -> Verdict {
    let Some((len, head)) = parse_response(bytes, method, &LIMITS)? else {
        return Ok(None);
    };
    let block = String::from_utf8_lossy(head.block.bytes()).replace("\r\n", "|");
    let mut text = format!("{} {:?} {block}", head.status, head.framing);
    if let (Some(length), BodyFraming::None) = (head.content_length, head.framing) {
        text += &format!(" of {length}");
    }
    if len < bytes.len() {
        text += &format!(" +{}", bytes.len() - len);
    }
    Ok(Some(text))
}

fn check(method: Method<'_>, vectors: &[Vector]) {
    for (shown, expected) in vectors {
        let bytes = &latin1(shown)[..];
        let whole = judge(bytes, method);
        assert_eq!(whole, expected.map(|text| Some(text.to_owned())), "{shown:?}");
        for split in 0..bytes.len() {
            // A head that is refused before it is complete is refused for the same reason as the
            // whole head.
            match judge(&bytes[..split], method) {
                Ok(None) => {}
                Ok(Some(_)) => assert!(whole.is_ok(), "cut at {split}: {shown:?}"),
                error => assert_eq!(error, whole, "cut at {split}: {shown:?}"),
            }
        }
    }
}

#[test]
fn a_valid_response_keeps_its_end_to_end_fields() {
    check(Method::Get, GOOD);
    check(
        Method::Head,
        &[
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", Ok("200 None  of 5")),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", Ok("200 None ")),
            ("HTTP/1.1 200 OK\r\n\r\n", Ok("200 None ")),
            ("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", Err(Framing(InvalidLength))),
        ],
    );
}

const GOOD: &[Vector] = &[
    (
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: \"a\"\r\n\r\nhello",
        Ok("200 Length(5) ETag: \"a\"| +5"),
    ),
    ("HTTP/1.1 200 \r\n\r\n", Ok("200 UntilClose ")),
    ("HTTP/1.0 404 Not\tF\u{f6}und\r\n\r\n", Ok("404 UntilClose ")),
    (
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\nDate: x\r\n\r\n",
        Ok("200 Chunked Date: x|"),
    ),
    (
        "HTTP/1.1 200 OK\r\nConnection: close, X-A\r\nx-a: 1\r\nVary: b\r\nKeep-Alive: 1\r\n\r\n",
        Ok("200 UntilClose Vary: b|"),
    ),
    (
        "HTTP/1.1 200 OK\r\nX-A: 1\r\nConnection: x-a, set-cookie\r\nSet-Cookie: c\r\n\r\n",
        Ok("200 UntilClose Set-Cookie: c|"),
    ),
    (
        "HTTP/1.1 200 OK\r\nUpgrade: h2c\r\nProxy-Authenticate: x\r\nTrailer: t\r\n\r\n",
        Ok("200 UntilClose Trailer: t|"),
    ),
    ("HTTP/1.1 100 Continue\r\n\r\n", Ok("100 None ")),
    ("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", Ok("103 None Link: </a>|")),
    ("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", Ok("204 None  of 0")),
    ("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", Ok("304 None  of 9")),
    ("HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", Ok("304 None ")),
    ("HTTP/1.1 599 Odd\r\nContent-Length: 0\r\n\r\n", Ok("599 Length(0) ")),
];

#[test]
fn a_hostile_response_is_refused() {
    check(Method::Get, HOSTILE);
}

const HOSTILE: &[Vector] = &[
    ("HTTP/1.1 200\r\n\r\n", Err(InvalidStatusLine)),
    ("HTTP/1.1  200 OK\r\n\r\n", Err(InvalidStatusLine)),
    ("HTTP/1.1 20 OK\r\n\r\n", Err(InvalidStatusLine)),
    ("HTTP/1.1 2000 OK\r\n\r\n", Err(InvalidStatusLine)),
    ("HTTP/1.1 +20 OK\r\n\r\n", Err(InvalidStatusLine)),
    ("HTTP/1.1 2x0 OK\r\n\r\n", Err(InvalidStatusLine)),
    ("HTTP/1.1\t200 OK\r\n\r\n", Err(InvalidStatusLine)),
    ("http/1.1 200 OK\r\n\r\n", Err(InvalidStatusLine)),
    ("ICY 200 OK\r\n\r\n", Err(InvalidStatusLine)),
    ("<html>\r\n", Err(InvalidStatusLine)),
    ("\r\nHTTP/1.1 200 OK\r\n\r\n", Err(InvalidStatusLine)),
    ("HTTP/2.0 200 OK\r\n\r\n", Err(UnsupportedVersion)),
    ("HTTP/1.1 099 OK\r\n\r\n", Err(InvalidStatus)),
    ("HTTP/1.1 600 OK\r\n\r\n", Err(InvalidStatus)),
    ("HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", Err(UnaskedUpgrade)),
    ("HTTP/1.1 200 OK\n\n", Err(Line(LineError::BareLf))),
    ("HTTP/1.1 200 O\0K\r\n\r\n", Err(Line(LineError::Control))),
    ("HTTP/1.1 200 OK\r\nX: \r y\r\n\r\n", Err(Line(LineError::BareCr))),
    ("HTTP/1.1 200 OK\r\nX: y\r\n z\r\n\r\n", Err(Line(LineError::Folded))),
    ("HTTP/1.1 200 OK\r\nX : y\r\n\r\n", Err(Line(LineError::SpaceAfterName))),
    ("HTTP/1.1 200 OK\r\nX\r\n\r\n", Err(Line(LineError::MissingColon))),
    ("HTTP/1.1 200 OK\r\n: y\r\n\r\n", Err(Line(LineError::EmptyName))),
    ("HTTP/1.1 200 OK\r\nX[]: y\r\n\r\n", Err(Line(LineError::InvalidName))),
    ("HTTP/1.1 200 OK\r\na:\r\na:\r\na:\r\na:\r\na:\r\na:\r\n\r\n", Err(TooManyFields)),
    (
        "HTTP/1.1 200 OK\r\n\
             X: 0123456789012345678901234567890123456789012345678901234567890123456789\
             0123456789012345678901234567890123456789012345678901234567890123456789\
             0123456789012345678901234567890123456789\r\n\r\n",
        Err(HeadTooLarge),
    ),
    (
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        Err(Framing(LengthAndCoding)),
    ),
    (
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
        Err(Framing(SeveralLengths)),
    ),
    ("HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n", Err(Framing(InvalidLength))),
    ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", Err(Framing(InvalidLength))),
    (
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        Err(Framing(InvalidLength)),
    ),
    ("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", Err(Framing(CodingInHttp10))),
    ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", Err(Framing(InvalidCoding))),
    ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", Err(Framing(UnknownCoding))),
    (
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n",
        Err(Framing(SeveralCodings)),
    ),
    ("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", Err(ForbiddenBody)),
    ("HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", Err(ForbiddenBody)),
    ("HTTP/1.1 100 Continue\r\nContent-Length: 5\r\n\r\n", Err(ForbiddenBody)),
    (
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        Err(Framing(SeveralLengths)),
    ),
    (
        "HTTP/1.1 200 OK\r\nConnection: a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q\r\n\r\n",
        Err(OriginError::TooManyOptions),
    ),
];

#[test]
fn lines_from_a_library_are_validated_again() {
    let limits = OriginLimits { head_bytes_max: 70_000, field_count_max: 2 };
    let long = vec![b'n'; usize::from(u16::MAX) + 1];
    for (name, value, expected) in [
        (&b"X-A"[..], &b" a b\t"[..], None),
        (b"", b"a", Some(Line(LineError::EmptyName))),
        (b"X A", b"a", Some(Line(LineError::InvalidName))),
        (b"X-A", b"a\r\nSet-Cookie: b", Some(Line(LineError::Control))),
        (b"X-A", b"a\0", Some(Line(LineError::Control))),
        (&long, b"a", Some(Line(LineError::NameTooLong))),
        (b"X-A", &[b'v'; 70_000], Some(HeadTooLarge)),
    ] {
        let lines = [(name, value)].into_iter();
        let head = origin_head(200, Version::Http11, Method::Get, &limits, lines);
        let shown = String::from_utf8_lossy(name.get(..9).unwrap_or(name));
        assert_eq!(head.as_ref().err().copied(), expected, "{shown:?}");
        if let Ok(head) = head {
            assert_eq!(head.block.bytes(), b"X-A: a b\r\n");
        }
    }
    let three = [(&b"a"[..], &b""[..]); 3].into_iter();
    let head = origin_head(200, Version::Http11, Method::Get, &limits, three);
    assert_eq!(head.err(), Some(TooManyFields));
}

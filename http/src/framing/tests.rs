use super::*;
use crate::{
    error::{FramingError::*, RequestError::Framing},
    fields::FieldBlock,
    testing::{RequestVector, check},
};

#[test]
fn the_end_of_a_request_body_is_unambiguous() {
    check(BODIES);
}

const BODIES: &[RequestVector] = &[
    ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", Ok("GET a/ Length(5)")),
    ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length:0\r\n\r\n", Ok("PUT a/ Length(0)")),
    ("PUT / HTTP/1.0\r\nContent-Length: 007\r\n\r\n", Ok("PUT / 1.0 Length(7)")),
    ("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", Ok("PUT a/ Chunked")),
    ("PUT / HTTP/1.1\r\nHost: a\r\ntransfer-encoding:CHUNKED\r\n\r\n", Ok("PUT a/ Chunked")),
    ("PUT / HTTP/1.1\r\nHost: a\r\nX-Transfer-Encoding: gzip\r\n\r\n", Ok("PUT a/")),
    (
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551615\r\n\r\n",
        Ok("PUT a/ Length(18446744073709551615)"),
    ),
    (
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551616\r\n\r\n",
        Err(Framing(InvalidLength)),
    ),
    (
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        Err(Framing(LengthAndCoding)),
    ),
    (
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x\r\nContent-Length: 5, 6\r\n\r\n",
        Err(Framing(LengthAndCoding)),
    ),
    (
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
        Err(Framing(SeveralLengths)),
    ),
    (
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\ncontent-length: 6\r\n\r\n",
        Err(Framing(SeveralLengths)),
    ),
    ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\n", Err(Framing(InvalidLength))),
    ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5,\r\n\r\n", Err(Framing(InvalidLength))),
    ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\n", Err(Framing(InvalidLength))),
    ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n", Err(Framing(InvalidLength))),
    ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\n", Err(Framing(InvalidLength))),
    ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5 5\r\n\r\n", Err(Framing(InvalidLength))),
    ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5.0\r\n\r\n", Err(Framing(InvalidLength))),
    ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1e1\r\n\r\n", Err(Framing(InvalidLength))),
    ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: \"5\"\r\n\r\n", Err(Framing(InvalidLength))),
    ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: \u{b2}\r\n\r\n", Err(Framing(InvalidLength))),
    ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", Err(Framing(InvalidLength))),
    ("PUT / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", Err(Framing(CodingInHttp10))),
    ("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n", Err(Framing(InvalidCoding))),
    ("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: ,\r\n\r\n", Err(Framing(InvalidCoding))),
    ("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", Err(Framing(InvalidCoding))),
    (
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n",
        Err(Framing(InvalidCoding)),
    ),
    (
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n",
        Err(Framing(InvalidCoding)),
    ),
    (
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n",
        Err(crate::error::RequestError::Line(crate::error::LineError::Control)),
    ),
    (
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n",
        Err(Framing(InvalidCoding)),
    ),
    (
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked;q=1\r\n\r\n",
        Err(Framing(InvalidCoding)),
    ),
    (
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked,\r\n\r\n",
        Err(Framing(InvalidCoding)),
    ),
    (
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n",
        Err(Framing(InvalidCoding)),
    ),
    (
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
        Err(Framing(InvalidCoding)),
    ),
    (
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked gzip\r\n\r\n",
        Err(Framing(InvalidCoding)),
    ),
    (
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        Err(Framing(UnknownCoding)),
    ),
    (
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x;y=z , Chunked\r\n\r\n",
        Err(Framing(UnknownCoding)),
    ),
    (
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: zip\r\nTransfer-Encoding: chunked\r\n\r\n",
        Err(Framing(SeveralCodings)),
    ),
    (
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\ntransfer-encoding:\r\n\r\n",
        Err(Framing(SeveralCodings)),
    ),
];

#[test]
fn a_connection_persists_unless_a_side_closes_it() {
    use Version::{Http10, Http11};
    for (version, connection, expected) in [
        (Http11, &[][..], true),
        (Http10, &[], false),
        (Http11, &["keep-alive"], true),
        (Http10, &["Keep-Alive"], true),
        (Http10, &["x", "y , KEEP-ALIVE"], true),
        (Http11, &["Close"], false),
        (Http11, &["x, close"], false),
        (Http11, &["keep-alive", "close"], false),
        (Http10, &["close, keep-alive"], false),
        (Http11, &["closed"], true),
        (Http10, &["keep-alive-not"], false),
    ] {
        let mut block = FieldBlock::new();
        connection.iter().for_each(|value| block.push(b"Connection", value.as_bytes()));
        let keeps = keeps_alive(version, block.fields());
        assert_eq!(keeps, expected, "{version:?} {connection:?}");
    }
}

use super::*;
use crate::{error::ChunkedError::*, testing::Xorshift};

const LIMITS: ChunkedLimits =
    ChunkedLimits { extension_bytes_max: 24, trailer_bytes_max: 60, trailer_count_max: 3 };

/// The data, the trailers and the number of bytes after the body; `None` while the body continues.
type Decoded = Result<Option<(Vec<u8>, String, usize)>, ChunkedError>;

/// Decodes the pieces in order and collects the result, as a connection would.
fn decode(pieces: &[&[u8]]) -> Decoded {
    let mut decoder = ChunkedDecoder::new(LIMITS);
    let mut data = Vec::new();
    let mut left_over = 0;
    let mut ended = false;
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() && !ended {
            let (consumed, event) = decoder.step(rest)?;
            match event {
                ChunkedEvent::NeedMore => assert_eq!(consumed, rest.len()),
                ChunkedEvent::Data(range) => {
                    assert!(!range.is_empty() && range.end == consumed);
                    data.extend_from_slice(&rest[range]);
                }
                ChunkedEvent::End => ended = true,
            }
            rest = &rest[consumed..];
        }
        left_over += rest.len();
    }
    let trailers = String::from_utf8_lossy(decoder.into_trailers().bytes()).into_owned();
    Ok(ended.then_some((data, trailers, left_over)))
}

fn check(bytes: &[u8], expected: &Decoded) {
    let shown = String::from_utf8_lossy(bytes);
    assert_eq!(&decode(&[bytes]), expected, "{shown:?}");
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(&decode(&single), expected, "byte by byte: {shown:?}");
    for split in 0..bytes.len() {
        let (one, other) = bytes.split_at(split);
        assert_eq!(&decode(&[one, other]), expected, "split at {split}: {shown:?}");
    }
}

#[test]
fn chunks_are_decoded_and_following_bytes_are_left() {
    for (text, data, trailers, left_over) in [
        ("0\r\n\r\n", "", "", 0),
        ("5\r\nhello\r\n0\r\n\r\n", "hello", "", 0),
        ("5\r\nhello\r\n1\r\n!\r\n0\r\n\r\nGET", "hello!", "", 3),
        ("0000000000000005\r\nhello\r\n000\r\n\r\n", "hello", "", 0),
        (
            "a\r\n0123456789\r\nA\r\n\r\n\r\n\r\n\r\n\r\n\r\n0\r\n\r\n",
            "0123456789\r\n\r\n\r\n\r\n\r\n",
            "",
            0,
        ),
        ("1;a\r\nx\r\n0;b=c\r\n\r\n", "x", "", 0),
        ("1\t;\ta\t=\tb\t;c=\"\";d\r\nx\r\n0\r\n\r\n", "x", "", 0),
        ("1;a=\"b;\\\"\t\u{e9}\"\r\nx\r\n0\r\n\r\n", "x", "", 0),
        ("0\r\nX-Sum: 1\r\ny:\r\n\r\n", "", "X-Sum: 1\r\ny: \r\n", 0),
        ("0\r\nContent-Length: 5\r\nTransfer-Encoding: x\r\nHost: a\r\n\r\n", "", "", 0),
        ("0\r\nAuthorization: x\r\nX: y\r\nCookie: z\r\n\r\n", "", "X: y\r\n", 0),
        ("0\r\nContent-Foo: x\r\nIf-Foo: y\r\nForwarded: z\r\n\r\n", "", "", 0),
        ("0\r\nCache-Control: no-store\r\nETag: \"a\"\r\n\r\n", "", "", 0),
        ("0\r\nClient_Cert: x\r\nclient_CERT-chain: x\r\nX_Y: z\r\n\r\n", "", "X_Y: z\r\n", 0),
        ("0\r\nClient-Cert: x\r\nX_Forwarded_For: y\r\n\r\n", "", "", 0),
    ] {
        let expected = Ok(Some((data.as_bytes().to_vec(), trailers.to_owned(), left_over)));
        check(text.as_bytes(), &expected);
    }
}

#[test]
fn malformed_chunks_are_errors() {
    for (text, error) in MALFORMED {
        check(text.as_bytes(), &Err(*error));
    }
}

const MALFORMED: &[(&str, ChunkedError)] = &[
    ("\r\n", InvalidSize),
    (" 5\r\nhello\r\n0\r\n\r\n", InvalidSize),
    ("0x5\r\nhello\r\n0\r\n\r\n", InvalidSize),
    ("+5\r\nhello\r\n0\r\n\r\n", InvalidSize),
    ("-1\r\n", InvalidSize),
    ("g\r\n", InvalidSize),
    (";a\r\n", InvalidSize),
    ("5,5\r\n", InvalidSize),
    ("5\nhello\r\n0\r\n\r\n", InvalidSize),
    ("5\0\r\nhello", InvalidSize),
    ("5\u{e9}\r\n", InvalidSize),
    ("00000000000000005\r\n", SizeTooLarge),
    ("fffffffffffffffff\r\n", SizeTooLarge),
    ("10000000000000000\r\n", SizeTooLarge),
    ("8000000000000000\r\n", SizeTooLarge),
    ("ffffffffffffffff\r\n", SizeTooLarge),
    ("5 \r\nhello\r\n", InvalidExtension),
    ("5 a\r\n", InvalidExtension),
    ("5;\r\nhello\r\n", InvalidExtension),
    ("5;;a\r\n", InvalidExtension),
    ("5;a=\r\n", InvalidExtension),
    ("5;a=b=c\r\n", InvalidExtension),
    ("5;a \r\n", InvalidExtension),
    ("5;a=b \r\n", InvalidExtension),
    ("5;a=\"b\" \r\n", InvalidExtension),
    ("5;a=\"b\"c\r\n", InvalidExtension),
    ("5;a=\"b\r\n\"", InvalidExtension),
    ("5;a=\"\\\n\"", InvalidExtension),
    ("5 ; a = \"b\r\"\r\n", InvalidExtension),
    ("5;a=\"\0\"", InvalidExtension),
    ("5;a=\"\x7f\"", InvalidExtension),
    ("5;a\nhello\r\n", InvalidExtension),
    ("5;(\r\n", InvalidExtension),
    ("5;a=b,c\r\n", InvalidExtension),
    ("5;abcdefghijklmnopqrstuvwxyz\r\n", ExtensionsTooLarge),
    ("1;abcdefghijklm\r\nx\r\n1;abcdefghijkl\r\n", ExtensionsTooLarge),
    ("5\rhello", MissingLineEnd),
    ("5\r\rhello", MissingLineEnd),
    ("5;a\rb", MissingLineEnd),
    ("5\r\nhello!\r\n", MissingLineEnd),
    ("5\r\nhello\n0\r\n\r\n", MissingLineEnd),
    ("5\r\nhello\r0\r\n\r\n", MissingLineEnd),
    ("5\r\nhello0\r\n\r\n", MissingLineEnd),
    ("0\r\n\n", Line(LineError::BareLf)),
    ("0\r\nX: y\n\r\n", Line(LineError::BareLf)),
    ("0\r\n\rX: y\r\n\r\n", Line(LineError::BareCr)),
    ("0\r\nX: \0\r\n\r\n", Line(LineError::Control)),
    ("0\r\nX : y\r\n\r\n", Line(LineError::SpaceAfterName)),
    ("0\r\nX: y\r\n z\r\n\r\n", Line(LineError::Folded)),
    ("0\r\n: y\r\n\r\n", Line(LineError::EmptyName)),
    ("0\r\nGET / HTTP/1.1\r\n\r\n", Line(LineError::MissingColon)),
    ("0\r\nX@: y\r\n\r\n", Line(LineError::InvalidName)),
    ("0\r\na:\r\nb:\r\nhost:\r\nd:\r\n\r\n", TooManyTrailers),
    ("0\r\na: 0123456789012345678901234567890123456789012345678901234567890\r\n", TrailersTooLarge),
];

#[test]
fn an_unfinished_body_asks_for_more() {
    for text in [
        "",
        "5",
        "5\r",
        "5\r\n",
        "5\r\nhel",
        "5\r\nhello\r",
        "5;a=\"",
        "0\r\n",
        "0\r\n\r",
        "0\r\nX: y\r\n",
    ] {
        check(text.as_bytes(), &Ok(None));
    }
}

#[test]
fn an_error_and_the_end_are_final() {
    let mut decoder = ChunkedDecoder::new(LIMITS);
    assert_eq!(decoder.step(b"x"), Err(InvalidSize));
    assert_eq!(decoder.step(b"0\r\n\r\n"), Err(InvalidSize));
    let mut decoder = ChunkedDecoder::new(LIMITS);
    assert_eq!(decoder.step(b"0\r\n\r\n"), Ok((5, ChunkedEvent::End)));
    assert_eq!(decoder.step(b"5\r\n"), Ok((0, ChunkedEvent::End)));
}

#[test]
fn a_chunk_larger_than_memory_is_decoded_piece_by_piece() {
    let mut decoder = ChunkedDecoder::new(LIMITS);
    assert_eq!(decoder.step(b"7fffffffffffffff\r\nab"), Ok((20, ChunkedEvent::Data(18..20))));
    assert_eq!(decoder.step(b"cd"), Ok((2, ChunkedEvent::Data(0..2))));
    assert_eq!(decoder.announced_bytes(), SIZE_MAX - 4);
}

#[test]
fn a_chunk_head_is_the_shortest_hexadecimal_number() {
    let mut buffer = [0; CHUNK_HEAD_BYTES_MAX];
    for power in 0..64 {
        for size in [(1u64 << power) - 1, 1 << power, u64::MAX >> power] {
            let expected = format!("{size:x}\r\n");
            assert_eq!(write_chunk_head(size, &mut buffer), expected.as_bytes());
        }
    }
}

#[test]
fn mutated_bodies_decode_the_same_however_they_are_split() {
    const BODIES: [&[u8]; 3] = [
        b"5\r\nhello\r\n0\r\n\r\n",
        b"1;a=\"b\\\"\";c\r\nx\r\nA\r\n0123456789\r\n0\r\nX-Sum: 1\r\nHost: a\r\n\r\n",
        b"3\r\nabc\r\n2 ; a = b\r\nde\r\n0;z\r\nA: b\r\n\r\nnext",
    ];
    let seed = 0xc0_ffee_5eed;
    println!("seed {seed:#x}");
    let mut random = Xorshift(seed);
    for round in 0..20_000 {
        let mut bytes = BODIES[random.below(BODIES.len())].to_vec();
        random.mutate(&mut bytes);
        let (one, rest) = bytes.split_at(random.below(bytes.len()));
        let (two, three) = rest.split_at(random.below(rest.len()));
        let shown = String::from_utf8_lossy(&bytes);
        assert_eq!(decode(&[one, two, three]), decode(&[&bytes]), "{seed:#x} {round} {shown:?}");
    }
}

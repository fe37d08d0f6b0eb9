//! Response heads of this server as header blocks.

use forebay_http::fields::FieldId;
use forebay_http::framing::BodyFraming;
use forebay_http2::hpack::{encode_known_field, encode_status};

/// The kind of response that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseKind {
    Content,
    /// The response to HEAD, without a body.
    HeadOnly,
    /// The response to an extended CONNECT (RFC 8441). A WebSocket has the value that
    /// Sec-WebSocket-Accept must have.
    Tunnel(Option<[u8; 28]>),
}

/// The properties of a head that was encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EncodedHead {
    /// The length of the head as text, with the empty line at its end.
    pub(super) text_bytes: usize,
    pub(super) status: u16,
    /// The framing of the body that follows the text.
    pub(super) framing: BodyFraming,
}

const ACCEPT_FIELD: &[u8] = b"sec-websocket-accept";

/// A head that this server cannot have written, or that does not answer the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BrokenHead;

/// Appends the header block of the response head at the start of `text`; returns `None`, and
/// appends nothing, if the head is incomplete.
///
/// The fields that concern a connection of HTTP/1.1 are left out (RFC 9113 §8.2.2). The 101 that
/// opens a tunnel becomes a 200, whose body is the origin's direction of the tunnel (RFC 8441 §5).
///
/// # Errors
/// The text is not a head that this server writes, or not one that answers a request of this kind:
/// for a tunnel, the client would take any other 2xx for the start of the tunnel.
pub(super) fn encode_head(
    text: &[u8],
    kind: ResponseKind,
    block: &mut Vec<u8>,
) -> Result<Option<EncodedHead>, BrokenHead> {
    let start = block.len();
    let mut lines = HeadLines { text, at: 0 };
    let Some(first) = lines.next() else {
        return Ok(None);
    };
    let (status, opens_tunnel) = match (status_of(first).ok_or(BrokenHead)?, kind) {
        (101, ResponseKind::Tunnel(_)) => (200, true),
        (101, _) | (200..=299, ResponseKind::Tunnel(_)) => return Err(BrokenHead),
        (status, _) => (status, false),
    };
    encode_status(block, status);
    let (mut length, mut is_chunked, mut accept) = (None, false, None);
    loop {
        let Some(line) = lines.next() else {
            block.truncate(start);
            return Ok(None);
        };
        if line.is_empty() {
            break;
        }
        let colon = memchr::memchr(b':', line).ok_or(BrokenHead)?;
        let (name, value) = line.split_at_checked(colon).unwrap_or_default();
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        match FieldId::of(name) {
            FieldId::Connection
            | FieldId::KeepAlive
            | FieldId::ProxyConnection
            | FieldId::Upgrade => {}
            FieldId::TransferEncoding => is_chunked = true,
            FieldId::Other if opens_tunnel && name.eq_ignore_ascii_case(ACCEPT_FIELD) => {
                accept = Some(value);
            }
            id => {
                if id == FieldId::ContentLength {
                    length = Some(decimal(value).ok_or(BrokenHead)?);
                }
                encode_known_field(block, id, name, value);
            }
        }
    }
    let framing = match length {
        _ if opens_tunnel => {
            let ResponseKind::Tunnel(expected) = kind else { return Err(BrokenHead) };
            let is_accepted = expected.is_none_or(|expected| accept == Some(&expected[..]));
            if is_accepted { BodyFraming::UntilClose } else { return Err(BrokenHead) }
        }
        _ if kind == ResponseKind::HeadOnly || matches!(status, 100..=199 | 204 | 304) => {
            BodyFraming::None
        }
        _ if is_chunked => BodyFraming::Chunked,
        Some(length) => BodyFraming::Length(length),
        None => BodyFraming::UntilClose,
    };
    Ok(Some(EncodedHead { text_bytes: lines.at, status, framing }))
}

/// The lines of a text, without their ends.
struct HeadLines<'t> {
    text: &'t [u8],
    /// The position after the last line that was returned.
    at: usize,
}

impl<'t> HeadLines<'t> {
    /// Returns the next line, or `None` if it is incomplete.
    fn next(&mut self) -> Option<&'t [u8]> {
        let rest = self.text.get(self.at..)?;
        let end = memchr::memchr(b'\n', rest)?;
        self.at += end + 1;
        let line = rest.get(..end)?;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

/// Returns the status in a status line.
fn status_of(line: &[u8]) -> Option<u16> {
    let digits = line.strip_prefix(b"HTTP/1.1 ")?.get(..3)?;
    let status = decimal(digits).and_then(|status| u16::try_from(status).ok())?;
    (100..=999).contains(&status).then_some(status)
}

/// RFC 9110 §8.6: parses `1*DIGIT`.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use forebay_http2::hpack::Decoder;
    use forebay_http2::{FieldList, ListLimits};

    use super::*;

    fn decoded(block: &[u8]) -> String {
        let mut list = FieldList::new(ListLimits { list_bytes_max: 4096, line_count_max: 64 });
        Decoder::new().decode(block, &mut list).expect("a valid block");
        let line = |(name, value): (&[u8], &[u8])| {
            format!("{}={}", String::from_utf8_lossy(name), String::from_utf8_lossy(value))
        };
        list.iter().map(line).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_head_becomes_a_block_without_the_fields_of_a_connection() {
        const CONTENT: ResponseKind = ResponseKind::Content;
        const WEB_SOCKET: ResponseKind =
            ResponseKind::Tunnel(Some(*b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        for (text, kind, framing, expected) in [
            (
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nx-A: b: c\r\nage: 3\r\n\
                 content-length: 12\r\nconnection: close\r\n\r\n",
                CONTENT,
                BodyFraming::Length(12),
                ":status=200 content-type=text/html x-a=b: c age=3 content-length=12",
            ),
            (
                "HTTP/1.1 404 Not Found\r\ntransfer-encoding: chunked\r\nkeep-alive: x\r\n\r\n",
                CONTENT,
                BodyFraming::Chunked,
                ":status=404",
            ),
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n",
                ResponseKind::HeadOnly,
                BodyFraming::None,
                ":status=200 content-length=7",
            ),
            ("HTTP/1.1 304 Not Modified\r\n\r\n", CONTENT, BodyFraming::None, ":status=304"),
            (
                "HTTP/1.1 299 \r\nserver: x\r\n\r\n",
                CONTENT,
                BodyFraming::UntilClose,
                ":status=299 server=x",
            ),
            (
                "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                 Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nx-a: b\r\n\r\n",
                WEB_SOCKET,
                BodyFraming::UntilClose,
                ":status=200 x-a=b",
            ),
            (
                "HTTP/1.1 101 Switching Protocols\r\nupgrade: chat\r\n\r\n",
                ResponseKind::Tunnel(None),
                BodyFraming::UntilClose,
                ":status=200",
            ),
            (
                "HTTP/1.1 403 Forbidden\r\ncontent-length: 1\r\n\r\n",
                WEB_SOCKET,
                BodyFraming::Length(1),
                ":status=403 content-length=1",
            ),
        ] {
            let text = [text.as_bytes(), b"body"].concat();
            let mut block = Vec::new();
            for cut in 0..text.len() - 4 {
                assert_eq!(encode_head(&text[..cut], kind, &mut block), Ok(None), "{cut}");
                assert_eq!(block, b"", "an incomplete head appends nothing");
            }
            let head = encode_head(&text, kind, &mut block).expect(expected);
            let head = head.expect(expected);
            assert_eq!((head.text_bytes, head.framing), (text.len() - 4, framing), "{expected}");
            assert_eq!(decoded(&block), expected);
        }
    }

    #[test]
    fn a_text_that_is_no_head_is_refused() {
        for text in [
            "HTTP/1.1 OK\r\n\r\n",
            "HTTP/1.1 20\r\n\r\n",
            "HTTP/1.1 099 x\r\n\r\n",
            "HTTP/1.0 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 1 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 18446744073709551616\r\n\r\n",
        ] {
            let encoded = encode_head(text.as_bytes(), ResponseKind::Content, &mut Vec::new());
            assert_eq!(encoded, Err(BrokenHead), "{text:?}");
        }
        for text in [
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\nsec-websocket-accept: other\r\n\r\n",
        ] {
            let kind = ResponseKind::Tunnel(Some([b'a'; 28]));
            let encoded = encode_head(text.as_bytes(), kind, &mut Vec::new());
            assert_eq!(encoded, Err(BrokenHead), "{text:?}");
        }
    }
}

//! A strict parser of HTTP/1.1 messages (RFC 9112), independent of the server's.
//!
//! The parser accepts only the spelling that a careful sender uses; every deviation is a fault with
//! its reason. For an incomplete head, the result is `Ok(None)`, but a fault is reported as soon as
//! its bytes have arrived.

use crate::escape::{latin1, show};

/// A start line and its field lines; text is Latin-1, one character for each byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The first line, without its CRLF.
    pub start: String,
    /// The field lines in order: names as received, values without surrounding white space.
    pub fields: Vec<(String, String)>,
}

impl Head {
    /// Parses a head (RFC 9112 §2.1). Returns the head and its length, or `None` if it has not
    /// ended yet.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Head, usize)>, String> {
        let Some((start, mut at)) = line(bytes)? else {
            return Ok(None);
        };
        if start.is_empty() {
            return Err("the message begins with an empty line".into());
        }
        let mut head = Head { start: text(start)?, fields: Vec::new() };
        loop {
            let Some((field, size)) = line(&bytes[at..])? else {
                return Ok(None);
            };
            at += size;
            if field.is_empty() {
                return Ok(Some((head, at)));
            }
            head.fields.push(field_line(field)?);
        }
    }

    /// Returns the values of all lines of this field, in order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let same = |field: &&(String, String)| field.0.eq_ignore_ascii_case(name);
        self.fields.iter().filter(same).map(|(_, value)| value.as_str())
    }

    /// Returns the value of the first line of this field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// Whether the message has this field.
    pub fn has(&self, name: &str) -> bool {
        self.field(name).is_some()
    }

    /// Whether the comma-separated lists of this field have this token, ignoring case.
    pub fn lists(&self, name: &str, token: &str) -> bool {
        self.all(name)
            .flat_map(|value| value.split(','))
            .any(|member| member.trim().eq_ignore_ascii_case(token))
    }

    /// Returns the framing of the body (RFC 9112 §6). Framing that is stated twice is a fault.
    pub fn framing(&self) -> Result<Framing, String> {
        let lengths: Vec<&str> = self.all("content-length").collect();
        let codings: Vec<&str> = self.all("transfer-encoding").collect();
        match (lengths.as_slice(), codings.as_slice()) {
            ([], []) => Ok(Framing::Unsaid),
            ([length], []) => Ok(Framing::Length(digits(length)?)),
            ([], [coding]) if coding.eq_ignore_ascii_case("chunked") => Ok(Framing::Chunked),
            ([], _) => Err(format!("Transfer-Encoding {codings:?}")),
            (_, []) => Err(format!("several Content-Length {lengths:?}")),
            _ => Err("Content-Length with Transfer-Encoding".into()),
        }
    }
}

/// How a head says where its body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// The head has neither Content-Length nor Transfer-Encoding.
    Unsaid,
    /// The head has this Content-Length.
    Length(u64),
    /// The head has Transfer-Encoding: chunked.
    Chunked,
}

/// The part of a body that has arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Body {
    /// The content, decoded.
    pub bytes: Vec<u8>,
    /// The trailer fields.
    pub trailers: Vec<(String, String)>,
    /// The length of the encoded body in bytes, or `None` before its end.
    pub wire_size: Option<usize>,
}

impl Body {
    /// Takes a body of exactly `length` bytes.
    pub fn of_length(bytes: &[u8], length: u64) -> Body {
        let size = usize::try_from(length).unwrap_or(usize::MAX).min(bytes.len());
        let whole = size as u64 == length;
        Body {
            bytes: bytes[..size].to_vec(),
            trailers: Vec::new(),
            wire_size: whole.then_some(size),
        }
    }

    /// Decodes a chunked body (RFC 9112 §7.1). Chunk extensions are a fault, because a proxy must
    /// not forward them.
    pub fn of_chunks(bytes: &[u8]) -> Result<Body, String> {
        let mut body = Body::default();
        let mut at = 0;
        loop {
            let Some((size_line, taken)) = line(&bytes[at..])? else {
                return Ok(body);
            };
            let size = chunk_size(size_line)?;
            at += taken;
            if size == 0 {
                return body.with_trailers(bytes, at);
            }
            let arrived = &bytes[at..bytes.len().min(at + size)];
            body.bytes.extend_from_slice(arrived);
            at += size;
            let after = bytes.get(at..).unwrap_or_default();
            match after {
                [b'\r', b'\n', ..] => at += 2,
                [] | [b'\r'] => return Ok(body),
                _ => return Err(format!("no CRLF after a chunk: {}", show(after))),
            }
        }
    }

    fn with_trailers(mut self, bytes: &[u8], mut at: usize) -> Result<Body, String> {
        while let Some((field, size)) = line(&bytes[at..])? {
            at += size;
            if field.is_empty() {
                self.wire_size = Some(at);
                break;
            }
            self.trailers.push(field_line(field)?);
        }
        Ok(self)
    }
}

/// Whether the text is a token (RFC 9110 §5.6.2).
pub fn is_token(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(allowed)
}

/// Returns the next line without its CRLF, and its length with the CRLF. A bare CR or LF is a
/// fault.
fn line(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, String> {
    let end = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
    let before = &bytes[..end];
    let content = before.strip_suffix(b"\r");
    if content.unwrap_or(before).contains(&b'\r') {
        return Err(format!("a bare CR in {}", show(before)));
    }
    if end == bytes.len() {
        return Ok(None);
    }
    let content = content.ok_or_else(|| format!("a bare LF after {}", show(before)))?;
    Ok(Some((content, end + 1)))
}

/// Splits a field line at its colon (RFC 9112 §5). Folding and a space before the colon are faults.
fn field_line(bytes: &[u8]) -> Result<(String, String), String> {
    let line = text(bytes)?;
    if line.starts_with([' ', '\t']) {
        return Err(format!("a folded line {line:?}"));
    }
    let (name, value) = line.split_once(':').ok_or_else(|| format!("no colon in {line:?}"))?;
    if !is_token(name) {
        return Err(format!("bad field name {name:?}"));
    }
    Ok((name.into(), value.trim_matches([' ', '\t']).into()))
}

/// Decodes text that has no control byte: visible characters, space, tab and obs-text.
fn text(bytes: &[u8]) -> Result<String, String> {
    let allowed = |byte: &u8| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f);
    if bytes.iter().all(allowed) {
        Ok(latin1(bytes))
    } else {
        Err(format!("control: {}", show(bytes)))
    }
}

fn digits(value: &str) -> Result<u64, String> {
    let plain = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let number = plain.then(|| value.parse().ok()).flatten();
    number.ok_or_else(|| format!("Content-Length {value:?}"))
}

fn chunk_size(line: &[u8]) -> Result<usize, String> {
    let fault = || format!("bad chunk size {}", show(line));
    let plain = (1..=8).contains(&line.len()) && line.iter().all(u8::is_ascii_hexdigit);
    let number = plain.then(|| usize::from_str_radix(&latin1(line), 16).ok()).flatten();
    number.ok_or_else(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_spelling_of_a_head_is_accepted() {
        let good = b"GET / HTTP/1.1\r\nHost: a\r\nX-Empty:\r\n\r\nrest";
        let (head, size) = Head::parse(good).expect("well-formed").expect("whole");
        assert_eq!((head.start.as_str(), size), ("GET / HTTP/1.1", good.len() - 4));
        assert_eq!((head.field("host"), head.field("x-empty")), (Some("a"), Some("")));
        for cut in 0..size {
            assert_eq!(Head::parse(&good[..cut]), Ok(None), "cut at {cut}");
        }
        let bad = [
            "\r\nGET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\n\r\n",
            "GET / HTTP/1.1\r\nHo\rst: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n",
            "GET / HTTP/1.1\r\n: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\0\r\n\r\n",
            "GET / HTTP/1.1\r\nHo(st: a\r\n\r\n",
        ];
        for text in bad {
            assert!(Head::parse(text.as_bytes()).is_err(), "{text:?}");
        }
    }

    #[test]
    fn framing_said_twice_is_a_fault() {
        let framing = |fields: &str| {
            let text = format!("X\r\n{fields}\r\n");
            let (head, _) = Head::parse(text.as_bytes()).expect("well-formed").expect("whole");
            head.framing()
        };
        assert_eq!(framing(""), Ok(Framing::Unsaid));
        assert_eq!(framing("content-length: 12\r\n"), Ok(Framing::Length(12)));
        assert_eq!(framing("Transfer-Encoding: chunked\r\n"), Ok(Framing::Chunked));
        for bad in [
            "Content-Length: 1\r\nContent-Length: 1\r\n",
            "Content-Length: 1, 1\r\n",
            "Content-Length: +1\r\n",
            "Content-Length:\r\n",
            "Content-Length: 99999999999999999999\r\n",
            "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        ] {
            assert!(framing(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn chunks_are_decoded_strictly() {
        let wire = b"3\r\nabc\r\n0A\r\n0123456789\r\n0\r\nX-T: 1\r\n\r\nrest";
        let body = Body::of_chunks(wire).expect("well-formed");
        assert_eq!(body.bytes, b"abc0123456789");
        assert_eq!(body.trailers, [("X-T".to_string(), "1".to_string())]);
        assert_eq!(body.wire_size, Some(wire.len() - 4));
        for cut in 0..wire.len() - 4 {
            let part = Body::of_chunks(&wire[..cut]).expect("a part is no fault");
            assert_eq!(part.wire_size, None, "cut at {cut}");
        }
        for bad in
            ["3;x\r\nabc\r\n", "3\nabc", "0x3\r\n", "\r\n", "3\r\nabcd\r\n", " 3\r\n", "-1\r\n"]
        {
            assert!(Body::of_chunks(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert_eq!(Body::of_length(b"abcd", 3).wire_size, Some(3));
        assert_eq!(Body::of_length(b"ab", 3).wire_size, None);
    }
}

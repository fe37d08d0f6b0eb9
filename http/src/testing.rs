//! Helpers for the table tests of messages: they parse a request whole and split, and mutate bytes.

use crate::{
    error::RequestError,
    framing::{BodyFraming, expects_continue, request_framing},
    request::{HeadLimits, RequestParts, Version, parse_request},
    target::request_target,
};

pub(crate) const LIMITS: HeadLimits =
    HeadLimits { head_bytes_max: 400, field_count_max: 6, target_bytes_max: 60 };

/// The text of a request, and the expected result.
pub(crate) type RequestVector = (&'static str, Result<&'static str, RequestError>);

/// Returns one byte for each character, so that tables may contain bytes that are not UTF-8.
pub(crate) fn latin1(text: &str) -> Vec<u8> {
    text.chars()
        .map(|c| u8::try_from(c).expect("a table contains only Latin-1 characters"))
        .collect()
}

/// Parses everything that decides about a request: head, target, framing, expectation.
pub(crate) fn judge(bytes: &[u8], parts: &mut RequestParts) -> Result<String, RequestError> {
    let Some(head_len) = parse_request(bytes, &LIMITS, parts)? else {
        return Ok("more".to_owned());
    };
    let head = parts.head(bytes);
    let target = request_target(head)?;
    let mut text = String::from_utf8_lossy(head.method().as_bytes()).into_owned();
    text += " ";
    if let Some(authority) = target.authority {
        text += &String::from_utf8_lossy(authority.host);
        text += &authority.port.map_or(String::new(), |port| format!(":{port}"));
    }
    text += &String::from_utf8_lossy(target.path_query);
    if head.version() == Version::Http10 {
        text += " 1.0";
    }
    match request_framing(head)? {
        BodyFraming::None => {}
        framing => text += &format!(" {framing:?}"),
    }
    if expects_continue(head)? {
        text += " continue";
    }
    if head_len < bytes.len() {
        text += &format!(" +{}", bytes.len() - head_len);
    }
    Ok(text)
}

/// Parses each vector whole, split in two at every position, and byte by byte.
pub(crate) fn check(vectors: &[RequestVector]) {
    for (shown, expected) in vectors {
        let bytes = &latin1(shown)[..];
        let verdict = judge(bytes, &mut RequestParts::default());
        assert_eq!(verdict.as_deref(), expected.as_deref(), "{shown:?}");
        let whole = parse_request(bytes, &LIMITS, &mut RequestParts::default());
        let mut dripped = RequestParts::default();
        let mut drip = Ok(None);
        for split in 0..=bytes.len() {
            let mut parts = RequestParts::default();
            let mut verdict = parse_request(&bytes[..split], &LIMITS, &mut parts);
            if verdict == Ok(None) {
                verdict = parse_request(bytes, &LIMITS, &mut parts);
            }
            assert_eq!(verdict, whole, "split at {split}: {shown:?}");
            if drip == Ok(None) {
                drip = parse_request(&bytes[..split], &LIMITS, &mut dripped);
            }
        }
        assert_eq!(drip, whole, "byte by byte: {shown:?}");
    }
}

/// Marsaglia's xorshift generator, which gives the same sequence on every machine.
pub(crate) struct Xorshift(pub(crate) u64);

impl Xorshift {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound.max(1)
    }

    /// Changes, inserts, removes or repeats a few bytes.
    pub(crate) fn mutate(&mut self, bytes: &mut Vec<u8>) {
        const SPICE: &[u8] =
            b"\r\n\r\n\r\n  \t::,;\0\x7f\x80/%#?[]@*\"\\=0123456789abcfxHhTt-_(){}\x1f";
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            let spice = SPICE[self.below(SPICE.len())];
            match self.below(5) {
                0 if !bytes.is_empty() => bytes[at] = spice,
                1 if !bytes.is_empty() => drop(bytes.remove(at)),
                2 => {
                    let end = bytes.len().min(at + 1 + self.below(12));
                    let piece = bytes[at.min(end)..end].to_vec();
                    bytes.splice(at..at, piece);
                }
                3 => bytes.truncate(at.max(1)),
                _ => bytes.insert(at, spice),
            }
        }
    }
}

//! Parses the parts of a response head that a load generator uses.

/// The most fields that the origin and a cache together send.
const FIELDS_MAX: usize = 64;

/// The parts of a head that generators use.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    /// Bytes of the head itself.
    pub(super) bytes: usize,
    pub(super) body_bytes: usize,
    /// The time at which the origin made the response: see `answer/origin.rs`.
    pub(super) origin_ns: Option<u64>,
    pub(super) closes: bool,
}

/// Parses a head. Returns `Ok(None)` while it is incomplete. A response without a Content-Length is
/// an error, because every response of the benchmark's site has one, and no cache has a reason to
/// remove it.
pub(super) fn parse(input: &[u8]) -> Result<Option<Head>, &'static str> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut head = httparse::Response::new(&mut fields);
    let bytes = match head.parse(input) {
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err("malformed response"),
    };
    let text = |name: &str| {
        let field = head.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
        field.and_then(|field| std::str::from_utf8(field.value).ok())
    };
    let body_bytes = text("content-length").and_then(|value| value.parse().ok());
    Ok(Some(Head {
        status: head.code.unwrap_or(0),
        bytes,
        body_bytes: body_bytes.ok_or("response without a Content-Length")?,
        origin_ns: text("origin-time").and_then(|value| value.parse().ok()),
        closes: text("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_say_length_origin_time_and_close() {
        let head = |bytes, body_bytes, origin_ns, closes| {
            Ok(Some(Head { status: 200, bytes, body_bytes, origin_ns, closes }))
        };
        for (input, want) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", head(38, 3, None, false)),
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 0\r\norigin-time: 12\r\n\
                 connection: close\r\n\r\n",
                head(74, 0, Some(12), true),
            ),
            ("HTTP/1.1 200 OK\r\nContent-Len", Ok(None)),
            ("HTTP/1.1 200 OK\r\n\r\n", Err("response without a Content-Length")),
            ("nonsense\r\n\r\n", Err("malformed response")),
        ] {
            assert_eq!(parse(input.as_bytes()), want, "{input:?}");
        }
    }
}

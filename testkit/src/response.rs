//! A response as a client received it, parsed strictly.

use crate::message::{Body, Framing, Head};

/// One final response; the body may still be arriving.
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The final head.
    pub head: Head,
    /// Heads of the 1xx responses before the final one.
    pub interim: Vec<Head>,
    /// The content so far, decoded.
    pub body: Vec<u8>,
    /// Trailer fields.
    pub trailers: Vec<(String, String)>,
    /// Whether the body is complete according to its framing.
    pub is_whole: bool,
    /// Whether the body ends only with the connection.
    pub ends_with_connection: bool,
}

impl Response {
    /// Parses the response at the start of `bytes`, and returns it with its length once it is
    /// whole. Returns `None` while the final head is incomplete. `is_end` says that no more bytes
    /// will come.
    pub fn parse(
        bytes: &[u8],
        method: &str,
        is_end: bool,
    ) -> Result<Option<(Response, Option<usize>)>, String> {
        let mut response = Response::default();
        let mut at = 0;
        loop {
            let Some((head, size)) = Head::parse(&bytes[at..])? else {
                return Ok(None);
            };
            at += size;
            response.status = status(&head.start)?;
            if (100..200).contains(&response.status) && response.status != 101 {
                response.interim.push(head);
                continue;
            }
            response.head = head;
            break;
        }
        let body = response.read_body(&bytes[at..], method, is_end)?;
        let size = body.wire_size.map(|size| at + size);
        response.is_whole = size.is_some();
        response.body = body.bytes;
        response.trailers = body.trailers;
        Ok(Some((response, size)))
    }

    /// Decodes the body by its framing (RFC 9112 §6.3).
    fn read_body(&mut self, rest: &[u8], method: &str, is_end: bool) -> Result<Body, String> {
        let framing = self.head.framing()?;
        if method == "HEAD" || matches!(self.status, 101 | 204 | 304) {
            return Ok(Body::of_length(rest, 0));
        }
        match framing {
            Framing::Length(length) => Ok(Body::of_length(rest, length)),
            Framing::Chunked => Body::of_chunks(rest),
            Framing::Unsaid => {
                self.ends_with_connection = true;
                let wire_size = is_end.then_some(rest.len());
                Ok(Body { bytes: rest.to_vec(), trailers: Vec::new(), wire_size })
            }
        }
    }

    /// Returns the value of the first line of this field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.field(name)
    }

    /// Returns the content as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Whether the fields say that the connection ends after this response.
    pub fn says_close(&self) -> bool {
        self.head.lists("connection", "close") || self.ends_with_connection
    }
}

/// Parses a status line (RFC 9112 §4): three digits; the reason may be empty, but the space before
/// it is required.
fn status(line: &str) -> Result<u16, String> {
    let fault = || format!("bad status line {line:?}");
    let rest = line.strip_prefix("HTTP/1.1 ").ok_or_else(fault)?;
    let (code, _reason) = rest.split_once(' ').ok_or_else(fault)?;
    let code: u16 = code.parse().map_err(|_| fault())?;
    if (100..600).contains(&code) { Ok(code) } else { Err(fault()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_end_where_their_framing_says() {
        let cases = [
            ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", 200, "ab"),
            ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", 200, ""),
            ("GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\n", 304, ""),
            ("GET", "HTTP/1.1 204 \r\n\r\n", 204, ""),
            (
                "GET",
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n",
                200,
                "",
            ),
            (
                "GET",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
                200,
                "ab",
            ),
        ];
        for (method, text, status, body) in cases {
            let (response, size) =
                Response::parse(text.as_bytes(), method, false).expect(text).expect(text);
            assert_eq!((response.status, response.text().as_str()), (status, body), "{text:?}");
            assert_eq!(size, Some(text.len()), "{text:?}");
            for cut in 0..text.len() {
                let part = Response::parse(&text.as_bytes()[..cut], method, false).expect(text);
                assert!(part.is_none_or(|(_, size)| size.is_none()), "{text:?} cut at {cut}");
            }
        }
        let open = b"HTTP/1.1 200 OK\r\n\r\nab";
        let (part, size) = Response::parse(open, "GET", false).expect("good").expect("head");
        assert!(part.ends_with_connection && size.is_none());
        let (_, size) = Response::parse(open, "GET", true).expect("good").expect("head");
        assert_eq!(size, Some(open.len()));
    }

    #[test]
    fn bad_status_lines_are_faults() {
        for bad in ["HTTP/1.1 200", "HTTP/1.1 20 OK", "HTTP/1.0 200 OK", "HTTP/1.1 600 x", "200 OK"]
        {
            let text = format!("{bad}\r\n\r\n");
            assert!(Response::parse(text.as_bytes(), "GET", false).is_err(), "{bad}");
        }
    }
}

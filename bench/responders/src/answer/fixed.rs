//! Ready-made responses: the least work that an I/O loop can do for a request.
//!
//! The responder searches for the end of the head and for the exact text `Connection: close`, and
//! chooses the response by the target's first letter. It reads no field, and its `Date` is not
//! current.

use memchr::memmem::Finder;

use super::{Answer, Answered, COMMON_FIELDS, Reply, connection_field};
use crate::site::{FOLDERS, filler};

/// The offset of the first character of the folder's name in `GET /1k/0 HTTP/1.1`.
const FOLDER_OFFSET: usize = 5;

/// Answers with bytes that were written before the first request.
pub(crate) struct Fixed {
    /// For each folder: its name's first letter, the reply that keeps the connection open, and the
    /// reply that closes it.
    replies: [(u8, &'static [u8], &'static [u8]); 3],
    head_end: Finder<'static>,
    close: Finder<'static>,
}

impl Fixed {
    /// Writes the responses, which live as long as the process.
    pub(crate) fn new() -> Self {
        let replies = FOLDERS.map(|(name, bytes)| {
            (name.as_bytes()[0], ready_made(bytes, true), ready_made(bytes, false))
        });
        let close = Finder::new(b"\r\nConnection: close");
        Self { replies, head_end: Finder::new(b"\r\n\r\n"), close }
    }
}

impl Answer for Fixed {
    fn answer(&mut self, input: &[u8], reply: &mut Reply) -> Option<Answered> {
        let bytes = self.head_end.find(input)? + 4;
        let keep = self.close.find(&input[..bytes]).is_none();
        let letter = input.get(FOLDER_OFFSET).copied();
        match self.replies.iter().find(|(first, ..)| Some(*first) == letter) {
            Some((_, kept, closed)) => reply.shared = if keep { kept } else { closed },
            None => reply.refuse("404 Not Found"),
        }
        Some(Answered { bytes, keep: keep && !reply.shared.is_empty() })
    }
}

fn ready_made(body_bytes: usize, keep: bool) -> &'static [u8] {
    let mut reply = format!(
        "HTTP/1.1 200 OK\r\nDate: Fri, 02 Jan 2026 10:00:00 GMT\r\n{COMMON_FIELDS}\
         ETag: \"{body_bytes}\"\r\nCache-Control: public, max-age=86400\r\nAge: 0\r\n\
         Content-Length: {body_bytes}\r\n"
    )
    .into_bytes();
    reply.extend_from_slice(connection_field(keep));
    reply.extend_from_slice(b"\r\n");
    reply.extend_from_slice(filler(body_bytes));
    reply.leak()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_and_the_wish_to_close_choose_the_reply() {
        let mut fixed = Fixed::new();
        for (request, length, keep) in [
            ("GET /0/1 HTTP/1.1\r\nHost: a\r\n\r\n", Some("Content-Length: 0\r\n"), true),
            ("GET /1k/1 HTTP/1.1\r\nHost: a\r\n\r\nGET", Some("Content-Length: 1024\r\n"), true),
            (
                "GET /64k/1 HTTP/1.1\r\nConnection: close\r\n\r\n",
                Some("Content-Length: 65536\r\nConnection: close\r\n"),
                false,
            ),
            ("GET /y HTTP/1.1\r\n\r\n", Some("404 Not Found"), false),
            ("GET /0/1 HTTP/1.1\r\nHost: a\r\n", None, true),
        ] {
            let mut reply = Reply::default();
            let answered = fixed.answer(request.as_bytes(), &mut reply);
            assert_eq!(answered.is_some(), length.is_some(), "{request:?}");
            let (Some(answered), Some(length)) = (answered, length) else {
                continue;
            };
            let text = [&reply.own, reply.shared].concat();
            assert!(memchr::memmem::find(&text, length.as_bytes()).is_some(), "{request:?}");
            assert_eq!(answered.keep, keep, "{request:?}");
            assert!(request[..answered.bytes].ends_with("\r\n\r\n"), "{request:?}");
        }
    }
}

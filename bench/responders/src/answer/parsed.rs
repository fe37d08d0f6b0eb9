//! The least that a cache can do for a hit: scan the head, make a key, look it up among 100,000
//! objects, check freshness, and write a head with `Age` and `Date`.

use std::io::Write;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::{Answer, Answered, COMMON_FIELDS, NoRequest, Reply, connection_field, parse_request};
use crate::clock::{DateLine, unix_seconds};
use crate::site::{FOLDERS, filler};

/// The number of stored URLs in each folder.
const FOLDER_URLS: usize = 64;
/// The number of small objects that are also stored, so that a lookup misses the processor's
/// caches.
const OBJECTS: usize = 100_000;
/// The body length of these objects.
const OBJECT_BYTES: usize = 16;

struct StoredResponse {
    /// Status line and fields that do not change between hits.
    head: Vec<u8>,
    body: &'static [u8],
    stored_at: u64,
    freshness_lifetime: u64,
}

/// Answers from a map of stored responses.
pub(crate) struct Parsed {
    stored: HashMap<Box<[u8]>, StoredResponse, RandomState>,
    key: Vec<u8>,
    date: DateLine,
}

impl Parsed {
    /// Stores the site as if all requests had named `host`.
    pub(crate) fn new(host: &str) -> Self {
        let now = unix_seconds();
        let folders = FOLDERS.iter().flat_map(|&(name, bytes)| {
            (0..FOLDER_URLS).map(move |i| (format!("{host}/{name}/{i}"), bytes))
        });
        let objects = (0..OBJECTS).map(|i| (format!("{host}/obj/{i}"), OBJECT_BYTES));
        let stored = folders
            .chain(objects)
            .map(|(key, bytes)| (key.into_bytes().into(), StoredResponse::new(bytes, now)))
            .collect();
        Self { stored, key: Vec::with_capacity(256), date: DateLine::default() }
    }
}

impl StoredResponse {
    fn new(body_bytes: usize, now: u64) -> Self {
        let head = format!(
            "HTTP/1.1 200 OK\r\n{COMMON_FIELDS}ETag: \"{body_bytes}\"\r\n\
             Cache-Control: public, max-age=86400\r\nContent-Length: {body_bytes}\r\n"
        );
        let (head, body) = (head.into_bytes(), filler(body_bytes));
        // The lifetime is a day, so that the longest run still hits.
        Self { head, body, stored_at: now, freshness_lifetime: 86_400 }
    }
}

impl Answer for Parsed {
    fn answer(&mut self, input: &[u8], reply: &mut Reply) -> Option<Answered> {
        let request = match parse_request(input) {
            Ok(request) => request,
            Err(NoRequest::Incomplete) => return None,
            Err(NoRequest::Malformed) => {
                reply.refuse("400 Bad Request");
                return Some(Answered { bytes: input.len(), keep: false });
            }
        };
        self.key.clear();
        self.key.extend(request.host.iter().map(u8::to_ascii_lowercase));
        self.key.extend_from_slice(request.target.as_bytes());
        let now = unix_seconds();
        let fresh = self.stored.get(self.key.as_slice()).and_then(|stored| {
            let age = now.saturating_sub(stored.stored_at);
            (age < stored.freshness_lifetime).then_some((stored, age))
        });
        let Some((stored, age)) = fresh else {
            reply.refuse("404 Not Found");
            return Some(Answered { bytes: request.bytes, keep: false });
        };
        reply.push(&stored.head);
        reply.push(self.date.at(now));
        // Writing to a vector cannot fail.
        let _ = write!(reply.own, "Age: {age}\r\n");
        reply.push(connection_field(request.keep));
        reply.push(b"\r\n");
        reply.finish(stored.body);
        Some(Answered { bytes: request.bytes, keep: request.keep })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_needs_host_and_target_of_a_stored_response() {
        let mut parsed = Parsed::new("127.0.0.1:80");
        let host = "Host: 127.0.0.1:80\r\n";
        for (request, status, keep) in [
            (format!("GET /1k/63 HTTP/1.1\r\n{host}\r\n"), "HTTP/1.1 200", true),
            (format!("GET /obj/99999 HTTP/1.1\r\n{host}\r\n"), "HTTP/1.1 200", true),
            (
                format!("GET /1k/0 HTTP/1.1\r\n{host}connection: Close\r\n\r\n"),
                "HTTP/1.1 200",
                false,
            ),
            (format!("GET /1k/0 HTTP/1.0\r\n{host}\r\n"), "HTTP/1.1 200", false),
            (format!("GET /1k/64 HTTP/1.1\r\n{host}\r\n"), "HTTP/1.1 404", false),
            ("GET /1k/0 HTTP/1.1\r\nHost: other\r\n\r\n".into(), "HTTP/1.1 404", false),
            ("GET\r\n\r\n".into(), "HTTP/1.1 400", false),
        ] {
            let mut reply = Reply::default();
            let answered = parsed.answer(request.as_bytes(), &mut reply);
            let text = String::from_utf8_lossy(&reply.own);
            assert!(text.starts_with(status), "{request:?} got {text:?}");
            assert_eq!(answered, Some(Answered { bytes: request.len(), keep }), "{request:?}");
            assert_eq!(text.contains("Connection: close"), !keep, "{request:?}");
        }
        assert_eq!(parsed.answer(b"GET /1k/0 HT", &mut Reply::default()), None);
    }

    #[test]
    fn long_bodies_are_lent_and_short_ones_copied() {
        let mut parsed = Parsed::new("a");
        for (folder, lent) in [("1k", 0), ("64k", 65_536)] {
            let mut reply = Reply::default();
            let request = format!("GET /{folder}/0 HTTP/1.1\r\nHost: a\r\n\r\n");
            parsed.answer(request.as_bytes(), &mut reply);
            assert_eq!(reply.shared.len(), lent, "folder {folder}");
        }
    }
}

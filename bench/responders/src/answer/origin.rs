//! The origin behind every cache that is measured: cheap, countable, and exact.
//!
//! `GET /status` returns the number of other requests so far. The number proves hits: it does not
//! change while a cache serves from its memory. `Origin-Time` is CLOCK_MONOTONIC in nanoseconds at
//! the time of the response, so that a client on the same machine knows whether the response was
//! made for its request.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use super::parse_request;
use super::{Answer, Answered, COMMON_FIELDS, NoRequest, Reply, Request, connection_field};
use crate::clock::{DateLine, monotonic_ns, unix_seconds};
use crate::site::{MARK_BYTES, Resource, filler};

/// The number of requests of all threads, except requests for `/status`.
static REQUESTS: AtomicU64 = AtomicU64::new(0);

/// Serves the site.
#[derive(Default)]
pub(crate) struct Origin {
    date: DateLine,
}

impl Origin {
    /// Makes an origin. All origins share one counter.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    fn serve(&mut self, request: &Request<'_>, resource: Resource, reply: &mut Reply) {
        let bytes = resource.content.bytes();
        let control = if resource.storable { "public, max-age=86400" } else { "no-store" };
        self.head(reply, control, bytes, request.keep);
        if request.method == "HEAD" {
            return;
        }
        match resource.content.mark() {
            Some(mark) => {
                reply.push(&mark);
                reply.finish(filler(bytes - MARK_BYTES));
            }
            None => reply.finish(filler(bytes)),
        }
    }

    fn status(&mut self, request: &Request<'_>, reply: &mut Reply) {
        let count = format!("{}\n", REQUESTS.load(Ordering::Relaxed));
        self.head(reply, "no-store", count.len(), request.keep);
        reply.push(count.as_bytes());
    }

    fn head(&mut self, reply: &mut Reply, control: &str, body_bytes: usize, keep: bool) {
        reply.push(b"HTTP/1.1 200 OK\r\nServer: origin\r\n");
        reply.push(self.date.at(unix_seconds()));
        reply.push(COMMON_FIELDS.as_bytes());
        reply.push(connection_field(keep));
        // Writing to a vector cannot fail.
        let _ = write!(
            reply.own,
            "ETag: \"{body_bytes}\"\r\nCache-Control: {control}\r\nOrigin-Time: {}\r\n\
             Content-Length: {body_bytes}\r\n\r\n",
            monotonic_ns()
        );
    }
}

impl Answer for Origin {
    fn answer(&mut self, input: &[u8], reply: &mut Reply) -> Option<Answered> {
        let request = match parse_request(input) {
            Ok(request) => request,
            Err(NoRequest::Incomplete) => return None,
            Err(NoRequest::Malformed) => {
                reply.refuse("400 Bad Request");
                return Some(Answered { bytes: input.len(), keep: false });
            }
        };
        if request.target == "/status" {
            self.status(&request, reply);
            return Some(Answered { bytes: request.bytes, keep: request.keep });
        }
        REQUESTS.fetch_add(1, Ordering::Relaxed);
        let Some(resource) = Resource::parse(request.target) else {
            reply.refuse("404 Not Found");
            return Some(Answered { bytes: request.bytes, keep: false });
        };
        self.serve(&request, resource, reply);
        Some(Answered { bytes: request.bytes, keep: request.keep })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::{mark, object_bytes};

    fn ask(request: &str) -> (String, usize, bool) {
        let mut reply = Reply::default();
        let answered = Origin::new().answer(request.as_bytes(), &mut reply);
        let answered = answered.expect("a whole request is answered");
        let whole = [&reply.own, reply.shared].concat();
        let end = memchr::memmem::find(&whole, b"\r\n\r\n").expect("a head ends") + 4;
        let head = String::from_utf8_lossy(&whole[..end]).into_owned();
        (head, whole.len() - end, answered.keep)
    }

    #[test]
    fn every_target_has_its_length_and_cache_control() {
        let object = object_bytes(7);
        for (method, target, length, body, control) in [
            ("GET", "/0/0", 0, 0, "public, max-age=86400"),
            ("GET", "/1k/5", 1024, 1024, "public, max-age=86400"),
            ("GET", "/64k/5", 65_536, 65_536, "public, max-age=86400"),
            ("HEAD", "/1k/5", 1024, 0, "public, max-age=86400"),
            ("GET", "/nocache/1k/5", 1024, 1024, "no-store"),
            ("GET", "/obj/7", object, object, "public, max-age=86400"),
        ] {
            let request = format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n");
            let (head, body_bytes, keep) = ask(&request);
            assert!(head.starts_with("HTTP/1.1 200 "), "{request:?}");
            assert!(head.contains(&format!("Content-Length: {length}\r\n")), "{request:?}");
            assert!(head.contains(&format!("Cache-Control: {control}\r\n")), "{request:?}");
            assert_eq!(body_bytes, body, "{request:?}");
            assert!(keep, "{request:?}");
        }
    }

    #[test]
    fn an_object_begins_with_its_mark() {
        let mut reply = Reply::default();
        Origin::new().answer(b"GET /obj/7 HTTP/1.1\r\nHost: a\r\n\r\n", &mut reply);
        let whole = [&reply.own, reply.shared].concat();
        let end = memchr::memmem::find(&whole, b"\r\n\r\n").expect("a head ends") + 4;
        assert_eq!(whole[end..end + MARK_BYTES], mark(7));
    }

    #[test]
    fn close_and_unknown_targets_end_the_connection() {
        for request in [
            "GET /1k/0 HTTP/1.1\r\nConnection: close\r\n\r\n",
            "GET /1k/0 HTTP/1.0\r\n\r\n",
            "GET /nothing HTTP/1.1\r\n\r\n",
        ] {
            let (head, _, keep) = ask(request);
            assert!(!keep && head.contains("Connection: close\r\n"), "{request:?}");
        }
    }

    #[test]
    fn the_counter_leaves_its_own_requests_out() {
        let count = || {
            let mut reply = Reply::default();
            Origin::new().answer(b"GET /status HTTP/1.1\r\n\r\n", &mut reply);
            let text = String::from_utf8_lossy(&reply.own).into_owned();
            text.rsplit("\r\n\r\n").next().and_then(|n| n.trim().parse::<u64>().ok())
        };
        // Other tests of this process also send requests, so only the order of the two numbers is
        // certain.
        let before = count().expect("a number");
        ask("GET /1k/0 HTTP/1.1\r\n\r\n");
        assert!(count().expect("a number") > before);
    }
}

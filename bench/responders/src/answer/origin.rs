//! The origin behind every cache that is measured: cheap, countable, and exact.
//!
//! `GET /status` returns the number of other requests so far. The number proves hits: it does not
//! change while a cache serves from its memory. `GET /status/addresses` returns a line with the
//! number for each address, which proves that each gets its share. `Origin-Time` is CLOCK_MONOTONIC
//! in nanoseconds at the time of the response, so that a client on the same machine knows whether
//! the response was made for its request.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use super::parse_request;
use super::{Answer, Answered, COMMON_FIELDS, NoRequest, Reply, Request, connection_field};
use crate::clock::{DateLine, monotonic_ns, unix_seconds};
use crate::site::{MARK_BYTES, Resource, filler};

/// The most addresses that an origin can have: those of 127.0.0.0/24.
pub(crate) const ADDRESSES_MAX: u8 = 254;

/// The number of requests of all threads to each address, except requests for the counters.
static REQUESTS: [AtomicU64; ADDRESSES_MAX as usize] =
    [const { AtomicU64::new(0) }; ADDRESSES_MAX as usize];

/// Serves the site.
pub(crate) struct Origin {
    date: DateLine,
    /// The counters of this origin's addresses.
    requests: &'static [AtomicU64],
    /// The index of the address that got the request.
    address: usize,
}

impl Origin {
    /// Makes an origin with this number of addresses. All origins share the counters.
    pub(crate) fn new(addresses: u8) -> Self {
        let requests = &REQUESTS[..usize::from(addresses)];
        Self { date: DateLine::default(), requests, address: 0 }
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
            None => reply.finish(resource.content.shared()),
        }
    }

    /// The text of the counters, if the target names them.
    fn status(&self, target: &str) -> Option<String> {
        let counts = self.requests.iter().map(|count| count.load(Ordering::Relaxed));
        match target {
            "/status" => Some(format!("{}\n", counts.sum::<u64>())),
            "/status/addresses" => Some(counts.map(|count| format!("{count}\n")).collect()),
            _ => None,
        }
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
    fn set_address(&mut self, index: usize) {
        self.address = index;
    }

    fn answer(&mut self, input: &[u8], reply: &mut Reply) -> Option<Answered> {
        let request = match parse_request(input) {
            Ok(request) => request,
            Err(NoRequest::Incomplete) => return None,
            Err(NoRequest::Malformed) => {
                reply.refuse("400 Bad Request");
                return Some(Answered { bytes: input.len(), keep: false });
            }
        };
        if let Some(counts) = self.status(request.target) {
            self.head(reply, "no-store", counts.len(), request.keep);
            reply.push(counts.as_bytes());
            return Some(Answered { bytes: request.bytes, keep: request.keep });
        }
        self.requests[self.address].fetch_add(1, Ordering::Relaxed);
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
    use crate::site::{TEXT_BYTES, mark, object_bytes};

    fn ask(request: &str) -> (String, usize, bool) {
        let mut reply = Reply::default();
        let answered = Origin::new(1).answer(request.as_bytes(), &mut reply);
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
            ("GET", "/group/9/nocache/1k/5", 1024, 1024, "no-store"),
            ("GET", "/text/5", TEXT_BYTES, TEXT_BYTES, "public, max-age=86400"),
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
        Origin::new(1).answer(b"GET /obj/7 HTTP/1.1\r\nHost: a\r\n\r\n", &mut reply);
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
            Origin::new(1).answer(b"GET /status HTTP/1.1\r\n\r\n", &mut reply);
            let text = String::from_utf8_lossy(&reply.own).into_owned();
            text.rsplit("\r\n\r\n").next().and_then(|n| n.trim().parse::<u64>().ok())
        };
        // Other tests of this process also send requests, so only the order of the two numbers is
        // certain.
        let before = count().expect("a number");
        ask("GET /1k/0 HTTP/1.1\r\n\r\n");
        assert!(count().expect("a number") > before);
    }

    #[test]
    fn a_request_counts_for_its_address() {
        let mut origin = Origin::new(ADDRESSES_MAX);
        let mut ask = |address, target: &str| {
            let mut reply = Reply::default();
            origin.set_address(address);
            origin.answer(format!("GET {target} HTTP/1.1\r\n\r\n").as_bytes(), &mut reply);
            let text = String::from_utf8_lossy(&reply.own).into_owned();
            let (_, body) = text.split_once("\r\n\r\n").expect("a head ends");
            body.lines().map(|line| line.parse::<u64>().unwrap_or(0)).collect::<Vec<_>>()
        };
        // Other tests of this process use the first address only.
        for (address, want) in [(200, [1, 0]), (201, [1, 1]), (201, [1, 2])] {
            ask(address, "/1k/0");
            let counts = ask(0, "/status/addresses");
            assert_eq!(counts.len(), usize::from(ADDRESSES_MAX));
            assert_eq!(counts[200..202], want, "after a request to {address}");
        }
    }
}

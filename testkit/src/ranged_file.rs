//! A file on an origin that answers range requests as nginx does.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crate::origin::Origin;
use crate::request::Request;
use crate::script::{Script, locked};

/// A file on an origin. A later version has other bytes.
#[derive(Clone, Debug)]
pub struct RangedFile {
    /// The length of each version in bytes.
    pub length: usize,
    /// The number of the present version.
    pub version: Arc<AtomicUsize>,
    /// The ranges that were sent.
    sent: Arc<Mutex<Vec<Range<usize>>>>,
    /// The caching fields of each answer, such as Cache-Control, one per line.
    pub fields: &'static str,
}

impl RangedFile {
    /// A file of `length` bytes that is fresh for ten minutes.
    pub fn new(length: usize) -> RangedFile {
        let fields = "Cache-Control: max-age=600";
        RangedFile { length, version: Arc::default(), sent: Arc::default(), fields }
    }

    /// The strong entity tag of the present version.
    pub fn tag(&self) -> String {
        format!("\"v{}\"", self.version.load(Relaxed))
    }

    /// The bytes of a part of the present version: each depends on its offset and the version.
    pub fn bytes(&self, part: Range<usize>) -> Vec<u8> {
        let version = self.version.load(Relaxed);
        part.map(|at| (at.wrapping_mul(31) / 7 + at / 4096 + version * 101) as u8).collect()
    }

    /// Answers a request for the file, for a range of the file, or for its validation.
    pub fn answer(&self, request: &Request) -> Script {
        let (tag, whole) = (self.tag(), 0..self.length);
        let etag = format!("ETag: {tag}");
        if request.head.field("if-none-match") == Some(&tag) {
            let head = format!("HTTP/1.1 304 Not Modified\r\n{etag}\r\n{}\r\n\r\n", self.fields);
            return Script::new().send(head);
        }
        let is_same = request.head.field("if-range").is_none_or(|sent| sent == tag);
        let range = request.head.field("range").filter(|_| is_same);
        let Some(part) = range.map(|range| parse(range, self.length)) else {
            locked(&self.sent).push(whole.clone());
            return Script::answer("200 OK", &[&etag, self.fields], &self.bytes(whole));
        };
        if part.is_empty() {
            let total = format!("Content-Range: bytes */{}", self.length);
            return Script::answer("416 Range Not Satisfiable", &[&total], b"");
        }
        locked(&self.sent).push(part.clone());
        let content_range =
            format!("Content-Range: bytes {}-{}/{}", part.start, part.end - 1, self.length);
        let fields = [&*etag, self.fields, &content_range];
        Script::answer("206 Partial Content", &fields, &self.bytes(part))
    }

    /// Starts an origin of the file.
    pub fn origin(&self) -> Origin {
        let file = self.clone();
        Origin::start(move |request| file.answer(request))
    }

    /// The ranges that were sent.
    pub fn sent(&self) -> Vec<Range<usize>> {
        locked(&self.sent).clone()
    }

    /// The number of bytes that were sent.
    pub fn sent_bytes(&self) -> usize {
        self.sent().iter().map(Range::len).sum()
    }
}

/// Reads `bytes=first-last`, `bytes=first-` and `bytes=-count`.
fn parse(range: &str, length: usize) -> Range<usize> {
    let (first, last) = range["bytes=".len()..].split_once('-').expect("a range");
    let number = |text: &str| text.parse::<usize>().ok();
    match (number(first), number(last)) {
        (Some(first), last) => first.min(length)..last.map_or(length, |last| length.min(last + 1)),
        (None, Some(count)) => length.saturating_sub(count)..length,
        (None, None) => panic!("{range}"),
    }
}

//! The readings of a path: the paths that an origin may take it for.
//!
//! Before an origin looks a path up, it may decode it, remove dot segments and merge slashes, and
//! origins do so in different orders. So a path such as `/x/..%2fprivate` names one
//! resource at one origin and another resource at the next. A decision that depends on a path is
//! safe if it is the same for every reading.
//!
//! Invariant: a plain path has one reading, and no step makes a path longer.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use crate::bytes::{ONES, zero_flags};
use crate::target::is_path;

/// Largest number of readings of one path. Only hostile paths come near it: each kind of unusual
/// spelling at most doubles the number of readings.
const READINGS_MAX: usize = 64;

/// Largest number of times that a path is decoded: once by a proxy in front of the origin, and once
/// by the origin.
const DECODED_MAX: u8 = 2;

/// A path that an origin may read in place of the path that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathReading<'a> {
    /// The path, without a query.
    pub path: &'a [u8],
    /// Whether all its percent-encoding, or all but that of slashes, was decoded. Otherwise the
    /// path is as it was sent, or decoded only where RFC 3986 §6.2.2.2 allows that.
    pub is_decoded: bool,
}

/// Whether a path without a query has only one reading: it has no percent-encoding, no backslash,
/// no semicolon, and no slash before a slash or a dot.
pub fn is_plain(path: &[u8]) -> bool {
    let Some(last) = path.last_chunk() else {
        let word = path.iter().rev().fold(0, |word, byte| (word << 8) | u64::from(*byte));
        return special_flags(word) == 0;
    };
    let mut found = special_flags(u64::from_le_bytes(*last));
    let mut rest = path;
    while let Some(word) = rest.first_chunk() {
        found |= special_flags(u64::from_le_bytes(*word));
        // Words overlap by a byte, so every two neighbouring bytes are together in one word.
        rest = rest.get(7..).unwrap_or_default();
    }
    found == 0
}

/// Returns a word in which the top bit of a byte is set if and only if that byte of `word` is one
/// that a plain path does not contain, or a slash before a slash or a dot.
const fn special_flags(word: u64) -> u64 {
    // The codes of a dot and a slash differ in the lowest bit only.
    const DOT_OR_SLASH: u64 = ONES * (b'.' | b'/') as u64;
    let slash = zero_flags(word ^ (ONES * b'/' as u64));
    let before_dot_or_slash = zero_flags((word | ONES) ^ DOT_OR_SLASH) >> 8;
    zero_flags(word ^ (ONES * b'%' as u64))
        | zero_flags(word ^ (ONES * b'\\' as u64))
        | zero_flags(word ^ (ONES * b';' as u64))
        | (slash & before_dot_or_slash)
}

/// Writes the normal form of a path without query into `form`: RFC 3986 §6.2.2 (unreserved
/// characters decoded, upper-case hexadecimal digits, dot segments removed), then repeated slashes
/// merged. `%2F`, `%5C` and a backslash separate no segments here: RFC 3986 §2.2 keeps an encoded
/// slash apart from a slash, and gives a backslash no meaning.
pub fn normal_form(path: &[u8], form: &mut Vec<u8>) {
    form.clear();
    form.extend_from_slice(path);
    for step in [decode_unreserved, remove_dot_segments, merge_slashes] {
        let len = step(form);
        form.truncate(len);
    }
}

/// Whether `is_safe` holds for every reading of a path without query, the path itself included.
///
/// The readings are the results of all sequences of these steps, because origins run them in any
/// order, and some of them twice: decode all percent-encoding, or all but encoded slashes (together
/// at most twice), decode unreserved characters, remove dot segments, merge repeated slashes, take
/// a backslash for a slash, drop the parameters of segments (`;x`), and end the path at a `?`, `#`,
/// NUL or end of line.
///
/// The readings are written to `buffer`. If there are more than 64 of them, or if they need more
/// than `bytes_max`, the function returns false.
pub fn every_reading(
    path: &[u8],
    buffer: &mut Vec<u8>,
    bytes_max: usize,
    mut is_safe: impl FnMut(PathReading<'_>) -> bool,
) -> bool {
    let Some(mut readings) = Readings::new(path, buffer, bytes_max) else { return false };
    let mut next = 0;
    while let Some(span) = readings.span(next) {
        let path = readings.path(span);
        if !is_safe(PathReading { path, is_decoded: span.decoded > 0 }) || !readings.derive(span) {
            return false;
        }
        next += 1;
    }
    true
}

/// Changes a path in place and returns its new length, which is not larger.
type PathStep = fn(&mut [u8]) -> usize;

/// The steps other than decoding everything.
const STEPS: [PathStep; 6] = [
    decode_unreserved,
    remove_dot_segments,
    merge_slashes,
    turn_backslashes,
    drop_parameters,
    end_early,
];

/// The readings found so far, one after another in a buffer.
struct Readings<'b> {
    buffer: &'b mut Vec<u8>,
    bytes_max: usize,
    spans: [Span; READINGS_MAX],
    count: usize,
}

/// The position of a reading in the buffer.
#[derive(Clone, Copy, Default)]
struct Span {
    start: usize,
    end: usize,
    /// How often the path was decoded.
    decoded: u8,
}

impl<'b> Readings<'b> {
    /// Returns the path as its first reading; `None` if it is longer than `bytes_max`.
    fn new(path: &[u8], buffer: &'b mut Vec<u8>, bytes_max: usize) -> Option<Readings<'b>> {
        buffer.clear();
        if path.len() > bytes_max {
            return None;
        }
        buffer.extend_from_slice(path);
        let mut spans = [Span::default(); READINGS_MAX];
        *spans.first_mut()? = Span { start: 0, end: path.len(), decoded: 0 };
        Some(Readings { buffer, bytes_max, spans, count: 1 })
    }

    fn span(&self, index: usize) -> Option<Span> {
        self.spans.get(..self.count)?.get(index).copied()
    }

    fn path(&self, span: Span) -> &[u8] {
        self.buffer.get(span.start..span.end).unwrap_or_default()
    }

    /// Adds the readings that one more step makes from this one; returns false if there is no room
    /// for them.
    fn derive(&mut self, span: Span) -> bool {
        let decoded = span.decoded + 1;
        STEPS.iter().all(|step| self.add(span, *step, span.decoded))
            && (decoded > DECODED_MAX
                || self.add(span, decode, decoded) && self.add(span, decode_but_slashes, decoded))
    }

    /// Adds the path that a step makes from this reading, unless the buffer already has the same
    /// path and decoding it took no more steps. Returns false if there is no room.
    fn add(&mut self, span: Span, step: PathStep, decoded: u8) -> bool {
        let start = self.buffer.len();
        self.buffer.extend_from_within(span.start..span.end);
        let len = self.buffer.get_mut(start..).map_or(0, step);
        let added = Span { start, end: start + len, decoded };
        let known = self.spans.get(..self.count).unwrap_or_default();
        if known.iter().any(|s| s.decoded <= decoded && self.path(*s) == self.path(added)) {
            self.buffer.truncate(start);
            return true;
        }
        self.buffer.truncate(added.end);
        let Some(slot) = self.spans.get_mut(self.count) else { return false };
        *slot = added;
        self.count += 1;
        self.buffer.len() <= self.bytes_max
    }
}

/// Reads a path and overwrites it with a shorter one.
struct Rewrite<'a> {
    bytes: &'a mut [u8],
    read: usize,
    written: usize,
}

impl<'a> Rewrite<'a> {
    fn new(bytes: &'a mut [u8]) -> Rewrite<'a> {
        Rewrite { bytes, read: 0, written: 0 }
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.read).copied()?;
        self.read += 1;
        Some(byte)
    }

    /// Returns the byte whose two hexadecimal digits come next.
    fn hex(&self) -> Option<u8> {
        let digit = |at: usize| char::from(*self.bytes.get(at)?).to_digit(16);
        u8::try_from(digit(self.read)? * 16 + digit(self.read + 1)?).ok()
    }

    fn put(&mut self, byte: u8) {
        debug_assert!(self.written < self.read, "a step never makes a path longer");
        if let Some(slot) = self.bytes.get_mut(self.written) {
            *slot = byte;
            self.written += 1;
        }
    }

    fn last(&self) -> Option<u8> {
        self.bytes.get(self.written.checked_sub(1)?).copied()
    }
}

/// RFC 3986 §2.1: decodes every percent-encoded byte.
fn decode(path: &mut [u8]) -> usize {
    decode_where(path, |_| true)
}

/// Decodes every percent-encoded byte except slashes, as servers do that do not take an encoded
/// slash for the end of a segment.
fn decode_but_slashes(path: &mut [u8]) -> usize {
    decode_where(path, |byte| byte != b'/')
}

fn decode_where(path: &mut [u8], is_decoded: impl Fn(u8) -> bool) -> usize {
    let mut path = Rewrite::new(path);
    while let Some(byte) = path.next() {
        match path.hex().filter(|decoded| byte == b'%' && is_decoded(*decoded)) {
            Some(decoded) => {
                path.read += 2;
                path.put(decoded);
            }
            None => path.put(byte),
        }
    }
    path.written
}

/// RFC 3986 §6.2.2.1, §6.2.2.2: decodes unreserved characters, and writes hexadecimal digits in
/// upper case.
fn decode_unreserved(path: &mut [u8]) -> usize {
    let mut path = Rewrite::new(path);
    while let Some(byte) = path.next() {
        let Some(decoded) = path.hex().filter(|_| byte == b'%') else {
            path.put(byte);
            continue;
        };
        if decoded.is_ascii_alphanumeric() || matches!(decoded, b'-' | b'.' | b'_' | b'~') {
            path.read += 2;
            path.put(decoded);
            continue;
        }
        path.put(b'%');
        for _ in 0..2 {
            let digit = path.next().unwrap_or_default();
            path.put(digit.to_ascii_uppercase());
        }
    }
    path.written
}

/// RFC 3986 §5.2.4: removes the segments `.` and `..`, the latter with the segment before it.
fn remove_dot_segments(path: &mut [u8]) -> usize {
    let mut written = 0;
    let mut read = 0;
    while read < path.len() {
        let rest = path.get(read + 1..).unwrap_or_default();
        let len = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
        let end = read + 1 + len;
        let segment = rest.get(..len).unwrap_or_default();
        let is_dots = matches!(segment, b"." | b"..");
        if segment == b".." {
            let kept = path.get(..written).unwrap_or_default();
            written = kept.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        }
        // A path that ends in a dot segment names a directory: its last slash stays.
        let kept_end = match is_dots {
            false => end,
            true if end == path.len() => read + 1,
            true => read,
        };
        path.copy_within(read..kept_end, written);
        written += kept_end - read;
        read = end;
    }
    written
}

/// Replaces repeated slashes by one.
fn merge_slashes(path: &mut [u8]) -> usize {
    let mut path = Rewrite::new(path);
    while let Some(byte) = path.next() {
        if byte != b'/' || path.last() != Some(b'/') {
            path.put(byte);
        }
    }
    path.written
}

/// Replaces backslashes by slashes, as browsers and servers on Windows do.
fn turn_backslashes(path: &mut [u8]) -> usize {
    for byte in path.iter_mut().filter(|byte| **byte == b'\\') {
        *byte = b'/';
    }
    path.len()
}

/// Drops the parameters of each segment, from its first semicolon on (RFC 3986 §3.3), as servlet
/// containers do before they remove dot segments.
fn drop_parameters(path: &mut [u8]) -> usize {
    let mut path = Rewrite::new(path);
    let mut is_parameter = false;
    while let Some(byte) = path.next() {
        is_parameter = byte == b';' || (is_parameter && byte != b'/');
        if !is_parameter {
            path.put(byte);
        }
    }
    path.written
}

/// Cuts a decoded path at the first byte at which an origin may end it.
fn end_early(path: &mut [u8]) -> usize {
    let ends = |byte: &u8| matches!(byte, b'?' | b'#' | b'\0' | b'\r' | b'\n');
    path.iter().position(ends).unwrap_or(path.len())
}

/// Returns the decoded form of a path prefix. Returns `None` if every spelling of a path below the
/// prefix can have readings that are not below it. Such a prefix has percent-encoding of a
/// printable character or a control character, lower-case hexadecimal digits, a dot segment, a
/// repeated slash, a backslash or a semicolon.
pub fn decode_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let is_encoded_as_needed = |code: &[u8]| match code {
        [high, low, ..] => {
            let is_upper = !high.is_ascii_lowercase() && !low.is_ascii_lowercase();
            // Codes of other ASCII characters are refused: a request may have such a character
            // without encoding it, or some origins end a path there.
            is_upper && (code.starts_with(b"20") || *high >= b'8')
        }
        _ => false,
    };
    let mut codes = prefix.split(|byte| *byte == b'%').skip(1);
    if !is_path(prefix) || !codes.all(is_encoded_as_needed) {
        return None;
    }
    let mut decoded = prefix.to_vec();
    let len = decode(&mut decoded);
    decoded.truncate(len);
    let is_only = |reading: PathReading<'_>| reading.path == decoded;
    every_reading(&decoded, &mut Vec::new(), usize::MAX, is_only).then_some(decoded)
}

#[cfg(test)]
mod tests;

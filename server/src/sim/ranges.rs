//! The ranges of a body that a client requests, and the parts of a response with status 206 (RFC
//! 9110 §14, §15.3.7).

use forebay_testkit::Response;

/// The first and the last byte of a range.
pub(super) type ByteRange = (usize, usize);

/// The largest gap between two ranges that a server may fill in order to send both ranges as one
/// part: about the size of a part's head (§15.3.7.2).
const GAP_BYTES_MAX: usize = 80;

/// The boundary with which the origin itself separates parts.
const BOUNDARY: &str = "origin";

/// Returns the field line that requests these ranges; an empty text for no ranges.
pub(super) fn range_line(ranges: &[ByteRange]) -> String {
    if ranges.is_empty() {
        return String::new();
    }
    let ranges: Vec<_> = ranges.iter().map(|(first, last)| format!("{first}-{last}")).collect();
    format!("Range: bytes={}\r\n", ranges.join(","))
}

/// Parses the value of Range, and returns the ranges within a body of `length` bytes. Returns no
/// ranges if the value has a form that neither the clients nor the cache send.
pub(super) fn ranges_of(value: &str, length: usize) -> Vec<ByteRange> {
    let range = |range: &str| {
        let (first, last) = range.split_once('-')?;
        let last = if last.is_empty() { usize::MAX } else { last.parse().ok()? };
        Some((first.parse().ok()?, last))
    };
    let ranges = value.strip_prefix("bytes=").unwrap_or_default().split(',').map(range);
    let ranges: Option<Vec<ByteRange>> = ranges.collect();
    satisfiable(&ranges.unwrap_or_default(), length)
}

/// Returns the ranges that begin within a body of `length` bytes, cut at the end of the body.
pub(super) fn satisfiable(ranges: &[ByteRange], length: usize) -> Vec<ByteRange> {
    let within = ranges.iter().filter(|(first, last)| *first < length && first <= last);
    within.map(|(first, last)| (*first, (*last).min(length - 1))).collect()
}

/// Returns the field line and the content of a response that consists of these ranges of `body`.
pub(super) fn partial_content(ranges: &[ByteRange], body: &[u8]) -> (String, Vec<u8>) {
    match ranges {
        [(first, last)] => {
            let line = format!("Content-Range: bytes {first}-{last}/{}\r\n", body.len());
            (line, body[*first..=*last].to_vec())
        }
        _ => multipart(ranges, body),
    }
}

/// Returns the field line and the content of a response with a part for each range.
fn multipart(ranges: &[ByteRange], body: &[u8]) -> (String, Vec<u8>) {
    let mut content = Vec::new();
    for (first, last) in ranges {
        let range = format!("Content-Range: bytes {first}-{last}/{}", body.len());
        content.extend_from_slice(format!("\r\n--{BOUNDARY}\r\n{range}\r\n\r\n").as_bytes());
        content.extend_from_slice(&body[*first..=*last]);
    }
    content.extend_from_slice(format!("\r\n--{BOUNDARY}--\r\n").as_bytes());
    // No line end precedes the first boundary.
    content.drain(..2);
    (format!("Content-Type: multipart/byteranges; boundary={BOUNDARY}\r\n"), content)
}

/// One part of a body, as it is in a response.
struct Part<'a> {
    range: ByteRange,
    /// The length of the whole body.
    total: usize,
    /// The bytes that have arrived.
    bytes: &'a [u8],
}

/// Checks that a response with status 206 has exactly the bytes of the requested ranges of `body`.
/// Returns whether the response has several parts.
///
/// # Errors
/// Returns the reason why the response is wrong.
pub(super) fn check_parts(
    ranges: &[ByteRange],
    response: &Response,
    body: &[u8],
) -> Result<bool, String> {
    let content_type = response.field("content-type").unwrap_or_default();
    let boundary = content_type.strip_prefix("multipart/byteranges; boundary=");
    let parts = match boundary {
        Some(boundary) => parts_of(&response.body, boundary, response.is_whole)?,
        None => {
            let value = response.field("content-range").ok_or("a 206 has no Content-Range")?;
            let (range, total) = content_range(value)?;
            if response.is_whole && response.body.len() != range.1 + 1 - range.0 {
                return Err(format!("the body for {value} has {} bytes", response.body.len()));
            }
            vec![Part { range, total, bytes: &response.body }]
        }
    };
    let asked = satisfiable(ranges, body.len());
    parts.iter().try_for_each(|part| part.check(&asked, body))?;
    let is_covered = |range: &ByteRange| {
        parts.iter().any(|part| part.range.0 <= range.0 && range.1 <= part.range.1)
    };
    match asked.iter().find(|range| !is_covered(range)) {
        Some(range) if response.is_whole => {
            Err(format!("the requested range {range:?} is missing"))
        }
        _ => Ok(boundary.is_some()),
    }
}

impl Part<'_> {
    /// Checks that the part consists of requested ranges and short gaps between them.
    fn check(&self, asked: &[ByteRange], body: &[u8]) -> Result<(), String> {
        let (range @ (first, last), total) = (self.range, self.total);
        if total != body.len() {
            return Err(format!(
                "Content-Range states the length {total} instead of {}",
                body.len()
            ));
        }
        let mut within: Vec<_> =
            asked.iter().filter(|(from, to)| first <= *from && *to <= last).collect();
        within.sort_unstable();
        if within.first().is_none_or(|(from, _)| *from != first) {
            return Err(format!("no requested range begins at the start of {range:?}"));
        }
        let mut reached = first;
        for (from, to) in within {
            if *from > reached + GAP_BYTES_MAX {
                return Err(format!(
                    "bytes {reached} to {from} of {range:?} are in no requested range"
                ));
            }
            reached = reached.max(*to);
        }
        if reached != last {
            return Err(format!("no requested range reaches the end of {range:?}"));
        }
        let expected = &body[first..=last];
        if !expected.starts_with(self.bytes) {
            let equal = expected.iter().zip(self.bytes).take_while(|(left, right)| left == right);
            let at = first + equal.count();
            return Err(format!("part {range:?} is wrong from byte {at} on"));
        }
        Ok(())
    }
}

/// Parses `bytes first-last/total`.
fn content_range(value: &str) -> Result<(ByteRange, usize), String> {
    let parse = || {
        let (range, total) = value.strip_prefix("bytes ")?.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let range: ByteRange = (first.parse().ok()?, last.parse().ok()?);
        let total = total.parse().ok()?;
        (range.0 <= range.1 && range.1 < total).then_some((range, total))
    };
    parse().ok_or_else(|| format!("malformed Content-Range: {value}"))
}

/// Returns the parts of a multipart body. If the body is not whole, its last part may be cut off.
fn parts_of<'a>(body: &'a [u8], boundary: &str, is_whole: bool) -> Result<Vec<Part<'a>>, String> {
    let (mut parts, mut rest) = (Vec::new(), body);
    let cut = |parts, why: &str| match is_whole {
        true => Err(format!("a multipart body ends before {why}")),
        false => Ok(parts),
    };
    loop {
        let line = format!("{}--{boundary}", if parts.is_empty() { "" } else { "\r\n" });
        let Some(after) = rest.strip_prefix(line.as_bytes()) else {
            return cut(parts, "a boundary");
        };
        if after == b"--\r\n" && !parts.is_empty() {
            return Ok(parts);
        }
        let Some(end) = after.windows(4).position(|end| end == b"\r\n\r\n") else {
            return cut(parts, "the head of a part");
        };
        let head = String::from_utf8_lossy(&after[..end]).to_lowercase();
        let mut lines = head.split("\r\n").filter_map(|line| line.strip_prefix("content-range: "));
        let (range, total) = content_range(lines.next().ok_or("a part has no Content-Range")?)?;
        let (length, after) = (range.1 + 1 - range.0, &after[end + 4..]);
        let (bytes, after) = after.split_at(length.min(after.len()));
        parts.push(Part { range, total, bytes });
        if bytes.len() < length {
            return cut(parts, "the end of a part");
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_response_are_compared_with_the_ranges() {
        let body: Vec<u8> = (0..=255).collect();
        let ranges = [(200, 300), (0, 3)];
        let (_, content) = multipart(&satisfiable(&ranges, body.len()), &body);
        let response = |content: &[u8], is_whole| {
            let mut response =
                Response { status: 206, body: content.to_vec(), is_whole, ..Response::default() };
            let value = format!("multipart/byteranges; boundary={BOUNDARY}");
            response.head.fields.push(("Content-Type".into(), value));
            response
        };
        let check = |content: &[u8], is_whole| {
            check_parts(&ranges, &response(content, is_whole), &body).is_ok()
        };
        assert!(check(&content, true));
        for cut in 0..content.len() {
            assert!(check(&content[..cut], false), "cut at {cut}");
            assert!(!check(&content[..cut], true), "whole at {cut}");
        }
        let at = content.len() - BOUNDARY.len() - 10;
        let mut wrong = content.clone();
        wrong[at] ^= 1;
        assert!(!check(&wrong, true), "another byte");
        let (_, few) = multipart(&[(0, 3)], &body);
        assert!(!check(&few, true), "a range is missing");
        let (_, many) = multipart(&[(0, 3), (200, 255), (9, 9)], &body);
        assert!(!check(&many, true), "nothing asks for the third part");
        let (_, joined) = multipart(&[(0, 255)], &body);
        assert!(!check(&joined, true), "the gap is long");
        let near = [(100, 120), (0, 50)];
        let (_, joined) = multipart(&[(0, 120)], &body);
        let joined = response(&joined, true);
        assert!(check_parts(&near, &joined, &body).is_ok(), "the gap is short");
    }
}

//! Properties that hold for any bytes, in one function per fuzz target. The fuzzer runs these
//! functions, and a plain test runs them over the checked-in corpora. A violated property panics.

use forebay_http::{
    chunked::{ChunkedDecoder, ChunkedEvent, ChunkedLimits},
    error::{ChunkedError, RequestError},
    fields::{FieldBlock, FieldId, FieldSet},
    framing::{expects_continue, keeps_alive, request_framing},
    hop::HopFields,
    policy::{
        directives::{RequestDirectives, ResponseDirectives},
        exchange::{CacheRules, ResponseTiming},
        freshness::StatusFreshness,
        meta::StoredMeta,
        range::{
            RANGES_MAX, RangeDecision, byte_ranges, range as decide_range, write_content_range,
        },
        reuse::judge,
        tags::{TAG_FIELDS, invalidated_groups, tags as tags_of},
        targeted::TargetList,
    },
    request::{HeadLimits, Method, RequestHead, RequestParts, Version, parse_request},
    response::{OriginLimits, parse_response},
    target::request_target,
    write,
};

const HEAD_LIMITS: HeadLimits =
    HeadLimits { head_bytes_max: 4_096, field_count_max: 32, target_bytes_max: 1_024 };
const ORIGIN_LIMITS: OriginLimits = OriginLimits { head_bytes_max: 4_096, field_count_max: 32 };
const CHUNKED_LIMITS: ChunkedLimits =
    ChunkedLimits { extension_bytes_max: 64, trailer_bytes_max: 256, trailer_count_max: 8 };
const RULES: CacheRules<'_> = CacheRules {
    targets: &TargetList::EMPTY,
    heuristic_percent: 10,
    heuristic_s_max: 86_400,
    heuristic_error_s_max: 60,
    override_freshness_s: 0,
    status_freshness: &StatusFreshness::EMPTY,
    default_freshness_s: 0,
    set_cookie_is_storable: true,
};

/// Returns a position at which to split `bytes`. It depends only on their sum and their number.
fn cut(bytes: &[u8]) -> usize {
    let sum: usize = bytes.iter().map(|byte| usize::from(*byte)).sum();
    sum % (bytes.len() + 1)
}

/// Checks the parser of request heads: the result does not depend on how the bytes are split, and
/// an accepted head that is written again parses to the same parts.
pub(crate) fn request_head(bytes: &[u8]) {
    let mut parts = RequestParts::default();
    let whole = parse_request(bytes, &HEAD_LIMITS, &mut parts);
    assert_eq!(parse_cut(bytes, cut(bytes)), whole);
    let Ok(Some(len)) = whole else {
        return;
    };
    assert!(len <= bytes.len() && bytes[..len].ends_with(b"\r\n\r\n"));
    let head = parts.head(bytes);
    // An error is allowed, a panic is not.
    let _ = (request_target(head), request_framing(head), expects_continue(head));
    let _ = (keeps_alive(head.version(), head.fields()), HopFields::of(head.fields()).is_ok());

    let written = write_request(head);
    let mut again = RequestParts::default();
    let limits = HeadLimits { head_bytes_max: u32::MAX, ..HEAD_LIMITS };
    assert_eq!(parse_request(&written, &limits, &mut again), Ok(Some(written.len())));
    let read = again.head(&written);
    assert_eq!((read.method(), read.target()), (head.method(), head.target()));
    assert!(read.version() == head.version() && read.fields().seen() == head.fields().seen());
    let pairs = read.fields().iter().zip(head.fields().iter());
    assert!(pairs.clone().count() == head.fields().count());
    pairs.for_each(|(one, other)| assert_eq!(one, other));
}

fn parse_cut(bytes: &[u8], at: usize) -> Result<Option<usize>, RequestError> {
    let mut parts = RequestParts::default();
    match parse_request(&bytes[..at], &HEAD_LIMITS, &mut parts) {
        Ok(None) => parse_request(bytes, &HEAD_LIMITS, &mut parts),
        verdict => verdict,
    }
}

fn write_request(head: RequestHead<'_>) -> Vec<u8> {
    let version = match head.version() {
        Version::Http10 => &b" HTTP/1.0\r\n"[..],
        Version::Http11 => b" HTTP/1.1\r\n",
    };
    let mut out = [head.method().as_bytes(), b" ", head.target(), version].concat();
    for field in head.fields().iter() {
        write::field(&mut out, field.name, field.value);
    }
    out.extend_from_slice(b"\r\n");
    out
}

/// Checks the parser of response heads: an accepted head has no Connection, Transfer-Encoding or
/// Content-Length field, its field block parses again, and a part of the head is incomplete.
pub(crate) fn response_head(bytes: &[u8]) {
    for method in [Method::Get, Method::Head] {
        let Ok(Some((len, head))) = parse_response(bytes, method, &ORIGIN_LIMITS) else {
            continue;
        };
        assert!(len <= bytes.len() && (100..=599).contains(&head.status) && head.status != 101);
        for id in [FieldId::Connection, FieldId::TransferEncoding, FieldId::ContentLength] {
            assert!(!head.block.fields().contains(id));
        }
        let read = FieldBlock::parse(head.block.bytes())
            .expect("the field block of an accepted head parses again");
        assert!(read.fields().iter().eq(head.block.fields().iter()));
        let cut_short = parse_response(&bytes[..cut(bytes).min(len - 1)], method, &ORIGIN_LIMITS);
        assert!(matches!(cut_short, Ok(None)));
    }
}

/// Checks the chunked decoder: data, trailers, end and error do not depend on how the body is
/// split.
pub(crate) fn chunked(bytes: &[u8]) {
    let whole = decode(&[bytes]);
    let (one, other) = bytes.split_at(cut(bytes));
    assert_eq!(decode(&[one, other]), whole);
    assert_eq!(decode(&bytes.chunks(1).collect::<Vec<_>>()), whole);
}

fn decode(pieces: &[&[u8]]) -> Result<(Vec<u8>, Vec<u8>, usize), ChunkedError> {
    let mut decoder = ChunkedDecoder::new(CHUNKED_LIMITS);
    let (mut data, mut consumed_total) = (Vec::new(), 0);
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() {
            let (consumed, event) = decoder.step(rest)?;
            assert!(consumed <= rest.len());
            consumed_total += consumed;
            match event {
                ChunkedEvent::Data(range) => data.extend_from_slice(&rest[range]),
                ChunkedEvent::NeedMore => assert_eq!(consumed, rest.len()),
                ChunkedEvent::End => break,
            }
            rest = &rest[consumed..];
        }
    }
    Ok((data, decoder.into_trailers().bytes().to_vec(), consumed_total))
}

/// Parses a field block from a corpus file, which has one `name: value` on each line.
fn block(bytes: &[u8]) -> FieldBlock {
    let mut block = FieldBlock::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        let colon = line.iter().position(|byte| *byte == b':').filter(|at| *at > 0);
        if let Some(at) = colon {
            block.push(&line[..at], line[at + 1..].trim_ascii());
        }
    }
    block
}

/// Checks range decisions: a part lies within the body, and a Content-Range is written unless the
/// whole body is sent.
pub(crate) fn range(bytes: &[u8]) {
    let request = block(bytes);
    let stored = block(b"ETag: \"v1\"\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT");
    let arrival = ResponseTiming::new(stored.fields(), 1_000_000_000, 1_000_000_000);
    let meta = StoredMeta::new(200, &stored, &arrival, &RULES);
    for body_bytes in [0, 1, 1_000, u64::MAX] {
        let decision = decide_range(request.fields(), &meta, stored.bytes(), body_bytes);
        if let RangeDecision::Part { first, last } = decision {
            assert!(first <= last && last < body_bytes);
        }
        let mut value = Vec::new();
        write_content_range(decision, body_bytes, &mut value);
        let has_none = matches!(decision, RangeDecision::Whole | RangeDecision::Parts);
        assert_eq!(value.is_empty(), has_none);
        if decision == RangeDecision::Parts {
            let parts = byte_ranges(request.fields(), body_bytes);
            assert!((2..=RANGES_MAX).contains(&parts.len()));
            assert!(parts.iter().all(|part| part.start < part.end && part.end <= body_bytes));
            let bytes: u128 = parts.iter().map(|part| u128::from(part.end - part.start)).sum();
            assert!(bytes <= u128::from(body_bytes), "no byte is sent twice");
        }
    }
}

/// Checks Cache-Control: repeating all lines does not change the directives, and the decision about
/// a hit does not panic.
pub(crate) fn cache_control(bytes: &[u8]) {
    let once = block(bytes);
    let twice = block(&[bytes, b"\n", bytes].concat());
    let directives = ResponseDirectives::parse(once.fields());
    assert_eq!(directives, ResponseDirectives::parse(twice.fields()));
    let request = RequestDirectives::parse(once.fields());
    assert_eq!(request, RequestDirectives::parse(twice.fields()));
    let arrival = ResponseTiming::new(once.fields(), 1_000, 1_002);
    let meta = StoredMeta::new(200, &once, &arrival, &RULES);
    for now in [0, 1_002, 5_000, u64::MAX] {
        let _ = judge(&meta, &request, now);
    }
}

/// Checks tags: no tag is empty, and groups that are written as a list of strings parse to the same
/// groups.
pub(crate) fn tags(bytes: &[u8]) {
    let fields = block(bytes);
    let found = tags_of(fields.fields(), FieldSet::of(&TAG_FIELDS));
    assert!(found.iter().all(|tag| !tag.is_empty()));
    let of_groups = FieldSet::of(&[FieldId::CacheGroups]);
    let groups: Vec<_> =
        tags_of(fields.fields(), of_groups).into_iter().map(|tag| tag.into_owned()).collect();
    let mut list = Vec::new();
    for group in &groups {
        list.extend_from_slice(if list.is_empty() { b"\"" } else { b", \"" });
        for byte in group.iter() {
            if matches!(byte, b'"' | b'\\') {
                list.push(b'\\');
            }
            list.push(*byte);
        }
        list.push(b'"');
    }
    let mut written = FieldBlock::new();
    written.push(b"cache-group-invalidation", &list);
    assert_eq!(invalidated_groups(written.fields()), groups);
}

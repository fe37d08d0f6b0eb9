use super::{block, date, stored};
use crate::policy::multipart::Multipart;
use crate::policy::range::PartRefused::{ContentRange, NoStrongTag};
use crate::policy::range::RangeDecision::{self, Part, Parts, Unsatisfiable, Whole};
use crate::policy::range::{
    RANGES_MAX, byte_ranges, first_unit, range, total_of_part, write_content_range,
};

fn part(first: u64, last: u64) -> RangeDecision {
    Part { first, last }
}

// RFC: 9110-13.1.5-2, 9110-14.1.2-1, 9110-14.2-4, 9110-14.2-5
#[test]
fn a_byte_range_gets_a_part_and_a_malformed_one_the_whole() {
    const HUGE: &str = "Range: bytes=0-99999999999999999999999";
    let cases = [
        ("no Range", "X: y", 10, Whole),
        ("If-Range without Range", "If-Range: \"a\"", 10, Whole),
        ("first and last", "Range: bytes=2-5", 10, part(2, 5)),
        ("one byte", "Range: bytes=0-0", 10, part(0, 0)),
        ("an open end", "Range: bytes=4-", 10, part(4, 9)),
        ("everything", "Range: bytes=0-", 10, part(0, 9)),
        ("a suffix", "Range: bytes=-3", 10, part(7, 9)),
        ("a suffix beyond the start", "Range: bytes=-99", 10, part(0, 9)),
        ("an end beyond the end", "Range: bytes=5-99", 10, part(5, 9)),
        ("an end without end", HUGE, 10, part(0, 9)),
        ("a suffix without end", "Range: bytes=-99999999999999999999999", 10, part(0, 9)),
        ("the last byte", "Range: bytes=9-9", 10, part(9, 9)),
        ("a start at the end", "Range: bytes=10-", 10, Unsatisfiable),
        ("a start beyond the end", "Range: bytes=11-12", 10, Unsatisfiable),
        ("a start without end", "Range: bytes=99999999999999999999999-", 10, Unsatisfiable),
        ("an empty suffix", "Range: bytes=-0", 10, Unsatisfiable),
        ("an empty body", "Range: bytes=0-0", 0, Unsatisfiable),
        ("a suffix of an empty body", "Range: bytes=-5", 0, Whole),
        ("an empty suffix of an empty body", "Range: bytes=-0", 0, Unsatisfiable),
        ("a body of all lengths", "Range: bytes=-1", u64::MAX, part(u64::MAX - 1, u64::MAX - 1)),
        ("the unit has no case", "Range: Bytes=2-5", 10, part(2, 5)),
        ("empty list members", "Range: bytes=,2-5 ,", 10, part(2, 5)),
        ("last before first", "Range: bytes=5-2", 10, Whole),
        ("two near ranges", "Range: bytes=0-1,3-4", 10, part(0, 4)),
        ("two ranges, one beyond the end", "Range: bytes=0-1,10-12", 10, part(0, 1)),
        ("two ranges beyond the end", "Range: bytes=10-11,-0", 10, Unsatisfiable),
        ("two ranges, one malformed", "Range: bytes=0-1,5-3", 10, Whole),
        ("two ranges, one of another unit", "Range: bytes=0-1,lines=3-4", 10, Whole),
        ("two ranges of an empty body", "Range: bytes=0-1,-5", 0, Whole),
        ("two distant ranges", "Range: bytes=0-1,500-501", 1000, Parts),
        ("two lines", "Range: bytes=0-1\nRange: bytes=0-1", 10, Whole),
        ("another unit", "Range: lines=0-1", 10, Whole),
        ("no unit", "Range: 0-1", 10, Whole),
        ("no range", "Range: bytes=", 10, Whole),
        ("no numbers", "Range: bytes=-", 10, Whole),
        ("no dash", "Range: bytes=5", 10, Whole),
        ("a negative first", "Range: bytes=-1-5", 10, Whole),
        ("letters", "Range: bytes=a-b", 10, Whole),
        ("hexadecimal", "Range: bytes=0x1-5", 10, Whole),
        ("a signed number", "Range: bytes=+1-5", 10, Whole),
        ("space after the equals sign", "Range: bytes= 1-5", 10, Whole),
        ("space before the equals sign", "Range: bytes =1-5", 10, Whole),
        ("space within the range", "Range: bytes=1 - 5", 10, Whole),
        ("text after the range", "Range: bytes=1-5x", 10, Whole),
    ];
    let (meta, stored) = stored("ETag: \"a\"");
    for (name, request, body_bytes, expected) in cases {
        let decision = range(block(request).fields(), &meta, stored.bytes(), body_bytes);
        assert_eq!(decision, expected, "{name}");
    }
}

// RFC: 9110-13.1.5-5, 9110-13.1.5-6, 9110-13.1.5-7
#[test]
fn if_range_demands_a_strong_and_exact_match() {
    let modified = date(-60);
    let strong_date = format!("Last-Modified: {modified}\nDate: {}", date(0));
    let weak_date = format!("Last-Modified: {modified}\nDate: {modified}");
    let cases = [
        ("the same tag", "ETag: \"a\"", "\"a\"".to_owned(), part(0, 1)),
        ("another tag", "ETag: \"a\"", "\"b\"".to_owned(), Whole),
        ("a weak tag asked", "ETag: \"a\"", "W/\"a\"".to_owned(), Whole),
        ("a weak tag stored", "ETag: W/\"a\"", "\"a\"".to_owned(), Whole),
        ("weak tags", "ETag: W/\"a\"", "W/\"a\"".to_owned(), Whole),
        ("no tag stored", "X: y", "\"a\"".to_owned(), Whole),
        ("a malformed value", "ETag: \"a\"", "a".to_owned(), Whole),
        ("an empty value", "ETag: \"a\"", String::new(), Whole),
        ("a star", "ETag: \"a\"", "*".to_owned(), Whole),
        ("the exact date", &strong_date, modified.clone(), part(0, 1)),
        ("a later date", &strong_date, date(-59), Whole),
        ("a date as old as Date", &weak_date, modified.clone(), Whole),
        ("a date, none stored", "ETag: \"a\"", modified.clone(), Whole),
    ];
    for (name, stored_text, if_range, expected) in cases {
        let (meta, stored) = stored(stored_text);
        let request = block(&format!("Range: bytes=0-1\nIf-Range: {if_range}"));
        assert_eq!(range(request.fields(), &meta, stored.bytes(), 10), expected, "{name}");
    }
}

#[test]
fn only_a_stored_200_is_cut() {
    let (mut meta, stored) = stored("ETag: \"a\"");
    meta.status = 404;
    let request = block("Range: bytes=0-1");
    assert_eq!(range(request.fields(), &meta, stored.bytes(), 10), Whole);
}

// RFC: 9110-14.4-4, 9110-14.4-6, 9110-15.5.17-1
#[test]
fn content_range_is_written_by_the_rfc() {
    let cases = [
        (part(0, 499), 1234, "bytes 0-499/1234"),
        (
            part(u64::MAX - 1, u64::MAX - 1),
            u64::MAX,
            "bytes 18446744073709551614-18446744073709551614/18446744073709551615",
        ),
        (Unsatisfiable, 47022, "bytes */47022"),
        (Unsatisfiable, 0, "bytes */0"),
        (Whole, 5, ""),
    ];
    for (decision, body_bytes, expected) in cases {
        let mut out = Vec::new();
        write_content_range(decision, body_bytes, &mut out);
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }
}

// RFC: 9110-15.3.7.2-6
#[test]
fn several_ranges_become_parts_that_do_not_overlap() {
    let all = "Range: bytes=0-0".to_owned();
    let many =
        |count: usize| (1..count).fold(all.clone(), |all, n| format!("{all},{0}-{0}", n * 100));
    let apart: Vec<_> = (0..RANGES_MAX as u64).map(|n| n * 100..n * 100 + 1).collect();
    let cases = [
        ("the requested order", "Range: bytes=500-509,0-9".to_owned(), vec![500..510, 0..10]),
        ("a suffix", "Range: bytes=0-0,-1".to_owned(), vec![0..1, 9999..10_000]),
        ("a gap of 80 bytes", "Range: bytes=0-9,90-99".to_owned(), vec![0..10, 90..100]),
        ("overlaps", "Range: bytes=500-600,0-9,550-700".to_owned(), vec![500..701, 0..10]),
        ("an order", "Range: bytes=0-9,500-600,550-700".to_owned(), vec![0..10, 500..701]),
        ("a bridge", "Range: bytes=500-599,0-9,200-299,280-520".to_owned(), vec![200..600, 0..10]),
        ("one beyond the end", "Range: bytes=0-0,20000-,500-500".to_owned(), vec![0..1, 500..501]),
        ("as many as are allowed", many(RANGES_MAX), apart),
        ("too many", many(RANGES_MAX + 1), vec![]),
        ("too many of the same", format!("{all}{}", ",0-0".repeat(RANGES_MAX)), vec![]),
    ];
    let (meta, stored) = stored("ETag: \"a\"");
    for (name, request, expected) in cases {
        let fields = block(&request);
        let decision = range(fields.fields(), &meta, stored.bytes(), 10_000);
        assert_eq!(decision, if expected.is_empty() { Whole } else { Parts }, "{name}");
        assert_eq!(byte_ranges(fields.fields(), 10_000), expected, "{name}");
    }
    let encoded = block("ETag: \"a\"\nContent-Encoding: gzip");
    let fields = block("Range: bytes=0-0,500-500");
    assert_eq!(range(fields.fields(), &meta, encoded.bytes(), 10_000), Whole, "a coding");
}

// RFC: 9110-15.3.7.2-1, 9110-15.3.7.2-3, 9110-15.3.7.2-4
#[test]
fn parts_are_written_by_the_rfc() {
    let long = "x".repeat(300);
    let cases = [
        ("Content-Type: text/plain", "content-type: text/plain\r\n"),
        ("X: y", ""),
        (&format!("Content-Type: {long}"), ""),
    ];
    for (stored_text, line) in cases {
        let stored = block(&format!("ETag: \"a\"\n{stored_text}"));
        let form = Multipart::new(vec![500..510, 0..1], 10_000, stored.bytes(), 0xabc);
        let mut head = Vec::new();
        form.write_block(stored.bytes(), &mut head);
        let boundary = format!("cba{}", "0".repeat(29));
        let head = String::from_utf8_lossy(&head).to_lowercase();
        let own = format!("content-type: multipart/byteranges; boundary={boundary}\r\n");
        assert!(head.starts_with("etag: \"a\"\r\n") && head.ends_with(&own), "{head}");
        assert_eq!(head.matches("content-type").count(), 1, "{head}");
        let mut text = Vec::new();
        form.write_part_head(0, &mut text);
        text.extend_from_slice(&[b'a'; 10]);
        form.write_part_head(1, &mut text);
        text.push(b'b');
        form.write_end(&mut text);
        let expected = format!(
            "--{boundary}\r\n{line}content-range: bytes 500-509/10000\r\n\r\naaaaaaaaaa\r\n\
             --{boundary}\r\n{line}content-range: bytes 0-0/10000\r\n\r\nb\r\n\
             --{boundary}--\r\n"
        );
        assert_eq!(String::from_utf8_lossy(&text), expected);
        assert_eq!(form.content_bytes(), expected.len() as u64);
    }
}

#[test]
fn the_first_unit_holds_the_first_byte_that_a_request_asks_for() {
    let cases = [
        ("Range: bytes=0-5", Some(0..10)),
        ("Range: bytes=9-", Some(0..10)),
        ("Range: bytes=10-10", Some(10..20)),
        ("Range: bytes=25-999", Some(20..30)),
        ("Range: bytes=-5", Some(0..10)),
        ("Range: bytes=15-16,5-6", Some(10..20)),
        ("Range: bytes=-5,25-26", Some(20..30)),
        ("Range: bytes=0-1,x", None),
        ("Range: lines=0-1", None),
        ("Range: bytes=18446744073709551615-", None),
        ("X: y", None),
    ];
    for (request, expected) in cases {
        assert_eq!(first_unit(block(request).fields(), 10), expected, "{request}");
    }
}

#[test]
fn a_part_is_the_one_asked_for_and_has_a_strong_tag_and_a_total() {
    let tag = "ETag: \"a\"";
    let cases = [
        ("the part", "bytes 10-19/100", tag, Some(10), Ok(100)),
        ("chunked", "bytes 10-19/100", tag, None, Err(ContentRange)),
        ("the unit has no case", "Bytes 10-19/100", tag, Some(10), Ok(100)),
        ("the last part", "bytes 10-14/15", tag, Some(5), Ok(15)),
        ("another length", "bytes 10-19/100", tag, Some(9), Err(ContentRange)),
        ("less", "bytes 10-18/100", tag, Some(9), Err(ContentRange)),
        ("more", "bytes 10-20/100", tag, Some(11), Err(ContentRange)),
        ("another start", "bytes 9-19/100", tag, Some(11), Err(ContentRange)),
        ("an unknown total", "bytes 10-19/*", tag, Some(10), Err(ContentRange)),
        ("a total within the part", "bytes 10-19/15", tag, Some(10), Err(ContentRange)),
        ("a total at the end", "bytes 10-19/19", tag, Some(10), Err(ContentRange)),
        ("last before first", "bytes 19-10/100", tag, Some(10), Err(ContentRange)),
        ("no range", "bytes */100", tag, Some(10), Err(ContentRange)),
        ("another unit", "lines 10-19/100", tag, Some(10), Err(ContentRange)),
        ("a sign", "bytes +10-19/100", tag, Some(10), Err(ContentRange)),
        ("a space", "bytes 10- 19/100", tag, Some(10), Err(ContentRange)),
        ("two totals", "bytes 10-19/100/100", tag, Some(10), Err(ContentRange)),
        ("a huge total", "bytes 10-19/99999999999999999999", tag, Some(10), Err(ContentRange)),
        ("a weak tag", "bytes 10-19/100", "ETag: W/\"a\"", Some(10), Err(NoStrongTag)),
        ("no tag", "bytes 10-19/100", "X: y", Some(10), Err(NoStrongTag)),
        ("an odd tag", "bytes 10-19/100", "ETag: a", Some(10), Err(NoStrongTag)),
        ("two tags", "bytes 10-19/100", "ETag: \"a\"\nETag: \"a\"", Some(10), Err(NoStrongTag)),
    ];
    for (name, content_range, tag, length, expected) in cases {
        let fields = block(&format!("Content-Range: {content_range}\n{tag}"));
        assert_eq!(total_of_part(fields.fields(), length, &(10..20)), expected, "{name}");
    }
    let none = block(tag);
    assert_eq!(total_of_part(none.fields(), Some(10), &(10..20)), Err(ContentRange));
}

use super::{block, date, stored};
use crate::policy::range::RangeDecision::{self, Part, Unsatisfiable, Whole};
use crate::policy::range::{range, write_content_range};

fn part(first: u64, last: u64) -> RangeDecision {
    Part { first, last }
}

// RFC: 9110-13.1.5-2, 9110-14.1.2-1, 9110-14.2-4, 9110-14.2-5
#[test]
fn one_byte_range_gets_a_part_and_everything_else_the_whole() {
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
        ("two ranges", "Range: bytes=0-1,3-4", 10, Whole),
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

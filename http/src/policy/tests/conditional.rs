use super::{block, date, stored};
use crate::policy::conditional::ConditionalResult::{self, NotModified, Send};
use crate::policy::conditional::{
    ValidatorFields, conditional, conditional_on_response, fields_of_304, may_be_named,
    needs_origin, validator_fields, write_fields_of_304,
};

fn answer(stored_text: &str, request: &str) -> ConditionalResult {
    let (meta, stored) = stored(stored_text);
    conditional(block(request).fields(), &meta, stored.bytes())
}

// RFC: 9111-4.3.2-1, 9110-13.1.2-1, 9110-13.1.3-1, 9110-13.2.2-1
#[test]
fn if_none_match_compares_weakly_and_has_precedence() {
    const TAG: &str = "ETag: \"a\"";
    let modified = format!("ETag: \"a\"\nLast-Modified: {}", date(-60));
    let newer = format!("If-None-Match: \"x\"\nIf-Modified-Since: {}", date(0));
    let cases = [
        ("no precondition", TAG, "Host: h", Send),
        ("the same tag", TAG, "If-None-Match: \"a\"", NotModified),
        ("another tag", TAG, "If-None-Match: \"b\"", Send),
        ("tags have case", TAG, "If-None-Match: \"A\"", Send),
        ("a weak request", TAG, "If-None-Match: W/\"a\"", NotModified),
        ("a weak response", "ETag: W/\"a\"", "If-None-Match: \"a\"", NotModified),
        ("both weak", "ETag: W/\"a\"", "If-None-Match: W/\"a\"", NotModified),
        ("in a list", TAG, "If-None-Match: \"b\", \"a\"", NotModified),
        ("in a list without spaces", TAG, "If-None-Match: \"b\",W/\"c\",\"a\"", NotModified),
        ("in a list with empty members", TAG, "If-None-Match: , ,\"a\",", NotModified),
        ("in a second line", TAG, "If-None-Match: \"b\"\nIf-None-Match: \"a\"", NotModified),
        ("a comma within a tag", "ETag: \"a,b\"", "If-None-Match: \"a,b\"", NotModified),
        ("half of a tag with a comma", "ETag: \"a\"", "If-None-Match: \"a,b\"", Send),
        (
            "a backslash does not escape",
            "ETag: \"a\\\"",
            "If-None-Match: \"a\\\", \"b\"",
            NotModified,
        ),
        ("anything", TAG, "If-None-Match: *", NotModified),
        ("anything, without a tag stored", "X: y", "If-None-Match: *", NotModified),
        ("a star among tags has no effect", TAG, "If-None-Match: \"b\", *", Send),
        ("a tag without quotes", TAG, "If-None-Match: a", Send),
        ("a tag stored without quotes", "ETag: a", "If-None-Match: \"a\"", Send),
        ("tags without a comma between", TAG, "If-None-Match: \"a\" \"b\"", Send),
        ("an empty value", TAG, "If-None-Match:", Send),
        ("no tag stored", "X: y", "If-None-Match: \"a\"", Send),
        ("If-Modified-Since is ignored", &modified, &newer, Send),
    ];
    for (name, stored, request, expected) in cases {
        assert_eq!(answer(stored, request), expected, "{name}");
    }
}

// RFC: 9111-4.3.2-1, 9111-4.3.2-3, 9110-13.1.3-2, 9110-13.1.3-4
#[test]
fn if_modified_since_compares_with_last_modified_or_date() {
    let modified = format!("Last-Modified: {}\nDate: {}", date(-60), date(0));
    let only_date = format!("Date: {}", date(-30));
    let since = |seconds| format!("If-Modified-Since: {}", date(seconds));
    let doubled = format!("{}\n{}", since(0), since(0));
    let cases = [
        ("the same time", &modified, since(-60), NotModified),
        ("a later time", &modified, since(-59), NotModified),
        ("an earlier time", &modified, since(-61), Send),
        ("a future time", &modified, since(9999), NotModified),
        ("a malformed time", &modified, "If-Modified-Since: now".to_owned(), Send),
        ("a time in another zone", &modified, since(0).replace("GMT", "CET"), Send),
        ("two times", &modified, doubled, Send),
        ("Date replaces Last-Modified", &only_date, since(-30), NotModified),
        ("earlier than Date", &only_date, since(-31), Send),
        (
            "RFC 850 form",
            &modified,
            "If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT".into(),
            NotModified,
        ),
        (
            "asctime form",
            &modified,
            "If-Modified-Since: Sun Nov  6 08:49:37 1994".into(),
            NotModified,
        ),
    ];
    for (name, stored, request, expected) in cases {
        assert_eq!(answer(stored, &request), expected, "{name}");
    }
}

// RFC: 9110-13.2.1-2
#[test]
fn only_a_stored_200_is_compared() {
    let (mut meta, stored) = stored("ETag: \"a\"");
    let request = block("If-None-Match: \"a\"");
    for (status, expected) in [(200, NotModified), (404, Send), (301, Send)] {
        meta.status = status;
        assert_eq!(conditional(request.fields(), &meta, stored.bytes()), expected, "{status}");
    }
}

// RFC: 9110-13.1.3-3, 9110-13.2.1-2
#[test]
fn a_response_that_passes_through_is_compared_as_it_is() {
    let modified = format!("Last-Modified: {}", date(-60));
    let later = format!("If-Modified-Since: {}", date(-59));
    let earlier = format!("If-Modified-Since: {}", date(-61));
    let dated = format!("Date: {}", date(-60));
    let cases = [
        ("no precondition", 200, "ETag: \"a\"", "Host: h", Send),
        ("the same tag", 200, "ETag: \"a\"", "If-None-Match: W/\"a\"", NotModified),
        ("another tag", 200, "ETag: \"a\"", "If-None-Match: \"b\"", Send),
        ("two tags", 200, "ETag: \"a\"\nETag: \"a\"", "If-None-Match: \"a\"", Send),
        ("any tag", 200, "X: y", "If-None-Match: *", NotModified),
        ("another status", 404, "ETag: \"a\"", "If-None-Match: \"a\"", Send),
        ("a part", 206, "ETag: \"a\"", "If-None-Match: \"a\"", Send),
        ("a later time", 200, &modified, &later, NotModified),
        ("an earlier time", 200, &modified, &earlier, Send),
        ("Date is no modification", 200, &dated, &later, Send),
    ];
    for (name, status, response, request, expected) in cases {
        let (response, request) = (block(response), block(request));
        let result = conditional_on_response(request.fields(), status, response.fields());
        assert_eq!(result, expected, "{name}");
    }
}

// RFC: 9110-15.4.5-1, 9110-15.4.5-2
#[test]
fn a_304_for_a_response_that_passes_through_keeps_what_is_of_the_message() {
    let text = "Content-Type: a/b\nETag: \"a\"\nSet-Cookie: c\nAge: 5\nContent-Encoding: br\n\
                Last-Modified: x\nCache-Control: no-store\nX: y";
    let expected = "ETag: \"a\"\nSet-Cookie: c\nAge: 5\nCache-Control: no-store";
    assert_eq!(fields_of_304(block(text).fields()).bytes(), block(expected).bytes());
}

// RFC: 9111-4.3.2-2
#[test]
fn preconditions_on_the_current_state_go_to_the_origin() {
    let cases = [
        ("If-Match: \"a\"", true),
        ("If-Match: *", true),
        ("If-Unmodified-Since: x", true),
        ("If-None-Match: \"a\"", false),
        ("If-Range: \"a\"", false),
        ("X: y", false),
    ];
    for (text, expected) in cases {
        assert_eq!(needs_origin(block(text).fields()), expected, "{text}");
    }
}

// RFC: 9111-4.3.1-1, 9111-4.3.1-2, 9110-13.1.2-2
#[test]
fn validation_sends_every_stored_validator() {
    let both = format!("X: y\nETag: W/\"a\"\nLast-Modified: {}", date(-60));
    let tag: Option<&[u8]> = Some(b"W/\"a\"");
    let time = Some(super::NOW - 60);
    let cases = [
        ("both", both.as_str(), tag, time),
        ("a tag", "ETag: W/\"a\"", tag, None),
        ("none", "X: y", None, None),
        ("a tag without quotes", "ETag: a\nLast-Modified: b", Some(b"a"), None),
        ("a tag that is not closed", "ETag: \"a", Some(b"\"a"), None),
        ("a weak tag in lower case", "ETag: w/\"a\"", Some(b"w/\"a\""), None),
        ("a tag that reads as any tag", "ETag: *", None, None),
        ("a tag that reads as a list", "ETag: \"a\", \"b\"", None, None),
        ("a tag with a space", "ETag: a b", None, None),
        ("an empty tag", "ETag:", None, None),
    ];
    for (name, text, if_none_match, if_modified_since) in cases {
        let (meta, stored) = stored(text);
        let expected = ValidatorFields { if_none_match, if_modified_since };
        assert_eq!(validator_fields(&meta, stored.bytes()), expected, "{name}");
    }
}

// RFC: 9110-15.4.5-1, 9110-15.4.5-2
#[test]
fn a_generated_304_carries_what_guides_caches() {
    let kept = "cache-control: max-age=5\r\nContent-Location: /a\r\nVary: b\r\nExpires: 0\r\n";
    let text = "Content-Type: text/html\ncache-control: max-age=5\nContent-Location: /a\nVary: b\n\
                Expires: 0\nContent-Length: 5\nSet-Cookie: c\nContent-Encoding: br\nX: y\n";
    let modified = format!("Last-Modified: {}", date(-60));
    let cases = [
        (
            "Last-Modified without a tag",
            format!("{text}{modified}"),
            format!("{kept}{modified}\r\n"),
        ),
        (
            "no Last-Modified with a tag",
            format!("{text}{modified}\nETag: \"a\""),
            format!("{kept}ETag: \"a\"\r\n"),
        ),
    ];
    for (name, text, expected) in cases {
        let (meta, stored) = stored(&text);
        let mut out = Vec::new();
        write_fields_of_304(stored.bytes(), &meta, &mut out);
        assert_eq!(String::from_utf8_lossy(&out), expected, "{name}");
    }
}

#[test]
fn a_variant_may_be_named_by_its_strong_tag_if_the_client_accepts_its_coding() {
    const GZIP: &str = "ETag: \"a\"\nContent-Encoding: gzip";
    for (stored_text, request, expected) in [
        ("ETag: \"a\"", "Host: h", true),
        ("ETag: W/\"a\"", "Host: h", false),
        ("ETag: a", "Host: h", false),
        ("X: y", "Host: h", false),
        (GZIP, "Host: h", false),
        (GZIP, "Accept-Encoding: br", false),
        (GZIP, "Accept-Encoding: gzip", true),
        (GZIP, "Accept-Encoding: br, GZIP;q=0.1", true),
        (GZIP, "Accept-Encoding: gzip;q=0, *", false),
        (GZIP, "Accept-Encoding: *", true),
        (GZIP, "Accept-Encoding: *;q=0", false),
        (GZIP, "Accept-Encoding: gzip;x", false),
        ("ETag: \"a\"\nContent-Encoding: gzip, br", "Accept-Encoding: gzip", false),
        ("ETag: \"a\"\nContent-Encoding: gzip, br", "Accept-Encoding: gzip, br", true),
    ] {
        let (meta, block_of_stored) = stored(stored_text);
        let named = may_be_named(block(request).fields(), &meta, block_of_stored.bytes());
        assert_eq!(named, expected, "{stored_text} {request}");
    }
}

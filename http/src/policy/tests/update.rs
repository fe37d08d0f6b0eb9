use super::{block, date, stored};
use crate::policy::update::{is_outdated_by_head, may_update, merge_304, names_variant};

// RFC: 9111-4.3.4-1
#[test]
fn a_304_updates_only_what_it_speaks_of() {
    let modified = format!("Last-Modified: {}", date(-60));
    let changed = format!("Last-Modified: {}", date(-59));
    let both = format!("ETag: \"a\"\n{modified}");
    let both_changed = format!("ETag: \"a\"\n{changed}");
    let cases = [
        ("the same strong tag", "ETag: \"a\"", "ETag: \"a\"", true),
        ("another strong tag", "ETag: \"a\"", "ETag: \"b\"", false),
        ("a weak tag for a strong one", "ETag: \"a\"", "ETag: W/\"a\"", true),
        ("a strong tag for a weak one", "ETag: W/\"a\"", "ETag: \"a\"", true),
        ("the same weak tag", "ETag: W/\"a\"", "ETag: W/\"a\"", true),
        ("another weak tag", "ETag: W/\"a\"", "ETag: W/\"b\"", false),
        ("a tag where none is stored", &modified, "ETag: \"a\"", false),
        ("a malformed tag for a tag", "ETag: \"a\"", "ETag: a", false),
        ("the same malformed tag", "ETag: a", "ETag: a", true),
        ("another malformed tag", "ETag: a", "ETag: b", false),
        ("a tag for a malformed one", "ETag: a", "ETag: \"a\"", false),
        ("a malformed tag has no weak form", "ETag: W/a", "ETag: a", false),
        ("no validator for a malformed tag", "ETag: a", "Date: x", true),
        ("two tags", "ETag: \"a\"", "ETag: \"a\"\nETag: \"a\"", false),
        ("the same date", &modified, &modified, true),
        ("another date", &modified, &changed, false),
        ("a malformed date counts as none", &modified, "Last-Modified: x", true),
        ("the tag has precedence over the date", &both, &both_changed, true),
        ("the date alone, the same", &both, &modified, true),
        ("no validator for a stored tag", "ETag: \"a\"", "Date: x", true),
        ("no validator for a stored date", &modified, "Date: x", true),
        ("no validator on either side", "X: y", "Date: x", false),
    ];
    for (name, text, update, expected) in cases {
        let (meta, stored) = stored(text);
        assert_eq!(may_update(&meta, stored.bytes(), block(update).fields()), expected, "{name}");
    }
}

#[test]
fn a_304_renews_only_a_200_or_a_form_of_it() {
    let (mut meta, stored) = stored("ETag: \"a\"");
    let update = block("ETag: \"a\"");
    for (status, expected) in
        [(200, true), (203, true), (206, true), (204, false), (301, false), (404, false)]
    {
        meta.status = status;
        assert_eq!(may_update(&meta, stored.bytes(), update.fields()), expected, "{status}");
        assert_eq!(meta.can_validate(), expected, "{status}");
    }
}

// RFC: 9111-3.2-1, 9111-4.3.4-2
#[test]
fn a_304_replaces_stored_fields_by_name() {
    let cases = [
        ("a new value", "A: 1\nB: 2", "B: 3", "A: 1\nB: 3"),
        ("a new field", "A: 1", "B: 3", "A: 1\nB: 3"),
        ("names have no case", "Test-Header: 1", "test-header: 2", "test-header: 2"),
        ("all old lines of a name are replaced", "A: 1\nB: 0\nA: 2", "A: 3", "B: 0\nA: 3"),
        ("all new lines of a name are merged", "A: 1", "A: 2\nA: 3", "A: 2\nA: 3"),
        ("an empty value replaces", "A: 1", "A:", "A:"),
        ("nothing new", "A: 1", "", "A: 1"),
        (
            "Cache-Control",
            "Cache-Control: max-age=1",
            "Cache-Control: max-age=9",
            "Cache-Control: max-age=9",
        ),
        ("Expires", "Expires: a", "Expires: b", "Expires: b"),
        (
            "Content-Type is updated, for all its name",
            "Content-Type: a/b",
            "Content-Type: c/d",
            "Content-Type: c/d",
        ),
        (
            "Content-Language is updated",
            "Content-Language: a",
            "Content-Language: b",
            "Content-Language: b",
        ),
        ("Content-Length stays", "Content-Length: 5", "Content-Length: 0", "Content-Length: 5"),
        ("Content-Length is not merged", "A: 1", "Content-Length: 0", "A: 1"),
        (
            "Content-Encoding stays",
            "Content-Encoding: br",
            "Content-Encoding: gzip",
            "Content-Encoding: br",
        ),
        ("Content-Range is not merged", "A: 1", "Content-Range: bytes 0-1/2", "A: 1"),
        ("Transfer-Encoding is not merged", "A: 1", "Transfer-Encoding: chunked", "A: 1"),
        ("Connection is not merged", "A: 1", "Connection: close\nKeep-Alive: timeout=5", "A: 1"),
        (
            "fields named by Connection are not merged",
            "A: 1",
            "Connection: x-hop\nX-Hop: 1\nB: 2",
            "A: 1\nB: 2",
        ),
        (
            "fields of a proxy are not merged",
            "A: 1",
            "Proxy-Authenticate: a\nProxy-Authentication-Info: b",
            "A: 1",
        ),
        ("a cookie is not merged", "Set-Cookie: a=1", "Set-Cookie: b=2", "Set-Cookie: a=1"),
        ("a stored Age is dropped", "Age: 90\nA: 1", "B: 2", "A: 1\nB: 2"),
        ("a new Age is not stored", "A: 1", "Age: 3", "A: 1"),
        ("a stored Date is replaced", "Date: a\nA: 1", "Date: b", "A: 1\nDate: b"),
        ("a stored Date is dropped without a new one", "Date: a\nA: 1", "B: 2", "A: 1\nB: 2"),
        ("a weak tag stays weak", "ETag: W/\"a\"", "ETag: \"a\"", "ETag: W/\"a\""),
        ("a strong tag becomes weak", "ETag: \"a\"", "ETag: W/\"a\"", "ETag: W/\"a\""),
    ];
    for (name, stored, update, expected) in cases {
        let merged = merge_304(&block(stored), block(update).fields());
        let expected = block(expected);
        assert_eq!(
            String::from_utf8_lossy(merged.bytes()),
            String::from_utf8_lossy(expected.bytes()),
            "{name}"
        );
    }
}

// RFC: 9111-4.3.5-1, 9111-4.3.5-3
#[test]
fn a_head_with_another_validator_or_length_outdates_a_stored_response() {
    let (older, newer) = (date(-60), date(-30));
    let (older, newer) = (format!("Last-Modified: {older}"), format!("Last-Modified: {newer}"));
    let cases = [
        ("the same tag and length", "ETag: \"a\"", "ETag: \"a\"", Some(10), false),
        ("a weak form of the tag", "ETag: \"a\"", "ETag: W/\"a\"", None, false),
        ("another tag", "ETag: \"a\"", "ETag: \"b\"", Some(10), true),
        ("another length", "ETag: \"a\"", "ETag: \"a\"", Some(11), true),
        ("another length, no validators", "X: y", "X: y", Some(11), true),
        ("no tag any more", "ETag: \"a\"", "X: y", None, false),
        ("a new tag", "X: y", "ETag: \"a\"", None, false),
        ("the same date", &older, &older, None, false),
        ("a later date", &older, &newer, None, true),
    ];
    for (name, stored_text, head, length, expected) in cases {
        let (mut meta, stored) = stored(stored_text);
        let head = block(head);
        let head = (head.fields(), length);
        assert_eq!(is_outdated_by_head(&meta, stored.bytes(), 10, head), expected, "{name}");
        meta.status = 404;
        assert!(!is_outdated_by_head(&meta, stored.bytes(), 10, head), "{name}, a 404");
    }
}

// RFC: 9111-4.3.4-1
#[test]
fn only_the_same_strong_tag_names_a_variant() {
    for (stored_tag, sent, expected) in [
        ("ETag: \"a\"", "ETag: \"a\"", true),
        ("ETag: \"a\"", "ETag: \"b\"", false),
        ("ETag: \"a\"", "ETag: W/\"a\"", false),
        ("ETag: W/\"a\"", "ETag: \"a\"", false),
        ("ETag: W/\"a\"", "ETag: W/\"a\"", false),
        ("ETag: \"a\"", "X: y", false),
        ("ETag: a", "ETag: a", false),
    ] {
        let (meta, block_of_stored) = stored(stored_tag);
        let named = names_variant(&meta, block_of_stored.bytes(), block(sent).fields());
        assert_eq!(named, expected, "{stored_tag} {sent}");
    }
}

use super::{NOW, date, stored};
use crate::policy::etag::EntityTag;
use crate::policy::meta::{STORED_META_BYTES, StoredMeta};

fn encoded(meta: &StoredMeta) -> Vec<u8> {
    let mut bytes = Vec::new();
    meta.encode(&mut bytes);
    bytes
}

#[test]
fn encoded_facts_decode_to_themselves() {
    let texts = [
        "X: y".to_owned(),
        "Cache-Control: no-cache, public, s-maxage=5\nETag: W/\"a\"\nAge: 7".to_owned(),
        format!("Cache-Control: max-age=9\nLast-Modified: {}\nDate: {}", date(-9), date(-3)),
    ];
    for text in texts {
        let (mut meta, _) = stored(&text);
        for body_bytes in [None, Some(0), Some(1 << 40)] {
            meta.body_bytes = body_bytes;
            let bytes = encoded(&meta);
            assert_eq!(bytes.len(), STORED_META_BYTES, "{text}");
            assert_eq!(StoredMeta::decode(&bytes), Some(meta), "{text}");
        }
    }
}

#[test]
fn the_layout_is_as_documented() {
    let control = "no-cache, max-age=258, stale-while-revalidate=259, stale-if-error=4";
    let text = format!("ETag: \"ab\"\nCache-Control: {control}\nDate: {}", date(-3));
    let (mut meta, _) = stored(&text);
    meta.body_bytes = Some(0x0102);
    let mut expected = Vec::new();
    expected.extend([200, 0, 9, 0, 3, 0, 0, 0]);
    expected.extend([3, 1, 0, 0, 4, 0, 0, 0]);
    expected.extend(NOW.to_le_bytes());
    expected.extend([2, 1, 0, 0, 6, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]);
    expected.extend([0xff; 8]);
    expected.extend([2, 1, 0, 0, 0, 0, 0, 0]);
    expected.extend((NOW - 3).to_le_bytes());
    assert_eq!(encoded(&meta), expected);
}

#[test]
fn bytes_of_another_layout_are_refused() {
    let good = encoded(&stored("ETag: \"a\"").0);
    let changed = |index: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[index] = value;
        bytes
    };
    let cases = [
        ("empty", Vec::new()),
        ("too short", good[..63].to_vec()),
        ("too long", [&good[..], &[0]].concat()),
        ("an undefined flag", changed(3, 0x80)),
        ("another one", changed(2, 0x80)),
        ("the layout before this one", changed(2, good[2] & !8)),
    ];
    for (name, bytes) in cases {
        assert_eq!(StoredMeta::decode(&bytes), None, "{name}");
    }
}

#[test]
fn the_etag_is_found_anywhere_in_the_block() {
    let cases = [
        ("alone", "ETag: \"a\"", Some("\"a\"")),
        ("behind others", "X: \nVary: a\nETag: W/\"a,b\"\nY: z", Some("W/\"a,b\"")),
        ("absent", "X: y", None),
        ("without quotes", "ETag: a", Some("a")),
        ("a list", "ETag: a,b", None),
        ("doubled", "ETag: \"a\"\nETag: \"a\"", None),
        ("empty between its quotes", "ETag: \"\"", Some("\"\"")),
    ];
    for (name, text, expected) in cases {
        let (meta, block) = stored(text);
        let value = meta.etag_value(block.bytes());
        assert_eq!(value, expected.map(str::as_bytes), "{name}");
        assert_eq!(meta.has_validator(), expected.is_some(), "{name}");
    }
}

#[test]
fn an_etag_position_beyond_the_block_is_no_etag() {
    let (meta, _) = stored("ETag: \"a\"");
    assert_eq!(meta.etag_value(b"ETag: \"a"), None);
    assert_eq!(meta.etag(b""), None);
}

#[test]
fn entity_tags_are_parsed_and_compared_by_the_rfc() {
    // The table of RFC 9110 §8.8.3.2, then invalid tags.
    let cases = [
        ("W/\"1\"", "W/\"1\"", false, true),
        ("W/\"1\"", "W/\"2\"", false, false),
        ("W/\"1\"", "\"1\"", false, true),
        ("\"1\"", "\"1\"", true, true),
    ];
    for (left, right, strong, weak) in cases {
        let tag = |value: &'static str| EntityTag::parse(value.as_bytes()).expect("well-formed");
        assert_eq!(tag(left).matches_strongly(tag(right)), strong, "{left} {right}");
        assert_eq!(tag(left).matches_weakly(tag(right)), weak, "{left} {right}");
    }
    for value in
        ["", "a", "\"", "\"a", "a\"", "w/\"a\"", "W/a", "\"a b\"", "\"a\"b", "W/ \"a\"", "*"]
    {
        assert_eq!(EntityTag::parse(value.as_bytes()), None, "{value}");
    }
}

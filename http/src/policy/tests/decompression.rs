use super::{block, stored};
use crate::policy::accept_encoding::write_accepted_codings;
use crate::policy::compression::{BodyForm, negotiated_fields, note_coding, renewed_fields};
use crate::policy::conditional::{may_be_named, validator_fields};
use crate::policy::decompression::{keep_tag_weak, removable_coding};
use crate::policy::meta::StoredMeta;
use crate::policy::range::{RangeDecision, range};
use crate::policy::update::{is_outdated_by_head, merge_304};

#[test]
fn accept_encoding_becomes_the_accepted_codings() {
    let cases = [
        ("no field", "X: y", "identity"),
        ("an empty field", "Accept-Encoding:", "identity"),
        ("one coding", "Accept-Encoding: gzip", "gzip"),
        ("the order of the server", "Accept-Encoding: gzip, br, deflate", "br, gzip"),
        ("a lower weight", "Accept-Encoding: gzip, br;q=0.9", "br, gzip"),
        ("any coding", "Accept-Encoding: *", "br, gzip"),
        ("any other coding", "Accept-Encoding: br;q=0, *;q=0.1", "gzip"),
        ("the weight 0", "Accept-Encoding: br;q=0", "identity"),
        ("identity is preferred", "Accept-Encoding: br;q=0.5, identity", "identity"),
        ("identity is not preferred", "Accept-Encoding: br;q=0.5, identity;q=0.4", "br"),
        ("everything is refused", "Accept-Encoding: *;q=0", "identity"),
        ("a malformed weight", "Accept-Encoding: br;q=2", "identity"),
    ];
    for (name, text, expected) in cases {
        let (request, mut value) = (block(text), Vec::new());
        let codings = [&b"br"[..], b"gzip"].into_iter();
        write_accepted_codings(request.fields(), codings, &mut value);
        assert_eq!(String::from_utf8_lossy(&value), expected, "{name}");
    }
}

#[test]
fn the_coding_of_a_whole_response_can_be_removed() {
    let cases = [
        ("no coding", 200, "X: y", None),
        ("one coding", 200, "Content-Encoding: GZIP", Some("GZIP")),
        ("an error", 404, "Content-Encoding: br", Some("br")),
        ("an empty member", 200, "Content-Encoding: , gzip", Some("gzip")),
        ("two codings", 200, "Content-Encoding: gzip, br", None),
        ("two lines", 200, "Content-Encoding: gzip\nContent-Encoding: gzip", None),
        ("a part", 206, "Content-Encoding: gzip", None),
    ];
    for (name, status, text, expected) in cases {
        let head = block(text);
        let coding = removable_coding(status, head.fields());
        assert_eq!(coding, expected.map(str::as_bytes), "{name}");
    }
}

fn decompressed(text: &str) -> (StoredMeta, String) {
    let origin = block(text);
    let fields = negotiated_fields(origin.fields(), BodyForm::Decompressed);
    let text = String::from_utf8_lossy(fields.bytes()).replace("\r\n", "\n");
    let (mut meta, _) = stored(text.trim());
    note_coding(&mut meta, origin.fields(), BodyForm::Decompressed);
    (meta, text)
}

#[test]
fn the_decompressed_form_describes_its_own_bytes() {
    let cases = [
        ("ETag: \"a\"\nX: y", "ETag: W/\"a\"\nX: y\naccept-ranges: none\n"),
        ("ETag: W/\"a\"\nRepr-Digest: x", "ETag: W/\"a\"\naccept-ranges: none\n"),
        ("ETag: a\nAccept-Ranges: bytes", "accept-ranges: none\n"),
        ("X: y", "X: y\naccept-ranges: none\n"),
    ];
    for (text, expected) in cases {
        let (_, fields) = decompressed(&format!("Content-Encoding: gzip\n{text}"));
        assert_eq!(fields, format!("{expected}vary: accept-encoding\n"), "{text}");
    }
    let (_, fields) = decompressed("Content-Encoding: gzip\nVary: Accept-Encoding");
    assert_eq!(fields, "Vary: Accept-Encoding\naccept-ranges: none\n");
}

#[test]
fn the_facts_of_a_decompressed_response_keep_the_origins_tag_and_forbid_ranges() {
    let (meta, text) = decompressed("Content-Encoding: gzip\nETag: \"a\"");
    let mut bytes = Vec::new();
    meta.encode(&mut bytes);
    assert_eq!(StoredMeta::decode(&bytes), Some(meta));
    let fields = block(text.trim());
    let sent = validator_fields(&meta, fields.bytes()).if_none_match;
    assert_eq!(sent, Some(&b"\"a\""[..]));
    let request = block("Range: bytes=0-1");
    assert_eq!(range(request.fields(), &meta, fields.bytes(), 10), RangeDecision::Whole);
    assert!(!may_be_named(request.fields(), &meta, fields.bytes()));
    let head = block("ETag: \"a\"\nContent-Encoding: gzip");
    assert!(!is_outdated_by_head(&meta, fields.bytes(), 10, (head.fields(), Some(99))));
}

// RFC: 9111-3.2-2
#[test]
fn a_304_is_brought_into_the_decompressed_form() {
    let (meta, text) = decompressed("Content-Encoding: gzip\nETag: \"a\"");
    let renewed = |update: &str| {
        let merged = merge_304(&block(text.trim()), block(update).fields());
        let fields = renewed_fields(&meta, merged.fields())?;
        Some(String::from_utf8_lossy(fields.bytes()).replace("\r\n", "\n"))
    };
    let update = "ETag: \"a\"\nContent-Encoding: gzip\nAccept-Ranges: bytes\nX: new";
    let expected = "ETag: W/\"a\"\nvary: accept-encoding\nX: new\naccept-ranges: none\n";
    assert_eq!(renewed(update).as_deref(), Some(expected));
    assert_eq!(renewed("Cache-Control: no-transform"), None);
}

#[test]
fn a_304_does_not_make_the_tag_of_a_decompressed_body_strong() {
    let cases = [
        ("If-None-Match: W/\"a\"", "ETag: \"a\"", "W/\"a\""),
        ("If-None-Match: \"b\", W/\"a\"", "ETag: \"a\"", "W/\"a\""),
        ("If-None-Match: \"a\"", "ETag: \"a\"", "\"a\""),
        ("If-None-Match: W/\"b\"", "ETag: \"a\"", "\"a\""),
        ("If-None-Match: W/\"a\"", "ETag: W/\"a\"", "W/\"a\""),
    ];
    for (request, answer, expected) in cases {
        let (request, mut answer) = (block(request), block(answer));
        keep_tag_weak(request.fields(), &mut answer);
        let tag = answer.fields().only(crate::fields::FieldId::Etag).expect("a tag");
        assert_eq!(String::from_utf8_lossy(tag), expected);
    }
}

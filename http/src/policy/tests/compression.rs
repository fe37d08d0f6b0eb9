use super::{block, stored};
use crate::policy::accept_encoding::write_preferred_codings;
use crate::policy::compression::{
    BodyForm, CompressionRules, NotCompressed, compressible, first_coding, negotiated_fields,
    note_coding, renewed_fields,
};
use crate::policy::conditional::{may_be_named, validator_fields};
use crate::policy::meta::StoredMeta;
use crate::policy::range::{RangeDecision, range};
use crate::policy::update::{is_outdated_by_head, merge_304};

#[test]
fn accept_encoding_becomes_the_preferred_codings() {
    let cases = [
        ("no field", "X: y", "identity"),
        ("an empty field", "Accept-Encoding:", "identity"),
        ("one coding", "Accept-Encoding: gzip", "gzip"),
        ("the order of the server", "Accept-Encoding: gzip, br, deflate", "br, gzip"),
        ("two lines", "Accept-Encoding: gzip\nAccept-Encoding: br", "br, gzip"),
        ("a lower weight", "Accept-Encoding: gzip, br;q=0.9", "gzip"),
        ("equal weights", "Accept-Encoding: gzip;q=0.5, br;q=0.5", "br, gzip"),
        ("any coding", "Accept-Encoding: *", "br, gzip"),
        ("any other coding", "Accept-Encoding: br;q=0, *;q=0.1", "gzip"),
        ("the weight 0", "Accept-Encoding: br;q=0", "identity"),
        ("identity is preferred", "Accept-Encoding: br;q=0.5, identity", "identity"),
        ("identity is not preferred", "Accept-Encoding: br;q=0.5, identity;q=0.5", "br"),
        ("identity is refused", "Accept-Encoding: identity;q=0, br;q=0.1", "br"),
        ("everything is refused", "Accept-Encoding: *;q=0", "identity"),
        ("a coding twice", "Accept-Encoding: br, br;q=0", "identity"),
        ("a malformed weight", "Accept-Encoding: br;q=2", "identity"),
    ];
    for (name, text, expected) in cases {
        let (request, mut value) = (block(text), Vec::new());
        let codings = [&b"br"[..], b"gzip"].into_iter();
        write_preferred_codings(request.fields(), codings, [].into_iter(), &mut value);
        assert_eq!(String::from_utf8_lossy(&value), expected, "{name}");
        let normal = block(&format!("Accept-Encoding: {expected}"));
        let coding = expected.split(", ").next().filter(|coding| *coding != "identity");
        assert_eq!(first_coding(normal.fields()), coding.map(str::as_bytes), "{name}");
    }
}

#[test]
fn the_normal_form_ends_with_other_codings_that_the_client_accepts() {
    let cases = [
        ("a browser", "gzip, deflate, br, zstd", "zstd, br, gzip"),
        ("only the other", "gzip", "gzip"),
        ("the other with a lower weight", "br, gzip;q=0.1", "br, gzip"),
        ("the other with a higher weight", "br;q=0.1, gzip", "br, gzip"),
        ("the other is refused", "*, gzip;q=0", "zstd, br"),
        ("any coding", "*;q=0.1", "zstd, br, gzip"),
        ("identity before all", "br;q=0.5, gzip;q=0.4, identity", "identity"),
        ("identity between them", "br;q=0.5, gzip, identity;q=0.8", "gzip"),
        ("everything is refused", "*;q=0", "identity"),
    ];
    for (name, codings, expected) in cases {
        let (request, mut value) = (block(&format!("Accept-Encoding: {codings}")), Vec::new());
        let (codings, others) = ([&b"zstd"[..], b"br"].into_iter(), [&b"gzip"[..]].into_iter());
        write_preferred_codings(request.fields(), codings, others, &mut value);
        assert_eq!(String::from_utf8_lossy(&value), expected, "{name}");
    }
}

// RFC: 9111-5.2.2.6-1
#[test]
fn a_response_is_compressed_unless_there_is_a_reason() {
    use NotCompressed::*;
    let cases = [
        ("a page", 200, Some(9000), "", "", Ok(())),
        ("a page of unknown length", 200, None, "", "", Ok(())),
        ("another status", 404, Some(9000), "", "", Err(Status)),
        ("a part", 200, Some(9000), "Content-Range: bytes 0-1/2", "", Err(Status)),
        ("a short page", 200, Some(99), "", "", Err(Small)),
        ("a coding", 200, Some(9000), "Content-Encoding: br", "", Err(Encoded)),
        ("two types", 200, Some(9000), "Content-Type: text/html", "", Err(Type)),
        ("no-transform", 200, None, "Cache-Control: a, NO-transform", "", Err(NoTransform)),
        ("in a targeted field", 200, None, "X-Cache-Control: no-transform", "", Err(NoTransform)),
        ("the origin varies", 200, None, "Vary: a, ACCEPT-encoding", "", Err(OriginVaries)),
        ("Vary says all", 200, None, "Vary: *", "", Err(OriginVaries)),
        ("the origin varies otherwise", 200, None, "Vary: Origin", "origin", Ok(())),
        ("cookies in the key", 200, None, "", "a,cookie:b", Err(Personal)),
        ("credentials in the key", 200, None, "", "authorization", Err(Personal)),
        ("a digest", 200, None, "Repr-Digest: a", "", Err(Digest)),
        ("a malformed tag", 200, None, "ETag: a", "", Err(Digest)),
        ("two tags", 200, None, "ETag: \"a\"\nETag: \"b\"", "", Err(Digest)),
        ("a weak tag", 200, None, "ETag: W/\"a\"", "", Ok(())),
    ];
    let rules = CompressionRules { has_type: |kind: &[u8]| kind == b"text/html", bytes_min: 100 };
    for (name, status, length, text, names, expected) in cases {
        let head = block(&format!("Content-Type: Text/HTML ; charset=x\n{text}"));
        let result = compressible((status, length), head.fields(), names.as_bytes(), &rules);
        assert_eq!(result, expected, "{name}");
    }
    let picture = block("Content-Type: image/png");
    assert_eq!(compressible((200, None), picture.fields(), b"", &rules), Err(Type));
}

fn text_of(form: BodyForm<'_>, text: &str) -> String {
    let fields = negotiated_fields(block(text).fields(), form);
    String::from_utf8_lossy(fields.bytes()).replace("\r\n", "\n")
}

#[test]
fn the_compressed_form_describes_its_own_bytes() {
    let text = "ETag: \"a\"\nAccept-Ranges: bytes\nVary: Origin\nX: y";
    let plain = format!("{text}\nvary: accept-encoding\n");
    assert_eq!(text_of(BodyForm::Original, text), plain);
    let compressed = "ETag: W/\"a\"\nVary: Origin\nX: y\ncontent-encoding: br\n\
        accept-ranges: none\nvary: accept-encoding\n";
    assert_eq!(text_of(BodyForm::Compressed(b"br"), text), compressed);
    assert_eq!(text_of(BodyForm::Compressed(b"br"), compressed.trim()), {
        "ETag: W/\"a\"\nVary: Origin\nX: y\nvary: accept-encoding\n\
        content-encoding: br\naccept-ranges: none\n"
    });
}

fn compressed(text: &str) -> (StoredMeta, Vec<u8>) {
    let origin = block(text);
    let fields = negotiated_fields(origin.fields(), BodyForm::Compressed(b"br"));
    let text = String::from_utf8_lossy(fields.bytes()).replace("\r\n", "\n");
    let (mut meta, stored) = stored(text.trim());
    note_coding(&mut meta, origin.fields(), BodyForm::Compressed(b"br"));
    (meta, stored.bytes().to_vec())
}

#[test]
fn the_facts_keep_the_origins_tag_and_forbid_ranges() {
    for (tag, validator) in [("\"a\"", "\"a\""), ("W/\"a\"", "W/\"a\"")] {
        let (meta, stored) = compressed(&format!("ETag: {tag}"));
        let mut bytes = Vec::new();
        meta.encode(&mut bytes);
        assert_eq!(StoredMeta::decode(&bytes), Some(meta));
        assert_eq!(meta.etag_value(&stored), Some(&b"W/\"a\""[..]));
        let sent = validator_fields(&meta, &stored).if_none_match;
        assert_eq!(sent, Some(validator.as_bytes()));
        let request = block("Range: bytes=0-1\nAccept-Encoding: br");
        assert_eq!(range(request.fields(), &meta, &stored, 10), RangeDecision::Whole);
        assert!(!may_be_named(request.fields(), &meta, &stored));
        let head = block(&format!("ETag: {tag}"));
        assert!(!is_outdated_by_head(&meta, &stored, 10, (head.fields(), Some(99))));
    }
}

// RFC: 9111-3.2-2
#[test]
fn a_304_is_brought_into_the_form_of_the_stored_response() {
    let (meta, stored) = compressed("ETag: \"a\"\nVary: Origin");
    let stored = String::from_utf8_lossy(&stored).replace("\r\n", "\n");
    let renewed = |update: &str| {
        let merged = merge_304(&block(stored.trim()), block(update).fields());
        let fields = renewed_fields(&meta, merged.fields())?;
        Some(String::from_utf8_lossy(fields.bytes()).replace("\r\n", "\n"))
    };
    let update = "ETag: \"a\"\nVary: Origin\nAccept-Ranges: bytes\nContent-Digest: x\nX: new";
    let expected = "ETag: W/\"a\"\nVary: Origin\nX: new\ncontent-encoding: br\n\
        accept-ranges: none\nvary: accept-encoding\n";
    assert_eq!(renewed(update).as_deref(), Some(expected));
    assert_eq!(renewed("Cache-Control: no-transform"), None);
}

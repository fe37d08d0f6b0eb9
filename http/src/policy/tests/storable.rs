use super::{NOW, RULES, block, date};
use crate::policy::directives::RequestDirectives;
use crate::policy::exchange::{ClientRequest, OriginResponse};
use crate::policy::storable::{NotStorable, storable};

/// Returns the verdict on storing a response to a GET with these fields.
fn verdict(request: &str, status: u16, response: &str) -> Result<(), NotStorable> {
    let (request, response) = (block(request), block(response));
    let request = ClientRequest {
        is_get: true,
        has_body: false,
        fields: request.fields(),
        directives: RequestDirectives::parse(request.fields()),
    };
    let response = OriginResponse::new(status, response.fields(), RULES.targets);
    storable(&request, &response, &RULES, NOW)
}

// RFC: 9111-3-2, 9111-3-3, 9111-3-4, 9111-3-5, 9111-3-6, 9111-3-7, 9111-3.3-1, 9111-5.2.1.5-1
// RFC: 9111-5.2.2.3-2, 9111-5.2.2.5-1, 9111-5.2.2.7-1
#[test]
fn a_response_is_stored_only_if_everything_allows_it() {
    use NotStorable::*;
    const AUTH: &str = "Authorization: Basic eA==";
    let cases = [
        ("max-age", "", 200, "Cache-Control: max-age=60", Ok(())),
        ("nothing said", "", 200, "Content-Type: text/html", Err(NoFreshness)),
        ("a bare ETag can be validated", "", 200, "ETag: \"a\"", Ok(())),
        ("a malformed ETag can, too", "", 200, "ETag: a", Ok(())),
        ("an ETag that reads as a list cannot", "", 200, "ETag: a, b", Err(NoFreshness)),
        ("another status is not validated", "", 404, "ETag: \"a\"", Err(NoFreshness)),
        ("two ETags cannot", "", 200, "ETag: \"a\"\nETag: \"b\"", Err(NoFreshness)),
        (
            "a bare Last-Modified can",
            "",
            200,
            "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT",
            Ok(()),
        ),
        ("stale and no validator", "", 200, "Cache-Control: max-age=0", Err(NoFreshness)),
        ("stale with a validator", "", 200, "Cache-Control: max-age=0\nETag: \"a\"", Ok(())),
        (
            "no-cache and no validator",
            "",
            200,
            "Cache-Control: no-cache, max-age=9",
            Err(NoFreshness),
        ),
        ("no-cache with a validator", "", 200, "Cache-Control: no-cache\nETag: \"a\"", Ok(())),
        ("no-store", "", 200, "Cache-Control: no-store, max-age=9", Err(NoStore)),
        ("private", "", 200, "Cache-Control: private, max-age=9", Err(Private)),
        ("qualified private", "", 200, "Cache-Control: private=\"x\", max-age=9", Err(Private)),
        (
            "private against public",
            "",
            200,
            "Cache-Control: public, private, max-age=9",
            Err(Private),
        ),
        ("private against s-maxage", "", 200, "Cache-Control: private, s-maxage=9", Err(Private)),
        (
            "no-store in the request",
            "Cache-Control: no-store",
            200,
            "Cache-Control: max-age=9",
            Err(RequestNoStore),
        ),
        (
            "no-cache in the request",
            "Cache-Control: no-cache",
            200,
            "Cache-Control: max-age=9",
            Ok(()),
        ),
        ("a range request", "Range: bytes=0-1", 200, "Cache-Control: max-age=9", Ok(())),
        ("Authorization alone", AUTH, 200, "Cache-Control: max-age=9", Err(Authorization)),
        ("Authorization with public", AUTH, 200, "Cache-Control: public, max-age=9", Ok(())),
        ("Authorization with s-maxage", AUTH, 200, "Cache-Control: s-maxage=9", Ok(())),
        (
            "Authorization with must-revalidate",
            AUTH,
            200,
            "Cache-Control: must-revalidate, max-age=9",
            Ok(()),
        ),
        (
            "Authorization with proxy-revalidate",
            AUTH,
            200,
            "Cache-Control: proxy-revalidate, max-age=9",
            Err(Authorization),
        ),
        (
            "Authorization with Expires",
            AUTH,
            200,
            "Expires: Sun, 06 Nov 1994 09:49:37 GMT",
            Err(Authorization),
        ),
        ("Vary by a field", "", 200, "Vary: accept\nCache-Control: max-age=9", Ok(())),
        ("Vary by anything", "", 200, "Vary: *\nCache-Control: max-age=9", Err(Vary)),
        (
            "Vary by anything, in a list",
            "",
            200,
            "Vary: accept, *\nCache-Control: max-age=9",
            Err(Vary),
        ),
        (
            "Vary by anything, in a second line",
            "",
            200,
            "Vary: accept\nVary: *\nCache-Control: max-age=9",
            Err(Vary),
        ),
        ("Set-Cookie with max-age", "", 200, "Set-Cookie: a=b\nCache-Control: max-age=9", Ok(())),
        ("Set-Cookie with a bare ETag", "", 200, "Set-Cookie: a=b\nETag: \"a\"", Err(SetCookie)),
        (
            "Set-Cookie with max-age=0",
            "",
            200,
            "Set-Cookie: a=b\nETag: \"a\"\nCache-Control: max-age=0",
            Err(SetCookie),
        ),
        (
            "Set-Cookie with public",
            "",
            200,
            "Set-Cookie: a=b\nETag: \"a\"\nCache-Control: public",
            Ok(()),
        ),
        ("100 is not final", "", 100, "Cache-Control: max-age=9", Err(Status)),
        ("103 is not final", "", 103, "Cache-Control: max-age=9", Err(Status)),
        ("206 is partial", "", 206, "Cache-Control: max-age=9", Err(Status)),
        ("304 answers a precondition", "", 304, "Cache-Control: max-age=9", Err(Status)),
        ("412 answers a precondition", "", 412, "Cache-Control: max-age=9", Err(Status)),
        ("416 answers a range", "", 416, "Cache-Control: max-age=9", Err(Status)),
        ("600 is not a status", "", 600, "Cache-Control: max-age=9", Err(Status)),
        ("999 is not a status", "", 999, "Cache-Control: max-age=9", Err(Status)),
        ("204 may be stored", "", 204, "Cache-Control: max-age=9", Ok(())),
        ("302 with max-age", "", 302, "Cache-Control: max-age=9", Ok(())),
        ("404 with max-age", "", 404, "Cache-Control: max-age=9", Ok(())),
        ("503 with max-age", "", 503, "Cache-Control: max-age=9", Ok(())),
        ("an unknown status with max-age", "", 299, "Cache-Control: max-age=9", Ok(())),
        ("an unknown error with max-age", "", 599, "Cache-Control: max-age=9", Ok(())),
        (
            "must-understand and a known status",
            "",
            200,
            "Cache-Control: must-understand, max-age=9",
            Ok(()),
        ),
        (
            "must-understand overrides no-store",
            "",
            200,
            "Cache-Control: must-understand, no-store, max-age=9",
            Ok(()),
        ),
        (
            "must-understand and an unknown status",
            "",
            299,
            "Cache-Control: must-understand, max-age=9",
            Err(MustUnderstand),
        ),
        (
            "must-understand does not override private",
            "",
            200,
            "Cache-Control: must-understand, private, max-age=9",
            Err(Private),
        ),
    ];
    for (name, request, status, response, expected) in cases {
        assert_eq!(verdict(request, status, response), expected, "{name}");
    }
}

// RFC: 9111-3-1
#[test]
fn only_a_get_without_content_is_stored() {
    let fields = block("Cache-Control: max-age=9");
    let response = OriginResponse::new(200, fields.fields(), RULES.targets);
    let cases = [
        ("GET", true, false, Ok(())),
        ("HEAD or POST", false, false, Err(NotStorable::Method)),
        ("GET with content", true, true, Err(NotStorable::RequestBody)),
    ];
    for (name, is_get, has_body, expected) in cases {
        let empty = block("");
        let request = ClientRequest {
            is_get,
            has_body,
            fields: empty.fields(),
            directives: RequestDirectives::EMPTY,
        };
        assert_eq!(storable(&request, &response, &RULES, NOW), expected, "{name}");
    }
}

#[test]
fn a_heuristic_suffices_to_store() {
    let old = format!("Last-Modified: {}\nSet-Cookie: a=b", date(-1000));
    assert_eq!(verdict("", 200, &old), Err(NotStorable::SetCookie));
    let old = format!("Last-Modified: {}", date(-1000));
    assert_eq!(verdict("", 200, &old), Ok(()));
}

use super::{NOW, block, stored};
use crate::policy::directives::RequestDirectives;
use crate::policy::reuse::{
    ForwardReason, ReuseDecision, ValidationCause, judge, validation_cause,
};

// RFC: 9111-3.5-1, 9111-4-4, 9111-4-5, 9111-4.2.4-1, 9111-4.2.4-2, 9111-5.2.2.2-1, 9111-5.2.2.2-2
// RFC: 9111-5.2.2.4-1, 9111-5.2.2.8-1, 9111-5.2.2.10-1
#[test]
fn a_stored_response_is_used_only_if_both_sides_allow_it() {
    let serve = |age, ttl| ReuseDecision::Serve { age, ttl };
    let stale = ReuseDecision::Validate(ForwardReason::Stale);
    let request = ReuseDecision::Validate(ForwardReason::Request);
    const AGE_60: &str = "Cache-Control: max-age=60";
    let cases = [
        ("fresh at once", AGE_60, "", 0, serve(0, 60)),
        ("fresh to the last second", AGE_60, "", 59, serve(59, 1)),
        ("stale when lifetime equals age", AGE_60, "", 60, stale),
        ("stale later", AGE_60, "", 600, stale),
        ("old on arrival", "Cache-Control: max-age=60\nAge: 50", "", 5, serve(55, 5)),
        ("stale on arrival", "Cache-Control: max-age=60\nAge: 60", "", 0, stale),
        ("a clock that ran backwards", AGE_60, "", -100, serve(0, 60)),
        ("no-cache stored", "Cache-Control: no-cache, max-age=60", "", 0, stale),
        (
            "no-cache stored, max-stale requested",
            "Cache-Control: no-cache",
            "Cache-Control: max-stale",
            0,
            stale,
        ),
        ("no freshness at all", "ETag: \"a\"", "", 0, stale),
        ("no-cache asked", AGE_60, "Cache-Control: no-cache", 5, request),
        ("no-cache requested for a stale response", AGE_60, "Cache-Control: no-cache", 99, stale),
        ("Pragma asked", AGE_60, "Pragma: no-cache", 5, request),
        ("no-store asked", AGE_60, "Cache-Control: no-store", 5, serve(5, 55)),
        ("only-if-cached asked", AGE_60, "Cache-Control: only-if-cached", 5, serve(5, 55)),
        ("a requested max-age is met", AGE_60, "Cache-Control: max-age=5", 5, serve(5, 55)),
        ("a requested max-age is exceeded", AGE_60, "Cache-Control: max-age=5", 6, request),
        ("max-age=0 requested at age 0", AGE_60, "Cache-Control: max-age=0", 0, request),
        ("a malformed max-age requested", AGE_60, "Cache-Control: max-age=x", 0, request),
        ("max-age does not freshen", AGE_60, "Cache-Control: max-age=900", 60, stale),
        ("a requested min-fresh is met", AGE_60, "Cache-Control: min-fresh=50", 10, serve(10, 50)),
        ("a requested min-fresh is not met", AGE_60, "Cache-Control: min-fresh=51", 10, request),
        (
            "max-stale without a limit requested",
            AGE_60,
            "Cache-Control: max-stale",
            1000,
            serve(1000, -940),
        ),
        ("a requested max-stale is met", AGE_60, "Cache-Control: max-stale=5", 65, serve(65, -5)),
        ("a requested max-stale is exceeded", AGE_60, "Cache-Control: max-stale=5", 66, stale),
        (
            "max-stale with a max-age that is met",
            AGE_60,
            "Cache-Control: max-stale, max-age=99",
            99,
            serve(99, -39),
        ),
        (
            "max-stale with a max-age that is exceeded",
            AGE_60,
            "Cache-Control: max-stale, max-age=98",
            99,
            request,
        ),
        (
            "max-stale against requested no-cache",
            AGE_60,
            "Cache-Control: max-stale, no-cache",
            99,
            request,
        ),
        (
            "max-stale against must-revalidate",
            "Cache-Control: max-age=60, must-revalidate",
            "Cache-Control: max-stale",
            61,
            stale,
        ),
        (
            "max-stale against proxy-revalidate",
            "Cache-Control: max-age=60, proxy-revalidate",
            "Cache-Control: max-stale",
            61,
            stale,
        ),
        (
            "max-stale against s-maxage",
            "Cache-Control: s-maxage=60",
            "Cache-Control: max-stale",
            61,
            stale,
        ),
        (
            "must-revalidate while fresh",
            "Cache-Control: max-age=60, must-revalidate",
            "",
            5,
            serve(5, 55),
        ),
        ("Authorization without permission to share", AGE_60, "Authorization: x", 5, request),
        (
            "Authorization with public",
            "Cache-Control: public, max-age=60",
            "Authorization: x",
            5,
            serve(5, 55),
        ),
        (
            "Authorization with s-maxage",
            "Cache-Control: s-maxage=60",
            "Authorization: x",
            5,
            serve(5, 55),
        ),
        (
            "Authorization with must-revalidate",
            "Cache-Control: must-revalidate, max-age=60",
            "Authorization: x",
            5,
            serve(5, 55),
        ),
        ("an age without end", "Cache-Control: max-age=60\nAge: 99999999999", "", 0, stale),
    ];
    for (name, response, asked, later, expected) in cases {
        let (meta, _) = stored(response);
        let asked = RequestDirectives::parse(block(asked).fields());
        let now = NOW.saturating_add_signed(later);
        assert_eq!(judge(&meta, &asked, now), expected, "{name}");
        let cause = validation_cause(&meta, &asked, now);
        let reason = cause.map(ValidationCause::forward_reason);
        match expected {
            ReuseDecision::Serve { .. } => assert_eq!(reason, None, "{name}"),
            ReuseDecision::Validate(expected) => assert_eq!(reason, Some(expected), "{name}"),
        }
    }
}

#[test]
fn every_validation_has_its_cause() {
    use ValidationCause::*;
    for (response, asked, expected) in [
        ("Cache-Control: no-cache, max-age=60", "", Some(NoCache)),
        ("Cache-Control: max-age=5", "", Some(Stale)),
        ("Cache-Control: max-age=5", "Cache-Control: max-stale=9", None),
        ("Cache-Control: max-age=60", "Cache-Control: no-cache", Some(RequestNoCache)),
        ("Cache-Control: max-age=60", "Cache-Control: max-age=9", Some(RequestMaxAge)),
        ("Cache-Control: max-age=60", "Cache-Control: min-fresh=55", Some(RequestMinFresh)),
        ("Cache-Control: max-age=60", "Authorization: x", Some(Authorization)),
        ("Cache-Control: max-age=60", "", None),
    ] {
        let (meta, _) = stored(response);
        let asked_directives = RequestDirectives::parse(block(asked).fields());
        let cause = validation_cause(&meta, &asked_directives, NOW + 10);
        assert_eq!(cause, expected, "{response}, {asked}");
    }
}

#[test]
fn every_reason_has_the_token_of_rfc_9211() {
    use ForwardReason::*;
    let tokens = [Bypass, Method, UriMiss, VaryMiss, Miss, Request, Stale, Partial]
        .map(ForwardReason::token);
    let expected =
        ["bypass", "method", "uri-miss", "vary-miss", "miss", "request", "stale", "partial"];
    assert_eq!(tokens, expected);
}

#[test]
fn a_response_is_stale_when_no_request_may_use_it_without_validation() {
    for fields in [
        "Cache-Control: max-age=60",
        "Cache-Control: max-age=60\nAge: 50",
        "Cache-Control: max-age=60\nAge: 60",
        "Cache-Control: max-age=60\nAge: 90",
        "ETag: \"a\"",
    ] {
        let (meta, _) = stored(fields);
        for now in NOW..NOW + 100 {
            let reuse = judge(&meta, &RequestDirectives::EMPTY, now);
            let is_fresh = matches!(reuse, ReuseDecision::Serve { .. });
            assert_eq!(is_fresh, now < meta.stale_from(), "{fields} {now}");
        }
    }
}

use super::*;
use crate::policy::directives::RequestDirectives;
use crate::policy::stale::{StaleCause, StaleRefusal, StaleRules, may_serve_stale, stale_limit};

const NONE: StaleRules =
    StaleRules { stale_while_revalidate_s: 0, stale_if_error_s: 0, stale_if_unreachable_s: 0 };

/// The settings of a route that serves stale responses for 20, 40 and 60 seconds.
const GENEROUS: StaleRules =
    StaleRules { stale_while_revalidate_s: 20, stale_if_error_s: 40, stale_if_unreachable_s: 60 };

/// Returns the largest staleness in seconds, up to 99, at which a response with this Cache-Control
/// may be served, for each cause; -1 if it must not be served at all.
fn limits(response: &str, request: &str, rules: &StaleRules) -> [i64; 3] {
    let (meta, _) = stored(&format!("Cache-Control: max-age=10, {response}"));
    let request = RequestDirectives::parse(block(request).fields());
    let until = |cause| {
        let at = |staleness| NOW + 10 + staleness;
        let served = (0..100)
            .filter(|staleness| may_serve_stale(&meta, &request, rules, cause, at(*staleness)));
        served.max().map_or(-1, |staleness| staleness as i64)
    };
    [StaleCause::Revalidating, StaleCause::Error, StaleCause::Unreachable].map(until)
}

/// A test case: its name, the Cache-Control of the response, a field of the request, the settings,
/// and the expected result of [`limits`].
type Row = (&'static str, &'static str, &'static str, StaleRules, [i64; 3]);

const ROWS: &[Row] = &[
    ("nothing allows it", "public", "", NONE, [-1, -1, -1]),
    ("the settings allow it", "public", "", GENEROUS, [20, 40, 60]),
    (
        "an error of the origin includes that it cannot be reached",
        "public",
        "",
        StaleRules { stale_if_error_s: 70, ..GENEROUS },
        [20, 70, 70],
    ),
    (
        "the response allows validation in the background (RFC 5861 §3)",
        "stale-while-revalidate=5",
        "",
        NONE,
        [5, -1, -1],
    ),
    ("the response allows it on errors (RFC 5861 §4)", "stale-if-error=5", "", NONE, [-1, 5, 5]),
    (
        "the response replaces the settings",
        "stale-while-revalidate=5, stale-if-error=6",
        "",
        GENEROUS,
        [5, 6, 6],
    ),
    (
        "the response forbids it",
        "stale-while-revalidate=0, stale-if-error=0",
        "",
        GENEROUS,
        [-1, -1, -1],
    ),
    (
        "of two directives the smaller one applies",
        "stale-if-error=5, stale-if-error=7",
        "",
        GENEROUS,
        [20, 5, 5],
    ),
    (
        "a malformed directive forbids it",
        "stale-if-error=x, stale-while-revalidate",
        "",
        GENEROUS,
        [-1, -1, -1],
    ),
    (
        "the request allows it on errors",
        "public",
        "Cache-Control: stale-if-error=5",
        NONE,
        [-1, 5, 5],
    ),
    (
        "must-revalidate forbids it (RFC 9111 §5.2.2.2)",
        "must-revalidate, stale-if-error=9, stale-while-revalidate=9",
        "",
        GENEROUS,
        [-1, -1, -1],
    ),
    ("proxy-revalidate forbids it (§5.2.2.8)", "proxy-revalidate", "", GENEROUS, [-1, -1, -1]),
    ("s-maxage forbids it (§5.2.2.10)", "s-maxage=10", "", GENEROUS, [-1, -1, -1]),
    ("no-cache forbids it (§5.2.2.4)", "no-cache", "", GENEROUS, [-1, -1, -1]),
    (
        "no-cache of the request forbids it",
        "public",
        "Cache-Control: no-cache",
        GENEROUS,
        [-1, -1, -1],
    ),
    ("Pragma means the same", "public", "Pragma: no-cache", GENEROUS, [-1, -1, -1]),
    (
        "max-age of the request counts unless the origin fails",
        "public",
        "Cache-Control: max-age=15",
        GENEROUS,
        [-1, 40, 60],
    ),
    (
        "max-stale of the request limits it (§5.2.1.2)",
        "public",
        "Cache-Control: max-stale=10",
        GENEROUS,
        [10, 40, 60],
    ),
    ("both limit it", "public", "Cache-Control: max-age=15, max-stale=10", GENEROUS, [5, 40, 60]),
    ("so does min-fresh", "public", "Cache-Control: min-fresh=0", GENEROUS, [-1, 40, 60]),
    (
        "a response that may not be shared with this request",
        "max-age=10",
        "Authorization: a",
        GENEROUS,
        [-1, -1, -1],
    ),
    ("a response that may", "public", "Authorization: a", GENEROUS, [20, 40, 60]),
];

// RFC: 9111-4.2.4-1, 9111-4.2.4-2, 9111-5.2.2.2-1, 9111-5.2.2.2-2, 9111-5.2.2.2-3, 9111-5.2.2.8-1
// RFC: 9111-5.2.2.10-1, 5861-3-2, 5861-4-1
#[test]
fn directives_and_settings_limit_the_staleness() {
    for (name, response, request, rules, expected) in ROWS {
        assert_eq!(limits(response, request, rules), *expected, "{name}");
    }
}

#[test]
fn the_limits_are_stored() {
    let (meta, _) = stored("Cache-Control: max-age=1, stale-while-revalidate=7, stale-if-error=0");
    let mut bytes = Vec::new();
    meta.encode(&mut bytes);
    let read = StoredMeta::decode(&bytes).expect("just encoded");
    assert_eq!(read, meta);
    assert_eq!((read.stale_while_revalidate_s, read.stale_if_error_s), (Some(7), Some(0)));
}

#[test]
fn a_response_that_is_never_served_stale_has_its_reason() {
    use StaleRefusal::*;
    for (response, asked, expected) in [
        ("max-age=1, no-cache", "", Err(NoCache)),
        ("max-age=1, must-revalidate", "", Err(Forbidden)),
        ("s-maxage=1", "", Err(Forbidden)),
        ("max-age=1", "Cache-Control: no-cache", Err(RequestNoCache)),
        ("max-age=1", "Authorization: x", Err(Authorization)),
        ("max-age=1", "Cache-Control: min-fresh=1", Err(RequestFreshness)),
        ("max-age=1, stale-while-revalidate=7", "", Ok(7)),
        ("max-age=1", "", Ok(20)),
    ] {
        let (meta, _) = stored(&format!("Cache-Control: {response}"));
        let request = RequestDirectives::parse(block(asked).fields());
        let limit = stale_limit(&meta, &request, &GENEROUS, StaleCause::Revalidating, NOW + 10);
        assert_eq!(limit, expected, "{response}, {asked}");
    }
}

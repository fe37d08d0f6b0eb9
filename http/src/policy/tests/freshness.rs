use super::{NOW, RULES, block, date};
use crate::fields::FieldId;
use crate::policy::directives::DELTA_S_MAX;
use crate::policy::exchange::date_field;
use crate::policy::exchange::{CacheRules, OriginResponse, ResponseTiming};
use crate::policy::freshness::LifetimeSource::{
    self, Expires, Heuristic, MaxAge, Nothing, Override, Setting, SharedMaxAge,
};
use crate::policy::freshness::{StatusFreshness, current_age, freshness_lifetime, initial_age};

fn check(
    name: &str,
    status: u16,
    text: &str,
    rules: &CacheRules,
    seconds: u32,
    from: LifetimeSource,
) {
    let block = block(text);
    let lifetime =
        freshness_lifetime(&OriginResponse::new(status, block.fields(), rules.targets), rules, NOW);
    assert_eq!((lifetime.seconds, lifetime.source), (seconds, from), "{name}");
}

// RFC: 9111-4.2.2-1, 9111-5.3-1, 9111-5.3-2, 9111-5.3-3
#[test]
fn explicit_freshness_has_precedence() {
    let (now, later, past) = (date(0), date(60), date(-60));
    let cases = [
        ("s-maxage has precedence", "Cache-Control: max-age=5, s-maxage=7".into(), 7, SharedMaxAge),
        (
            "s-maxage may be the shorter",
            "Cache-Control: max-age=9, s-maxage=0".into(),
            0,
            SharedMaxAge,
        ),
        (
            "a malformed s-maxage is stale",
            "Cache-Control: max-age=9, s-maxage=x".into(),
            0,
            SharedMaxAge,
        ),
        (
            "max-age has precedence over Expires",
            format!("Cache-Control: max-age=5\nExpires: {later}\nDate: {now}"),
            5,
            MaxAge,
        ),
        (
            "max-age=0 has precedence over a later Expires",
            format!("Cache-Control: max-age=0\nExpires: {later}"),
            0,
            MaxAge,
        ),
        ("Expires counts from Date", format!("Expires: {later}\nDate: {past}"), 120, Expires),
        ("Expires counts from arrival without Date", format!("Expires: {later}"), 60, Expires),
        (
            "Expires counts from arrival with a bad Date",
            format!("Expires: {later}\nDate: x"),
            60,
            Expires,
        ),
        ("Expires at Date is stale", format!("Expires: {now}\nDate: {now}"), 0, Expires),
        ("Expires before Date is stale", format!("Expires: {past}\nDate: {now}"), 0, Expires),
        ("Expires: 0 is stale", "Expires: 0".into(), 0, Expires),
        ("Expires: -1 is stale", "Expires: -1".into(), 0, Expires),
        ("an empty Expires is stale", "Expires:".into(), 0, Expires),
        ("repeated Expires is stale", format!("Expires: {later}\nExpires: {later}"), 0, Expires),
        ("two dates in one Expires are stale", format!("Expires: {later}, {later}"), 0, Expires),
        (
            "Expires in another zone is stale",
            "Expires: Sun, 06 Nov 1994 08:50:37 PST".into(),
            0,
            Expires,
        ),
        (
            "Expires in UTC instead of GMT is stale",
            "Expires: Sun, 06 Nov 1994 08:50:37 UTC".into(),
            0,
            Expires,
        ),
        (
            "Expires with a two-digit year is stale",
            "Expires: Sun, 06 Nov 94 08:50:37 GMT".into(),
            0,
            Expires,
        ),
        (
            "Expires without seconds is stale",
            "Expires: Sun, 06 Nov 1994 08:50 GMT".into(),
            0,
            Expires,
        ),
        (
            "Expires with a one-digit hour is stale",
            "Expires: Sun, 06 Nov 1994 8:50:37 GMT".into(),
            0,
            Expires,
        ),
        (
            "Expires with dashes is stale",
            "Expires: Sun, 06-Nov-1994 08:50:37 GMT".into(),
            0,
            Expires,
        ),
        (
            "Expires on a 31st of November is stale",
            "Expires: Mon, 31 Nov 1994 08:50:37 GMT".into(),
            0,
            Expires,
        ),
        ("Expires as a number is stale", "Expires: 784111837".into(), 0, Expires),
        ("Expires in quotes is stale", format!("Expires: \"{later}\""), 0, Expires),
        (
            "Expires in RFC 850 form counts",
            "Expires: Sunday, 06-Nov-94 08:50:37 GMT".into(),
            60,
            Expires,
        ),
        ("Expires in asctime form counts", "Expires: Sun Nov  6 08:50:37 1994".into(), 60, Expires),
        (
            "Expires far away is limited",
            "Expires: Fri, 31 Dec 9999 23:59:59 GMT".into(),
            DELTA_S_MAX,
            Expires,
        ),
        (
            "Expires does not bring heuristics back",
            format!("Expires: 0\nLast-Modified: {past}"),
            0,
            Expires,
        ),
    ];
    for (name, text, seconds, from) in cases {
        check(name, 200, &text, &RULES, seconds, from);
    }
}

// RFC: 9111-3-7
#[test]
fn heuristics_apply_only_where_they_are_allowed() {
    let old = format!("Date: {}\nLast-Modified: {}", date(0), date(-1000));
    let cases = [
        ("a tenth of the unchanged time", 200, old.clone(), 100, Heuristic),
        (
            "the arrival time replaces a missing Date",
            200,
            format!("Last-Modified: {}", date(-500)),
            50,
            Heuristic,
        ),
        ("a limit", 200, format!("Last-Modified: {}", date(-100_000_000)), 86_400, Heuristic),
        ("no heuristic without Last-Modified", 200, "ETag: \"a\"".into(), 0, Nothing),
        (
            "no heuristic from a later Last-Modified",
            200,
            format!("Last-Modified: {}", date(50)),
            0,
            Nothing,
        ),
        ("no heuristic from a malformed date", 200, "Last-Modified: yesterday".into(), 0, Nothing),
        ("no heuristic with Set-Cookie", 200, format!("{old}\nSet-Cookie: a=b"), 0, Nothing),
        ("203 too", 203, old.clone(), 100, Heuristic),
        ("204 too", 204, old.clone(), 100, Heuristic),
        ("300 too", 300, old.clone(), 100, Heuristic),
        ("301 too", 301, old.clone(), 100, Heuristic),
        ("308 too", 308, old.clone(), 100, Heuristic),
        ("404 for a shorter time", 404, old.clone(), 60, Heuristic),
        ("405 for a shorter time", 405, old.clone(), 60, Heuristic),
        ("410 for a shorter time", 410, old.clone(), 60, Heuristic),
        ("414 for a shorter time", 414, old.clone(), 60, Heuristic),
        ("501 for a shorter time", 501, old.clone(), 60, Heuristic),
        ("not 201", 201, old.clone(), 0, Nothing),
        ("not 302", 302, old.clone(), 0, Nothing),
        ("not 403", 403, old.clone(), 0, Nothing),
        ("not 500", 500, old.clone(), 0, Nothing),
        ("not 503", 503, old.clone(), 0, Nothing),
        ("any status with public", 302, format!("{old}\nCache-Control: public"), 100, Heuristic),
    ];
    for (name, status, text, seconds, from) in cases {
        check(name, status, &text, &RULES, seconds, from);
    }
}

#[test]
fn the_default_of_a_route_applies_only_without_explicit_freshness() {
    let rules = CacheRules { default_freshness_s: 30, ..RULES };
    let no_heuristic = CacheRules { heuristic_percent: 0, ..rules };
    let limited = CacheRules { heuristic_error_s_max: 20, ..rules };
    let old = format!("Last-Modified: {}", date(-1000));
    let cases = [
        ("nothing said", 200, "X: y", &rules, 30, Setting),
        ("max-age=0 said", 200, "Cache-Control: max-age=0", &rules, 0, MaxAge),
        ("a bad Expires said", 200, "Expires: 0", &rules, 0, Expires),
        ("it has precedence over a heuristic", 200, &old, &rules, 30, Setting),
        ("an error has a limit", 404, "X: y", &limited, 20, Setting),
        ("heuristics off", 200, &old, &no_heuristic, 30, Setting),
        ("an error is not stored by default", 500, "X: y", &rules, 0, Nothing),
        ("a cookie is not stored by default", 200, "Set-Cookie: a=b", &rules, 0, Nothing),
    ];
    for (name, status, text, rules, seconds, from) in cases {
        check(name, status, text, rules, seconds, from);
    }
}

#[test]
fn a_lifetime_by_status_goes_before_the_default_and_the_heuristic() {
    let by_status = StatusFreshness::new(vec![(200, 5), (404, 120), (410, 0), (503, 9)]);
    let rules = CacheRules { status_freshness: &by_status, default_freshness_s: 30, ..RULES };
    let old = format!("Last-Modified: {}", date(-1000));
    let cases = [
        ("before the heuristic", 200, &*old, 5, Setting),
        ("before the default and its limit", 404, "X: y", 120, Setting),
        ("none", 410, &old, 0, Setting),
        ("an error that is not stored by default", 503, "X: y", 9, Setting),
        ("another status", 301, "X: y", 30, Setting),
        ("not before the origin", 404, "Cache-Control: max-age=1", 1, MaxAge),
        ("not before Expires", 503, "Expires: 0", 0, Expires),
        ("not for a cookie", 503, "Set-Cookie: a=b", 0, Nothing),
    ];
    for (name, status, text, seconds, from) in cases {
        check(name, status, text, &rules, seconds, from);
    }
}

#[test]
fn an_override_goes_before_everything_but_only_for_responses_that_are_no_errors() {
    let by_status = StatusFreshness::new(vec![(302, 5), (404, 9)]);
    let rules = CacheRules { status_freshness: &by_status, override_freshness_s: 50, ..RULES };
    let cases = [
        ("nothing said", 200, "X: y", 50, Override),
        ("s-maxage said", 200, "Cache-Control: s-maxage=7", 50, Override),
        ("Expires said", 200, "Expires: 0", 50, Override),
        ("an explicit lifetime of another status", 302, "Cache-Control: max-age=1", 50, Override),
        ("another status", 302, "X: y", 5, Setting),
        ("an error", 404, "X: y", 9, Setting),
        ("an explicit error", 404, "Cache-Control: max-age=1", 1, MaxAge),
        ("a cookie", 200, "Set-Cookie: a=b\nCache-Control: max-age=1", 1, MaxAge),
    ];
    for (name, status, text, seconds, from) in cases {
        check(name, status, text, &rules, seconds, from);
    }
}

// RFC: 9111-4.2.3-1, 9111-5.1-1, 9111-5.1-2
#[test]
fn age_on_arrival_is_the_larger_of_date_and_age() {
    let (now, past, future) = (date(0), date(-30), date(30));
    let cases = [
        ("nothing known", "X: y".into(), 0, 0),
        ("Date is now", format!("Date: {now}"), 0, 0),
        ("Date gives an age", format!("Date: {past}"), 0, 30),
        ("a future Date gives no age", format!("Date: {future}"), 0, 0),
        ("a malformed Date gives no age", "Date: 1994".into(), 0, 0),
        ("Age alone", "Age: 12".into(), 0, 12),
        ("Age above Date", format!("Age: 40\nDate: {past}"), 0, 40),
        ("Date above Age", format!("Age: 4\nDate: {past}"), 0, 30),
        ("the round trip is added to Age", "Age: 12".into(), 5, 17),
        ("the round trip counts without Age", format!("Date: {now}"), 5, 5),
        ("the round trip is not added to Date", format!("Date: {past}"), 5, 30),
        ("the first of a list counts", "Age: 7, 99".into(), 0, 7),
        ("an empty first member does not", "Age: , 7".into(), 0, 7),
        ("the first line counts", "Age: 7\nAge: 99".into(), 0, 7),
        ("a malformed first is not replaced", "Age: x, 99".into(), 0, 0),
        ("a float is not an Age", "Age: 7200.0".into(), 0, 0),
        ("a negative Age is ignored", "Age: -7".into(), 0, 0),
        ("a signed Age is ignored", "Age: +7".into(), 0, 0),
        ("an Age with letters is ignored", "Age: 7a".into(), 0, 0),
        ("an empty Age is ignored", "Age:".into(), 0, 0),
        ("a quoted Age is ignored", "Age: \"7\"".into(), 0, 0),
        ("an Age without end is the largest", "Age: 99999999999999999999".into(), 9, DELTA_S_MAX),
    ];
    for (name, text, delay, expected) in cases {
        let block = block(&text);
        let arrival = ResponseTiming::new(block.fields(), NOW - delay, NOW);
        let age = initial_age(date_field(block.fields(), FieldId::Date), &arrival);
        assert_eq!(age, expected, "{name}");
    }
}

#[test]
fn a_stored_response_ages_with_the_clock() {
    let cases = [
        ("at once", 5, NOW, 5),
        ("later", 5, NOW + 60, 65),
        ("a clock that ran backwards", 5, NOW - 60, 5),
        ("the end of time", 5, u64::MAX, DELTA_S_MAX),
    ];
    for (name, initial, now, expected) in cases {
        assert_eq!(current_age(initial, NOW, now), expected, "{name}");
    }
}

#[test]
fn jitter_only_shortens_and_spreads_over_its_share() {
    use crate::policy::freshness::{jitter_s_max, with_jitter};
    let cases = [
        ("no jitter", 600, 0, 0, 0),
        ("a tenth", 600, 0, 10, 60),
        ("a tenth of what is left", 600, 500, 10, 10),
        ("nothing is left", 600, 600, 50, 0),
        ("an age beyond the lifetime", 600, 700, 50, 0),
        ("less than a second", 9, 0, 10, 0),
        ("the longest lifetime", u32::MAX, 0, 50, u32::MAX / 2),
    ];
    for (name, lifetime_s, age_s, percent, most) in cases {
        assert_eq!(jitter_s_max(lifetime_s, age_s, percent), most, "{name}");
        let shortened = |random| lifetime_s - with_jitter(lifetime_s, age_s, percent, random);
        assert_eq!(shortened(0), 0, "{name}");
        assert_eq!(shortened(u64::MAX), most, "{name}");
        assert!(shortened(u64::MAX / 2).abs_diff(most / 2) <= 1, "{name}");
    }
}

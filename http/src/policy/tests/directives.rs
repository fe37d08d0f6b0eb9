use super::block;
use crate::policy::directives::{DELTA_S_MAX, RequestDirectives, ResponseDirectives};

// RFC: 9111-5.2.2-1, 9111-5.2.2.7-2, 9111-5.2.3-1
#[test]
fn response_directives_are_parsed_by_the_rfc_and_with_caution() {
    type Set = fn(&mut ResponseDirectives);
    let cases: &[(&str, &str, Set)] = &[
        ("no preference without the field", "X: max-age=5", |_| {}),
        ("max-age counts seconds", "Cache-Control: max-age=60", |d| d.max_age = Some(60)),
        ("names have no case", "cache-control: Max-AGE=60", |d| d.max_age = Some(60)),
        ("s-maxage is separate", "Cache-Control: s-maxage=9", |d| d.s_maxage = Some(9)),
        ("several lines are one list", "Cache-Control: public\nCache-Control: max-age=1", |d| {
            d.public = true;
            d.max_age = Some(1);
        }),
        ("empty members have no effect", "Cache-Control: ,, max-age=1 ,,", |d| d.max_age = Some(1)),
        ("a tab is white space", "Cache-Control: public,\tmax-age=1", |d| {
            d.public = true;
            d.max_age = Some(1);
        }),
        ("a quoted number is accepted", "Cache-Control: max-age=\"60\"", |d| d.max_age = Some(60)),
        ("single quotes are not quotes", "Cache-Control: max-age='60'", |d| d.max_age = Some(0)),
        ("a negative age is stale", "Cache-Control: max-age=-1", |d| d.max_age = Some(0)),
        ("a signed age is stale", "Cache-Control: max-age=+1", |d| d.max_age = Some(0)),
        ("a float is stale", "Cache-Control: max-age=7200.0", |d| d.max_age = Some(0)),
        ("letters after the number are stale", "Cache-Control: max-age=60a", |d| {
            d.max_age = Some(0);
        }),
        ("an age without a number is stale", "Cache-Control: max-age", |d| d.max_age = Some(0)),
        ("an empty argument is stale", "Cache-Control: max-age=", |d| d.max_age = Some(0)),
        ("empty quotes are stale", "Cache-Control: max-age=\"\"", |d| d.max_age = Some(0)),
        ("half a quote is stale", "Cache-Control: max-age=\"60", |d| d.max_age = Some(0)),
        ("space before the equals sign is stale", "Cache-Control: max-age =60", |d| {
            d.max_age = Some(0);
        }),
        ("space after the equals sign is stale", "Cache-Control: max-age= 60", |d| {
            d.max_age = Some(0);
        }),
        ("leading zeros are digits", "Cache-Control: max-age=0060", |d| d.max_age = Some(60)),
        ("2^31 is the largest", "Cache-Control: max-age=2147483649", |d| {
            d.max_age = Some(DELTA_S_MAX);
        }),
        (
            "a number without end is the largest",
            "Cache-Control: max-age=99999999999999999999",
            |d| {
                d.max_age = Some(DELTA_S_MAX);
            },
        ),
        ("of two ages the lower counts", "Cache-Control: max-age=60, max-age=5", |d| {
            d.max_age = Some(5);
        }),
        (
            "a malformed repetition makes it stale",
            "Cache-Control: max-age=60\nCache-Control: max-age=x",
            |d| {
                d.max_age = Some(0);
            },
        ),
        ("a longer name is another directive", "Cache-Control: max-aged=5, x-max-age=5", |_| {}),
        ("no-store stops at its name", "Cache-Control: no-store", |d| d.no_store = true),
        ("no-store with an argument still restricts", "Cache-Control: no-store=x", |d| {
            d.no_store = true;
        }),
        ("qualified no-cache covers all", "Cache-Control: no-cache=\"set-cookie, x\"", |d| {
            d.no_cache = true;
        }),
        ("qualified private covers all", "Cache-Control: private=\"x\"", |d| d.private = true),
        (
            "a comma in quotes does not end a member",
            "Cache-Control: ext=\"a, no-store\", public",
            |d| {
                d.public = true;
            },
        ),
        (
            "an escaped quote does not end a string",
            "Cache-Control: ext=\"a\\\", no-store\", public",
            |d| {
                d.public = true;
            },
        ),
        ("an open quote hides nothing", "Cache-Control: ext=\"a, no-store", |d| d.no_store = true),
        (
            "a quote ends with its line",
            "Cache-Control: a=\"x\nCache-Control: private, b=\"y",
            |d| {
                d.private = true;
            },
        ),
        (
            "all flags are known",
            "Cache-Control: must-revalidate, proxy-revalidate, must-understand",
            |d| {
                d.must_revalidate = true;
                d.proxy_revalidate = true;
                d.must_understand = true;
            },
        ),
        ("Pragma has no effect in a response", "Pragma: no-cache", |_| {}),
        ("unknown directives mean nothing", "Cache-Control: immutable, community=UCI", |_| {}),
    ];
    for (name, text, set) in cases {
        let mut expected = ResponseDirectives::default();
        set(&mut expected);
        assert_eq!(ResponseDirectives::parse(block(text).fields()), expected, "{name}");
    }
}

#[test]
fn request_directives_are_parsed_by_the_rfc_and_with_caution() {
    type Set = fn(&mut RequestDirectives);
    let cases: &[(&str, &str, Set)] = &[
        ("a plain request has no directives", "Host: a\nCookie: b", |_| {}),
        ("no-cache", "Cache-Control: no-cache", |d| d.no_cache = true),
        ("no-store", "Cache-Control: no-store", |d| d.no_store = true),
        ("only-if-cached", "Cache-Control: only-if-cached", |d| d.only_if_cached = true),
        ("Pragma means no-cache", "Pragma: no-cache", |d| d.no_cache = true),
        ("Pragma may list more", "Pragma: x, No-Cache", |d| d.no_cache = true),
        ("another Pragma has no effect", "Pragma: no-store", |_| {}),
        ("Cache-Control overrides Pragma", "Pragma: no-cache\nCache-Control: max-age=5", |d| {
            d.max_age = Some(5);
        }),
        (
            "even an empty Cache-Control overrides Pragma",
            "Pragma: no-cache\nCache-Control:",
            |_| {},
        ),
        ("max-age", "Cache-Control: max-age=0", |d| d.max_age = Some(0)),
        ("a malformed max-age accepts nothing", "Cache-Control: max-age=x", |d| {
            d.max_age = Some(0);
        }),
        ("the lower max-age counts", "Cache-Control: max-age=3, max-age=9", |d| {
            d.max_age = Some(3);
        }),
        ("min-fresh", "Cache-Control: min-fresh=20", |d| d.min_fresh = Some(20)),
        ("the higher min-fresh counts", "Cache-Control: min-fresh=2, min-fresh=9", |d| {
            d.min_fresh = Some(9);
        }),
        ("a malformed min-fresh has no effect", "Cache-Control: min-fresh=a", |_| {}),
        ("max-stale without a limit", "Cache-Control: max-stale", |d| {
            d.max_stale = Some(u32::MAX);
        }),
        ("max-stale with a limit", "Cache-Control: max-stale=10", |d| d.max_stale = Some(10)),
        ("the lower max-stale counts", "Cache-Control: max-stale, max-stale=10", |d| {
            d.max_stale = Some(10);
        }),
        ("a malformed max-stale accepts nothing", "Cache-Control: max-stale=x", |_| {}),
        ("Authorization is noted", "Authorization: Basic eA==", |d| d.is_authorized = true),
    ];
    for (name, text, set) in cases {
        let mut expected = RequestDirectives::EMPTY;
        set(&mut expected);
        assert_eq!(RequestDirectives::parse(block(text).fields()), expected, "{name}");
    }
}

#[test]
fn a_value_full_of_quotes_costs_linear_time() {
    let text = format!("Cache-Control: {}, no-store", "\"\\".repeat(200_000));
    assert!(ResponseDirectives::parse(block(&text).fields()).no_store);
}

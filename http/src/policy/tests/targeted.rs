use super::{NOW, RULES, block, date};
use crate::policy::directives::{DELTA_S_MAX, ResponseDirectives};
use crate::policy::exchange::{CacheRules, OriginResponse, ResponseTiming};
use crate::policy::freshness::freshness_lifetime;
use crate::policy::meta::StoredMeta;
use crate::policy::targeted::TargetList;

const NONE: ResponseDirectives = ResponseDirectives {
    no_store: false,
    no_cache: false,
    private: false,
    public: false,
    must_revalidate: false,
    proxy_revalidate: false,
    must_understand: false,
    max_age: None,
    s_maxage: None,
    stale_while_revalidate: None,
    stale_if_error: None,
};

fn targets() -> TargetList {
    TargetList::new(["Own-Cache-Control", "CDN-Cache-Control"])
}

/// Returns the directives of `Own-Cache-Control` with this value, if it is valid.
fn parsed(value: &str) -> Option<ResponseDirectives> {
    targets().select(block(&format!("Own-Cache-Control: {value}")).fields()).directives
}

// RFC: 9213-2.2-5, 9213-2.2-6, 9213-2.2-7, 9213-2.2-8, 9213-2.2-9, 9213-2.2-10
#[test]
fn a_targeted_field_is_a_dictionary_of_directives() {
    let with_age = |seconds| ResponseDirectives { max_age: Some(seconds), ..NONE };
    let cases = [
        ("max-age=60", with_age(60)),
        ("max-age=60;x, foo", with_age(60)),
        ("max-age=1, max-age=2", with_age(2)),
        ("max-age=1\nOwn-Cache-Control: max-age=2", with_age(2)),
        ("max-age=99999999999", with_age(DELTA_S_MAX)),
        ("  max-age=0\t,\tfoo=(a \"b\";c 1.5) ", with_age(0)),
        ("s-maxage=7", ResponseDirectives { s_maxage: Some(7), ..NONE }),
        ("no-store", ResponseDirectives { no_store: true, ..NONE }),
        ("no-store=?1", ResponseDirectives { no_store: true, ..NONE }),
        ("no-cache=\"set-cookie, x\"", ResponseDirectives { no_cache: true, ..NONE }),
        ("private=\"x\"", ResponseDirectives { private: true, ..NONE }),
        (
            "public, must-revalidate, proxy-revalidate, must-understand",
            ResponseDirectives {
                public: true,
                must_revalidate: true,
                proxy_revalidate: true,
                must_understand: true,
                ..NONE
            },
        ),
        // RFC 9213 §3.1 uses this unregistered directive to override Cache-Control with nothing.
        ("none", NONE),
        ("foo=?0, bar=%\"f%c3%bc\", baz=@12, b=:YQ==:, c=:YQ:, d=-1.125, *=t/:", NONE),
    ];
    for (value, expected) in cases {
        assert_eq!(parsed(value), Some(expected), "{value}");
    }
}

// RFC: 9213-2.1-3, 9213-2.1-4
#[test]
fn an_invalid_targeted_field_is_ignored_as_a_whole() {
    let malformed = [
        "",
        "max-age=60, &&&&&",
        "max-age=60,",
        ",max-age=60",
        "max-age=60 no-store",
        "max-age = 60",
        "Max-Age=60",
        "max-age=60;X",
        "max-age=",
        "max-age=3600+600",
        "max-age=1000000000000000",
        "foo=1.",
        "foo=1.2345",
        "foo=1234567890123.1",
        "foo=(a",
        "foo=(a\"b\")",
        "foo=((a))",
        "foo=@1.5",
        "foo=?2",
        "foo=:Y:",
        "foo=:YQ=:",
        "foo=:=YQ:",
        "foo=%\"%C3\"",
        "foo=%\"%c3\"",
        "foo=\"a",
        "foo=!",
    ];
    let of_wrong_type = [
        "max-age=\"60\"",
        "max-age=60.0",
        "max-age=-1",
        "max-age",
        "max-age=(60)",
        "no-store=?0, max-age=60",
        "no-store=1",
        "no-cache=x",
        "must-revalidate=\"x\"",
    ];
    for value in malformed.into_iter().chain(of_wrong_type) {
        assert_eq!(parsed(value), None, "{value}");
    }
}

// RFC: 9213-2.2-1, 9213-2.2-3, 9213-2.4-1
#[test]
fn the_first_valid_field_of_the_list_counts() {
    let cases = [
        ("Own-Cache-Control: max-age=1\nCDN-Cache-Control: max-age=2", Some(1), false),
        ("CDN-Cache-Control: max-age=2\nown-cache-control: max-age=1", Some(1), false),
        ("Own-Cache-Control: max-age=x\nCDN-Cache-Control: max-age=2", Some(2), true),
        ("Own-Cache-Control:\nCDN-Cache-Control: max-age=2", Some(2), true),
        ("Own-Cache-Control: none\nCDN-Cache-Control: max-age=2", None, false),
        ("Own-Cache-Control: max-age=1\nCDN-Cache-Control: &", Some(1), false),
        ("Other-Cache-Control: max-age=3\nCache-Control: max-age=4", Some(4), false),
        ("CDN-Cache-Control: max-age=2\nCache-Control: no-store", Some(2), false),
        ("CDN-Cache-Control: &\nCache-Control: max-age=4", Some(4), true),
    ];
    for (text, max_age, has_invalid) in cases {
        let block = block(text);
        let response = OriginResponse::new(200, block.fields(), &targets());
        assert_eq!(response.directives.max_age, max_age, "{text}");
        assert_eq!(response.has_invalid_target, has_invalid, "{text}");
    }
}

// RFC: 9213-2.2-2
#[test]
fn a_targeted_field_replaces_cache_control_and_expires() {
    let targets = targets();
    let rules = CacheRules { targets: &targets, heuristic_percent: 0, ..RULES };
    let cases = [
        (format!("CDN-Cache-Control: none\nExpires: {}", date(60)), 0),
        (format!("CDN-Cache-Control: &\nExpires: {}", date(60)), 60),
        ("CDN-Cache-Control: none\nCache-Control: max-age=60".to_owned(), 0),
        ("CDN-Cache-Control: max-age=9\nCache-Control: s-maxage=60".to_owned(), 9),
    ];
    for (text, seconds) in cases {
        let block = block(&text);
        let response = OriginResponse::new(200, block.fields(), &targets);
        assert_eq!(freshness_lifetime(&response, &rules, NOW).seconds, seconds, "{text}");
    }
}

#[test]
fn only_fields_for_this_cache_alone_are_hidden() {
    let targets = targets();
    assert!(targets.is_own(b"own-cache-control") && targets.is_own(b"Own-Cache-Control"));
    assert!(!targets.is_own(b"CDN-Cache-Control") && !targets.is_own(b"Surrogate-Control"));
    assert!(!TargetList::new(["cdn-cache-control"]).is_own(b"CDN-Cache-Control"));
}

#[test]
fn the_hidden_lines_precede_the_block_that_is_sent() {
    let targets = targets();
    let rules = CacheRules { targets: &targets, ..RULES };
    let block = block("Own-Cache-Control: max-age=9\nX: y\nETag: \"ab\"");
    let arrival = ResponseTiming::new(block.fields(), NOW, NOW);
    let meta = StoredMeta::new(200, &block, &arrival, &rules);
    let (hidden, sent) = block.bytes().split_at(meta.hidden_bytes as usize);
    assert_eq!(hidden, b"Own-Cache-Control: max-age=9\r\n");
    assert_eq!(meta.etag_value(sent), Some(&b"\"ab\""[..]));
    assert_eq!(meta.lifetime_s, 9);
    let mut encoded = Vec::new();
    meta.encode(&mut encoded);
    assert_eq!(StoredMeta::decode(&encoded), Some(meta));
}

#[test]
fn a_dictionary_with_very_many_members_is_refused() {
    let members = |count: usize| {
        let names: Vec<_> = (0..count).map(|number| format!("a{number}")).collect();
        parsed(&names.join(", "))
    };
    assert!(members(128).is_some());
    assert!(members(129).is_none());
}

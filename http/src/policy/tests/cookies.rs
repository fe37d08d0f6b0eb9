use super::block;
use crate::policy::cookies::{cookie_pairs, may_be_named, write_cookies_named, write_kept_cookies};

#[test]
fn names_and_values_are_read_as_any_origin_may_read_them() {
    let cases: &[(&str, &[(&str, &str)])] = &[
        ("X: y", &[]),
        ("Cookie: a=1;b=2; c", &[("a", "1"), ("b", "2"), ("c", "")]),
        (
            "Cookie: a=1, b=2,c; d",
            &[("a", "1, b=2,c"), ("a", "1"), ("b", "2"), ("c", ""), ("d", "")],
        ),
        ("Cookie: a=1\nCookie: b", &[("a", "1"), ("b", "")]),
        ("Cookie: ; a = 1 ;", &[("", ""), ("a", "1"), ("", "")]),
        ("Cookie: =1; a==2", &[("", "1"), ("a", "=2")]),
    ];
    for (text, expected) in cases {
        let expected: Vec<_> =
            expected.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        assert_eq!(cookie_pairs(block(text).fields()).collect::<Vec<_>>(), expected, "{text}");
    }
}

#[test]
fn a_name_matches_if_any_origin_may_read_it_so() {
    let cases = [
        ("the same", "session", "session", true),
        ("case", "SESSION", "session", true),
        ("case of the list", "sessionid", "SessionID", true),
        ("a dot", "app.session", "app_session", true),
        ("a space", "app session", "app_session", true),
        ("an open bracket", "app[session", "app_session", true),
        ("a dot in the list", "app_session", "app.session", true),
        ("an element", "session[id]", "session", true),
        ("percent-encoding", "%73ess%69on", "session", true),
        ("an encoded dot", "app%2Esession", "app_session", true),
        ("a plus sign", "app+session", "app_session", true),
        ("a percent sign alone", "a%z", "a%z", true),
        ("percent-encoding is decoded once", "%2573", "s", false),
        ("a longer name", "sessions", "session", false),
        ("a shorter name", "sessio", "session", false),
        ("another name", "mission", "session", false),
        ("no name", "", "session", false),
        ("a hyphen is a hyphen", "app-session", "app_session", false),
        ("a beginning", "WP.logged_in_8f", "wp_logged_in_*", true),
        ("the beginning alone", "wp_logged_in_", "wp_logged_in_*", true),
        ("less than the beginning", "wp_logged_in", "wp_logged_in_*", false),
    ];
    for (name, cookie, wanted, expected) in cases {
        let (wanted, is_prefix) = match wanted.strip_suffix('*') {
            Some(beginning) => (beginning, true),
            None => (wanted, false),
        };
        let found = may_be_named(cookie.as_bytes(), wanted.as_bytes(), is_prefix);
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn only_named_cookies_are_kept() {
    let cases = [
        ("no cookie", "X: y", ""),
        ("none that is named", "Cookie: b=1; c=2", ""),
        ("one of several", "Cookie: b=1; lang=de; c=2", "lang=de"),
        ("in their order", "Cookie: theme=x; b=1; lang=de", "theme=x; lang=de"),
        ("of the same name", "Cookie: lang=de; lang=en", "lang=de; lang=en"),
        ("several lines", "Cookie: lang=de; b=1\nCookie: theme=x", "lang=de; theme=x"),
        ("space around", "Cookie:  lang=de ;b=1 ;\ttheme=x;", "lang=de; theme=x"),
        ("space around the name", "Cookie: lang =de", "lang =de"),
        ("without a value", "Cookie: lang; theme=", "lang; theme="),
        ("names have case", "Cookie: Lang=de", ""),
        ("quotes hide nothing", "Cookie: b=\"x; lang=de\"", "lang=de\""),
    ];
    for (name, text, expected) in cases {
        let mut out = Vec::new();
        let keeps = |name: &[u8]| [&b"lang"[..], b"theme"].contains(&name);
        write_kept_cookies(block(text).fields(), keeps, &mut out);
        assert_eq!(String::from_utf8_lossy(&out), expected, "{name}");
    }
}

#[test]
fn cookies_are_named_apart_only_if_all_origins_read_them_alike() {
    let cases = [
        ("no cookie", "X: y", None),
        ("none that is named", "Cookie: b=1; c=2", None),
        ("one of several", "Cookie: b=1; lang=de; c=\"2\"", Some("lang=de")),
        ("of the same name", "Cookie: lang=de; b=; Lang=en", Some("lang=de; Lang=en")),
        ("several lines", "Cookie: b=1\nCookie: lang=de", Some("b=1\nlang=de")),
        ("an open quote", "Cookie: b=\"1; lang=de; c=\"", Some("b=\"1; lang=de; c=\"")),
        ("a cookie without a value", "Cookie: b; lang=de", Some("b; lang=de")),
        ("an empty cookie", "Cookie: b=1;; lang=de", Some("b=1;; lang=de")),
        ("a space in a name", "Cookie: b =1; lang=de", Some("b =1; lang=de")),
        ("a comma in a value", "Cookie: b=1,2; lang=de", Some("b=1,2; lang=de")),
        ("an attribute", "Cookie: PATH=/; lang=de", Some("PATH=/; lang=de")),
        ("a space before a semicolon", "Cookie: lang=de ; b=1", Some("lang=de ; b=1")),
        ("no space after a semicolon", "Cookie: b=1;lang=de", Some("b=1;lang=de")),
        ("a tab after a semicolon", "Cookie: b=1;\tlang=de", Some("b=1;\tlang=de")),
        ("two spaces", "Cookie: b=1;  lang=de", Some("b=1;  lang=de")),
        ("a semicolon at the end", "Cookie: lang=de;", Some("lang=de;")),
        ("space around the line", "Cookie:  b=1; lang=de\t", Some("lang=de")),
        ("malformed, none that is named", "Cookie: b", Some("b")),
    ];
    for (name, text, expected) in cases {
        let mut out = Vec::new();
        let has_any = write_cookies_named(block(text).fields(), b"lang", &mut out);
        let written = has_any.then(|| String::from_utf8_lossy(&out).into_owned());
        assert_eq!(written.as_deref(), expected, "{name}");
    }
}

use super::block;
use crate::policy::cookies::write_kept_cookies;

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

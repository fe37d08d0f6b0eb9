use crate::{
    ast::{AddressRange, Comparison, Matcher, RuleScope},
    read::read,
};

use super::test_at;

/// Shows a matcher in short form.
fn show(matcher: &Matcher) -> String {
    let how_text = |how: Comparison, nocase: bool| {
        let name = match how {
            Comparison::Equal => "=",
            Comparison::Less => "<",
            Comparison::Greater => ">",
            Comparison::Prefix => "pre ",
            Comparison::Suffix => "suf ",
            Comparison::Middle => "mid ",
            Comparison::Extension => "ext ",
        };
        format!("{}{name}", if nocase { "nocase " } else { "" })
    };
    let text = |bytes: &[u8]| format!("'{}'", String::from_utf8_lossy(bytes));
    let range = |range: &AddressRange| format!("{}-{}", range.first, range.last);
    match matcher {
        Matcher::Is => "is".to_owned(),
        Matcher::Text { how, with, nocase } => how_text(*how, *nocase) + &text(with),
        Matcher::Number { how, with } => format!("{}{with}", how_text(*how, false)),
        Matcher::Regex(regex) => format!("/{regex}/"),
        Matcher::TextSet { how, with, nocase } => {
            let members: Vec<String> = with.iter().map(|member| text(member)).collect();
            format!("{}({})", how_text(*how, *nocase), members.join(","))
        }
        Matcher::NumberSet(with) => format!("{with:?}"),
        Matcher::Ranges(ranges) => ranges.iter().map(range).collect::<Vec<_>>().join(","),
    }
}

#[test]
fn the_first_character_of_an_operand_tells_its_kind() {
    for (condition, expected) in [
        ("%{HEADER:A} =a", "='a'"),
        ("%{HEADER:A} = a", "='a'"),
        ("%{HEADER:A}=a", "='a'"),
        ("%{HEADER:A} a", "='a'"),
        ("%{HEADER:A} =\"a b\"", "='a b'"),
        ("%{HEADER:A} = \"a b\"", "='a b'"),
        ("%{HEADER:A} =\"\"", "=''"),
        ("%{HEADER:A} =", "=''"),
        ("%{HEADER:A}", "=''"),
        ("%{INBOUND:TLS}", "=''"),
        ("%{INBOUND:TLS}=\"\"", "=''"),
        ("%{HEADER:A} =\"say \\\"x\\\"\"", "='say \"x\"'"),
        ("%{HEADER:A} =a\\ b", "='a b'"),
        ("%{HEADER:A} =a\\=b", "='a=b'"),
        ("%{HEADER:A} \"=a\"", "='a'"),
        ("%{HEADER:A} <b", "<'b'"),
        ("%{HEADER:A} < b", "<'b'"),
        ("%{HEADER:A} >b", ">'b'"),
        ("%{HEADER:A} > \"b c\"", ">'b c'"),
        ("%{HEADER:A} /x/", "/x/"),
        ("%{HEADER:A} /a b=\"c\" \\{d} (e)/", "/a b=\"c\" \\{d} (e)/"),
        ("%{HEADER:A} /a\\/b/", "/a\\/b/"),
        ("%{HEADER:A} /(?i)x/", "/(?i)x/"),
        ("%{HEADER:A} //", "//"),
        ("%{HEADER:A} (a,b)", "=('a','b')"),
        ("%{HEADER:A} ( a , b )", "=('a','b')"),
        ("%{HEADER:A} (a,\"b,c\",\"\")", "=('a','b,c','')"),
        ("%{HEADER:A} (text/html)", "=('text/html')"),
        ("%{HEADER:A} =Ab [NOCASE]", "nocase ='ab'"),
        ("%{HEADER:A} =Ab [CASE]", "='Ab'"),
        ("%{HEADER:A} =a [PRE]", "pre 'a'"),
        ("%{HEADER:A} =a [SUF]", "suf 'a'"),
        ("%{HEADER:A} =a [MID]", "mid 'a'"),
        ("%{URL:PATH} =js [EXT]", "ext 'js'"),
        ("%{HEADER:A} =A [PRE,NOCASE]", "nocase pre 'a'"),
        ("%{URL:PATH} (js,CSS) [EXT,NOCASE]", "nocase ext ('js','css')"),
        ("%{STATUS} =404", "=404"),
        ("%{STATUS} 404", "=404"),
        ("%{STATUS} >399", ">399"),
        ("%{STATUS} > 399", ">399"),
        ("%{STATUS} <500", "<500"),
        ("%{STATUS} (301,302, 307)", "[301, 302, 307]"),
        ("%{STATE-INT16} =\"7\"", "=7"),
        ("%{NOW} >-5", ">-5"),
        ("%{IP:CLIENT} =10.0.0.1", "='10.0.0.1'"),
        ("%{IP:CLIENT} /^10\\./", "/^10\\./"),
        ("%{IP:CLIENT} (10.0.0.1,::1)", "=('10.0.0.1','::1')"),
        ("%{IP:CLIENT} {10.0.0.0/8}", "10.0.0.0-10.255.255.255"),
        ("%{IP:CLIENT} {10.1.2.3/8}", "10.0.0.0-10.255.255.255"),
        ("%{IP:CLIENT} {0.0.0.0/0}", "0.0.0.0-255.255.255.255"),
        ("%{IP:CLIENT} {192.0.2.7}", "192.0.2.7-192.0.2.7"),
        ("%{IP:CLIENT} {192.0.2.7/32}", "192.0.2.7-192.0.2.7"),
        ("%{IP:CLIENT} {192.0.2.1-192.0.2.9,::1}", "192.0.2.1-192.0.2.9,::1-::1"),
        ("%{IP:CLIENT} {2001:db8::/127}", "2001:db8::-2001:db8::1"),
        ("%{INBOUND:REMOTE-ADDR} {10.0.0.0/31}", "10.0.0.0-10.0.0.1"),
        ("%{TRUE}", "is"),
        ("%{STATE-FLAG:1}", "is"),
        ("%{HTTP-CNTL:LOGGING}", "is"),
        ("%{HEADER:A} =a # why", "='a'"),
        ("%{HEADER:A} =a#b", "='a#b'"),
    ] {
        let found = test_at("SEND_RESPONSE_HDR_HOOK", &format!("cond {condition}"));
        assert_eq!(show(&found.matcher), expected, "{condition}");
        // `cond` may be omitted.
        let bare = test_at("SEND_RESPONSE_HDR_HOOK", condition);
        assert_eq!(show(&bare.matcher), expected, "{condition}");
    }
}

#[test]
fn a_regex_matches_bytes_and_ignores_case_if_asked() {
    for (operand, value, expected) in [
        ("/^a.c$/", &b"a\xffc"[..], true),
        ("/^A$/", b"a", false),
        ("/^A$/ [NOCASE]", b"a", true),
        ("/^(?i)A$/", b"a", true),
        ("/\\bx\\b/", b"a x b", true),
        ("/^\\d+$/", b"123", true),
        ("/[[:digit:]]/", b"x1", true),
        ("/[]a]/", b"]", true),
        ("/a\\/b/", b"a/b", true),
        ("/\\.(?:js|css)$/", b"x.css", true),
    ] {
        let found = test_at("SEND_RESPONSE_HDR_HOOK", &format!("cond %{{HEADER:A}} {operand}"));
        let Matcher::Regex(regex) = found.matcher else {
            panic!("{operand}: no regex");
        };
        assert_eq!(regex.is_match(value), expected, "{operand}");
    }
}

#[test]
fn not_negates_one_condition() {
    let found = test_at("SEND_RESPONSE_HDR_HOOK", "cond %{STATUS} =404 [NOT]");
    assert!(found.negated);
    let read = read("test", "cond %{TRUE} [NOT,L]\nno-op", RuleScope::Route);
    assert!(read.rules.rules.iter().all(|rule| rule.last), "{:?}", read.rules);
}

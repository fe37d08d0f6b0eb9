use crate::{ast::RuleScope, read::read};

use super::{findings, shown};

#[test]
fn a_suspicious_line_is_a_warning() {
    for (lines, expected) in [
        ("cond %{HEADER:A} / no-op", &["1:8+8 without an operand, this condition holds"][..]),
        ("cond %{INBOUND:TLS} / no-op", &["1:8+11 without an operand"]),
        (
            "cond %{HEADER:A} =/a/ / no-op",
            &["1:18+4 the value is compared with this text, slashes"],
        ),
        (
            "cond %{HEADER:A} =(a,b) / no-op",
            &["1:18+6 the value is compared with this text, brackets"],
        ),
        ("cond %{IP:SERVER} ={::1} / no-op", &["1:19+6 the value is compared"]),
        (
            "cond %{HEADER:A} =%{METHOD} / no-op",
            &["1:18+10 the value is compared with this text: var"],
        ),
        ("cond %{HEADER:A} =a[NOT] / no-op", &["1:18+7 the bracket is read"]),
        ("cond %{HEADER:A} =a [OR] / no-op", &["1:22+2 [OR] joins a condition with the next"]),
        ("cond %{HEADER:A} =a", &["1:1+19 this rule has no operator"]),
        ("set-header A max-age=5", &["1:22+1 the value is read as \"max-age 5\""]),
        ("set-header A /b/c", &["1:17+1 the value is read as \"/b/ c\""]),
        ("set-header A b # why", &["1:16+1 the value is read as \"b # why\""]),
        ("set-header A \"\"", &["1:14+2 the value is empty"]),
        ("set-destination PATH \"/a\"", &["1:22+4 the path would begin with two"]),
        ("set-destination HOST \"\"", &["1:22+2 an empty value changes nothing"]),
        ("cond %{CACHE} =hit / no-op", &["1:15+4 CACHE is never \"hit\""]),
        ("cond %{IP:CLIENT} =10.0.0.0/8 / no-op", &["1:19+11 \"10.0.0.0/8\" is not an address"]),
        ("cond %{URL:SCHEME} =ftp / no-op", &["1:20+4 URL:SCHEME is never"]),
        ("cond %{URL:PATH} =/a / no-op", &["1:18+3 PATH excludes"]),
        ("cond %{METHOD} =\"\" / no-op", &["1:16+3 a method is never empty"]),
        ("cond %{NOW:HOUR} =24 / no-op", &["1:18+3 this never holds: the value is from 0 to 23"]),
        ("cond %{NOW:MONTH} >11 / no-op", &["1:19+3 this never holds: the value is from 0 to 11"]),
        ("cond %{RANDOM:10} =10 / no-op", &["1:19+3 this never holds: the value is from 0 to 9"]),
        ("cond %{STATE-INT8:0} <0 / no-op", &["1:22+2 this never holds"]),
        ("cond %{FALSE} / no-op", &["1:1+13 this condition can never hold"]),
        ("cond %{TRUE} [NOT] / no-op", &["1:1+18 this condition can never hold"]),
        ("cond %{INTERNAL-TXN} / no-op", &["1:1+20 this condition can never hold"]),
        (
            "cond %{METHOD} =A / cond %{METHOD} =B / no-op",
            &["2:1+17 this condition can never hold together"],
        ),
        (
            "cond %{NOW:HOUR} =5 / cond %{METHOD} =A / cond %{NOW:HOUR} >5 / no-op",
            &["3:1+19 this condition can never hold together"],
        ),
        ("cond %{NOW} <5 / cond %{NOW} >4 / no-op", &["2:1+14 this condition can never hold tog"]),
        ("cond %{TRUE} / no-op [L] / no-op / cond %{TRUE} / no-op", &["4:1+12 never reached"]),
        ("no-op [L] / cond %{METHOD} =A / no-op", &["2:1+17 never reached: the rule in line 1"]),
        ("cond %{TRUE} [L] / no-op / cond %{TRUE} / no-op", &["3:1+12 never reached"]),
        ("cond %{METHOD} =A [L] / no-op / cond %{TRUE} / no-op", &[]),
        (
            "cond %{POST_REMAP_HOOK} / no-op [L] / cond %{POST_REMAP_HOOK} / no-op",
            &["3:1+23 never reached: the rule in line 1 ends POST_REMAP_HOOK"],
        ),
        ("cond %{TRUE} / no-op / else / no-op", &["4:1+5 never reached: an earlier branch"]),
        ("no-op / elif / cond %{METHOD} =A / no-op", &["4:1+5 never reached: an earlier branch"]),
    ] {
        let text = lines.replace(" / ", "\n");
        let found = findings(&text, RuleScope::Route);
        assert_eq!(found.len(), expected.len(), "{lines}: {found:#?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{lines}: {found}");
        }
        let read = read("test", &text, RuleScope::Route);
        assert!(read.is_usable(), "{lines}: {}", shown(&text, &read));
    }
}

#[test]
fn an_impossible_operand_is_a_warning_with_a_possible_form() {
    each_is_one_warning(&[
        (
            "IP:CLIENT} =2001:DB8::1",
            "19+12 addresses are compared as texts, and | write 2001:db8::1,",
        ),
        ("IP:CLIENT} =2001:db8:0:0::1", "19+16 addresses are compared as | {2001:db8:0:0::1}"),
        ("IP:CLIENT} =::ffff:10.0.0.1", "19+16 addresses are compared as texts | write 10.0.0.1,"),
        ("IP:CLIENT} (::1,10.0.0.0/8)", "24+10 \"10.0.0.0/8\" is not | braces: {10.0.0.0/8}"),
        ("IP:CLIENT} =10.0.0.1-10.0.0.9", "19+18 \"10.0.0.1-10 | {10.0.0.1-10.0.0.9}"),
        ("IP:CLIENT} =example.org", "19+12 \"example.org\" is not | not looked up"),
        ("IP:CLIENT} =\"\"", "19+3 \"\" is not an address | such as"),
        ("IP:CLIENT} =10.0.0.0/8 [PRE]", "19+11 no address contains | {10.0.0.0/8}"),
        ("IP:CLIENT} =2001:DB8 [PRE]", "19+9 no address contains \"2001:DB8\" | 2001:db8"),
        ("IP:CLIENT} >10.0.0.1", "19+9 < and > compare addresses | {10.0.0.1-10.0.0.9}"),
        ("CIDR:8} =10.1.1.1", "16+9 the address is reduced to 8 bits | =10.0.0.0"),
        ("CIDR:8} =10.0.0.0/8", "16+11 the value is an address without | =10.0.0.0"),
        (
            "CIDR:8,32} (10.0.0.0,2001:db8:1::)",
            "29+12 the address is reduced to 32 bits | =2001:db8::",
        ),
        ("CIDR} =2001:DB8::", "14+11 addresses are compared as texts | 2001:db8::"),
        ("CIDR} =localhost", "14+10 \"localhost\" is not an address | 10.0.0.0"),
        (
            "URL:PATH} /^\\/(a|[)])[b|[:digit:]|\\|]\\|/",
            "18+30 PATH excludes the first | unless you",
        ),
        ("CACHE} (hit,miss)", "16+3 CACHE is never \"hit\" | hit-stale or hit-fresh"),
        ("CACHE} (mis,none)", "16+3 CACHE is never \"mis\" | miss"),
        ("CACHE} =HIT-FRESH", "15+10 CACHE is never \"HIT-FRESH\" | hit-fresh"),
        ("CACHE} =stale [PRE]", "15+6 CACHE never begins with \"stale\" | one of none, miss"),
        ("CACHE} /^hit$/", "15+7 CACHE never matches this | one of none, miss"),
        ("URL:SCHEME} =ftp", "20+4 URL:SCHEME is never | one of http, https"),
        ("URL:SCHEME} =ftp [NOT]", "20+4 URL:SCHEME is | one of http, https"),
        (
            "METHOD} =\"\"",
            "16+3 a method is never empty | so this never holds: remove the operators",
        ),
        (
            "METHOD} =\"\" [NOT]",
            "16+3 a method is never | so this always holds: remove the condition",
        ),
        ("INBOUND:IP-FAMILY} =v6", "27+3 INBOUND:IP-FAMILY is never | one of ipv4, ipv6"),
        ("INBOUND:IPV6} =ipv4", "22+5 INBOUND:IPV6 is never | did you mean ipv6?"),
        ("STATE-INT8:0} (300,7)", "23+3 this never holds: the value is from 0 to 255 | "),
        ("RANDOM:9} (7,8,9)", "23+1 this never holds: the value is from 0 to 8 | "),
        ("TXN-COUNT} <1", "19+2 this never holds: the value is at least 1 | "),
        ("HEADER:Content-Length} >1000", "31+5 texts are compared byte by | [0-9]{4,}"),
        ("COOKIE:n} <5", "18+2 texts are compared byte by byte | [0-9]{4,}"),
        ("HEADER:A} ('a b',c)", "19+5 single quotes are part | \"a b\""),
        ("HEADER:A} ^foo", "18+4 the value is compared with this text, special | /^foo/"),
        ("HEADER:A} =foo$", "18+5 the value is compared with this text, special | /foo$/"),
        ("HEADER:A} =a.*b", "18+5 the value is compared with this text, special | /a.*b/"),
        ("HEADER:A} =\"^a b\"", "18+7 the value is compared with this text, special | /^a b/"),
        ("HEADER:A} =%HEADER:Host", "18+13 the value is compared with this text: | of operators"),
    ]);
}

#[test]
fn an_impossible_method_or_url_part_is_a_warning_with_a_possible_form() {
    each_is_one_warning(&[
        ("URL:PATH} /^\\/x/", "18+6 PATH excludes the first | remove the first slash"),
        ("URL:PATH} (a,/b)", "21+2 PATH excludes the first | remove the first slash"),
        ("URL:PATH} =\"/a\" [PRE]", "18+5 PATH excludes the first | remove the first slash"),
        ("URL:PATH} =/a [PRE]", "18+9 the bracket is read as part | =\"/a\" [PRE]"),
        ("URL:PATH} =a[PRE]", "18+7 the bracket is read as part | put a space"),
        ("URL:PATH} =a?b", "18+4 PATH ends before the question mark | QUERY"),
        ("URL:QUERY} =?a", "19+3 QUERY excludes the | remove the question mark"),
        ("URL:QUERY} /^\\?a/", "19+6 QUERY excludes the | remove the question mark"),
        ("URL:PATH} /^\\//", "18+5 PATH excludes the first | unless you mean"),
        ("CLIENT-URL} =/a", "20+3 a whole URL begins with | PATH"),
        ("URL:SCHEME} /ftp/", "20+5 URL:SCHEME never matches this | one of http, https"),
        ("URL:SCHEME} /t$/ [NOT]", "20+4 URL:SCHEME never matches | one of http, https"),
        ("METHOD} =get", "16+4 methods are written in upper case | GET"),
        ("METHOD} (GET,head)", "21+4 methods are written in upper case | HEAD"),
        ("METHOD} =GET,HEAD", "16+9 \"GET,HEAD\" is not a method | (GET,HEAD)"),
        ("METHOD} ='GET'", "16+6 single quotes are part | \"GET\""),
        ("URL:HOST} =Example.ORG", "18+12 hosts of requests are compared in | example.org, or"),
        (
            "URL:HOST} =.Example.ORG [SUF]",
            "18+13 hosts of requests are compared in | .example.org, or",
        ),
        ("URL:HOST} =a.org:8080", "18+11 HOST does not include the port | PORT"),
        ("URL:HOST} =http://a.org/", "18+14 HOST is only the name of the host | a.org"),
        ("NEXT-HOP:HOST} =A.org", "23+6 the origin's name is written in lower | a.org"),
        ("METHOD} #why", "16+4 the value is compared with this text | put the comment"),
    ]);
}

/// Each case is a condition with its finding and hint; `no-op` follows the condition.
fn each_is_one_warning(cases: &[(&str, &str)]) {
    for (condition, finding) in cases {
        let text = format!("cond %{{{condition}\nno-op");
        let found = findings(&text, RuleScope::Route);
        assert_eq!(found.len(), 1, "{condition}: {found:#?}");
        let (begin, hint) = finding.split_once(" | ").expect("a finding and its hint");
        assert!(found[0].starts_with(&format!("1:{begin}")), "{condition}: {found:?}");
        let hinted = found[0].split_once(" | ").map(|(_, hint)| hint).unwrap_or_default();
        assert!(hinted.contains(hint), "{condition}: {found:?}");
        assert!(read("test", &text, RuleScope::Route).is_usable(), "{condition}");
    }
}

#[test]
fn a_suspicious_value_is_a_warning_with_the_likely_form() {
    for (line, finding) in [
        ("set-header A max-age=5, b", "1:22+2 the value is read as | write \"max-age=5, b\""),
        ("set-header A a==b", "1:16+1 the value is read as \"a = b\" | write \"a==b\""),
        ("set-header A /b/c", "1:17+1 the value is read as | a quote and the closing slash"),
        ("set-header A \"a\\\"\"b", "1:19+1 the value is read as | write \"a\\\"b\""),
        ("set-header A b # why", "1:16+1 the value is read as | a line of its own"),
        ("set-header A 'b'", "1:14+3 single quotes are part | double quotes: \"b\""),
        ("set-header A 'b c=d'", "1:14+7 single quotes are part | double quotes: \"b c=d\""),
        ("set-body 'b'", "1:10+3 single quotes are part | double quotes: \"b\""),
        ("set-redirect 302 'http://a/'", "1:18+11 single quotes | \"http://a/\""),
        ("add-header A DENY always", "1:19+6 the value is read as | remove `always`"),
        ("set-header A \"a ${HEADER:B}\"", "1:17+2 ${ is plain text | %{NAME}"),
        ("set-header A %HEADER:Host", "1:14+12 a variable needs braces | %{HEADER:Host}"),
        ("set-header A \"b %METHOD c\"", "1:17+7 a variable needs braces | %{METHOD}"),
        ("add-cookie a %CLIENT-URL:PATH", "1:14+16 a variable needs | %{CLIENT-URL:PATH}"),
    ] {
        let found = findings(line, RuleScope::Route);
        assert_eq!(found.len(), 1, "{line}: {found:#?}");
        let (begin, hint) = finding.split_once(" | ").expect("a finding and its hint");
        assert!(found[0].starts_with(begin), "{line}: {found:?}");
        let hinted = found[0].split_once(" | ").map(|(_, hint)| hint).unwrap_or_default();
        assert!(hinted.contains(hint), "{line}: {found:?}");
        assert!(read("test", line, RuleScope::Route).is_usable(), "{line}");
    }
    for line in [
        "set-header A \"'b'\"",
        "set-header A it's",
        "set-header A 'b'c",
        "set-header A always",
        "set-header A \"b always\"",
        "set-header A \"costs $5, $10, $1.50, US$, 5$ or $\"",
        "set-header A %20%ID5",
        "set-header A 100%",
        "set-header A %{METHOD}",
        "set-body \"function f() { return `${x} $1`; }\"",
    ] {
        assert_eq!(findings(line, RuleScope::Route), [""; 0], "{line}");
    }
}

/// The lines of each case follow a condition whose regex has two groups.
#[test]
fn a_dollar_group_of_a_regex_of_the_rule_is_a_warning() {
    const REGEX: &str = "cond %{CLIENT-URL:PATH} /^(a)\\/(b)/\n";
    for (lines, finding) in [
        ("set-header A $1", "2:1+15 $1 is plain text | %{LAST-CAPTURE:1}"),
        ("add-header A \"$5 or $2\" [L]", "2:1+27 $2 is plain text | %{LAST-CAPTURE:2}"),
        ("set-cookie A %{METHOD}$1", "2:1+24 $1 is plain text | %{LAST-CAPTURE:1}"),
        ("add-cookie A $1", "2:1+15 $1 is plain text | %{LAST-CAPTURE:1}"),
        ("set-redirect 302 http://a/$2/b", "2:1+30 $2 is plain text | %{LAST-CAPTURE:2}"),
        ("set-destination PATH \"a/$0.html\"", "2:1+32 $0 is plain text | %{LAST-CAPTURE:0}"),
        ("if\ncond %{METHOD} =A\nset-header A $2\nendif", "4:1+15 $2 is plain text | :2}"),
        ("no-op\nelse\nset-header A $1", "4:1+15 $1 is plain text | %{LAST-CAPTURE:1}"),
    ] {
        let found = findings(&format!("{REGEX}{lines}"), RuleScope::Route);
        assert_eq!(found.len(), 1, "{lines}: {found:#?}");
        let (begin, hint) = finding.split_once(" | ").expect("a finding and its hint");
        assert!(found[0].starts_with(begin) && found[0].ends_with(hint), "{lines}: {found:?}");
        // A rule without a regex has no groups.
        let other = format!("cond %{{CLIENT-URL:PATH}} =a\n{lines}");
        assert_eq!(findings(&other, RuleScope::Route), [""; 0], "{other}");
    }
    for line in [
        "set-header A \"costs $5\"",
        "set-header A \"$3\"",
        "set-header A \"$10, $1.50, $1,50, US$, 2$ or $\"",
        "set-body \"$1\"",
    ] {
        assert_eq!(findings(&format!("{REGEX}{line}"), RuleScope::Route), [""; 0], "{line}");
    }
    let nested = "if\ncond %{HEADER:B} =b [OR]\ncond %{GROUP} [NOT]\ncond %{HEADER:A} /(a)/\n\
                  cond %{GROUP:END}\nset-header A $1\nendif";
    let found = findings(nested, RuleScope::Route);
    assert!(found.len() == 1 && found[0].starts_with("6:1+15 $1 is plain text"), "{found:?}");
}

/// `[L]` ends only the named hook, not the other hooks at the same point of the flow.
#[test]
fn a_rule_ends_only_the_hook_of_its_name() {
    let names = ["TXN_START_HOOK", "READ_REQUEST_HDR_HOOK", "READ_REQUEST_PRE_REMAP_HOOK"];
    for first in names {
        for second in names {
            let text = format!("cond %{{{first}}}\nno-op [L]\ncond %{{{second}}}\nno-op");
            let found = findings(&text, RuleScope::Server);
            let ends = format!("ends {first} | ");
            let is_right = match first == second {
                true => found.len() == 1 && found[0].contains(&ends),
                false => found.is_empty(),
            };
            assert!(is_right, "{text}: {found:?}");
        }
    }
}

#[test]
fn conditions_of_a_rule_with_a_wrong_operator_are_checked() {
    let conditions = "cond %{METHOD} =GET\ncond %{METHOD} =HEAD\n";
    let found = findings(&format!("{conditions}set-haeder A b"), RuleScope::Route);
    let wanted = ["2:1+20 this condition can never hold together", "3:1+10 there is no operator"];
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found.iter().zip(wanted).all(|(one, begin)| one.starts_with(begin)), "{found:#?}");
    assert!(found[0].ends_with("or use a set: (GET,HEAD)"), "{found:#?}");
    // If one of the conditions could not be read, nothing is concluded from the others.
    let found = findings("cond %{METHOD} =A [OR]\ncond %{MEHTOD} =B\nno-op", RuleScope::Route);
    assert!(found.len() == 1 && found[0].starts_with("2:8+6 there is no condition"), "{found:#?}");
}

#[test]
fn a_possible_operand_gives_no_warning() {
    for condition in [
        "IP:CLIENT} =2001:db8::1",
        "IP:CLIENT} =2001:DB8::1 [NOCASE]",
        "IP:CLIENT} =10. [PRE]",
        "IP:CLIENT} =:DB8: [MID,NOCASE]",
        "IP:CLIENT} (10.0.0.1,::1)",
        "IP:CLIENT} /^10\\./",
        "IP:CLIENT} {::ffff:10.0.0.1,2001:DB8::/32}",
        "IP:OUTBOUND} (\"\",10.0.0.1)",
        "CIDR:8} =10.0.0.0",
        "CIDR:,32} (2001:db8::,10.0.1.0)",
        "CIDR:8} =10. [PRE]",
        "URL:PATH} /^\\/?x/",
        "URL:PATH} /\\/x/",
        "URL:PATH} /^\\/|^old/",
        "URL:PATH} /^\\/[^]|]\\(|old/",
        "URL:QUERY} /^\\?|^a/",
        "URL} /^https:|^http:/",
        "URL:PATH} =\"/x/\" [MID]",
        "URL:PATH} =\"\"",
        "URL:QUERY} =a?b",
        "URL} =http://a/",
        "URL} =http [PRE]",
        "URL} =\"/a\" [MID]",
        "URL} /^https?:/",
        "CACHE} =hit [PRE]",
        "CACHE} (hit-fresh,HIT-STALE) [NOCASE]",
        "CACHE} /^hit-/",
        "CACHE} =-fresh [SUF]",
        "INBOUND:TLS} =tls/1.3",
        "INBOUND:IPV6} =\"\"",
        "INBOUND:STACK} =tcp [MID]",
        "METHOD} =get [NOCASE]",
        "METHOD} =M-SEARCH",
        "URL:HOST} =Example.ORG [NOCASE]",
        "URL:HOST} ([::1],a.org)",
        "URL:HOST} =www. [PRE]",
        "NEXT-HOP:HOST} (a.org,::1,2001:db8::1)",
        "TXN-COUNT} =1",
        "STATE-INT8:0} (0,255)",
        "HEADER:A} >m",
        "HEADER:A} >nan",
        "HEADER:A} <2026-01-01",
        "HEADER:A} =it's",
        "HEADER:A} =\"*/*\"",
        "HEADER:A} =\"5$\"",
        "HEADER:A} =100%",
        "HEADER:A} =%20ID",
    ] {
        let text = format!("cond %{{{condition}\nno-op");
        assert_eq!(findings(&text, RuleScope::Route), [""; 0], "{condition}");
    }
}

#[test]
fn a_sensible_rule_gives_no_warning() {
    for lines in [
        "cond %{METHOD} =A [OR] / cond %{METHOD} =B / no-op",
        "cond %{METHOD} =A / cond %{METHOD} =A / no-op",
        "cond %{METHOD} =A [NOT] / cond %{METHOD} =B / no-op",
        "cond %{METHOD} =A / cond %{METHOD} =a [NOCASE] / no-op",
        "cond %{NOW} <5 / cond %{NOW} >3 / no-op",
        "cond %{RANDOM:9} =1 / cond %{RANDOM:9} =2 / no-op",
        "cond %{HEADER:A} /(.)/ / cond %{LAST-CAPTURE:1} =a / cond %{HEADER:B} /(.)/ \
         / cond %{LAST-CAPTURE:1} =b / no-op",
        "cond %{FALSE} [OR] / cond %{METHOD} =A / no-op",
        "cond %{METHOD} =A / no-op [L] / cond %{METHOD} =B / no-op",
        "no-op [L] / cond %{SEND_RESPONSE_HDR_HOOK} / no-op",
        "no-op [L] / cond %{POST_REMAP_HOOK} / no-op",
        "cond %{METHOD} =A / no-op [L] / else / no-op / cond %{TRUE} / no-op",
        "cond %{IP:SERVER} =\"\" / no-op",
        "cond %{HEADER:A} =\"\" / no-op",
        "cond %{CACHE} =MISS [NOCASE] / no-op",
        "set-header A \"b # c\"",
        "set-header A \"max-age=5, public\"",
    ] {
        let found = findings(&lines.replace(" / ", "\n"), RuleScope::Route);
        assert_eq!(found, [""; 0], "{lines}");
    }
}

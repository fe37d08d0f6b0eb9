use forebay_http::edit::{EditError, FieldName};

use crate::{
    ast::RuleScope,
    filter::{Filter, FilterMessage, Filters},
    limits::FILE_BYTES_MAX,
    read::{read, read_bytes, read_with},
};

use super::{findings, shown};

/// Checks the only finding of each line. Each line stands below the line of the hook, which is line
/// 1.
fn check(cases: &[(&str, &str, &str, &str)], hook: &str) {
    for (line, place, message, hint) in cases {
        let rest = if line.starts_with("cond") { "\nno-op" } else { "" };
        let text = format!("cond %{{{hook}}}\n{line}{rest}");
        let scope =
            if hook.starts_with("READ_REQUEST") { RuleScope::Server } else { RuleScope::Route };
        let found = findings(&text, scope);
        assert_eq!(found.len(), 1, "{line}: {found:#?}");
        let (at, rest) = found[0].split_once(' ').unwrap_or_default();
        assert_eq!(at, format!("2:{place}"), "{line}: {found:?}");
        let (said, hinted) = rest.split_once(" | ").unwrap_or_default();
        assert!(said.contains(message), "{line}: {found:?}");
        assert!(hinted.contains(hint), "{line}: {found:?}");
        assert!(!read("test", &text, scope).is_usable(), "{line}: not an error: {found:?}");
    }
}

#[test]
fn wrong_conditions_are_refused_with_span_and_hint() {
    check(
        &[
            ("cond %{FOOBAR} =a", "8+6", "there is no condition FOOBAR", "docs/rules.md"),
            ("cond %{HEADR:X} =a", "8+7", "no condition HEADR", "%{HEADER:X}?"),
            ("cond %{CLIENT_HEADER:X} =a", "8+15", "CLIENT_HEADER", "%{CLIENT-HEADER:X}?"),
            ("cond %{status} =200", "8+6", "no condition status", "%{STATUS}?"),
            ("cond %{SEND_RESPONSE_HDR}", "8+17", "SEND_RESPONSE_HDR", "SEND_RESPONSE_HDR_HOOK}?"),
            ("cond %{SEND_RESPONSE}", "8+13", "SEND_RESPONSE", "%{SEND_RESPONSE_HDR_HOOK}?"),
            ("cond %{READ_REQUEST_HDR}", "8+16", "READ_REQ", "%{READ_REQUEST_HDR_HOOK}?"),
            ("cond %{POST_REMAP}", "8+10", "POST_REMAP", "%{POST_REMAP_HOOK}?"),
            ("cond %{REMAP}", "8+5", "REMAP", "%{REMAP_PSEUDO_HOOK}?"),
            ("cond %HEADER:X =a", "6+9", "is written %{NAME}", "cond %{HEADER:X}"),
            ("cond %{} =a", "6+3", "there is no condition", ""),
            ("cond %{HEADER} =a", "8+6", "needs a qualifier", "%{HEADER:X-Name}"),
            ("cond %{HEADER:} =a", "8+7", "needs a qualifier", "%{HEADER:X-Name}"),
            ("cond %{HEADER:@X} =a", "15+2", "@X", "set-state-flag"),
            ("cond %{HEADER:X:} =a", "15+2", "X: is not a valid", "without the colon: X"),
            ("cond %{COOKIE:a;b} =a", "15+3", "valid cookie name", ""),
            ("cond %{STATUS:X} =200", "15+1", "takes no qualifier", ""),
            ("cond %{NOW:YAER} =2026", "12+4", "unknown qualifier YAER", "did you mean YEAR?"),
            ("cond %{IP:CLEINT} =::1", "11+6", "unknown qualifier", "did you mean CLIENT?"),
            ("cond %{INBOUND:X} =a", "16+1", "unknown qualifier X", "one of LOCAL-ADDR"),
            ("cond %{CLIENT-URL:PAHT} =a", "19+4", "unknown qualifier", "did you mean PATH?"),
            ("cond %{CLIENT-URL:MATRIX} =a", "19+6", "MATRIX", "PATH"),
            ("cond %{RANDOM:0} =1", "15+1", "must be from 1 to 4294967295", ""),
            ("cond %{RANDOM} =1", "8+6", "needs a qualifier", "%{RANDOM:100}"),
            ("cond %{CIDR:33} =a", "13+2", "IPv4 address must be from 0 to 32", ""),
            ("cond %{CIDR:24,129} =a", "16+3", "IPv6 address must be from 0 to 128", ""),
            ("cond %{LAST-CAPTURE:10} =a", "21+2", "must be from 0 to 9", ""),
            ("cond %{STATE-FLAG:16}", "19+2", "must be from 0 to 15", ""),
            ("cond %{STATE-INT8:4} =1", "19+1", "must be from 0 to 3", ""),
            (
                "cond %{SESSION-INT16:1} =1",
                "22+1",
                "only one INT16, so its number must be 0, not 1",
                "",
            ),
            ("cond %{ACCESS:/tmp/x}", "8+13", "files are not read", "forebay reload"),
            ("cond %{DBM:f,k} =a", "8+7", "DBM files", "a set"),
            ("cond %{SERVER-HEADER:A} =a", "8+15", "is not kept", "STATE-FLAG"),
            ("cond %{SSN-TXN-COUNT} =1", "8+13", "not counted", "TXN-COUNT"),
            ("cond %{GEO:COUNTRY} =US", "8+11", "databases", "%{IP:CLIENT}"),
            ("cond %{TCP-INFO} =a", "8+8", "TCP connections", "access log"),
            ("cond %{NEXT-HOP:STRATEGY} =a", "8+17", "no strategies", "NEXT-HOP:HOST"),
            ("cond %{INBOUND:CLIENT-CERT:PEM} =a", "8+23", "not available", "FINGERPRINT"),
            ("cond %{INBOUND:CLIENT-CERT:SUBJET} =a", "16+18", "unknown qualifier", "SUBJECT"),
            ("cond %{INBOUND:SERVER-CERT:ISSUER} =a", "8+26", "server's certificate", "host"),
            ("cond %{HTTP-CNTL:SKIP_REMAP}", "18+10", "never passed on", "[[site]]"),
            ("cond %{HTTP-CNTL:TXN_DEBUG}", "18+9", "cannot trace", "forebay trace"),
            ("cond %{GROUP:ENDE}", "14+4", "ends with %{GROUP:END}", ""),
            ("cond STATUS =200", "6+6", "is written %{NAME}", "cond %{STATUS}"),
            ("cond %${STATUS} =200", "8+1", "middle of a word", "quotes"),
            ("cond %{HEADER:A =a", "6+10", "is written %{NAME}", "`}` is missing"),
            ("cond %{HEADER:A}x =a", "6+12", "is written %{NAME}", "space after"),
            ("cond", "1+4", "has no name", "cond %{NAME}"),
        ],
        "SEND_RESPONSE_HDR_HOOK",
    );
}

#[test]
fn wrong_operands_are_refused_with_span_and_hint() {
    check(
        &[
            ("cond %{STATUS} /4../", "16+5", "cannot be compared", "=5, <5"),
            ("cond %{STATUS} {10.0.0.0/8}", "16+12", "cannot be compared", "(1,2,3)"),
            ("cond %{STATUS} =abc", "17+3", "expected a number, found abc", ""),
            ("cond %{STATUS} =", "16+1", "expected a number, found nothing", ""),
            ("cond %{STATUS}", "8+6", "is a number", "=5"),
            ("cond %{STATUS} (200,abc)", "21+3", "expected a number, found abc", ""),
            ("cond %{STATUS} =99999999999999999999", "17+20", "too large", ""),
            ("cond %{STATUS} >=400", "16+2", "two characters", "`<` with the flag [NOT]"),
            ("cond %{STATUS} <=400", "16+2", "two characters", "`>` with the flag [NOT]"),
            ("cond %{STATUS} ==400", "16+2", "two characters", "single `=`"),
            ("cond %{HEADER:A} !=b", "20+1", "more than one", "[NOT]"),
            ("cond %{HEADER:A} =b c", "21+1", "more than one operand", "quotes"),
            ("cond %{HEADER:A} =b OR", "21+2", "more than one operand", "[OR]"),
            ("cond %{HEADER:A} # why", "20+3", "more than one operand", "put the comment"),
            ("cond %{HEADER:A} /a/i", "21+1", "more than one operand", "/a/ [NOCASE]"),
            ("cond %{HEADER:A} /a/si", "21+2", "more than one operand", "pattern: /(?si)a/"),
            ("cond %{HEADER:A} ~ /a/", "20+3", "more than one operand", "in slashes"),
            ("cond %{HEADER:A} =~ /a/", "21+3", "more than one operand", "in slashes"),
            ("cond %{HEADER:A} !~ /a/", "21+3", "more than one operand", "[NOT]"),
            ("cond %{CIDR:8} {10.0.0.0/8}", "16+12", "cannot be compared", "%{IP:CLIENT}"),
            ("cond %{HEADER:A} /a/b/", "21+2", "more than one operand", "\\/"),
            ("cond %{HEADER:A} /a", "18+2", "does not end with `/`", ""),
            ("cond %{HEADER:A} ()", "18+2", "set is empty", ""),
            ("cond %{HEADER:A} (a,,b)", "18+6", "empty member", "remove the comma"),
            ("cond %{HEADER:A} (a,b", "18+1", "no `)`", ""),
            ("cond %{HEADER:A} (\"a,b)", "18+6", "a quote in this set", ""),
            ("cond %{HEADER:A} {10.0.0.0/8}", "18+12", "cannot be compared", "=text"),
            ("cond %{TRUE} =a", "14+2", "cannot be compared", "no operand"),
            ("cond %{STATE-FLAG:1} =TRUE", "22+5", "cannot be compared", "[NOT]"),
            ("cond %{IP:CLIENT} {10.0.0.0/33}", "20+11", "0 to 32 bits", ""),
            ("cond %{IP:CLIENT} {::/129}", "20+6", "0 to 128 bits", ""),
            ("cond %{IP:CLIENT} {10.0.0.0/+8}", "20+11", "bits, not +8", ""),
            ("cond %{IP:CLIENT} {10.0.0}", "20+6", "expected an address", "names are not"),
            ("cond %{IP:CLIENT} {a.org}", "20+5", "expected an address", ""),
            ("cond %{IP:CLIENT} {}", "19+2", "expected an address, found nothing", ""),
            ("cond %{IP:CLIENT} {10.0.0.9-10.0.0.1}", "20+17", "ends before it begins", ""),
            ("cond %{IP:CLIENT} {10.0.0.9-::1}", "20+12", "cannot mix", ""),
            ("cond %{HEADER:A} =a [NOR]", "22+3", "no flag [NOR]", "did you mean"),
            ("cond %{HEADER:A} =a [NOT,]", "21+1", "a flag is empty", ""),
            ("cond %{HEADER:A} =a [NOT,NOT]", "26+3", "twice", ""),
            ("cond %{HEADER:A} =a [AND,OR]", "26+2", "contradict", ""),
            ("cond %{HEADER:A} =a [PRE,SUF]", "26+3", "only one of PRE", ""),
            ("cond %{HEADER:A} =a [NOT", "21+4", "closing bracket", ""),
            ("cond %{HEADER:A} =a [NOT, OR]", "21+5", "would be ignored", "without spaces"),
            ("cond %{HEADER:A} =a [NOT] # b", "21+5", "would be ignored", "last on the line"),
            ("cond %{HEADER:A} /a/ [PRE]", "23+3", "no meaning", "^"),
            ("cond %{HEADER:A} <a [NOCASE]", "22+6", "no meaning", "bytes"),
            ("cond %{STATUS} =200 [NOCASE]", "22+6", "no meaning", "texts"),
            ("cond %{HEADER:A} [NOCASE]", "19+6", "needs an operand", ""),
            ("cond %{HEADER:A} =a\"b", "20+1", "middle of a word", "whole word"),
            ("cond %{HEADER:A} =\"b", "19+1", "has no end", ""),
        ],
        "SEND_RESPONSE_HDR_HOOK",
    );
}

#[test]
fn a_request_to_the_origin_keeps_its_loop_detection() {
    check(&[("rm-header Via", "11+3", "loop back", "add-header")], "SEND_REQUEST_HDR_HOOK");
    check(&[("set-header via x", "12+3", "loop back", "add-header")], "SEND_REQUEST_HDR_HOOK");
}

#[test]
fn a_surplus_word_gets_a_fitting_hint() {
    check(
        &[
            ("set-status 410 # why", "16+1", "too many", "put the comment on a line"),
            ("set-status 410 [L] # why", "16+3", "too many", "last word"),
            ("set-status 410 \"Not there\"", "16+11", "too many", "set-status-reason"),
            ("rm-header X # why", "13+1", "too many", "put the comment on a line"),
            ("no-op # why", "7+1", "takes no argument", "put the comment on a line"),
            ("set-body 'not found'", "15+6", "too many", "quotes"),
        ],
        "REMAP_PSEUDO_HOOK",
    );
}

#[test]
fn wrong_operators_are_refused_with_span_and_hint() {
    check(
        &[
            ("foo-bar X", "1+7", "there is no operator foo-bar", "docs/rules.md"),
            ("set-haeder X a", "1+10", "no operator set-haeder", "did you mean set-header?"),
            ("set-header", "1+10", "needs the name of a field", ""),
            ("set-header X", "1+10", "needs a value", ""),
            ("set-header X: a", "12+2", "not a valid", "without the colon: X"),
            ("set-header @X a", "12+2", "@X", "set-state-flag"),
            ("set-header \"a b\" a", "12+5", "not a valid", ""),
            ("rm-header X Y", "13+1", "too many", ""),
            ("set-header Content-Length 1", "12+14", "where a message ends", ""),
            ("add-header transfer-encoding a", "12+17", "where a message ends", ""),
            ("rm-header Trailer", "11+7", "fields after the body", "leave the field out"),
            ("set-header Connection close", "12+10", "one connection", "idle_ms_max"),
            ("rm-header Keep-Alive", "11+10", "one connection", ""),
            ("rm-header Upgrade", "11+7", "one connection", ""),
            ("rm-header TE", "11+2", "one connection", ""),
            ("rm-header Proxy-Connection", "11+16", "one connection", ""),
            ("set-header Host a", "12+4", "names the site", "set-destination HOST"),
            ("set-header X %{FOO}", "16+3", "there is no condition FOO", ""),
            ("set-header X \"a %{FOO\"", "17+2", "this `%{` has no `}`", ""),
            ("set-header X \"%<chi> a\"", "15+6", "no longer", "%{IP:CLIENT}"),
            ("set-header X a(b)", "15+1", "middle of a word", "quotes"),
            ("set-header X a{b}", "15+1", "middle of a word", "quotes"),
            ("set-header X \"a", "14+1", "has no end", ""),
            ("set-header X %{GROUP}", "16+5", "is not a value", ""),
            ("set-header X a [QSA]", "17+3", "[QSA] has no meaning", "set-redirect"),
            ("set-header X a [I]", "17+1", "[I] has no meaning", "rm-destination"),
            ("set-header X a [X]", "17+1", "no flag [X]", "one of L, QSA, I"),
            ("set-header X a [L", "16+2", "closing bracket", ""),
            ("[L]", "1+3", "flags need", ""),
            ("set-status", "1+10", "needs a status", ""),
            ("set-status abc", "12+3", "expected a number", ""),
            ("set-status 600", "12+3", "200 to 599", ""),
            ("set-status 100", "12+3", "interim", ""),
            ("set-status 99", "12+2", "200 to 599", ""),
            ("set-status 206", "12+3", "only a part", ""),
            ("set-status 204", "12+3", "allows no body", "REMAP_PSEUDO_HOOK"),
            ("set-status-reason Not Found", "23+5", "too many", "quotes"),
            ("set-body not found", "14+5", "too many", "quotes"),
            ("set-redirect 200 http://a/", "14+3", "300 to 399", ""),
            ("set-redirect 304 http://a/", "14+3", "304 is not a redirect", "301"),
            ("set-redirect 301", "1+12", "needs a URL", "set-redirect 302"),
            ("set-redirect 301 \"http://a/ b\"", "18+13", "a space", "%20"),
            ("set-redirect 301 \"\"", "18+2", "the URL is empty", ""),
            ("counter", "1+7", "needs a name", ""),
            ("counter a/b", "9+3", "not a valid name", "letters"),
            ("no-op x", "7+1", "takes no argument", ""),
            ("set-conn-dscp 64", "15+2", "0 to 63", ""),
            ("set-http-cntl FOO on", "15+3", "unknown qualifier FOO", "one of LOGGING"),
            ("set-http-cntl INTERCEPT_RETRY on", "15+15", "no intercepting plugins", ""),
            ("set-http-cntl RESP_CACHEABLE on", "30+2", "cannot allow storing", "READ_RESPONSE"),
            ("set-http-cntl REQ_CACHEABLE on", "29+2", "cannot serve", "rm-header"),
            ("set-http-cntl REQ_CACHEABLE off", "1+13", "too late", "HDR_HOOK or REMAP_PSEUDO"),
            ("set-http-cntl SERVER_NO_STORE on", "1+13", "too late", "or READ_RESPONSE_HDR_HOOK"),
            ("set-http-cntl LOGGING maybe", "23+5", "on or off", ""),
            ("set-http-cntl LOGGING", "1+13", "needs on or off", ""),
            ("set-state-flag 16 on", "16+2", "must be from 0 to 15", ""),
            ("set-state-int8 4 1", "16+1", "must be from 0 to 3", ""),
            ("set-state-int8 0 256", "18+3", "must be from 0 to 255", ""),
            ("set-session-int16 65536", "19+5", "must be from 0 to 65535", ""),
            ("set-session-int16 1 5", "19+1", "only one INT16, so its number must be 0, not 1", ""),
            ("set-plugin-cntl TIMEZONE LOCAL", "26+5", "in GMT", "TIMEZONE GMT"),
            ("set-plugin-cntl INBOUND_IP_SOURCE PROXY", "35+5", "trusted_proxies", "PEER"),
            ("set-plugin-cntl FOO x", "17+3", "no plugin control FOO", "TIMEZONE GMT"),
        ],
        "SEND_RESPONSE_HDR_HOOK",
    );
}

#[test]
fn each_control_is_refused_with_the_hooks_that_can_set_it() {
    let late = "too late to set this control";
    check(
        &[
            ("set-http-cntl LOGGING off", "1+13", "not available", "or SEND_RESPONSE_HDR_HOOK"),
            ("set-http-cntl REQ_CACHEABLE off", "1+13", late, "HDR_HOOK or REMAP_PSEUDO_HOOK"),
            ("set-http-cntl RESP_CACHEABLE off", "1+13", "not av", "or READ_RESPONSE_HDR_HOOK"),
            ("set-http-cntl SERVER_NO_STORE on", "1+13", "not av", "or READ_RESPONSE_HDR_HOOK"),
        ],
        "SEND_REQUEST_HDR_HOOK",
    );
}

#[test]
fn unsupported_words_are_refused_with_an_alternative() {
    check(
        &[
            ("set-body-from http://a/", "1+13", "second request", "set-body"),
            ("run-plugin x.so a", "12+4", "no filter x.so", "docs/filters.md"),
            ("run-plugin x a", "12+1", "no filter x", "docs/filters.md"),
            ("run-plugin", "1+10", "needs the name of a filter", ""),
            ("set-cc-alg cubic", "1+10", "congestion", "sysctl"),
            ("set-conn-mark 1", "1+13", "marking sockets", "set-conn-dscp"),
            ("set-next-hop-strategy a", "1+21", "no strategies", "[[site.route]]"),
            ("set-effective-address %{IP:CLIENT}", "1+21", "trusted_proxies", "X-Forwarded-For"),
            ("set-debug", "1+9", "cannot trace", "forebay trace"),
            ("skip-remap 1", "1+10", "never passed on", "[[site]]"),
            ("timeout-out connect 5", "1+11", "settings", "origin_connect_ms_max"),
            ("set-timeout-out connect 5", "1+15", "settings", "origin_connect_ms_max"),
            ("set-config proxy.config.http.cache.http 0", "1+10", "set-config", "cache = false"),
            ("set-config proxy.config.x 0", "1+10", "set-config", "docs/settings.md"),
            ("set-config", "1+10", "set-config", "docs/settings.md"),
        ],
        "REMAP_PSEUDO_HOOK",
    );
}

#[test]
fn wrong_destinations_are_refused_with_span_and_hint() {
    check(
        &[
            ("set-destination HSOT a", "17+4", "unknown qualifier", "did you mean HOST?"),
            ("set-destination HOST", "1+15", "needs a value", ""),
            (
                "set-destination HOST a/b",
                "22+3",
                "a host name",
                "HOST is only the name of the host",
            ),
            ("set-destination HOST a:80", "22+4", "not include a port", "set-destination PORT"),
            ("set-destination PORT 0", "22+1", "1 to 65535", ""),
            ("set-destination PORT http", "22+4", "expected a number", ""),
            ("set-destination PATH \"a b\"", "22+5", "a space or #", "%20"),
            ("set-destination PATH \"a?b\"", "22+5", "contain a ?", "set-destination QUERY"),
            ("set-destination SCHEME https", "24+5", "http is the only", "`origin`"),
            ("set-destination URL https://a/", "21+10", "begins with http://", "`origin`"),
            ("set-destination QUERY:a b", "17+7", "a single parameter", "rm-destination QUERY"),
            ("rm-destination HOST", "16+4", "cannot be removed", "PATH, PORT and QUERY"),
            ("rm-destination QUERY a,,b", "22+4", "name is empty", "a,b"),
            ("rm-destination QUERY a b", "24+1", "too many", ""),
            ("rm-destination QUERY [I]", "23+1", "[I] has no meaning", ""),
            ("set-cookie a \"b; Path=/\"", "14+11", "another cookie", "one cookie"),
            ("set-cookie a", "1+10", "needs a value", ""),
            ("rm-cookie \"a b\"", "11+5", "valid cookie name", ""),
        ],
        "REMAP_PSEUDO_HOOK",
    );
}

#[test]
fn broken_structure_is_reported_where_it_begins() {
    const A: &str = "cond %{HEADER:A} =a";
    for (lines, expected) in [
        ("else / no-op".to_owned(), "1:1+4 `else` has no rule before it"),
        ("elif / no-op".to_owned(), "1:1+4 `elif` has no rule before it"),
        (format!("{A} / no-op / else / {A} / no-op"), "4:1+19 `else` cannot have conditions"),
        (format!("{A} / no-op / else / no-op / else / no-op"), "5:1+4 a branch after `else`"),
        (format!("{A} / no-op / elif / no-op"), "3:1+4 `elif` has no conditions"),
        (format!("{A} / no-op / else x / no-op"), "3:6+1 nothing may follow `else`"),
        (format!("if / {A} / no-op"), "1:1+2 this `if` has no `endif`"),
        (format!("{A} / no-op / endif"), "3:1+5 `endif` without `if`"),
        (
            format!("if / {A} / no-op / {A} / no-op / endif"),
            "4:1+19 a condition cannot follow an operator",
        ),
        ("if / cond %{SEND_RESPONSE_HDR_HOOK} / no-op / endif".to_owned(), "2:8+22 a hook cannot"),
        (
            format!("cond %{{GROUP}} =a / {A} / cond %{{GROUP:END}} / no-op"),
            "1:15+2 a group cannot have",
        ),
        (format!("cond %{{GROUP}} / {A} / no-op"), "1:1+13 this %{GROUP} has no %{GROUP:END}"),
        (format!("{A} / cond %{{GROUP:END}} / no-op"), "2:1+17 %{GROUP:END} without %{GROUP}"),
        ("cond %{GROUP} / cond %{GROUP:END} / no-op".to_owned(), "1:1+13 this group is empty"),
        ("cond %{GROUP} =a / no-op".to_owned(), "1:1+16 this %{GROUP}"),
        (format!("cond %{{GROUP}} [PRE] / {A} / cond %{{GROUP:END}} / no-op"), "1:16+3 this flag"),
        (
            format!("cond %{{GROUP}} / {A} / cond %{{GROUP:END}} [OR] / no-op"),
            "3:20+2 %{GROUP:END} cannot have flags",
        ),
        (format!("{A} / cond %{{SEND_RESPONSE_HDR_HOOK}} / no-op"), "2:8+22 the rule in line 1"),
        (
            "cond %{SEND_RESPONSE_HDR_HOOK} =a / no-op".to_owned(),
            "1:32+2 a hook cannot have an operand",
        ),
        ("cond %{SEND_RESPONSE_HDR_HOOK} [OR] / no-op".to_owned(), "1:33+2 this flag has"),
        (format!("if / {A} [L] / no-op / endif"), "2:22+1 [L] cannot stand"),
    ] {
        let text = lines.replace(" / ", "\n");
        let found = findings(&text, RuleScope::Route);
        assert!(found.first().is_some_and(|f| f.starts_with(expected)), "{lines}: {found:#?}");
        let read = read("test", &text, RuleScope::Route);
        assert!(!read.is_usable(), "{lines}: {}", shown(&text, &read));
    }
}

#[test]
fn all_findings_of_a_file_are_reported_in_order() {
    let text = "set-haeder X a\ncond %{FOO} =a [BAR]\nset-header Host b\n\
                cond %{HEADER:A} /(/\nset-header \"a b\" %{BAZ} [Q]\n";
    let found = findings(text, RuleScope::Route);
    let places: Vec<&str> = found.iter().filter_map(|f| f.split(' ').next()).collect();
    let wanted = ["1:1+10", "2:8+3", "2:17+3", "3:12+4", "4:19+1", "5:12+5", "5:20+3", "5:26+1"];
    assert_eq!(places, wanted, "{found:#?}");
}

#[test]
fn a_file_that_is_not_utf_8_is_refused_at_its_first_bad_byte() {
    for (bytes, place, message) in [
        (&b"\xe9"[..], (1, 1), "the byte 0xe9 is not UTF-8 | in Latin-1 the byte is `\u{e9}`"),
        (b"# a\n# b\xc3\n", (2, 4), "the byte 0xc3 is not UTF-8"),
        (b"# \xc3\xa9\n# \xc3\xa9\xff\n", (2, 5), "the byte 0xff is not UTF-8 | the file looks"),
        (b"\xff\xfen\0o\0", (1, 1), "the byte 0xff is not UTF-8 | the file looks like UTF-16"),
        (b"no-op\n\xf0\x9f\x98", (2, 1), "the byte 0xf0 is not UTF-8"),
    ] {
        let (text, read) =
            read_bytes("test", bytes.to_vec(), RuleScope::Route, &Filters::default());
        assert!(!read.is_usable() && read.diagnostics.len() == 1, "{text}: {read:?}");
        let finding = &read.diagnostics[0];
        assert_eq!((finding.at.line, finding.at.column), place, "{text}");
        let said = format!("{} | {}", finding.message, finding.hint.as_deref().unwrap_or(""));
        assert!(said.starts_with(message), "{text}: {said}");
        assert!(!shown(&text, &read).is_empty());
    }
    let (text, read) = read_bytes(
        "test",
        b"set-header A \"\xc3\xa9\"".to_vec(),
        RuleScope::Route,
        &Filters::default(),
    );
    assert!(read.is_usable() && read.rules.rules.len() == 1, "{text}: {read:?}");
    // The text is cut at the size limit, which may be in the middle of a character.
    let large = "\u{e9}".repeat(FILE_BYTES_MAX).into_bytes()[..FILE_BYTES_MAX + 1].to_vec();
    let (_, read) = read_bytes("test", large, RuleScope::Route, &Filters::default());
    assert!(read.diagnostics[0].message.contains("are allowed"), "{:?}", read.diagnostics[0]);
}

#[test]
fn a_value_contains_no_control_byte() {
    for byte in (0..0x20u8).chain([0x7f]).filter(|byte| *byte != b'\n') {
        for text in ["set-header A \"b?c\"", "set-redirect 301 http://a/?b", "set-body \"b?c\""] {
            let text = text.replace('?', &char::from(byte).to_string());
            let usable = read("test", &text, RuleScope::Route).is_usable();
            // A tab separates words, so no word contains it.
            let blank = byte == b'\t' && text.starts_with("set-redirect");
            assert!(!usable, "{byte:#x} in {text:?}, blank {blank}");
        }
    }
}

#[test]
fn a_control_byte_is_refused_except_in_a_comment() {
    for (line, place) in [
        ("cond %{HEADER:A} =\"a\u{b}b\"", "1:21+1"),
        ("cond %{HEADER:A} /a\0b/", "1:20+1"),
        ("cond\u{c}%{HEADER:A} =a", "1:5+1"),
        ("cond %{HEADER:A\u{7f}} =a", "1:16+1"),
        ("counter a\rb", "1:10+1"),
        ("set-header A b\r\r", "1:15+1"),
    ] {
        let found = findings(&format!("{line}\nno-op"), RuleScope::Route);
        let message = format!("{place} the line contains a control byte, 0x");
        assert!(found.len() == 1 && found[0].starts_with(&message), "{line:?}: {found:?}");
    }
    assert_eq!(findings("# a\u{c}b\nno-op\t\r\n\t", RuleScope::Route), [""; 0]);
}

/// A filter that claims to change the field of its first argument.
struct Changes([FieldName; 1]);

impl Filter for Changes {
    fn changes(&self) -> &[FieldName] {
        &self.0
    }

    fn run(&self, _: &mut FilterMessage<'_, '_>) -> Result<(), EditError> {
        Ok(())
    }
}

#[test]
fn a_filter_cannot_change_a_field_that_rules_cannot() {
    let filters = Filters::default().with("changes", |arguments| {
        let name = arguments.first().and_then(|name| FieldName::parse(name.as_bytes()));
        name.map(|name| Changes([name])).ok_or_else(|| "a field, please".to_owned())
    });
    for (hook, arguments, expected) in [
        ("SEND_REQUEST_HDR_HOOK", " X-A", None),
        ("SEND_RESPONSE_HDR_HOOK", " via", None),
        ("SEND_REQUEST_HDR_HOOK", " via", Some("the filter changes changes via, which detects")),
        ("REMAP_PSEUDO_HOOK", " Content-Length", Some("changes Content-Length, which says where")),
        ("REMAP_PSEUDO_HOOK", " host", Some("changes host, which names the site")),
        (
            "REMAP_PSEUDO_HOOK",
            "",
            Some("the filter changes refuses its arguments: a field, please"),
        ),
    ] {
        let text = format!("cond %{{{hook}}}\nrun-plugin changes{arguments}");
        let read = read_with("test", &text, RuleScope::Route, &filters);
        let message = read.diagnostics.first().map(|found| found.message.as_str());
        let is_expected = match (message, expected) {
            (Some(message), Some(part)) => message.contains(part),
            (message, part) => message.is_none() && part.is_none(),
        };
        assert!(is_expected, "{text}: {message:?}");
    }
}

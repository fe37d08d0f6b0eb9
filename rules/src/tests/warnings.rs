use crate::{ast::Scope, read::read};

use super::{findings, shown};

#[test]
fn what_is_hardly_meant_is_a_warning() {
    for (lines, expected) in [
        ("cond %{HEADER:A} / no-op", &["1:8+8 without an operand this holds if %{HEADER:A}"][..]),
        ("cond %{INBOUND:TLS} / no-op", &["1:8+11 without an operand"]),
        ("cond %{HEADER:A} =/a/ / no-op", &["1:18+4 compared with this text, slashes"]),
        ("cond %{HEADER:A} =(a,b) / no-op", &["1:18+6 compared with this text, brackets"]),
        ("cond %{IP:SERVER} ={::1} / no-op", &["1:19+6 compared", "1:19+6 \"{::1}\" is no addr"]),
        ("cond %{HEADER:A} =%{METHOD} / no-op", &["1:18+10 compared with this text: nothing"]),
        ("cond %{HEADER:A} =a[NOT] / no-op", &["1:18+7 the bracket belongs"]),
        ("cond %{HEADER:A} =a [OR] / no-op", &["1:22+2 [OR] joins with the next"]),
        ("cond %{HEADER:A} =a", &["1:1+19 this rule has no operator"]),
        ("set-header A max-age=5", &["1:22+1 the value becomes \"max-age 5\""]),
        ("set-header A /b/c", &["1:17+1 the value becomes \"/b/ c\""]),
        ("set-header A b # why", &["1:16+1 the value becomes \"b # why\""]),
        ("set-header A \"\"", &["1:14+2 an empty value"]),
        ("set-destination PATH \"/a\"", &["1:22+4 the path would begin with two"]),
        ("set-destination HOST \"\"", &["1:22+2 an empty value changes nothing"]),
        ("cond %{CACHE} =hit / no-op", &["1:15+4 CACHE is never \"hit\""]),
        ("cond %{IP:CLIENT} =10.0.0.0/8 / no-op", &["1:19+11 \"10.0.0.0/8\" is no address"]),
        ("cond %{URL:SCHEME} =https / no-op", &["1:20+6 the scheme is http"]),
        ("cond %{URL:PATH} =/a / no-op", &["1:18+3 PATH has no slash"]),
        ("cond %{METHOD} =\"\" / no-op", &["1:16+3 a method is never empty"]),
        ("cond %{NOW:HOUR} =24 / no-op", &["1:18+3 never so: the value is 0 to 23"]),
        ("cond %{NOW:MONTH} >11 / no-op", &["1:19+3 never so: the value is 0 to 11"]),
        ("cond %{RANDOM:10} =10 / no-op", &["1:19+3 never so: the value is 0 to 9"]),
        ("cond %{STATE-INT8:0} <0 / no-op", &["1:22+2 never so"]),
        ("cond %{FALSE} / no-op", &["1:1+13 this condition can never hold"]),
        ("cond %{TRUE} [NOT] / no-op", &["1:1+18 this condition can never hold"]),
        ("cond %{INTERNAL-TXN} / no-op", &["1:1+20 this condition can never hold"]),
        ("cond %{METHOD} =A / cond %{METHOD} =B / no-op", &["2:1+17 never so together"]),
        (
            "cond %{NOW:HOUR} =5 / cond %{METHOD} =A / cond %{NOW:HOUR} >5 / no-op",
            &["3:1+19 never so together"],
        ),
        ("cond %{NOW} <5 / cond %{NOW} >4 / no-op", &["2:1+14 never so together"]),
        ("cond %{TRUE} / no-op [L] / no-op / cond %{TRUE} / no-op", &["4:1+12 never reached"]),
        ("no-op [L] / cond %{METHOD} =A / no-op", &["2:1+17 never reached: the rule of line 1"]),
        ("cond %{TRUE} [L] / no-op / cond %{TRUE} / no-op", &["3:1+12 never reached"]),
        ("cond %{METHOD} =A [L] / no-op / cond %{TRUE} / no-op", &[]),
        ("cond %{TRUE} / no-op / else / no-op", &["4:1+5 never reached: a branch"]),
        ("no-op / elif / cond %{METHOD} =A / no-op", &["4:1+5 never reached: a branch"]),
    ] {
        let text = lines.replace(" / ", "\n");
        let found = findings(&text, Scope::Route);
        assert_eq!(found.len(), expected.len(), "{lines}: {found:#?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{lines}: {found}");
        }
        let read = read("test", &text, Scope::Route);
        assert!(read.is_usable(), "{lines}: {}", shown(&text, &read));
    }
}

#[test]
fn what_makes_sense_is_no_warning() {
    for lines in [
        "cond %{METHOD} =A [OR] / cond %{METHOD} =B / no-op",
        "cond %{METHOD} =A / cond %{METHOD} =A / no-op",
        "cond %{METHOD} =A [NOT] / cond %{METHOD} =B / no-op",
        "cond %{METHOD} =A / cond %{METHOD} =a [NOCASE] / no-op",
        "cond %{NOW} <5 / cond %{NOW} >3 / no-op",
        "cond %{RANDOM:9} =1 / cond %{RANDOM:9} =2 / no-op",
        "cond %{FALSE} [OR] / cond %{METHOD} =A / no-op",
        "cond %{METHOD} =A / no-op [L] / cond %{METHOD} =B / no-op",
        "no-op [L] / cond %{SEND_RESPONSE_HDR_HOOK} / no-op",
        "cond %{METHOD} =A / no-op [L] / else / no-op / cond %{TRUE} / no-op",
        "cond %{IP:SERVER} =\"\" / no-op",
        "cond %{HEADER:A} =\"\" / no-op",
        "cond %{CACHE} =MISS [NOCASE] / no-op",
        "set-header A \"b # c\"",
        "set-header A \"max-age=5, public\"",
    ] {
        let found = findings(&lines.replace(" / ", "\n"), Scope::Route);
        assert_eq!(found, [""; 0], "{lines}");
    }
}

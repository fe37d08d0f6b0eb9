use crate::ast::{Operator, UrlPart};

use super::{operator_at, operators::text};

#[test]
fn operators_on_the_url_are_parsed() {
    let set = |part, value, append_query| Operator::SetDestination {
        part,
        value: text(value),
        append_query,
    };
    let filter = |names: &[&str], keep| {
        let names = names.iter().map(|name| name.as_bytes().into()).collect();
        Operator::FilterQuery { names, keep }
    };
    for (operator, expected) in [
        ("set-destination HOST example.org", set(UrlPart::Host, "example.org", false)),
        ("set-destination HOST [::1]", set(UrlPart::Host, "[::1]", false)),
        ("set-destination PORT 8080", set(UrlPart::Port, "8080", false)),
        ("set-destination PATH a/b", set(UrlPart::Path, "a/b", false)),
        ("set-destination QUERY \"a=1&b=2\"", set(UrlPart::Query, "a=1&b=2", false)),
        ("set-destination QUERY \"a=1\" [QSA]", set(UrlPart::Query, "a=1", true)),
        ("set-destination URL http://x/y [L]", set(UrlPart::Whole, "http://x/y", false)),
        ("set-destination SCHEME http", Operator::NoOp),
        ("rm-destination PATH", Operator::RemoveDestination(UrlPart::Path)),
        ("rm-destination PORT", Operator::RemoveDestination(UrlPart::Port)),
        ("rm-destination QUERY", filter(&[], false)),
        ("rm-destination QUERY a,b", filter(&["a", "b"], false)),
        ("rm-destination QUERY a,b [I]", filter(&["a", "b"], true)),
        ("rm-destination QUERY a [INV,LAST]", filter(&["a"], true)),
    ] {
        // Brackets at the end of a line would be read as flags.
        let operator = operator.replace("[::1]", "[::1] [L]");
        assert_eq!(operator_at("REMAP_PSEUDO_HOOK", &operator), expected, "{operator}");
    }
}

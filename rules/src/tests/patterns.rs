use crate::ast::RuleScope;

use super::findings;

/// Each pattern with the offset and the length of its finding.
#[test]
fn ambiguous_or_slow_patterns_are_refused() {
    for (pattern, place, message) in [
        (r"(a)\1", "4+2", "back-references"),
        (r"(?P<x>a)(?P=x)", "9+4", "back-references"),
        (r"\k<x>", "1+2", "back-references"),
        ("a(?=b)", "2+3", "look-around"),
        ("a(?!b)", "2+3", "look-around"),
        ("(?<=a)b", "1+4", "look-around"),
        ("(?<!a)b", "1+4", "look-around"),
        ("(?>a)", "1+3", "atomic groups"),
        ("a++", "2+2", "possessive quantifiers"),
        ("a*+", "2+2", "possessive quantifiers"),
        ("a{2}+", "4+2", "possessive quantifiers"),
        ("(?R)", "1+3", "recursive patterns"),
        ("(a)(?1)", "4+3", "recursive patterns"),
        ("(?#a)b", "1+3", "comments in a regex"),
        ("(?|a|b)", "1+3", "branch-reset groups"),
        ("[a[b]", "3+1", "a bracket in a class"),
        ("[a&&b]", "3+2", "two of these"),
        ("[a--b]", "3+2", "two of these"),
        (r"a\Z", "2+2", "\\Z"),
        (r"\<a", "1+2", "this escape has another"),
        (r"\Qa\E", "1+2", "\\Q and \\E"),
        ("(a", "1+2", "this is not a valid regex"),
        ("a)", "1+2", "this is not a valid regex"),
        ("[a", "1+2", "this is not a valid regex"),
        ("*a", "1+2", "this is not a valid regex"),
        ("a{2,1}", "1+6", "this is not a valid regex"),
        ("(((a{99}){99}){99}){99}", "1+23", "this regex takes more than"),
    ] {
        let text = format!("cond %{{HEADER:A}} /{pattern}/\nno-op");
        let found = findings(&text, RuleScope::Route);
        assert_eq!(found.len(), 1, "{pattern}: {found:?}");
        let (at, rest) = found[0].split_once(' ').unwrap_or_default();
        let (column, len) = place.split_once('+').unwrap_or_default();
        let column = 18 + column.parse::<u32>().expect("a number");
        assert_eq!(at, format!("1:{column}+{len}"), "{pattern}: {found:?}");
        assert!(rest.contains(message), "{pattern}: {found:?}");
    }
}

#[test]
fn the_hint_for_negative_look_ahead_is_an_equal_condition() {
    const GENERAL: &str = "write a separate condition for this";
    for (pattern, hint) in [
        ("^(?!.*bot)", "write /bot/ [NOT] instead"),
        ("^(?!.*bot).*$", "write /bot/ [NOT] instead"),
        ("^((?!bot|spider).)*$", "write /bot|spider/ [NOT] instead"),
        ("^(?!foo)", "write /^foo/ [NOT] instead"),
        ("^(?!a|b)", GENERAL),
        ("^(?!foo)bar", GENERAL),
        ("^(?!a)(?!b)", GENERAL),
        ("a(?=b)", GENERAL),
        // In this pattern, `b` is searched at the beginning only.
        ("^(?!.*a|b).*$", GENERAL),
        ("^(?!.*?bot)", "write /bot/ [NOT] instead"),
        ("^(?!.**bot)", GENERAL),
        // An empty text matches neither `.+` nor `bot`.
        ("^(?!.*bot).+$", GENERAL),
        ("^(?!foo).+", GENERAL),
        // The pattern does not look at the very end of a text, where `a*` would match.
        ("^((?!a*).)*$", GENERAL),
        ("^((?!a|$).)*$", GENERAL),
    ] {
        let found = findings(&format!("cond %{{HEADER:A}} /{pattern}/\nno-op"), RuleScope::Route);
        let hinted = found.first().and_then(|found| found.split_once(" | ")).map(|(_, hint)| hint);
        assert!(hinted.is_some_and(|hinted| hinted.starts_with(hint)), "{pattern}: {found:?}");
        let text = format!("cond %{{HEADER:A}} /{pattern}/ [NOT]\nno-op");
        let found = findings(&text, RuleScope::Route);
        let hint = hint.replace("[NOT]", "without [NOT]");
        assert!(found[0].contains(&format!("| {hint}")), "{pattern} [NOT]: {found:?}");
    }
}

#[test]
fn common_patterns_are_accepted() {
    for pattern in [
        r"^/images/.*\.(?:png|jpe?g)$".replace('/', "\\/").as_str(),
        r"(?i)mozilla",
        r"^\d{3}-\w+$",
        r"[^a-z0-9_\-\[\]]",
        r"[]a]",
        r"[^]a]",
        r"[[:alpha:]]+",
        r"a+?b*?c??",
        r"(?<name>a)",
        r"(?P<name>a)",
        r"\x41|\t",
        r"a&&b",
        r"a--b",
        "é",
        "(?s).",
    ] {
        let text = format!("cond %{{HEADER:A}} /{pattern}/\nno-op");
        assert_eq!(findings(&text, RuleScope::Route), [""; 0], "{pattern}");
    }
}

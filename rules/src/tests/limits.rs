use crate::{
    ast::RuleScope,
    limits::{
        CONDITIONS_PER_RULE_MAX, FILE_BYTES_MAX, FINDINGS_MAX, LINE_BYTES_MAX, NESTING_MAX,
        REGEX_SIZES, REGEXES_BYTES_MAX, RULES_PER_FILE_MAX,
    },
    read::read,
};

use super::findings;

#[test]
fn a_limit_is_accepted_and_one_more_is_refused() {
    let conditions = |count| "cond %{METHOD} =A\n".repeat(count) + "no-op";
    let rules = |count| "cond %{METHOD} =A\nno-op\n".repeat(count);
    let ifs = |count| "if\n".repeat(count) + "no-op\n" + &"endif\n".repeat(count);
    let groups = |count| {
        let (begin, end) = ("cond %{GROUP}\n", "cond %{GROUP:END}\n");
        format!("{}cond %{{METHOD}} =A\n{}no-op", begin.repeat(count), end.repeat(count))
    };
    let line = |count| format!("set-body \"{}\"", "x".repeat(count - "set-body \"\"".len()));
    let file = |count| format!("#{}\n{}", "x".repeat(99), "#\n".repeat((count - 101) / 2));
    type Case<'a> = (&'a str, &'a dyn Fn(usize) -> String, usize, usize);
    let cases: [Case<'_>; 6] = [
        ("256 conditions", &conditions, CONDITIONS_PER_RULE_MAX, 1),
        ("4096 rules", &rules, RULES_PER_FILE_MAX, 1),
        ("10 deep", &ifs, NESTING_MAX, 1),
        ("10 deep", &groups, NESTING_MAX, 1),
        ("65536 are allowed", &line, LINE_BYTES_MAX, 1),
        ("1048576 are allowed", &file, FILE_BYTES_MAX - 1, 2),
    ];
    for (message, text, max, more) in cases {
        let found = findings(&text(max), RuleScope::Route);
        assert_eq!(found, [""; 0], "{message}");
        let found = findings(&text(max + more), RuleScope::Route);
        assert!(found.len() == 1 && found[0].contains(message), "{message}: {found:?}");
        assert!(!read("test", &text(max + more), RuleScope::Route).is_usable(), "{message}");
    }
}

#[test]
fn regexes_beyond_the_limit_of_a_file_are_not_compiled() {
    for (regex, size) in [("a", 4 << 10), ("[a-z]{99}", 32 << 10), ("[a-z]{1500}", 256 << 10)] {
        let rule = format!("{}no-op\n", format!("cond %{{METHOD}} /{regex}/\n").repeat(8));
        // The attempts with smaller size limits are charged too.
        let counts = REGEX_SIZES.iter().filter(|other| **other <= size).sum::<usize>();
        let rule_count = REGEXES_BYTES_MAX / counts / 8;
        let text = rule.repeat(rule_count);
        assert_eq!(findings(&text, RuleScope::Route), [""; 0], "{rule_count} of {regex}");
        let more = text + &rule.repeat(50);
        let found = findings(&more, RuleScope::Route);
        let line = 9 * rule_count + 1 + REGEXES_BYTES_MAX / counts % 8;
        let place = format!("{line}:17+{} from here on", regex.len());
        assert!(found.len() == 1 && found[0].starts_with(&place), "{regex}, {place}: {found:?}");
        assert!(found[0].contains("| split the file"), "{regex}: {found:?}");
        assert!(!read("test", &more, RuleScope::Route).is_usable(), "{regex}");
    }
}

#[test]
fn findings_beyond_the_limit_are_dropped_with_a_notice() {
    let found = findings(&"foo\n".repeat(FINDINGS_MAX * 2), RuleScope::Route);
    assert_eq!(found.len(), FINDINGS_MAX + 1);
    assert!(found[FINDINGS_MAX].contains("more than 200 findings"), "{}", found[FINDINGS_MAX]);
}

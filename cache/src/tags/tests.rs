//! Tests of tags and of expressions over tags, as tables.

use super::*;

fn tags(words: &str) -> RecordTags {
    RecordTags::new(words.split_whitespace().map(str::as_bytes)).expect(words)
}

#[test]
fn tags_are_stored_sorted_without_duplicates() {
    let kept = tags("b a b c a");
    let expected: [&[u8]; 3] = [b"a", b"b", b"c"];
    assert_eq!(kept.iter().collect::<Vec<_>>(), expected);
    assert!(tags("").is_empty());
}

#[test]
fn invalid_or_too_many_tags_are_refused() {
    let many: Vec<String> = (0..=TAGS_MAX).map(|number| format!("t{number}")).collect();
    let of = |count| RecordTags::new(many.iter().take(count).map(String::as_bytes));
    assert_eq!(of(TAGS_MAX).expect("as many as can be").iter().count(), TAGS_MAX);
    assert_eq!(of(TAGS_MAX + 1), Err(TagsError::TooMany { max: TAGS_MAX }));
    let long = vec![b'x'; TAG_BYTES_MAX + 1];
    for (tag, expected) in [
        (&long[..TAG_BYTES_MAX], Ok(())),
        (&long[..], Err(TagsError::TooLong { max: TAG_BYTES_MAX })),
        (b"", Err(TagsError::Malformed)),
        (b"a\0b", Err(TagsError::Malformed)),
    ] {
        assert_eq!(RecordTags::new([tag]).map(|_| ()), expected, "{} bytes", tag.len());
    }
}

#[test]
fn an_expression_matches_records_by_their_tags() {
    for (expr, matching, others) in [
        ("a", &["a", "a b"][..], &["", "b", "aa"][..]),
        ("a and b", &["a b", "a b c"], &["a", "b", ""]),
        ("a or b", &["a", "b"], &["c", ""]),
        ("not a", &["", "b"], &["a", "a b"]),
        ("a and not b", &["a", "a c"], &["a b", "c"]),
        ("a or b and c", &["a", "b c"], &["b", "c"]),
        ("(a or b) and c", &["a c", "b c"], &["a", "a b"]),
        ("not (a or b)", &["c", ""], &["a", "b"]),
        ("not not a", &["a"], &["b"]),
        ("not a and b", &["b"], &["a b", ""]),
        ("a AND NOT \"and\"", &["a"], &["a and"]),
        ("((((a))))", &["a"], &["b"]),
    ] {
        let parsed: TagExpr = expr.parse().expect(expr);
        let again: TagExpr = parsed.to_string().parse().expect(expr);
        for expr in [&parsed, &again] {
            let matches = |words: &&str| expr.encoded().matches(tags(words).as_bytes());
            assert!(matching.iter().all(matches), "{expr}");
            assert!(!others.iter().any(matches), "{expr}");
        }
    }
}

#[test]
fn the_longest_expression_is_evaluated_correctly() {
    let names: Vec<String> = (0..TERMS_MAX).map(|number| format!("t{number}")).collect();
    let all: TagExpr = names.join(" and ").parse().expect("as many as can be");
    let nested = format!("{}{}", names.join(" and ("), ")".repeat(TERMS_MAX - 1));
    let nested: TagExpr = nested.parse().expect("nested");
    let every = RecordTags::new(names.iter().map(String::as_bytes)).expect("as many as can be");
    let but_one = RecordTags::new(names.iter().skip(1).map(String::as_bytes)).expect("fewer");
    for expr in [all, nested] {
        assert!(expr.encoded().matches(every.as_bytes()), "{expr}");
        assert!(!expr.encoded().matches(but_one.as_bytes()), "{expr}");
    }
    let refused = format!("{} or x", names.join(" or ")).parse::<TagExpr>();
    assert_eq!(refused.map_err(|error| error.what), Err("an expression can have at most 64 tags"));
}

#[test]
fn a_quoted_tag_holds_anything() {
    let parsed: TagExpr = r#""a \"b\" (c) \\""#.parse().expect("a quoted tag");
    let tags = RecordTags::new([&br#"a "b" (c) \"#[..]]).expect("a tag");
    assert!(parsed.encoded().matches(tags.as_bytes()));
}

#[test]
fn a_syntax_error_names_its_offset() {
    for (text, at, what) in [
        ("", 0, "there is no tag at the end of the expression"),
        ("a b", 2, "`and` or `or` is missing before this operand"),
        ("a,b", 1, "write `or` or `and` between tags, and a tag with a comma in double quotes"),
        ("a not b", 2, "`and` or `or` is missing before this operand"),
        ("a (b)", 2, "`and` or `or` is missing before this operand"),
        ("and a", 0, "there is no tag before this operator or parenthesis"),
        ("a and", 5, "there is no tag at the end of the expression"),
        ("a and or b", 6, "there is no tag before this operator or parenthesis"),
        ("()", 1, "there is no tag before this operator or parenthesis"),
        ("(a", 0, "this parenthesis is not closed"),
        ("a)", 1, "this closing parenthesis has no opening one"),
        ("a and \"b", 6, "this quote is not closed"),
        ("\"\"", 0, "a tag must not be empty or contain a NUL byte"),
        ("\"a\\n\"", 2, "a backslash must precede a quote or a backslash"),
    ] {
        assert_eq!(text.parse::<TagExpr>(), Err(TagExprError { at, what }), "{text}");
    }
    let deep = "(".repeat(100_000);
    assert_eq!(
        deep.parse::<TagExpr>().map_err(|e| e.what),
        Err("the expression is nested too deeply")
    );
}

#[test]
fn candidates_are_as_few_as_possible() {
    for (expr, expected) in [
        ("a", Some("a")),
        ("a and b", Some("a")),
        ("a or b", Some("a b")),
        ("(a or b) and c", Some("c")),
        ("a and not b", Some("a")),
        ("not b and a", Some("a")),
        ("not a", None),
        ("a or not b", None),
        ("a or a", Some("a")),
    ] {
        let parsed: TagExpr = expr.parse().expect(expr);
        let expected = match expected {
            Some(words) => TagCandidates::Tagged(words.split(' ').map(str::as_bytes).collect()),
            None => TagCandidates::All,
        };
        assert_eq!(parsed.encoded().candidates(), expected, "{expr}");
    }
}

#[test]
fn invalid_bytes_are_no_expression() {
    let good: TagExpr = "a and not b".parse().expect("an expression");
    let bytes = good.encoded().as_bytes();
    assert_eq!(EncodedTagExpr::of(bytes), Some(good.encoded()));
    for cut in 0..bytes.len() {
        let expected = (cut == 2).then_some(());
        assert_eq!(EncodedTagExpr::of(&bytes[..cut]).map(|_| ()), expected, "{cut} bytes");
    }
    for other in [&[255][..], &[253], &[1, b'a', 1, b'b'], &[0], &[5, b'a'], &[1, 0]] {
        assert_eq!(EncodedTagExpr::of(other), None, "{other:?}");
    }
    let many: Vec<u8> = [1, b'a', 1, b'a', 254].repeat(40);
    assert_eq!(EncodedTagExpr::of(&many), None);
}

#[test]
fn any_of_matches_records_with_one_of_the_tags() {
    let expr = TagExpr::any_of([&b"a"[..], b"b", b"c"]).expect("three tags");
    assert_eq!(expr.to_string(), "(\"a\" or \"b\") or \"c\"");
    assert_eq!(TagExpr::any_of([]), Err(TagsError::Malformed));
    let many = vec![&b"a"[..]; TERMS_MAX + 1];
    assert_eq!(TagExpr::any_of(many), Err(TagsError::TooMany { max: TERMS_MAX }));
}

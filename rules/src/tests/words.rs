use crate::lex::lex;

#[test]
fn a_line_splits_into_words_as_in_the_original() {
    for (line, expected) in [
        ("", &[][..]),
        ("   ", &[]),
        ("# a b", &[]),
        ("  # a b", &[]),
        ("a b", &["a", "b"]),
        ("a\tb", &["a", "b"]),
        ("a=b", &["a", "b"]),
        ("a =b", &["a", "=", "b"]),
        ("a = b", &["a", "=", "b"]),
        ("a= b", &["a", "b"]),
        ("a +b", &["a", "+", "b"]),
        ("a+b", &["a+b"]),
        ("a >b <c", &["a", ">b", "<c"]),
        ("\"a b\"", &["a b"]),
        ("\"a\"b", &["a", "b"]),
        ("\"\" a", &["", "a"]),
        ("\"a\\\"b\"", &["a\"b"]),
        ("\"a\\\\b\"", &["a\\b"]),
        ("\"a=b # c\"", &["a=b # c"]),
        ("a\\ b", &["a b"]),
        ("a\\=b", &["a=b"]),
        ("\\#a", &["#a"]),
        ("a\\", &["a"]),
        ("\\", &[""]),
        ("/a b/", &["/a b/"]),
        ("/a\\/b/", &["/a\\/b/"]),
        ("/a\"b/", &["/a\"b/"]),
        ("/a/b", &["/a/", "b"]),
        ("/a/[NOT]", &["/a/", "[NOT]"]),
        ("/a b", &["/a b"]),
        ("a/b/c", &["a/b/c"]),
        ("{a b}", &["{a b}"]),
        ("{a,b}[OR]", &["{a,b}", "[OR]"]),
        ("(a, \"b\")", &["(a, \"b\")"]),
        ("(a=b)", &["(a=b)"]),
        ("%{A:b}", &["%{A:b}"]),
        ("%{A}=b", &["%{A}", "b"]),
        ("x%{A}y", &["x%{A}y"]),
        ("a # b", &["a", "#", "b"]),
        ("é \"ü ö\"", &["é", "ü ö"]),
    ] {
        let words = lex(1, line).unwrap_or_else(|problem| panic!("{line}: {problem:?}"));
        let texts: Vec<&str> = words.iter().map(|word| word.as_str()).collect();
        assert_eq!(texts, expected, "{line}");
    }
}

#[test]
fn every_word_knows_its_span() {
    for (line, expected) in [
        ("a bc", &[(1, 1), (3, 2)][..]),
        ("  \"a b\" c", &[(3, 5), (9, 1)]),
        ("a =\"b\"", &[(1, 1), (3, 1), (4, 3)]),
        ("/a/b", &[(1, 3), (4, 1)]),
        ("é b", &[(1, 2), (4, 1)]),
        ("a\\ b c", &[(1, 4), (6, 1)]),
    ] {
        let words = lex(1, line).unwrap_or_else(|problem| panic!("{line}: {problem:?}"));
        let places: Vec<(u32, u32)> =
            words.iter().map(|word| (word.at.column, word.at.len)).collect();
        assert_eq!(places, expected, "{line}");
    }
}

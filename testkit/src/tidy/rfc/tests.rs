use super::Conformance;

const TABLE: &str = "\
# a comment
= 9111 HTTP Caching
[3 Storing]
1 MUST NOT store errors.
2 SHOULD store pages.
  except: large pages.
[3.1 Fields]
1 MUST keep fields.
  not applicable: there are none.
";

fn conformance(files: &[(&str, &str)]) -> Conformance {
    let files: Vec<_> =
        files.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect();
    Conformance::new(&[("9111.txt", TABLE)], &files)
}

fn problems(files: &[(&str, &str)]) -> Vec<String> {
    conformance(files).problems().iter().map(ToString::to_string).collect()
}

const CODE: (&str, &str) =
    ("http/src/a.rs", "/// Decides.\n// RFC: 9111-3-1, 9111-3-2\npub fn decide() {\n}\n");
const TEST: (&str, &str) =
    ("http/src/tests.rs", "#[test]\nfn it_decides() {\n    // RFC: 9111-3-2\n    x();\n}\n");
const VECTOR: (&str, &str) = ("a/tests/vectors/b.txt", "# RFC: 9111-3-1\n\n[an error]\n> GET /\n");

#[test]
fn a_requirement_needs_code_and_a_test_or_a_reason() {
    let none: [String; 0] = [];
    assert_eq!(problems(&[CODE, TEST, VECTOR]), none);
    for (files, expected) in [
        (&[CODE, TEST][..], "9111.txt:4: rfc: 9111-3-1 has no test"),
        (&[CODE, VECTOR], "9111.txt:5: rfc: 9111-3-2 has no test"),
        (&[TEST, VECTOR], "9111.txt:4: rfc: 9111-3-1 has no code"),
        (
            &[CODE, TEST, VECTOR, ("b/src/b.rs", "\n// RFC: 9111-3-3\n")],
            "b/src/b.rs:2: rfc: no table has the requirement 9111-3-3",
        ),
        (
            &[CODE, TEST, VECTOR, ("b/src/b.rs", "// RFC: 9111-3.1-1\nstruct A;\n")],
            "9111.txt:8: rfc: 9111-3.1-1 has a tag",
        ),
    ] {
        let found = problems(files);
        assert!(found.first().is_some_and(|line| line.starts_with(expected)), "{found:?}");
    }
}

#[test]
fn a_malformed_table_is_a_problem() {
    for bad in ["1 MUST x", "[1 A]\n2 MUST x", "[1 A]\n1 MAY x", "[1 A]\n1 MUST x\n  since: y"] {
        let problems = Conformance::new(&[("t", bad)], &[]).problems();
        assert_eq!(problems.len(), 1, "{bad:?}: {problems:?}");
    }
}

#[test]
fn the_page_names_functions_tests_and_vectors() {
    let page = conformance(&[CODE, TEST, VECTOR]).page();
    for line in [
        "| 9111 HTTP Caching | 3 | 1 | 1 | 0 | 1 |",
        "- 9111-3-2: SHOULD store pages. *large pages.*",
        "### §3.1 Fields",
        "| 9111-3-1 | **MUST NOT** store errors. | [a.rs: `decide`](../http/src/a.rs) \
         | [b.txt: an error](../a/tests/vectors/b.txt) |",
        "| 9111-3-2 | **SHOULD** store pages. *except: large pages.* \
         | [a.rs: `decide`](../http/src/a.rs) | [tests.rs: `it_decides`](../http/src/tests.rs) |",
        "| 9111-3.1-1 | **MUST** keep fields. *not applicable: there are none.* |  |  |",
    ] {
        assert!(page.lines().any(|found| found == line), "{line}\n{page}");
    }
}

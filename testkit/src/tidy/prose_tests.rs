//! Tests with phrases and names that are counted, and with similar phrases and names that are not
//! counted.

use super::prose::{Phrase, in_comments, in_messages, in_page};
use super::ratchet::Words;
use super::source::Source;
use super::tests::TWICE;

use Phrase::{Archaic, BareWho, Question, Somebody, WhatClause};

#[rustfmt::skip] // a table: one case on one line
const COMMENTS: &[(&str, &[(usize, Phrase)])] = &[
    ("//! What is stored, by key.", &[(1, WhatClause)]),
    ("/// Returns what was stored.", &[(1, WhatClause)]),
    ("/// The rest of what readers see.", &[(1, WhatClause)]),
    ("// Later: what a client sent.", &[(1, WhatClause)]),
    ("/// Says what it does.", &[]),
    ("/// Decides what to do, and what kind of answer it is.", &[]),
    ("// No matter what happens here.", &[]),
    ("/// A file that holds\n/// what was left.", &[(2, WhatClause)]),
    ("let a = 0; // what is left of b", &[(1, WhatClause)]),
    ("// Who reads it waits, for who writes it does not.", &[(1, BareWho), (1, BareWho)]),
    ("/// Knows who holds the lock.", &[(1, BareWho)]),
    ("/// A client who stalls; the reader, who waits; those who can.", &[]),
    ("// The waiters whose turn it is.", &[]),
    ("// Nobody's lock, somebody's guard, and whoever asks.", &[(1, Somebody); 3]),
    ("/// Is it there?", &[(1, Question)]),
    ("/// Whether it is there. Is that so?", &[(1, Question)]),
    ("// Is it there? A plain comment may ask.", &[]),
    ("/// Written as `a?` or https://example.org/?x=1 by hand.", &[]),
    ("// Begins anew in vain; meanwhile it waits.", &[(1, Archaic); 3]),
    ("// Not \"what is stored\", nor `who reads`.", &[]),
    ("/// ```\n/// // what is this, meanwhile?\n/// ```\n/// It is anew.", &[(4, Archaic)]),
    ("// Who?", &[]),
];

#[test]
fn comments_are_searched_for_phrases() {
    for (text, expected) in COMMENTS {
        assert_eq!(in_comments(&Source::new("a/src/b.rs", text)), *expected, "{text}");
    }
}

#[rustfmt::skip] // a table: one case on one line
const MESSAGES: &[(&str, &str, usize)] = &[
    ("a/src/b.rs", "a(\"cannot read what is there\");", 1),
    ("a/src/b.rs", "a(\"{who} of {what} is nobody\");", 1),
    ("a/src/b.rs", "a(\"one line\\\n    nobody reads\");", 1),
    ("a/src/b.rs", "a(\"no site a.b; did you mean a.c?\");", 0),
    ("a/src/b.rs", "a(\"shall it be removed?\");", 1),
    ("a/src/b.rs", "a(\"who\"); b('?');", 0),
    ("a/src/b.rs", "// \"what is there\"", 0),
    ("a/tests/b.rs", "a(\"cannot read what is there\");", 0),
    ("a/src/b.rs", "#[cfg(test)]\nmod tests {\n    const A: &str = \"what is there\";\n}", 0),
];

#[test]
fn messages_are_searched_for_phrases() {
    for (path, text, expected) in MESSAGES {
        let found = in_messages(&Source::new(path, text));
        assert_eq!(found.len(), *expected, "{text}: {found:?}");
    }
}

#[test]
fn pages_are_searched_for_phrases() {
    let page =
        "# What is it?\n\nNobody knows.\nIt begins\nanew.\n\n```\nwhat is\n```\n- nobody at all";
    let expected = [(1, WhatClause), (3, Somebody), (5, Archaic), (10, Somebody)];
    assert_eq!(in_page(page), expected);
}

#[test]
fn a_count_that_differs_from_its_entry_is_reported() {
    let (one, other) = TWICE;
    let sources = [Source::new("a/src/b.rs", one), Source::new("c/src/d.rs", other)];
    let mut words = Words::default();
    words.add_sources(&sources);
    words.add_page("README.md", "Nobody knows it.");
    let table = words.table();
    assert_eq!(
        table,
        "# crate what who somebody question archaic messages twice participle\n\
         a 1 0 0 0 0 0 1 1\n\
         c 0 0 0 0 0 0 1 0\n\
         docs 0 0 1 0 0 0 0 0\n"
    );
    assert_eq!(words.differences(&table), Vec::<String>::new());
    let lower = table.replace("a 1", "a 0");
    assert_eq!(words.differences(&lower).len(), 1);
    assert!(words.differences(&lower)[0].starts_with("a: what: 1, at most 0"));
    let higher = table.replace("a 1", "a 2");
    assert_eq!(words.differences(&higher).len(), 1);
    assert!(words.differences(&higher)[0].starts_with("a: what: 1, fewer than 2"));
    assert_eq!(words.raised(&lower), words.differences(&lower), "the table would be raised");
    assert_eq!((words.raised(&table), words.raised(&higher)), (vec![], vec![]));
    assert_eq!(words.list("a/src").lines().count(), 3);
    assert_eq!(words.list("README").lines().count(), 1);
}

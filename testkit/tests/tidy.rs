//! Checks that the source tree follows its own rules.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use forebay_testkit::tidy::{Conformance, PAGE, TABLE, UPDATE, Words, check_tree};

#[test]
fn the_tree_is_tidy() {
    let problems: Vec<String> = check_tree(&root()).iter().map(ToString::to_string).collect();
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

/// Prints the counts. `WORDS_IN=server/src` also lists the counted lines of the files whose path
/// starts so.
#[test]
fn hard_words_only_become_fewer() {
    let root = env::var_os("WORDS_ROOT").map_or_else(root, PathBuf::from);
    let words = Words::of_tree(&root);
    if let Ok(beginning) = env::var("WORDS_IN") {
        println!("{}", words.list(&beginning));
    }
    println!("{}", words.report());
    if env::var_os("UPDATE_RATCHET").is_some() {
        let raised = words.write_table(&root).expect("the table can be written");
        assert!(
            raised.is_empty(),
            "the table was not written, because counts would rise: {}",
            raised.join("\n")
        );
        return;
    }
    let table = fs::read_to_string(root.join(TABLE)).expect("the table exists");
    let differences = words.differences(&table);
    assert!(differences.is_empty(), "{}\nthe table: {UPDATE}", differences.join("\n"));
}

/// `UPDATE_DOCS=1` writes the page.
#[test]
fn every_requirement_of_the_rfcs_has_code_and_a_test() {
    let conformance = Conformance::of_tree(&root());
    let problems: Vec<String> = conformance.problems().iter().map(ToString::to_string).collect();
    let page = conformance.page();
    let path = root().join(PAGE);
    if env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        fs::write(&path, &page).expect("docs/ can be written");
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == page, "{PAGE} is out of date: run this test with UPDATE_DOCS=1");
}

/// The script describes each bug as a replacement of text. If the code changes, that text may no
/// longer exist, and the simulator would no longer be tested with the bug. Without Python this test
/// checks nothing.
#[test]
fn every_known_bug_can_be_put_into_the_tree() {
    let script = root().join("scripts/simulate-mutants");
    let checked = match Command::new("python3").arg(script).arg("--check").output() {
        Err(error) if error.kind() == ErrorKind::NotFound => return,
        checked => checked.expect("python3 runs"),
    };
    let text = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success(), "{text}{}", String::from_utf8_lossy(&checked.stderr));
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

//! The whole tree keeps the rules that it sets itself.

use std::path::Path;

use forebay_testkit::tidy::check_tree;

#[test]
fn the_tree_is_tidy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let problems: Vec<String> = check_tree(&root).iter().map(ToString::to_string).collect();
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

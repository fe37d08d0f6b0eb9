//! Tests that the table of docs/why/orderings.md names every named ordering, and nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The crates whose protocols have models.
const CRATES: &[&str] = &["sync", "shm", "cache", "ordmap", "lockprof", "studies"];

const CALLS: &[&str] = &["acquire(\"", "release(\"", "fence(\"", "light(\"", "heavy(\""];

#[test]
fn every_named_ordering_has_a_model_that_fails_without_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let page = fs::read_to_string(root.join("docs/why/orderings.md")).unwrap();
    let in_table: BTreeSet<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`').map(|(name, _)| name))
        .collect();
    let mut in_code = BTreeSet::new();
    for name in CRATES {
        for file in sources(&root.join(name).join("src")) {
            in_code.extend(names(&fs::read_to_string(file).unwrap()));
        }
    }
    let in_code: BTreeSet<&str> = in_code.iter().map(String::as_str).collect();
    let unproved: Vec<_> = in_code.difference(&in_table).collect();
    assert!(
        unproved.is_empty(),
        "docs/why/orderings.md lacks {unproved:?}: add a model that fails without it, and run \
         `scripts/loom --table`"
    );
    let gone: Vec<_> = in_table.difference(&in_code).collect();
    assert!(gone.is_empty(), "docs/why/orderings.md names {gone:?}, which no code has");
}

/// All Rust files below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("the sources can be read") {
        let path = entry.expect("the sources can be read").path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// The names of the orderings in a source file, without its comments.
fn names(source: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in source.lines().filter(|line| !line.trim_start().starts_with("//")) {
        for call in CALLS {
            let mut rest = line;
            while let Some((_, after)) = rest.split_once(call) {
                let name = after.split('"').next().unwrap_or_default();
                found.insert(name.to_owned());
                rest = after;
            }
        }
    }
    found
}

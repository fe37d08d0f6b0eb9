//! Replays every corpus file of the fuzz target, so that a plain `cargo test` keeps what the
//! fuzzer has found.

use std::{fs, path::Path};

#[path = "../../fuzz/rules_bodies.rs"]
mod bodies;

#[test]
fn every_corpus_file_keeps_its_promises() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/rules_read");
    let mut file_count = 0;
    for file in fs::read_dir(&folder).expect("the target has a corpus") {
        let path = file.expect("the corpus can be listed").path();
        println!("{}", path.display());
        bodies::rules_read(&fs::read(&path).expect("a corpus holds files"));
        file_count += 1;
    }
    assert!(file_count >= 20, "only {file_count} files");
}

//! Replays every corpus file of the fuzz targets, so that a plain `cargo test` covers the fuzzer's
//! findings.

use std::{fs, path::Path};

#[path = "../../fuzz/bodies.rs"]
mod bodies;

#[test]
fn every_corpus_file_has_the_properties() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    for (target, body) in [
        ("request_head", bodies::request_head as fn(&[u8])),
        ("response_head", bodies::response_head),
        ("chunked", bodies::chunked),
        ("range", bodies::range),
        ("cache_control", bodies::cache_control),
        ("tags", bodies::tags),
    ] {
        let folder = corpora.join(target);
        let mut file_count = 0;
        for file in fs::read_dir(&folder).expect("each target has a corpus") {
            let path = file.expect("the corpus can be listed").path();
            println!("{}", path.display());
            body(&fs::read(&path).expect("a corpus holds files"));
            file_count += 1;
        }
        assert!(file_count >= 20, "{target} has only {file_count} files");
    }
}

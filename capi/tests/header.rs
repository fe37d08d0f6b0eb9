//! The checked-in header matches the source.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

/// `UPDATE_DOCS=1` writes the header.
#[test]
fn the_header_says_what_the_source_does() {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut made = Vec::new();
    cbindgen::generate(crate_dir).unwrap().write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let path = crate_dir.join("include/forebay_ordmap.h");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let header = fs::read_to_string(&path).unwrap();
    let line = header.lines().zip(made.lines()).position(|(old, new)| old != new);
    assert!(
        header == made,
        "the header is out of date from line {line:?} on; UPDATE_DOCS=1 writes it"
    );
}

//! Prints the findings for typical mistakes. `UPDATE_DOCS=1` rewrites `mistakes.txt`.

use std::{env, fmt::Write as _, fs, path::Path};

use forebay_rules::{ast::RuleScope, diagnostic::DiagnosticDisplay, read};

#[test]
fn typical_mistakes_get_a_span_and_a_hint() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let text = fs::read_to_string(folder.join("mistakes.conf")).expect("the file is there");
    let mut found = String::new();
    for diagnostic in &read("mistakes.conf", &text, RuleScope::Route).diagnostics {
        let shown = DiagnosticDisplay { file: "mistakes.conf", text: &text, diagnostic };
        writeln!(found, "{shown}").expect("a string takes everything");
    }
    let page = folder.join("mistakes.txt");
    if env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        fs::write(&page, &found).expect("the page can be written");
    }
    let wanted = fs::read_to_string(&page).unwrap_or_default();
    assert!(found == wanted, "mistakes.txt is out of date: UPDATE_DOCS=1 writes it; now:\n{found}");
}

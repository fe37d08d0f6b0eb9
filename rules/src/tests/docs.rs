use crate::check::{CONDITIONS, OPERATORS};

#[test]
fn the_page_lists_every_condition_and_operator() {
    let page = include_str!("../../../docs/rules.md");
    for name in CONDITIONS {
        let shown = [format!("`{name}`"), format!("`{name}:"), format!("`%{{{name}}}`")];
        assert!(shown.iter().any(|shown| page.contains(shown)), "{name} is missing");
    }
    for name in OPERATORS {
        let shown = [format!("`{name}`"), format!("`{name} ")];
        assert!(shown.iter().any(|shown| page.contains(shown)), "{name} is missing");
    }
}

//! Settings that do not exist: their values may be secrets, and are not shown.

use super::bad::{check, errors};

const SITE: &str = "[[site]]\nname = \"a\"\nnames = [\"a.org\"]\norigin = \"http://a\"\n";

#[test]
fn the_values_of_unknown_settings_are_not_shown() {
    for (line, masked) in [
        ("basic_atuh = \"ann:hunter2pw\"", "basic_atuh = \"*************\""),
        ("passwd = 'hunter2pw' # old", "passwd = '*********' # old"),
        ("\"to=ken\" = [\"hunter2pw\"]", "\"to=ken\" = *\"*********\"*"),
        ("key = \"\"\"hunter2pw\n\"\"\"", "key = \"\"\"*********"),
        ("api.key = \"hunter2pw\"", "api.key = \"*********\""),
        ("api.key.first = \"hunter2pw\" # old", "api.key.first = \"*********\"******"),
        ("api_key=7", "api_key=*"),
    ] {
        let shown = errors(&format!("{SITE}{line}\n")).to_string();
        assert!(shown.contains("is not a setting"), "{shown}");
        assert!(shown.contains(&format!("5 | {masked}\n")), "{shown}");
    }
    check("[[sites]]", "1:3", &["1 | [[sites]]\n"]);
}

#[test]
fn other_errors_of_the_line_do_not_show_the_value_of_an_unknown_setting() {
    let line = "origin = [{ url = \"http://b\", tokn = \"hunter2pw\", kye = 7, weight = 0 }]";
    let masked = line.replace("hunter2pw", "*********").replace("kye = 7", "kye = *");
    let errors = errors(&format!("[[site]]\nname = \"a\"\nnames = [\"a.org\"]\n{line}\n"));
    let shown = errors.to_string();
    assert_eq!((errors.count(), shown.matches(&masked).count()), (3, 3), "{shown}");
}

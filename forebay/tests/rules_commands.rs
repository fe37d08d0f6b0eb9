//! `forebay rules`: what its commands say of rule files, of requests, and of a running server.

use std::process::{Command, Output};

use forebay_testkit::server::Folder;
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

fn write(folder: &Folder, name: &str, text: &str) -> String {
    let path = folder.path(name);
    std::fs::write(&path, text).expect("the folder is ours");
    path.display().to_string()
}

fn rules(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).arg("rules").args(arguments).output().expect("it was built")
}

fn text_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

const GOOD: &str = "cond %{SEND_RESPONSE_HDR_HOOK}\nset-header X-A 1\n";
const OF_ROUTES: &str = "cond %{REMAP_PSEUDO_HOOK}\nset-header X-A 1\n";
const OF_SERVER: &str = "cond %{READ_REQUEST_HDR_HOOK}\nset-header X-A 1\n";
const WARNED: &str =
    "cond %{SEND_RESPONSE_HDR_HOOK}\ncond %{STATUS} =201\ncond %{STATUS} =202\nno-op\n";
const WRONG: &str = "cond %{SEND_RESPONSE_HDR_HOOK}\nset-heder X-A 1\n";

#[test]
fn check_says_whose_rules_a_file_can_hold() {
    let folder = Folder::new();
    let of_routes = "valid as rules of a site or a route\n1 file, 0 errors, 0 warnings\n";
    for (text, scope, code, expected) in [
        (GOOD, None, 0, "valid as rules of the server, of a site and of a route\n1 file, 0 errors"),
        (GOOD, Some("server"), 0, "valid as rules of the server\n1 file"),
        (OF_ROUTES, None, 0, of_routes),
        (OF_ROUTES, Some("server"), 1, "refused as rules of the server\n1 file, 1 error, 0 warn"),
        (OF_SERVER, None, 0, "valid as rules of the server\n1 file, 0 errors"),
        (OF_SERVER, Some("route"), 1, "refused as rules of a site or a route\n1 file, 1 error,"),
        (WARNED, None, 0, "1 file, 0 errors, 1 warning\n"),
        (WRONG, None, 1, "refused as rules of a site or a route\n1 file, 1 error, 0 warnings\n"),
    ] {
        let file = write(&folder, "a.rules", text);
        let scope = scope.map_or(vec![], |scope| vec!["--scope", scope]);
        let output = rules(&[&["check", &file], &scope[..]].concat());
        let said = text_of(&output);
        assert_eq!(output.status.code(), Some(code), "{text}{scope:?}: {said}");
        assert!(said.contains(expected), "{expected} in {said}");
    }
}

#[test]
fn check_shows_every_finding_of_every_file_that_can_be_read() {
    let folder = Folder::new();
    let wrong = write(&folder, "wrong.rules", WRONG);
    let good = write(&folder, "good.rules", GOOD);
    let missing = folder.path("none.rules").display().to_string();
    let output = rules(&["check", &missing, &wrong, &good]);
    let said = text_of(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let place = format!("{wrong}:2:1: error: ");
    let shown = "\n  set-heder X-A 1\n  ^^^^^^^^^\n  hint: ";
    assert!(said.contains(&place) && said.contains(shown), "{said}");
    assert!(said.contains("set-header"), "{said}");
    assert!(said.contains(&format!("{good}: valid as ")), "{said}");
    assert!(said.ends_with("\n3 files, 2 errors, 0 warnings\n"), "{said}");
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(complaint.starts_with(&format!("forebay: {missing}: No such file")), "{complaint}");

    let output = rules(&["check", "--json", &missing, &wrong, &good]);
    let value = json_of(&output);
    assert_eq!(output.status.code(), Some(1), "{value}");
    assert_eq!((&value["errors"], &value["warnings"]), (&2.into(), &0.into()), "{value}");
    assert_eq!(value["files"][2]["scopes"], serde_json::json!(["route", "server"]), "{value}");
    assert_eq!(value["files"][0]["valid"], false, "{value}");
    let finding = &value["findings"][0];
    assert_eq!((&finding["line"], &finding["column"]), (&2.into(), &1.into()), "{value}");
    assert_eq!((&finding["len"], &finding["severity"]), (&9.into(), &"error".into()), "{value}");
    assert_eq!(finding["file"], *wrong, "{value}");
    assert!(finding["hint"].as_str().is_some_and(|hint| hint.contains("set-header")), "{value}");
}

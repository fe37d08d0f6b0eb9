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

const SHOP: &str = r#"cond %{REMAP_PSEUDO_HOOK}
cond %{CLIENT-URL:PATH} /^old\/(.*)/
  set-redirect 301 "http://example.org/new/%{LAST-CAPTURE:1}" [QSA,L]

cond %{REMAP_PSEUDO_HOOK}
cond %{CLIENT-URL:PATH} =images/ [PRE]
  rm-header Cookie
  set-destination PATH "img/%{CLIENT-URL:QUERY:size}"

cond %{SEND_REQUEST_HDR_HOOK}
  set-header X-Asked "%{METHOD}"
  add-header X-Cookie "%{CLIENT-HEADER:Cookie}"

cond %{READ_RESPONSE_HDR_HOOK}
cond %{STATUS} =500
  set-status 502

cond %{SEND_RESPONSE_HDR_HOOK}
cond %{CACHE} =hit-fresh
  set-header X-Cache hit
else
  set-header X-Cache "%{CACHE}"
  if
    cond %{STATUS} >499
    set-status-reason "Not so good"
  endif

cond %{SEND_RESPONSE_HDR_HOOK}
  rm-header Server
"#;

#[test]
fn explain_shows_each_step_and_what_has_changed() {
    let folder = Folder::new();
    let file = write(&folder, "shop.rules", SHOP);
    let request = ["--request", "GET http://shop.test/images/a?size=9", "--header", "Cookie: a=b"];
    let answer = ["--status", "500", "--response-header", "Server: x"];
    let output = rules(&[&["explain", &file], &request[..], &answer[..]].concat());
    let said = text_of(&output).replace(&file, "shop.rules");
    assert_eq!(output.status.code(), Some(0), "{said}{output:?}");
    for expected in [
        "shop.rules: as rules of a site or a route\n\nREMAP_PSEUDO_HOOK\n",
        "\n  shop.rules:1: does not run\n     2  cond %{CLIENT-URL:PATH} /^old\\/(.*)/",
        "fails    \"images/a\"\n  shop.rules:5: runs\n",
        "set-destination PATH \"img/%{CLIENT-URL:QUERY:size}\"  done     \"img/9\"\n\nSEND_REQUEST",
        "\n    12    add-header X-Cookie \"%{CLIENT-HEADER:Cookie}\"  nothing\n",
        "\n    16    set-status 502",
        "\n    19  cond %{CACHE} =hit-fresh             fails    \"miss\"\n        else\n",
        "\nrequest to the origin\n- GET /images/a?size=9 HTTP/1.1\n+ GET /img/9?size=9 HTTP/1.1\n  \
         Host: shop.test\n- Cookie: a=b\n+ X-Asked: GET\n",
        "\nanswer to the client\n- HTTP/1.1 500 Internal Server Error\n- Server: x\n\
         + HTTP/1.1 502 Not so good\n+ X-Cache: miss\n",
    ] {
        assert!(said.contains(expected), "{expected}\n in {said}");
    }
}

#[test]
fn explain_runs_what_would_run() {
    let folder = Folder::new();
    let file = write(&folder, "shop.rules", SHOP);
    let hit: &[&str] = &["--cache", "hit-fresh"];
    let only: &[&str] = &["--hook", "SEND_REQUEST_HDR_HOOK"];
    // Hooks that have run, the status, the end of the answer, the request to the origin.
    let (remap, ask) = ("REMAP_PSEUDO_HOOK", "SEND_REQUEST_HDR_HOOK");
    let (read, send) = ("READ_RESPONSE_HDR_HOOK", "SEND_RESPONSE_HDR_HOOK");
    for (target, flags, hooks, status, last, asked) in [
        ("/a", &[][..], vec![remap, ask, read, send], "200 OK", "X-Cache: miss", Some("GET /a")),
        ("/a", hit, vec![remap, send], "200 OK", "X-Cache: hit", None),
        ("/a", only, vec![ask], "200 OK", "", Some("GET /a")),
        ("/old/b?c", &[], vec![remap, send], "301 Moved Permanently", "X-Cache: none", None),
    ] {
        let request = format!("GET {target}");
        let arguments = ["explain", "--json", &file, "--request", &request];
        let value = json_of(&rules(&[&arguments, flags].concat()));
        let ran: Vec<_> =
            value["hooks"].as_array().into_iter().flatten().map(|hook| &hook["hook"]).collect();
        assert_eq!(ran, hooks, "{target} {flags:?}: {value}");
        let answer = value["answer_to_client"].as_array().expect("lines");
        assert_eq!(answer[0], format!("HTTP/1.1 {status}"), "{target} {flags:?}: {value}");
        let tail = answer.last().and_then(Value::as_str).unwrap_or_default();
        assert!(tail.ends_with(last), "{target} {flags:?}: {value}");
        let line = value["request_to_origin"][0].as_str();
        let asked = asked.map(|line| format!("{line} HTTP/1.1"));
        assert_eq!(line, asked.as_deref(), "{target} {flags:?}: {value}");
    }
}

#[test]
fn explain_refuses_what_a_server_would() {
    let folder = Folder::new();
    let good = write(&folder, "good.rules", GOOD);
    let wrong = write(&folder, "wrong.rules", WRONG);
    let head = write(&folder, "head", "POST /b HTTP/1.1\r\nHost: h.test\r\nX-Q: 1\r\n\r\nbody");
    let from_file = format!("@{head}");
    for (file, flags, expected) in [
        (&wrong, &["--request", "GET /"][..], "wrong.rules:2:1: error: "),
        (&good, &["--request", "GET /a b"], "GET /a b: that is no request line"),
        (&good, &["--request", "GET b"], "that is no request"),
        (&good, &["--request", "/", "--header", "X"], "\"X\" is no field"),
        (&good, &["--request", "/", "--header", "X: a\nY: b"], "is no field"),
        (&good, &["--request", "@/none"], "/none: No such file"),
    ] {
        let output = rules(&[&["explain", file], flags].concat());
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{flags:?}: {output:?}");
        assert!(complaint.contains(expected), "{expected} in {complaint}");
    }
    let value = json_of(&rules(&["explain", "--json", &good, "--request", &from_file]));
    let lines = serde_json::json!(["POST /b HTTP/1.1", "Host: h.test", "X-Q: 1"]);
    assert_eq!(value["request"], lines, "{value}");
}

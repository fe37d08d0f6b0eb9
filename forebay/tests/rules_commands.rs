//! `forebay rules`: its commands on rule files, on requests and with a running server.

use std::process::{Command, Output};

use forebay_testkit::server::Folder;
use forebay_testkit::{Client, Origin, Request, Response, Script, Server, ServerBuilder};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

fn write(folder: &Folder, name: &str, text: &str) -> String {
    let path = folder.path(name);
    std::fs::write(&path, text).expect("the folder is writable");
    path.display().to_string()
}

fn rules(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).arg("rules").args(arguments).output().expect("forebay was built")
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
fn check_says_which_scopes_a_file_is_valid_for() {
    let folder = Folder::new();
    let of_routes = "valid as rules of a site or a route\n1 file, 0 errors, 0 warnings\n";
    for (text, scope, code, expected) in [
        (GOOD, None, 0, "valid as rules of the server, of a site or of a route\n1 file, 0 errors"),
        (GOOD, Some("server"), 0, "valid as rules of the server\n1 file"),
        (OF_ROUTES, None, 0, of_routes),
        (OF_ROUTES, Some("server"), 1, "invalid as rules of the server\n1 file, 1 error, 0 warn"),
        (OF_SERVER, None, 0, "valid as rules of the server\n1 file, 0 errors"),
        (OF_SERVER, Some("route"), 1, "invalid as rules of a site or a route\n1 file, 1 error,"),
        (WARNED, None, 0, "1 file, 0 errors, 1 warning\n"),
        (WRONG, None, 1, "invalid as rules of a site or a route\n1 file, 1 error, 0 warnings\n"),
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
fn check_shows_every_finding_of_every_readable_file() {
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
fn explain_shows_each_step_and_each_change() {
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
        "\nresponse to the client\n- HTTP/1.1 500 Internal Server Error\n- Server: x\n\
         + HTTP/1.1 502 Not so good\n+ X-Cache: miss\n",
    ] {
        assert!(said.contains(expected), "{expected}\n in {said}");
    }
}

#[test]
fn explain_says_why_an_operator_failed() {
    let folder = Folder::new();
    let value = "%{CLIENT-HEADER:Q}";
    for (operator, request, expected) in [
        ("set-state-int8 0", "Q: 700", "\"700\"  (the value is not a number from 0 to 255)"),
        ("set-state-int16", "Q: 70000", "\"70000\"  (the value is not a number from 0 to 65535)"),
        ("set-destination PATH", "Q: x y", "\"x y\"  (the value is not valid in this part"),
        ("set-cookie a", "Q: x;y", "FAILED   \"x;y\"  (the value is not a valid cookie"),
        ("set-redirect 302", "R: 1", "FAILED     (the value is not a URL: it is empty"),
    ] {
        let text = format!("cond %{{REMAP_PSEUDO_HOOK}}\n{operator} \"{value}\"\n");
        let file = write(&folder, "a.rules", &text);
        let output = rules(&["explain", &file, "--request", "/", "--header", request]);
        let said = text_of(&output);
        assert!(said.contains(expected), "{expected} in {said}{output:?}");
    }
}

#[test]
fn explain_runs_the_rules_that_a_server_would_run() {
    let folder = Folder::new();
    let file = write(&folder, "shop.rules", SHOP);
    let hit: &[&str] = &["--cache", "hit-fresh"];
    let only: &[&str] = &["--hook", "SEND_REQUEST_HDR_HOOK"];
    // The hooks that ran, the status, the end of the answer, and the request to the origin.
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
fn explain_refuses_requests_that_a_server_refuses() {
    let folder = Folder::new();
    let good = write(&folder, "good.rules", GOOD);
    let wrong = write(&folder, "wrong.rules", WRONG);
    let head = write(&folder, "head", "POST /b HTTP/1.1\r\nHost: h.test\r\nX-Q: 1\r\n\r\nbody");
    let from_file = format!("@{head}");
    for (file, flags, expected) in [
        (&wrong, &["--request", "GET /"][..], "wrong.rules:2:1: error: "),
        (&good, &["--request", "GET /a b"], "GET /a b: not a request line"),
        (&good, &["--request", "GET b"], "invalid request"),
        (&good, &["--request", "/", "--header", "X"], "\"X\": not a field"),
        (&good, &["--request", "/", "--header", "X: a\nY: b"], ": not a field"),
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

/// Starts a server with one site, which has the rules of the shop.
fn shop(origin: &Origin) -> Server {
    let builder = ServerBuilder::new(PROGRAM);
    std::fs::write(builder.path("shop.rules"), SHOP).expect("the folder is writable");
    let text = format!(
        "workers = 2\n[[site]]\nname = \"a\"\nnames = [\"*\"]\norigin = \"http://{}\"\n\
         rules = [\"shop.rules\"]\n",
        origin.address()
    );
    builder.config(&text).start()
}

fn ask(server: &Server, target: &str) -> Response {
    let fields = ["Cookie: a=b"];
    Client::connect(server.address()).ask("GET", target, &fields).expect("it answers")
}

#[test]
fn explain_predicts_a_servers_result() {
    let origin = Origin::start(|request: &Request| {
        let status = if request.target.contains("bad") { "500 Oh" } else { "200 OK" };
        Script::answer(status, &["Cache-Control: max-age=60", "Server: x"], b"body")
    });
    let server = shop(&origin);
    let file = server.path("shop.rules").display().to_string();
    for (target, cache) in [
        ("/a", "miss"),
        ("/a", "hit-fresh"),
        ("/images/b?size=9", "miss"),
        ("/images/b?size=9", "hit-fresh"),
        ("/bad", "miss"),
        ("/old/b?c", "miss"),
    ] {
        let before = origin.request_count();
        let response = ask(&server, target);
        let status = if target == "/bad" { "500" } else { "200" };
        let request = format!("GET {target}");
        let value = json_of(&rules(&[
            "explain",
            "--json",
            &file,
            "--request",
            &request,
            "--header",
            "Cookie: a=b",
            "--status",
            status,
            "--response-header",
            "Server: x",
            "--cache",
            cache,
        ]));
        let lines = |name: &str| -> Vec<String> {
            let lines = value[name].as_array().into_iter().flatten();
            lines.filter_map(|line| Some(line.as_str()?.to_owned())).collect()
        };
        let told = lines("answer_to_client");
        let of = |name: &str| {
            let named = |line: &&String| line.to_lowercase().starts_with(&format!("{name}: "));
            told.iter().find(named).map(|line| line[name.len() + 2..].to_owned())
        };
        assert!(told[0].starts_with(&format!("HTTP/1.1 {} ", response.status)), "{told:?}");
        for name in ["x-cache", "location", "server"] {
            let seen = response.field(name).map(str::to_owned);
            assert_eq!(of(name), seen, "{name} of {target}, {cache}: {response:?}");
        }
        let asked: Vec<_> = origin.requests_since(before);
        let told = lines("request_to_origin");
        let line = asked.first().map(|request| format!("GET {} HTTP/1.1", request.target));
        assert_eq!(told.first(), line.as_ref(), "{target}, {cache}");
        for name in ["X-Asked", "X-Cookie", "Cookie"] {
            let told = told.iter().any(|line| line.starts_with(&format!("{name}: ")));
            let sent = asked.first().is_some_and(|request| request.head.field(name).is_some());
            assert_eq!(told, sent, "{name} of {target}, {cache}: {asked:?}");
        }
    }
}

fn top(server: &Server, flags: &[&str]) -> Output {
    server.command(&[&["rules", "top"], flags].concat())
}

#[test]
fn top_shows_totals_and_rates_of_rules() {
    let origin =
        Origin::start(|_: &Request| Script::answer("200 OK", &["Cache-Control: max-age=60"], b"b"));
    let server = shop(&origin);
    for target in ["/a", "/a", "/a", "/old/b"] {
        ask(&server, target);
    }
    let value = json_of(&top(&server, &["--json", "--sort", "runs"]));
    assert_eq!(value["per_second"], false, "{value}");
    let lines = value["rules"].as_array().expect("rules");
    let of = |place: &str, name: &str| {
        let line = lines.iter().find(|line| line["rule"].as_str().unwrap().ends_with(place));
        line.and_then(|line| line[name].as_f64()).unwrap_or(-1.0)
    };
    for (place, runs, matches) in
        [(".rules:1", 4.0, 1.0), (".rules:5", 3.0, 0.0), (".rules:10", 1.0, 1.0)]
    {
        let seen = (of(place, "runs"), of(place, "matches"));
        assert_eq!(seen, (runs, matches), "{place}: {value}");
    }
    assert_eq!(of(".rules:18", "runs"), 4.0, "{value}");
    let runs: Vec<_> = lines.iter().map(|line| line["runs"].as_f64().unwrap()).collect();
    assert!(runs.is_sorted_by(|left, right| left >= right), "{value}");
    assert_eq!(value["all"]["runs"], runs.iter().sum::<f64>(), "{value}");

    let text = text_of(&top(&server, &["--sort", "matches"]));
    assert!(
        text.starts_with("since the rules were loaded\n       runs     matches     %"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 2 + 6 + 1, "{text}");
    assert!(!text.contains('\u{1b}') && text.trim_end().ends_with("  all"), "{text}");
    let first = text_of(&top(&server, &["--sort", "matches", "--lines", "2"]));
    assert!(first.ends_with("  all 6; 4 not shown\n"), "{first}");
    assert_eq!(first.lines().count(), 2 + 2 + 1, "{first}");
    let rates = text_of(&top(&server, &["--count", "2", "--interval", "100ms"]));
    assert_eq!(rates.matches("     runs/s   matches/s").count(), 2, "{rates}");
    assert_eq!(rates.lines().count(), 2 * 8, "{rates}");
}

#[test]
fn a_file_that_is_not_utf_8_is_reported_with_its_first_bad_byte() {
    let folder = Folder::new();
    let path = folder.path("latin.rules");
    let name = path.display().to_string();
    std::fs::write(&path, b"# one\nset-header X-A \"caf\xe9\" # \xe9\n").expect("ours");
    let output = rules(&["check", &name]);
    let said = text_of(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let place = format!("{name}:2:20: error: the byte 0xe9 is not UTF-8\n");
    assert!(said.starts_with(&place), "{said}");
    assert!(said.contains("  set-header X-A \"caf\u{fffd}\" # \u{fffd}\n"), "{said}");
    assert!(
        said.contains("\n                     ^\n  hint: in Latin-1 the byte is `\u{e9}`"),
        "{said}"
    );
    assert!(said.ends_with("1 file, 1 error, 0 warnings\n"), "{said}");
    let value = json_of(&rules(&["check", "--json", &name]));
    assert_eq!((&value["findings"][0]["line"], &value["errors"]), (&2.into(), &1.into()));

    let output = rules(&["test", &name]);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(complaint.contains(&format!("{name}:2:20: the byte 0xe9")), "{complaint}");
}

#[test]
fn top_says_why_there_is_nothing_to_show() {
    let server = Server::before(PROGRAM, &Origin::echo());
    let output = top(&server, &[]);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(complaint.contains("has no rules; see the setting `rules`"), "{complaint}");
    let output = rules(&["top", "--admin", "/none/x.admin"]);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(complaint.contains("no answer from the server at /none/x.admin"), "{complaint}");
    let output = rules(&["top", "--interval", "1ms"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn the_example_of_tests_in_the_docs_passes() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/rules/shop.test");
    let output = rules(&["test", example]);
    let said = text_of(&output);
    assert_eq!(output.status.code(), Some(0), "{said}{output:?}");
    assert!(said.ends_with("3 tests, 0 failed, 0 files broken\n"), "{said}");
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/rules.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let text = std::fs::read_to_string(example).expect("the example is there");
    for block in text.split("\n\n") {
        assert!(page.contains(block.trim()), "docs/rules.md does not show {block}");
    }
}

/// Each case is a failing line of a test with the message for this line.
#[test]
fn a_failed_test_shows_the_differences() {
    let folder = Folder::new();
    write(&folder, "shop.rules", SHOP);
    let given =
        "> GET /images/b?size=9\n> Cookie: a=b\n<< 500\n<< Server: x\n<< Vary: a\n<< Vary: b\n";
    for (expected, seen) in [
        ("< 502", ""),
        ("< 502 Not so good", ""),
        ("< X-Cache: miss", ""),
        ("< vary: a\n< Vary: b", ""),
        ("< !Server", ""),
        (">> GET /img/9?size=9\n>> !Cookie\n>> X-Asked: GET", ""),
        ("now 1767225600\nrandom 7\nclient ::1\n< 502", ""),
        ("cache hit-fresh\n>> none\n< 500\n< X-Cache: hit", ""),
        ("> Host: h.test\n>> Host: h.test", ""),
        ("< 500", "- < 500|+ < 502 Not so good"),
        ("< 502 Bad", "- < 502 Bad|+ < 502 Not so good"),
        ("< X-Cache: hit", "- < X-Cache: hit|+ < X-Cache: miss"),
        ("< X-None: 1", "- < X-None: 1|+ < !X-None"),
        ("< Vary: a", "- < Vary: a|+ < Vary: a|+ < Vary: b"),
        ("< !Vary", "- < !Vary|+ < Vary: a|+ < Vary: b"),
        (">> none", "- >> none|+ >> GET /img/9?size=9"),
        (">> GET /a", "- >> GET /a|+ >> GET /img/9?size=9"),
        (">> X-Asked: PUT", "- >> X-Asked: PUT|+ >> X-Asked: GET"),
        ("cache hit-fresh\n>> GET /a", "- >> GET /a|+ >> none"),
        ("body a", "- body a|+ body"),
    ] {
        let text = format!("# Of the shop.\nrules shop.rules\n\ntest it\n{given}{expected}\n");
        let file = write(&folder, "shop.test", &text);
        let output = rules(&["test", &file]);
        let said = text_of(&output);
        let lines: Vec<_> = said.lines().skip(1).map(str::trim).collect();
        let found = lines[..lines.len() - 1].join("|");
        assert_eq!(found, seen, "{expected}: {said}{output:?}");
        let (word, code) = if seen.is_empty() { ("ok    ", 0) } else { ("FAILED", 1) };
        assert_eq!(output.status.code(), Some(code), "{expected}: {said}");
        assert!(said.starts_with(&format!("{word}  {file}:4  it\n")), "{expected}: {said}");
        let value = json_of(&rules(&["test", "--json", &file]));
        assert_eq!(value["tests"][0]["ok"], seen.is_empty(), "{value}");
        assert_eq!(value["failed"], code, "{value}");
    }
}

#[test]
fn an_invalid_test_file_is_reported_with_its_line() {
    let folder = Folder::new();
    write(&folder, "shop.rules", SHOP);
    write(&folder, "wrong.rules", WRONG);
    for (text, expected) in [
        ("test a\n< 200\n", "a.test:1: no line `rules FILE`"),
        ("rules none.rules\ntest a\n< 200\n", "none.rules: No such file"),
        ("rules wrong.rules\ntest a\n< 200\n", "wrong.rules:2:1: error: "),
        ("scope server\nrules shop.rules\ntest a\n< 200\n", "shop.rules: invalid rules"),
        ("scope all\n", "a.test:1: a scope is `server` or `route`"),
        ("rules shop.rules\n> GET /\n", "a.test:2: `>` is not allowed here"),
        ("rules shop.rules\ntest a\n> GET /\n", "a.test:2: the test has no expectations"),
        ("rules shop.rules\ntest a\n> GET /\n> GET /\n", "a.test:4: the message already has"),
        ("rules shop.rules\ntest a\n= 200\n", "a.test:3: `=`: expected one of >, >>"),
        ("rules shop.rules\ntest a\ncache hit\n", "a.test:3: hit: expected one of miss, "),
        ("rules shop.rules\ntest a\n> GET x\n< 200\n", "a.test:2: GET x: invalid request"),
        ("rules shop.rules\ntest a\n<< 99\n< 200\n", "a.test:2: 99: not a status"),
    ] {
        let file = write(&folder, "a.test", text);
        let output = rules(&["test", &file]);
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}: {output:?}");
        assert!(complaint.contains(expected), "{expected} in {complaint}");
        assert!(text_of(&output).ends_with(" 0 failed, 1 file broken\n"), "{output:?}");
    }
}

/// The effects of the server that do not come from rules.
#[test]
fn rules_are_tried_in_the_order_and_by_the_limits_of_the_server() {
    let folder = Folder::new();
    write(&folder, "first.rules", "cond %{SEND_REQUEST_HDR_HOOK}\nset-header X-A 1\n");
    let late = "cond %{SEND_REQUEST_HDR_HOOK}\nadd-header X-A 2\n\n\
                cond %{REMAP_PSEUDO_HOOK}\nset-destination HOST b.test\n\
                set-destination PORT 81\n\ncond %{SEND_RESPONSE_HDR_HOOK}\nset-status 404\n";
    write(&folder, "late.rules", late);
    let files = "scope route\nrules late.rules\nscope server\nrules first.rules\n";
    for (case, expected) in [
        ("the server's rules run first", "> GET /\n>> X-A: 1\n>> X-A: 2"),
        ("Host follows the URL", "> GET http://a.test/\n>> GET /\n>> Host: b.test:81"),
        ("a status is changed", "<< 200\n< 404 Not Found"),
        ("a status that says what the body is stays", "<< 206\n< 206\n<< X: y"),
        ("and so does this", "<< 304\n< 304"),
    ] {
        let text = format!("{files}test {case}\n{expected}\n");
        let file = write(&folder, "a.test", &text);
        let output = rules(&["test", &file]);
        assert_eq!(output.status.code(), Some(0), "{case}: {}{output:?}", text_of(&output));
    }
}

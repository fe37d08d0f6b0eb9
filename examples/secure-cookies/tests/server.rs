//! Tests that this build runs its filter for rules, and that rules with the filter are counted,
//! checked and explained like others.

use std::path::Path;
use std::process::{Command, Output};

use forebay_testkit::{Client, Origin, Script, Server, ServerBuilder};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay-secure-cookies");

fn example() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("example.rules").display().to_string()
}

/// Starts a server with these rules, in front of an origin that sets cookies.
fn start(origin: &Origin, rules: &str) -> Server {
    ServerBuilder::new(PROGRAM)
        .origin(origin)
        .flag("--rules", rules)
        .flag("--set-cookie", "keep")
        .start()
}

fn origin() -> Origin {
    Origin::start(|_| {
        let lines = [
            "Cache-Control: max-age=3600",
            "Set-Cookie: a=1",
            "Set-Cookie: b=2; secure; samesite=None",
            "Set-Cookie: secure=3; Path=/",
        ];
        Script::answer("200 OK", &lines, b"page\n")
    })
}

fn cookies(server: &Server, target: &str) -> (Vec<String>, Option<String>) {
    let mut client = Client::connect(server.address());
    let answer = client.ask("GET", target, &[]).expect("an answer");
    let all = |name| answer.head.all(name).map(str::to_owned).collect::<Vec<_>>();
    (all("Set-Cookie"), all("X-Cookies").pop())
}

fn run(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).output().expect("it starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn misses_and_hits_have_secure_cookies_where_the_rule_holds() {
    let origin = origin();
    let server = start(&origin, &example());
    let secured = ["a=1; Secure; SameSite=Lax", "b=2; secure; samesite=None"];
    for _ in 0..2 {
        let (cookies, said) = cookies(&server, "/shop/1");
        assert_eq!(cookies[..2], secured);
        assert_eq!(cookies[2], "secure=3; Path=/; Secure; SameSite=Lax");
        assert_eq!(said.as_deref(), Some("secured"));
    }
    let (cookies, said) = cookies(&server, "/other");
    assert_eq!(cookies, ["a=1", "b=2; secure; samesite=None", "secure=3; Path=/"]);
    assert_eq!(said, None);
    let admin = server.admin().display().to_string();
    let top = run(&["rules", "top", "--count", "1", "--json", "--admin", &admin]);
    assert!(text(&top.stdout).contains("\"matches\":2"), "{}", text(&top.stdout));
}

#[test]
fn its_errors_name_the_line_and_the_names_that_this_build_has() {
    let folder = std::env::temp_dir().join(format!("secure-cookies-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for files");
    let file = folder.join("bad.rules");
    let rules = "cond %{SEND_RESPONSE_HDR_HOOK}\n\
        run-plugin secure-cookie\nrun-plugin secure-cookies Loose\nrun-plugin other.so a b\n";
    std::fs::write(&file, rules).expect("the folder is ours");
    let checked = run(&["rules", "check", &file.display().to_string()]);
    let said = text(&checked.stdout);
    assert_eq!(checked.status.code(), Some(1), "{said}");
    for part in [
        "2:12: error: this build has no filter secure-cookie",
        "did you mean secure-cookies?",
        "3:27: error: the filter secure-cookies refuses its arguments: Loose is not a SameSite",
        "4:12: error: this build has no filter other.so",
    ] {
        assert!(said.contains(part), "{part}\n{said}");
    }
    std::fs::remove_dir_all(folder).expect("it is still there");
}

#[test]
fn a_rule_that_runs_it_is_explained() {
    let explained = run(&[
        "rules",
        "explain",
        &example(),
        "--request",
        "GET http://a.example/shop/1",
        "--response-header",
        "Set-Cookie: a=1",
    ]);
    let said = text(&explained.stdout);
    assert!(said.contains("run-plugin secure-cookies Lax"), "{said}");
    assert!(said.contains("Set-Cookie: a=1; Secure; SameSite=Lax"), "{said}");
}

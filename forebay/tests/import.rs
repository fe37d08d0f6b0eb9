//! `forebay import`: its exit codes and reports, and whether `check` accepts what it writes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use forebay_testkit::tls::TestAuthority;
use forebay_testkit::{Client, Origin, Script, ServerBuilder};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

#[test]
fn check_accepts_every_translation() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../import/tests/golden");
    let folder = tempfile::tempdir().expect("a folder");
    let certificate = TestAuthority::new().issue(&["example.org"]);
    fs::write(folder.path().join("site.pem"), certificate.cert).expect("a file");
    fs::write(folder.path().join("site.key"), certificate.key).expect("a file");
    let mut count = 0;
    for entry in fs::read_dir(source).expect("the folder exists") {
        let path = entry.expect("an entry").path();
        let copy = folder.path().join(path.file_name().expect("a name"));
        match path.is_dir() {
            true => fs::create_dir(copy).expect("a directory"),
            false => drop(fs::copy(&path, copy).expect("a copy")),
        }
    }
    for entry in fs::read_dir(folder.path()).expect("the folder exists") {
        let path = entry.expect("an entry").path();
        let format = match path.extension().and_then(|end| end.to_str()) {
            Some("conf") => "nginx",
            Some("vcl") => "varnish",
            _ => continue,
        };
        for (turn, flag) in [None, Some("--drop-access-rules")].into_iter().enumerate() {
            let output = path.with_extension(format!("{turn}.written"));
            let mut args = vec!["import", format, text(&path), "--output", text(&output)];
            args.extend(["--prefix", text(folder.path())]);
            args.extend(flag);
            let import = run(&args);
            let is_whole = import.stderr.is_empty();
            assert_eq!(import.status.code(), Some(i32::from(!is_whole)), "{}", stderr(&import));
            let check = run(&["check", text(&output)]);
            assert!(check.status.success(), "{}: {}", path.display(), stderr(&check));
        }
        count += 1;
    }
    assert!(count >= 10, "only {count} configurations were found");
}

#[test]
fn check_accepts_every_translation_of_traffic_server() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../import/tests/golden/trafficserver");
    let certificate = TestAuthority::new().issue(&["example.org"]);
    let mut count = 0;
    for entry in fs::read_dir(source).expect("the folder exists") {
        let path = entry.expect("an entry").path();
        if !path.is_dir() {
            continue;
        }
        let folder = tempfile::tempdir().expect("a folder");
        for file in fs::read_dir(&path).expect("the folder exists") {
            let file = file.expect("an entry");
            fs::copy(file.path(), folder.path().join(file.file_name())).expect("a copy");
        }
        fs::write(folder.path().join("site.pem"), &certificate.cert).expect("a file");
        fs::write(folder.path().join("site.key"), &certificate.key).expect("a file");
        for (turn, flag) in [None, Some("--drop-access-rules")].into_iter().enumerate() {
            let output = folder.path().join(format!("{turn}.toml"));
            let mut args = vec!["import", "trafficserver", text(folder.path())];
            args.extend(["--output", text(&output)]);
            args.extend(flag);
            let import = run(&args);
            assert!(import.status.code().is_some_and(|code| code < 2), "{}", stderr(&import));
            let check = run(&["check", text(&output)]);
            assert!(check.status.success(), "{}: {}", path.display(), stderr(&check));
        }
        count += 1;
    }
    assert!(count >= 5, "only {count} configurations were found");
}

#[test]
fn a_translated_traffic_server_answers_as_the_source_says() {
    let origin = Origin::start(|request| Script::answer("200 OK", &[], request.target.as_bytes()));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("remap.config");
    let address = origin.address();
    let source = format!(
        "map http://a.test/app/ http://{address}/v2/\n\
         map http://a.test/read/ http://{address}/read/ @action=allow @method=get\n\
         map http://a.test/none/ http://{address}/ @action=deny @src_ip=127.0.0.1\n\
         map http://a.test/foo http://{address}/foo\n\
         redirect http://a.test/old/ http://b.test/new/\n"
    );
    fs::write(&path, source).expect("a file");
    let without = run(&["import", "trafficserver", text(&path)]);
    assert_eq!(without.status.code(), Some(1), "header rules need --output");
    let output = folder.path().join("forebay.toml");
    let import = run(&["import", "trafficserver", text(&path), "--output", text(&output)]);
    assert_eq!(import.status.code(), Some(0), "{}", stderr(&import));
    let toml = fs::read_to_string(&output).expect("a configuration");
    let toml = toml.replace("rules = [\"", &format!("rules = [\"{}/", folder.path().display()));
    let lines = toml.lines().filter(|line| !line.starts_with("listen ="));
    let toml: String = lines.map(|line| format!("{line}\n")).collect();
    let server = ServerBuilder::new(PROGRAM).config(&toml).start();
    for (method, host, target, status, body) in [
        ("GET", "a.test", "/app/x?y=1", 200, "/v2/x?y=1"),
        ("GET", "a.test", "/read/x", 200, "/read/x"),
        ("DELETE", "a.test", "/read/x", 403, ""),
        ("GET", "a.test", "/none/x", 403, ""),
        ("GET", "a.test", "/foobar", 200, "/foobar"),
        ("GET", "a.test", "/old/x?y=1", 301, ""),
        ("GET", "a.test", "/else", 404, ""),
        ("GET", "b.test", "/app/x", 404, ""),
    ] {
        let mut client = Client::connect(server.address());
        client.send(format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let found = client.response(method).expect("an answer");
        assert_eq!(found.status, status, "{method} {target}");
        if !body.is_empty() {
            assert_eq!(found.body, body.as_bytes(), "{method} {target}");
        }
        if status == 301 {
            assert_eq!(found.field("location"), Some("http://b.test/new/x?y=1"));
        }
    }
}

#[test]
fn exit_codes_and_reports_say_whether_all_was_carried_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let whole = "server {\n listen 8080;\n location / {\n proxy_set_header Host $host;\n \
                 proxy_pass http://127.0.0.1:9;\n }\n}\n";
    let whole = file("whole.conf", whole);
    let part = file("part.conf", "server {\n location / {\n uwsgi_pass a;\n }\n}\n");
    let broken = file("broken.conf", "server {\n");
    for (path, code) in [(&whole, 0), (&part, 1), (&broken, 2)] {
        let found = run(&["import", "nginx", path]);
        assert_eq!(found.status.code(), Some(code), "{path}: {}", stderr(&found));
    }
    let origin = "vcl 4.1;\nbackend default { .host = \"127.0.0.1\"; }\n";
    let whole_vcl = file("whole.vcl", origin);
    let part_vcl = file("part.vcl", &format!("{origin}import geoip2;\n"));
    let broken_vcl = file("broken.vcl", &format!("{origin}sub vcl_recv {{\n"));
    for (path, code) in [(&whole_vcl, 0), (&part_vcl, 1), (&broken_vcl, 2)] {
        let found = run(&["import", "varnish", path]);
        assert_eq!(found.status.code(), Some(code), "{path}: {}", stderr(&found));
    }
    let report = run(&["import", "nginx", &part, "--json"]);
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    assert_eq!(report["complete"], false, "{report}");
    assert_eq!(report["notes"][0]["line"], 3, "{report}");
    assert_eq!(report["notes"][0]["directive"], "uwsgi_pass", "{report}");
    let again = run(&["import", "nginx", &whole, "--output", &whole]);
    assert_eq!(again.status.code(), Some(2), "an existing file was replaced");
    // Header rules are files beside the output, or comments.
    let fields = "server {\n location / {\n add_header X-A b;\n \
                  proxy_pass http://127.0.0.1:9;\n }\n}\n";
    let fields = file("fields.conf", fields);
    let output = folder.path().join("shop.toml").display().to_string();
    let written = run(&["import", "nginx", &fields, "--output", &output]);
    assert_eq!(written.status.code(), Some(0), "{}", stderr(&written));
    let rules = fs::read_to_string(folder.path().join("shop.1.rules")).expect("the rules");
    assert!(rules.contains("  add-header X-A \"b\"\n"), "{rules}");
    let check = run(&["check", &output]);
    assert!(check.status.success(), "{}", stderr(&check));
    fs::remove_file(&output).expect("it was written");
    let again = run(&["import", "nginx", &fields, "--output", &output]);
    assert_eq!(again.status.code(), Some(2), "existing rules were replaced");
    assert!(!Path::new(&output).exists(), "a configuration was written beside other rules");
    let printed = run(&["import", "nginx", &fields]);
    assert_eq!(printed.status.code(), Some(1), "{}", stderr(&printed));
    assert!(String::from_utf8_lossy(&printed.stdout).contains("#       add-header X-A \"b\"\n"));
    assert!(stderr(&printed).contains("forebay.1.rules"), "{}", stderr(&printed));
}

#[test]
fn other_users_cannot_read_the_secrets_in_a_translation() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = "server {\n location / {\n \
                  proxy_set_header Authorization \"Basic YW5uOnNlY3JldA==\";\n \
                  proxy_pass http://127.0.0.1:9;\n }\n}\n";
    let path = folder.path().join("nginx.conf");
    fs::write(&path, source).expect("a file");
    let output = folder.path().join("out.toml");
    run(&["import", "nginx", text(&path), "--output", text(&output)]);
    let rules = folder.path().join("out.1.rules");
    assert!(fs::read_to_string(&rules).expect("the rules").contains("YW5uOnNlY3JldA=="));
    for path in [output, rules] {
        let mode = fs::metadata(&path).expect("it was written").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}: {mode:o}", path.display());
    }
}

#[test]
fn a_translated_server_answers_as_the_source_says() {
    let origin = Origin::start(|_| Script::answer("200 OK", &[], b"from the origin"));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("nginx.conf");
    let source = format!(
        "server {{ listen 127.0.0.1:1; server_name _;\n\
         location / {{ proxy_set_header Host $host; proxy_pass http://{}; }}\n\
         location /closed/ {{ deny all; }}\n\
         location = /moved {{ return 301 /new$is_args$args; }} }}\n",
        origin.address()
    );
    fs::write(&path, source).expect("a file");
    let import = run(&["import", "nginx", text(&path)]);
    assert_eq!(import.status.code(), Some(0), "{}", stderr(&import));
    let toml = String::from_utf8_lossy(&import.stdout);
    // The test's own flag names a free port.
    let lines = toml.lines().filter(|line| !line.starts_with("listen ="));
    let toml: String = lines.map(|line| format!("{line}\n")).collect();
    let server = ServerBuilder::new(PROGRAM).config(&toml).start();
    for (target, status) in [("/a", 200), ("/closed/x", 403), ("/moved?a=1", 301)] {
        let mut client = Client::connect(server.address());
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a.example\r\n\r\n"));
        let found = client.response("GET").expect("an answer");
        assert_eq!(found.status, status, "{target}");
    }
}

fn run(args: &[&str]) -> Output {
    Command::new(PROGRAM).args(args).output().expect("the program runs")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a name in UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

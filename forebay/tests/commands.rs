//! The commands as users type them: `try` and its hints, `check`, `config`, `stats`, and the search
//! of commands for servers.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::thread;

use forebay_testkit::server::Folder;
use forebay_testkit::tls::rustls::pki_types::CertificateDer;
use forebay_testkit::tls::rustls::pki_types::pem::PemObject;
use forebay_testkit::tls::rustls::{self, ClientConfig, RootCertStore};
use forebay_testkit::{
    Client, Origin, Response, Script, Server, ServerBuilder, Signal, TlsClient, eventually,
};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

#[test]
fn try_serves_over_tls_with_a_certificate_of_its_own() {
    let builder = ServerBuilder::bare(PROGRAM, "try").flag("--listen", "127.0.0.1:0");
    let run = builder.path("run").display().to_string();
    let mut server = builder.switch("--tls").flag("--runtime-dir", &run).start();
    eventually("the server has printed its hints", || {
        server.output().contains("Stop with Ctrl-C.")
    });
    let text = server.output();
    for (title, protocol) in [("HTTP/2 over TLS", "h2"), ("HTTP/1.1 over TLS", "http/1.1")] {
        let line = printed(&text, title);
        let words: Vec<_> = words(line).collect();
        let file = words.iter().position(|word| word == "--cacert").map(|at| &words[at + 1]);
        let pem = std::fs::read(file.expect("a file")).expect("it is readable");
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&pem).expect("PEM")).expect("a certificate");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider supports them")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.into()];
        let port = server.tls_address().port();
        assert!(line.contains(&format!("https://localhost:{port}/")), "{line}");
        let client = TlsClient::connect(server.tls_address(), "localhost", &Arc::new(config));
        let mut client = client.expect(protocol);
        assert_eq!(client.connection().alpn_protocol(), Some(protocol.as_bytes()));
        if protocol == "http/1.1" {
            let page = client.get("localhost", "/").expect("an answer");
            assert!(page.text().contains("<title>The forebay</title>"));
        }
    }
    let files = || {
        let names = std::fs::read_dir(&run).into_iter().flatten().map_while(Result::ok);
        names.filter(|file| file.file_name().to_string_lossy().starts_with("try-")).count()
    };
    assert_eq!(files(), 2);
    server.stop();
    assert_eq!(files(), 0, "the key stays behind");
    let both = ["try", "--tls", "--tls-cert", "a.pem", "--tls-key", "a.key"];
    let refused = Command::new(PROGRAM).args(both).output().expect("it runs");
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("leave out --tls-cert"));
}

#[test]
fn the_hints_of_try_show_their_effects() {
    let builder = ServerBuilder::bare(PROGRAM, "try").flag("--listen", "127.0.0.1:0");
    let run = builder.path("run").display().to_string();
    let server = builder.flag("--runtime-dir", &run).start();
    eventually("the server has printed its hints", || {
        server.output().contains("Stop with Ctrl-C.")
    });
    let text = server.output();
    let base = format!("http://{}", server.address());
    let first = text.lines().find(|line| line.contains("http://") && !line.contains("listening"));
    let front = first.and_then(|line| words(line).find(|word| word.starts_with("http://")));
    assert_eq!(
        front.as_deref(),
        Some(format!("{base}/").as_str()),
        "the URL is not the front page: {text}"
    );

    let url = |title: &str| {
        let line = printed(&text, title);
        let url = words(line).find(|word| word.starts_with(&base)).expect("a URL");
        url[base.len()..].to_string()
    };
    let page = url("a miss, then a hit");
    for (turn, wanted) in [("first", "fwd=uri-miss"), ("second", "hit")] {
        let response = ask(&server, &page, &[]);
        assert!(says(&response, wanted), "the {turn} answer: {response:?}");
        assert!(response.text().contains("<title>The forebay</title>"));
    }
    for _ in 0..2 {
        let response = ask(&server, &url("never stored"), &[]);
        assert!(says(&response, "fwd=uri-miss") && !says(&response, "stored"), "{response:?}");
    }
    let command: Vec<_> = words(printed(&text, "a purge")).skip(2).collect();
    let output = Command::new(&command[0]).args(&command[1..]).output().expect("it runs");
    assert!(output.status.success(), "{command:?}: {output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 stored response purged"));
    assert!(says(&ask(&server, &page, &[]), "fwd=uri-miss"), "the page is still stored");

    let range = ask(&server, &url("a range"), &["Range: bytes=0-99"]);
    assert_eq!((range.status, range.body.len()), (206, 100), "{range:?}");
    let command: Vec<_> = words(printed(&text, "what happened")).skip(2).collect();
    let output = Command::new(&command[0]).args(&command[1..]).output().expect("it runs");
    assert!(String::from_utf8_lossy(&output.stdout).contains("hits_total"), "{output:?}");
    collapses(&server, &url("a collapse"));
}

/// Runs four clients at the same time, and checks that one request goes to the origin and each
/// client gets all lines.
fn collapses(server: &Server, target: &str) {
    let before = server.stats();
    let texts: Vec<String> = thread::scope(|scope| {
        let clients: Vec<_> =
            (0..4).map(|_| scope.spawn(|| ask(server, target, &[]).text())).collect();
        clients.into_iter().map(|client| client.join().expect("no panic")).collect()
    });
    for text in &texts {
        assert_eq!(text.lines().count(), 10, "{text}");
        assert_eq!(text, &texts[0]);
    }
    let after = server.stats();
    let grown = |name: &str| after[name] - before[name];
    assert_eq!((grown("origin_requests_total"), grown("collapsed_total")), (1.0, 3.0));
}

#[test]
fn check_reports_errors_with_their_position() {
    let folder = Folder::new();
    let file = folder.path("forebay.toml");
    let site = "[[site]]\nname = \"a\"\nnames = [\"*\"]\norigin = \"http://127.0.0.1:1\"\n";
    let check = |text: &str, flags: &[&str]| {
        std::fs::write(&file, text).expect("the folder is writable");
        forebay(&[&["check"], flags, &[&file.display().to_string()]].concat())
    };
    let good = check(site, &[]);
    assert!(good.status.success() && text_of(&good).contains("valid; sites: 1"), "{good:?}");
    let good = check(site, &["--json"]);
    assert_eq!(text_of(&good).trim(), "{\"sites\":1,\"valid\":true}");
    // Text before the site, line and column of the error, a part of the message, and a part of the
    // hint.
    let cases = [
        ("head_bytes_maxx = 1\n", 1, 1, "head_bytes_maxx", "head_bytes_max"),
        ("\nworkers = 5000\n", 2, 11, "too large: 5000", ""),
        ("idle_ms_max = \"10 sec\"\n", 1, 15, "idle_ms_max", "10s"),
        ("listen = \"localhost:80\"\n", 1, 10, "listen", "127.0.0.1:80"),
        ("admin = \"0.0.0.0:9000\"\n", 1, 9, "admin", "loopback or a Unix socket"),
        ("cache_size = \n", 1, 14, "", ""),
    ];
    for (text, line, column, message, hint) in cases {
        let text = format!("{text}{site}");
        let output = check(&text, &[]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}: {output:?}");
        let place = format!("{}:{line}:{column}", file.display());
        assert!(said.contains(&place), "{place} in {said}");
        assert!(said.contains(message) && said.contains(hint), "{message}, {hint} in {said}");

        let output = check(&text, &["--json"]);
        assert_eq!(output.status.code(), Some(1), "{text}: {output:?}");
        let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(value["valid"], false, "{value}");
        let error = &value["errors"][0];
        assert_eq!((&error["line"], &error["column"]), (&line.into(), &column.into()), "{value}");
        assert_eq!(error["file"], file.display().to_string());
        assert!(error["message"].as_str().is_some_and(|said| said.contains(message)), "{value}");
        let hinted = error["hint"].as_str().unwrap_or_default();
        assert!(hinted.contains(hint), "{hint} in {value}");
    }
    let missing = forebay(&["check", &folder.path("none.toml").display().to_string()]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("none.toml"), "{missing:?}");
}

#[test]
fn the_printed_defaults_are_a_valid_file() {
    let folder = Folder::new();
    let file = folder.path("forebay.toml");
    let defaults = forebay(&["config", "--defaults"]);
    std::fs::write(&file, &defaults.stdout).expect("the folder is writable");
    let output = forebay(&["check", &file.display().to_string()]);
    assert!(output.status.success(), "{output:?}");
    let text = text_of(&defaults);
    for name in ["listen", "cache_size", "[[site]]", "access_log", "object_bytes_max"] {
        assert!(text.contains(name), "{name} is not in {text}");
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    let origin = Origin::echo();
    let server = Server::before(PROGRAM, &origin);
    let admin = server.admin().display().to_string();
    let file = format!("run/{}.counters", server.address().port());
    let file = server.path(&file).display().to_string();
    let cases: &[&[&str]] = &[
        &["stats", "--json", "--admin", &admin],
        &["stats", "--admin", &admin],
        &["counters", &file],
        &["counters", "--watch", &file],
        &["purge", "http://example.test/", "--admin", &admin],
        &["reload", "--admin", &admin],
        &["config", "--defaults"],
        &["config", "--defaults", "--format", "markdown"],
    ];
    for arguments in cases {
        // The reading end is closed, as when `head` has exited.
        let (reader, writer) = std::io::pipe().expect("descriptors are left");
        drop(reader);
        let output = Command::new(PROGRAM).args(*arguments).stdout(writer).output();
        let output = output.expect("forebay was built");
        assert_eq!((output.status.code(), text_of_errors(&output)), (Some(0), String::new()));
    }
}

#[test]
fn servers_with_default_settings_run_side_by_side_and_are_found() {
    let origin = Origin::echo();
    let folder = Folder::new();
    let dir = folder.path("").display().to_string();
    let found = |arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).env("XDG_RUNTIME_DIR", &dir).output().expect("forebay was built")
    };
    let none = found(&["stats"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(text_of_errors(&none).contains("no running server found"), "{none:?}");

    let start = || {
        let builder = ServerBuilder::bare(PROGRAM, "serve").variable("XDG_RUNTIME_DIR", &dir);
        builder.origin(&origin).start()
    };
    let first = start();
    assert_eq!(first.admin().parent(), Some(Path::new(&dir).join("forebay").as_path()));
    let only = found(&["stats", "--json"]);
    assert!(text_of(&only).contains("\"requests_total\":0"), "{only:?}");

    let second = start();
    assert_ne!(first.address(), second.address());
    assert_ne!(first.admin(), second.admin());
    for server in [&first, &second] {
        let response = Client::connect(server.address()).ask("GET", "/", &[]);
        assert_eq!(response.expect("served").status, 200);
        assert_eq!(server.stat("requests_total"), 1.0, "each server counts its own requests");
    }
    for arguments in [&["stats"][..], &["reload"], &["purge", "http://a/"]] {
        let output = found(arguments);
        let said = text_of_errors(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("choose one with --admin"), "{said}");
        for server in [&first, &second] {
            assert!(said.contains(&server.admin().display().to_string()), "{said}");
        }
    }
    drop(second);
    // The killed server's socket still exists, but no server listens on it.
    assert!(found(&["reload"]).status.success());
    assert_eq!(first.stat("reloads_total"), 1.0);
}

/// Servers whose files are all in one runtime directory, and commands that find them there.
struct SharedRuntimeDir {
    origin: Origin,
    folder: Folder,
}

impl SharedRuntimeDir {
    fn new() -> SharedRuntimeDir {
        SharedRuntimeDir { origin: Origin::echo(), folder: Folder::new() }
    }

    fn parent(&self) -> String {
        self.folder.path("").display().to_string()
    }

    /// A server without `--admin`, so with the socket `PORT.admin`.
    fn server(&self) -> ServerBuilder {
        let builder = ServerBuilder::bare(PROGRAM, "serve").origin(&self.origin);
        builder.variable("XDG_RUNTIME_DIR", &self.parent()).flag("--listen", "127.0.0.1:0")
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).env("XDG_RUNTIME_DIR", self.parent());
        command.output().expect("forebay was built")
    }

    /// Checks that `reload` without an address reaches this server.
    fn assert_finds(&self, server: &Server) {
        let before = server.stat("reloads_total");
        let output = self.run(&["reload"]);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(server.stat("reloads_total"), before + 1.0, "another server was reloaded");
    }

    /// Checks that commands without an address fail, and list these servers.
    fn assert_is_ambiguous(&self, servers: &[&Server]) {
        for arguments in [&["reload"][..], &["purge", "http://a/"], &["explain", "http://a/"]] {
            let output = self.run(arguments);
            let said = text_of_errors(&output);
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(said.contains("choose one with --admin"), "{said}");
            for server in servers {
                let (port, admin) = (server.address().port(), server.admin());
                let line = format!("port {port}: {}", admin.display());
                assert!(said.contains(&line), "{line} in {said}");
            }
        }
        for server in servers {
            assert_eq!(server.stat("reloads_total"), 0.0, "one of several was reloaded");
        }
    }

    fn address_file(&self, server: &Server) -> PathBuf {
        self.folder.path("forebay").join(format!("{}.admin-address", server.address().port()))
    }
}

#[test]
fn a_server_with_its_admin_interface_elsewhere_is_found() {
    let shared = SharedRuntimeDir::new();
    let mut at_port = shared.server().flag("--admin", "127.0.0.1:0").start();
    let mut own = shared.server().start();
    shared.assert_is_ambiguous(&[&at_port, &own]);
    assert!(own.stop().is_some_and(|status| status.success()));
    shared.assert_finds(&at_port);

    let socket = shared.folder.path("elsewhere").display().to_string();
    let at_socket = shared.server().flag("--admin", &socket).start();
    let mode = std::fs::metadata(shared.address_file(&at_socket)).expect("it runs").permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    assert!(at_port.stop().is_some_and(|status| status.success()));
    assert!(!shared.address_file(&at_port).exists(), "a stopped server's file remains");
    shared.assert_finds(&at_socket);

    // A killed server leaves its files. The next server at its port has another admin interface.
    let address = at_socket.address().to_string();
    drop(at_socket);
    let said = text_of_errors(&shared.run(&["reload"]));
    assert!(said.contains("no running server found"), "{said}");
    let next = shared.server().flag("--listen", &address).start();
    shared.assert_finds(&next);
}

#[test]
fn a_server_that_has_left_no_address_is_not_passed_over() {
    let shared = SharedRuntimeDir::new();
    let at_port = shared.server().flag("--admin", "127.0.0.1:0").start();
    std::fs::remove_file(shared.address_file(&at_port)).expect("it was written");
    let refused = |wanted: &str| {
        let output = shared.run(&["reload"]);
        let said = text_of_errors(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(wanted) && said.contains("--admin"), "{said}");
        let port = format!("port {}: ", at_port.address().port());
        assert!(said.contains(&port), "{said}");
    };
    refused("has left no address");
    let own = shared.server().start();
    refused("several servers are running");
    assert_eq!(own.stat("reloads_total"), 0.0, "the other server was reloaded");
}

#[test]
fn a_server_is_found_after_an_upgrade_that_moves_its_admin_interface() {
    let shared = SharedRuntimeDir::new();
    let elsewhere = shared.folder.path("elsewhere").display().to_string();
    let mut server = shared.server().flag("--admin", "127.0.0.1:0").start();
    shared.assert_finds(&server);
    for admin in [elsewhere.as_str(), "auto", "auto", "127.0.0.1:0"] {
        let new = server.successor().variable("XDG_RUNTIME_DIR", &shared.parent());
        let new = new.flag("--admin", admin).start();
        shared.assert_finds(&new);
        assert!(server.wait().is_some_and(|status| status.success()), "{}", server.errors());
        shared.assert_finds(&new);
        server = new;
    }
}

#[test]
fn a_lock_profile_is_not_taken_for_that_of_another_server() {
    let shared = SharedRuntimeDir::new();
    let without = shared.server().flag("--lock-profile-size", "0").start();
    let with = shared.server().start();
    let output = shared.run(&["locks", "on"]);
    let said = text_of_errors(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("several servers are running"), "{said}");
    // A killed server's profile remains.
    drop(with);
    let output = shared.run(&["locks", "report"]);
    let said = text_of_errors(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the running server says: "), "{said}");
    drop(without);
    assert!(shared.run(&["locks", "report"]).status.success());
}

#[test]
fn a_given_address_that_is_in_use_is_refused() {
    let origin = Origin::echo();
    let first = Server::before(PROGRAM, &origin);
    let address = first.address().to_string();
    let output = ServerBuilder::new(PROGRAM).origin(&origin).flag("--listen", &address).run();
    let said = text_of_errors(&output);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{said}");
    assert!(said.contains(&address) && said.contains("in use"), "{said}");
    assert!(said.contains("--listen"), "{said}");
    let response = Client::connect(first.address()).ask("GET", "/", &[]);
    assert_eq!(response.expect("served").status, 200);
}

#[test]
fn a_sighup_right_after_the_start_reloads() {
    let origin = Origin::echo();
    for _ in 0..5 {
        let server = Server::before(PROGRAM, &origin);
        server.signal(Signal::HUP);
        eventually("the reload is applied", || server.stat("reloads_total") == 1.0);
        let response = Client::connect(server.address()).ask("GET", "/", &[]);
        assert_eq!(response.expect("served").status, 200);
    }
}

#[test]
fn several_urls_are_purged_and_a_bad_one_sets_the_exit_code() {
    let origin = Origin::start(|_| Script::answer("200 OK", &["Cache-Control: max-age=60"], b"x"));
    let server = Server::before(PROGRAM, &origin);
    let mut client = Client::connect(server.address());
    for target in ["/a", "/b"] {
        client.ask("GET", target, &[]).expect("served");
    }
    let urls = ["http://example.test/a", "gopher://example.test/", "http://example.test/b"];
    let output = server.command(&[&["purge"], &urls[..]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text_of(&output).matches(": 1 stored response purged").count(), 2, "{output:?}");
    assert!(text_of_errors(&output).contains("gopher://example.test/: "), "{output:?}");
    assert_eq!(server.stat("purged_total"), 2.0);
    let output = server.command(&["purge", "--json", urls[0]]);
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&value["purged"], &value["url"]), (&0.into(), &urls[0].into()));
}

fn forebay(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).output().expect("forebay was built")
}

fn text_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn text_of_errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The line that `try` prints under this title.
fn printed<'a>(text: &'a str, title: &str) -> &'a str {
    let mut lines = text.lines().filter(|line| line.trim_start().starts_with(title));
    lines.next().unwrap_or_else(|| panic!("no {title} in {text}"))
}

fn words(line: &str) -> impl Iterator<Item = String> {
    line.split_whitespace().map(str::to_string)
}

/// Requests a target as curl does, with the server's own address in the Host field.
fn ask(server: &Server, target: &str, fields: &[&str]) -> Response {
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    let mut client = Client::connect(server.address());
    client.send(format!("GET {target} HTTP/1.1\r\nHost: {}\r\n{fields}\r\n", server.address()));
    client.response("GET").expect("an answer")
}

/// Whether Cache-Status has this parameter.
fn says(response: &Response, parameter: &str) -> bool {
    let value = response.field("cache-status").unwrap_or_default();
    value.split("; ").any(|part| part == parameter)
}

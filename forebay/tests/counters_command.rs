//! `forebay counters` with a server that runs, dies and is replaced.

use std::io::{BufRead as _, BufReader, Lines};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use forebay_testkit::clock::holds_within;
use forebay_testkit::server::{Folder, Signal};
use forebay_testkit::{Client, Gate, Origin, Script, Server, ServerBuilder};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

fn counters(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).arg("counters").args(arguments).output().expect("forebay was built")
}

fn file_of(server: &Server) -> PathBuf {
    server.path(&format!("run/{}.counters", server.address().port()))
}

fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("no JSON: {output:?}"))
}

/// Returns the builder's server on the port of an earlier one.
fn again(server: &Server) -> Server {
    server.again().flag("--listen", &server.address().to_string()).start()
}

/// A running `counters --watch --json`, which prints one JSON object per table.
struct Watcher {
    child: Child,
    tables: Lines<BufReader<ChildStdout>>,
}

impl Watcher {
    fn of(file: &Path) -> Watcher {
        let mut child = Command::new(PROGRAM)
            .args(["counters", "--watch", "--json", "--interval", "100ms", "--count", "600"])
            .arg(file)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("forebay was built");
        let tables = BufReader::new(child.stdout.take().expect("the output is piped")).lines();
        Watcher { child, tables }
    }

    fn next(&mut self) -> Value {
        let table = self.tables.next().expect("a table").expect("a text");
        serde_json::from_str(&table).unwrap_or_else(|_| panic!("no JSON: {table}"))
    }

    /// Returns the first table that meets the condition.
    fn until(&mut self, what: &str, mut holds: impl FnMut(&Value) -> bool) -> Value {
        for _ in 0..300 {
            let table = self.next();
            if holds(&table) {
                return table;
            }
        }
        panic!("no table within the limit shows that {what}");
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn watch_sees_load_death_damage_and_the_next_server() {
    let origin = Origin::echo();
    let mut server = Server::before(PROGRAM, &origin);
    let (file, pid) = (file_of(&server), server.id());
    let mut watcher = Watcher::of(&file);
    let first = watcher.next();
    assert_eq!((&first["pid"], &first["is_alive"]), (&pid.into(), &true.into()), "{first}");
    assert_eq!(first["counters"]["requests_total"], 0);
    assert!(first.get("per_second").is_none(), "the first table has rates: {first}");

    let mut client = Client::connect(server.address());
    for _ in 0..5 {
        client.ask("GET", "/", &[]).expect("served");
    }
    let mut rates = 0.0;
    let all = watcher.until("all requests are counted", |table| {
        rates += table["per_second"]["requests_total"].as_f64().unwrap_or_default();
        table["counters"]["requests_total"] == 5
    });
    assert!(rates > 5.0, "5 requests within less than a second: {rates}");
    let turns = &all["counters"]["loop_turn_us"];
    assert!(turns["count"].as_u64() >= Some(5) && turns["sum"].as_u64() > Some(0), "{turns}");
    assert_eq!(all["counters"]["origin_first_byte_ms"]["count"], 5, "{all}");

    server.signal(Signal::KILL);
    assert!(server.wait().is_some_and(|status| !status.success()));
    let dead = watcher.until("the server is dead", |table| table["is_alive"] == false);
    assert_eq!(dead["counters"]["requests_total"], 5);

    let mut next = again(&server);
    let found = watcher.until("the next server", |table| table["is_alive"] == true);
    assert_eq!(found["pid"], next.id());
    assert_eq!(found["counters"]["requests_total"], 0);
    assert!(found.get("per_second").is_none(), "the next server's first table has rates: {found}");
    Client::connect(next.address()).ask("GET", "/", &[]).expect("served");
    watcher.until("its request", |table| table["counters"]["requests_total"] == 1);

    // The counter file is replaced by a file of another program.
    next.stop();
    let other = server.path("run/other");
    std::fs::write(&other, "GIF89a").expect("the folder is writable");
    std::fs::rename(&other, &file).expect("the folder is writable");
    let mut complaints =
        BufReader::new(watcher.child.stderr.take().expect("the output is piped")).lines();
    let complaint = complaints.next().expect("a complaint").expect("a text");
    assert!(
        complaint.contains(&file.display().to_string())
            && complaint.contains("is not a counter file")
            && complaint.ends_with("trying again to read the file"),
        "{complaint}"
    );
    let last = again(&server);
    watcher.until("the last server", |table| table["pid"] == last.id());
}

#[test]
fn a_table_says_that_its_server_is_dead_and_other_files_are_refused() {
    let origin = Origin::echo();
    let mut server = Server::before(PROGRAM, &origin);
    Client::connect(server.address()).ask("GET", "/", &[]).expect("served");
    let file = file_of(&server);
    let named = file.display().to_string();
    let table = || {
        let output = counters(&[&named]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let text = table();
    let title = format!("{named}: server {} is running\n", server.id());
    assert!(text.starts_with(&title), "{text}");
    assert!(!text.contains("PER SECOND") && !text.contains('\x1b'), "{text}");
    let row = |name: &str| {
        let line = text.lines().find(|line| line.split([' ', ':']).next() == Some(name));
        line.unwrap_or_else(|| panic!("no {name}: {text}")).split_whitespace().last()
    };
    assert_eq!((row("requests_total"), row("hits_total")), (Some("1"), Some("0")));
    assert_eq!(row("origin_first_byte_ms"), Some("1"));
    let bars = text.lines().filter(|line| line.starts_with("  ≤ ") && line.contains('#'));
    assert!(bars.count() >= 2, "{text}");

    server.signal(Signal::KILL);
    assert!(server.wait().is_some_and(|status| !status.success()));
    let title = format!("{named}: server {} is dead; these are its last values\n", server.id());
    let text = table();
    assert!(text.starts_with(&title), "{text}");

    let whole = std::fs::read(&file).expect("the file is accessible");
    let mut damaged = whole.clone();
    damaged[24] = 0xff;
    for (bytes, message) in [
        (&b"something else"[..], "is not a counter file"),
        (&whole[..whole.len() - 1], "is cut off"),
        (&damaged, "is damaged: "),
    ] {
        std::fs::write(&file, bytes).expect("the file is accessible");
        let refused = counters(&["--watch", &named]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!((refused.status.code(), refused.stdout.len()), (Some(1), 0), "{refused:?}");
        assert!(said.contains(&named) && said.contains(message), "{message}: {said}");
    }
}

#[test]
fn without_an_argument_the_file_of_the_only_server_is_found() {
    let (origin, folder) = (Origin::echo(), Folder::new());
    let run = folder.path("forebay");
    let start = || {
        let builder = ServerBuilder::new(PROGRAM).origin(&origin);
        builder.flag("--runtime-dir", &run.display().to_string()).start()
    };
    let look = || {
        let command = &mut Command::new(PROGRAM);
        let command = command.args(["counters", "--json"]);
        command.env("XDG_RUNTIME_DIR", folder.path("")).output().expect("forebay was built")
    };
    let refused = |wanted: &[&str]| {
        let output = look();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(wanted.iter().all(|wanted| said.contains(wanted)), "{wanted:?} in {said}");
    };
    refused(&["no counter file found in", "forebay counters FILE"]);
    let mut first = start();
    assert_eq!(json_of(&look())["pid"], first.id());
    let mut second = start();
    let names = [&first, &second].map(|server| format!("{}.counters", server.address().port()));
    refused(&["several servers are running", &names[0], &names[1]]);
    second.stop();
    assert_eq!(json_of(&look())["pid"], first.id(), "the other server is dead");
    first.stop();
    refused(&["no server is running", &names[0], &names[1]]);
    std::fs::remove_file(run.join(&names[0])).expect("the file is accessible");
    let left = json_of(&look());
    assert_eq!((&left["pid"], &left["is_alive"]), (&second.id().into(), &false.into()));
    let mode = run.metadata().expect("the path exists").permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "only the owner may read the directory");
}

#[test]
fn tables_in_a_pipe_follow_each_other_and_end() {
    let server = Server::before(PROGRAM, &Origin::echo());
    let named = file_of(&server).display().to_string();
    let output = counters(&["--watch", "--count", "3", "--interval", "100ms", &named]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text.matches(": server ").count(), 3, "{text}");
    assert!(!text.contains('\x1b') && text.contains("PER SECOND"), "{text}");
    let rates: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("panics_total "))
        .map(|line| line.split_whitespace().last().unwrap_or_default())
        .collect();
    assert_eq!(rates, ["-", "0.0", "0.0"]);
    let without = counters(&["--count", "3", &named]);
    assert_eq!(without.status.code(), Some(2), "several tables need --watch: {without:?}");
}

#[test]
fn the_time_to_an_origins_first_byte_is_measured() {
    const HELD_MS: u64 = 40;
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |request| {
        let script = if request.nth == 0 { Script::new().wait(&held) } else { Script::new() };
        script.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nCache-Control: no-store\r\n\r\nx")
    });
    let server = Server::before(PROGRAM, &origin);
    let mut client = Client::connect(server.address());
    client.send(forebay_testkit::client::request_text("GET", "/slow", &[]));
    forebay_testkit::eventually("the origin has the request", || origin.request_count() == 1);
    assert!(!holds_within(Duration::from_millis(HELD_MS), || false));
    gate.open();
    assert_eq!(client.response("GET").expect("served").status, 200);
    client.ask("GET", "/other", &[]).expect("served");
    let named = file_of(&server).display().to_string();
    let table = json_of(&counters(&["--json", &named]));
    let histogram = &table["counters"]["origin_first_byte_ms"];
    assert_eq!(histogram["count"], 2, "{histogram}");
    assert!(histogram["sum"].as_u64() >= Some(HELD_MS), "{histogram}");
    let buckets = histogram["buckets"].as_array().expect("buckets");
    let long = buckets.iter().filter(|bucket| bucket["up_to"].as_u64().is_none_or(|to| to > 32));
    let long: u64 = long.filter_map(|bucket| bucket["count"].as_u64()).sum();
    assert!(long >= 1, "the first response was delayed: {histogram}");
}

//! `forebay locks` with a server that runs, dies, and leaves its profile.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use forebay_testkit::server::Signal;
use forebay_testkit::{Client, Server, ServerBuilder};
use serde_json::Value;

use crate::common::{PROGRAM, file_of, fresh, locks, report, text_of};

/// Returns the error output of a command that must be refused.
fn refusal(arguments: &[&str]) -> String {
    let output = locks(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
    String::from_utf8(output.stderr).expect("text")
}

/// The number of acquisitions of a lock class at all call sites.
fn count(report: &Value, class: &str) -> u64 {
    let sites = report["sites"].as_array().expect("sites");
    let of_class = sites.iter().filter(|site| site["site"]["lock"] == class);
    of_class.map(|site| site["numbers"]["count"].as_u64().expect("a number")).sum()
}

fn all(report: &Value) -> u64 {
    let sites = report["sites"].as_array().expect("sites");
    sites.iter().map(|site| site["numbers"]["count"].as_u64().expect("a number")).sum()
}

#[test]
fn misses_take_locks_and_a_hit_takes_none() {
    let origin = fresh();
    let server = Server::before(PROGRAM, &origin);
    let file = file_of(&server).display().to_string();
    let mut client = Client::connect(server.address());
    let mut ask = |target: &str| client.ask("GET", target, &[]).expect("served").status;
    assert_eq!(ask("/before"), 200);
    let off = report(&file);
    assert_eq!(
        (&off["is_on"], all(&off)),
        (&false.into(), 0),
        "the profile is off at the start: {off}"
    );

    assert_eq!(text_of(&["on", &file]), format!("{file}: recording is on\n"));
    for number in 0..10 {
        assert_eq!(ask(&format!("/{number}")), 200);
    }
    let missed = report(&file);
    assert_eq!((&missed["is_on"], &missed["pid"]), (&true.into(), &server.id().into()));
    assert!(count(&missed, "cache.shard") >= 10, "{missed}");
    assert!(count(&missed, "cache.flight") >= 10, "{missed}");
    assert!(missed["room"]["records"].as_u64() > Some(2), "{missed}");

    // The last fetch may end after its client has received the answer.
    assert_eq!(ask("/1"), 200);
    forebay_testkit::eventually("the fetches have ended", || {
        assert!(text_of(&["reset", &file]).ends_with("reset\n"));
        let goes_on = || all(&report(&file)) > 0;
        !forebay_testkit::clock::holds_within(Duration::from_millis(50), goes_on)
    });
    for _ in 0..200 {
        assert_eq!(ask("/1"), 200);
    }
    let hit = report(&file);
    assert_eq!(all(&hit), 0, "a hit takes no lock: {hit}");
    assert_eq!(server.stat("hits_total"), 201.0);
    // A request for the cache's numbers takes the lock of each shard.
    let asked = report(&file);
    assert!(count(&asked, "cache.shard") > 0 && all(&asked) == count(&asked, "cache.shard"));

    text_of(&["off", &file]);
    text_of(&["reset", &file]);
    assert_eq!(ask("/another"), 200);
    let off = report(&file);
    assert_eq!(all(&off), 0, "the profile is off: {off}");
}

/// Runs `forebay locks` with this subcommand, which must fail, and returns its error message. The
/// command looks for the servers' files under the parent of `runtime_dir`.
fn refusal_in(runtime_dir: &Path, command: &str) -> String {
    let parent = runtime_dir.parent().expect("the folder has a parent");
    let mut run = Command::new(PROGRAM);
    run.args(["locks", command]).env("XDG_RUNTIME_DIR", parent);
    let output = run.output().expect("forebay was built");
    assert_eq!(output.status.code(), Some(1), "{command}: {output:?}");
    String::from_utf8(output.stderr).expect("text")
}

/// Checks that a server without a lock profile serves, and that commands that need the profile
/// report the reason.
fn serves_without_profile(server: &Server, why: &str) {
    let mut client = Client::connect(server.address());
    assert_eq!(client.ask("GET", "/", &[]).expect("served").status, 200);
    let log = server.errors();
    let told: Vec<_> = log.lines().filter(|line| line.contains("lock_profile_failed")).collect();
    assert!(told.len() == 1 && told[0].contains(why), "{told:?}");
    assert_eq!(server.stat("lock_profile_failed_total"), 1.0);
    for request in ["GET /locks", "POST /locks?on"] {
        let answer = text_of_admin(server, request);
        assert!(answer.starts_with("HTTP/1.1 404 ") && answer.contains(why), "{request}: {answer}");
    }
}

#[test]
fn a_server_without_room_for_a_profile_serves_and_reports_it() {
    let origin = fresh();
    let folder = forebay_testkit::server::Folder::new();
    // The shell limits files to 30 or 60 MB, which acts like a full disk.
    let program = folder.path("limited");
    let script = format!("#!/bin/sh\nulimit -f 60000\nexec {PROGRAM} \"$@\"\n");
    // A program that is open for writing cannot be executed. A child of this process may inherit
    // such an open file for a moment, so the shell writes the program.
    let write = "printf %s \"$1\" > \"$0\" && chmod 700 \"$0\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", write]).arg(&program).arg(script);
    assert!(shell.status().is_ok_and(|status| status.success()));
    let runtime_dir = folder.path("forebay");
    let mut server = ServerBuilder::new(program.to_str().unwrap())
        .origin(&origin)
        .flag("--runtime-dir", runtime_dir.to_str().unwrap())
        .flag("--admin", "auto")
        .flag("--cache-size", "16MiB")
        .flag("--lock-profile", "true")
        .flag("--lock-profile-size", "64MiB")
        .start();
    serves_without_profile(&server, "allocate the file");
    for command in ["on", "report"] {
        let said = refusal_in(&runtime_dir, command);
        assert!(said.contains("the running server says: no lock profile:"), "{said}");
        assert!(said.contains("allocate the file"), "{said}");
    }
    assert!(server.stop().is_some_and(|status| status.success()));
}

#[test]
fn a_server_that_cannot_name_its_profile_serves_and_reports_it() {
    let origin = fresh();
    let mut first = Server::before(PROGRAM, &origin);
    let file = file_of(&first);
    assert!(first.stop().is_some_and(|status| status.success()));
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let address = first.address().to_string();
    let second = first.again().flag("--listen", &address).flag("--lock-profile", "true").start();
    serves_without_profile(&second, "give the file its name");
    let left: Vec<_> = fs::read_dir(second.path("run"))
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.contains(".locks.") && name.ends_with(".new"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_dead_server_leaves_its_profile_which_cannot_be_switched() {
    let origin = fresh();
    let mut server =
        ServerBuilder::new(PROGRAM).origin(&origin).flag("--lock-profile", "true").start();
    let file = file_of(&server).display().to_string();
    let mut client = Client::connect(server.address());
    for number in 0..5 {
        client.ask("GET", &format!("/{number}"), &[]).expect("served");
    }
    server.signal(Signal::KILL);
    assert!(server.wait().is_some_and(|status| !status.success()));
    let left = report(&file);
    assert_eq!((&left["is_alive"], &left["is_on"]), (&false.into(), &true.into()));
    assert!(count(&left, "cache.shard") >= 5, "{left}");
    for command in ["on", "off", "reset"] {
        let said = refusal(&[command, &file]);
        assert!(said.contains(&file) && said.contains("has exited"), "{said}");
    }
    let table = text_of(&["report", &file]);
    assert!(table.contains("has exited; these are its last numbers"), "{table}");
    for column in ["max", "wait_total", "cnt_hold", "cnt_lock", "try_failed", "try_delay", "name"] {
        assert!(table.contains(column), "{column}: {table}");
    }
    assert!(table.contains("(cache.shard)"), "{table}");
    let sorted = text_of(&["report", &file, "--sort", "count", "--lines", "1"]);
    assert!(sorted.contains("more call sites not shown"), "{sorted}");
    let threads = text_of(&["report", &file, "--threads"]);
    assert!(threads.contains("thread ") && threads.contains("::: enter count "), "{threads}");
    let bars = text_of(&["report", &file, "--histograms"]);
    assert!(bars.contains("  hold time (us)\n") && bars.contains('#'), "{bars}");
    let top = text_of(&["top", &file, "--count", "2", "--interval", "100ms"]);
    assert_eq!(top.matches("no lock activity").count(), 2, "{top}");
}

#[test]
fn a_file_that_is_no_profile_is_refused_with_the_reason() {
    let origin = fresh();
    let server = Server::before(PROGRAM, &origin);
    let path = file_of(&server);
    let whole = std::fs::read(&path).expect("the file is accessible");
    let copy = server.path("copy");
    let file = copy.display().to_string();
    let mut damaged = whole.clone();
    damaged[70] ^= 1;
    for (bytes, message) in [
        (&b"something else"[..], "is not a lock profile"),
        (&whole[..whole.len() - 1], "is cut off"),
        (&damaged, "is damaged: the header"),
    ] {
        std::fs::write(&copy, bytes).expect("the file is accessible");
        for arguments in
            [&["report", &file][..], &["flame", &file], &["on", &file], &["diff", &file, &file]]
        {
            let said = refusal(arguments);
            assert!(said.contains(&file) && said.contains(message), "{arguments:?}: {said}");
        }
    }
    let missing = refusal(&["report", "/nowhere/at/all"]);
    assert!(missing.contains("/nowhere/at/all"), "{missing}");
}

#[test]
fn saved_reports_and_profiles_are_compared() {
    let origin = fresh();
    let server = ServerBuilder::new(PROGRAM).origin(&origin).flag("--lock-profile", "true").start();
    let file = file_of(&server).display().to_string();
    let mut client = Client::connect(server.address());
    client.ask("GET", "/first", &[]).expect("served");
    let before = server.path("before.json");
    std::fs::write(&before, text_of(&["report", "--json", &file])).expect("the file is accessible");
    let before = before.display().to_string();
    for number in 0..3 {
        client.ask("GET", &format!("/{number}"), &[]).expect("served");
    }
    let text = text_of(&["diff", "--json", &before, &file]);
    let changes: Value = serde_json::from_str(&text).expect("JSON");
    let taken: i64 = changes["sites"]
        .as_array()
        .expect("sites")
        .iter()
        .filter(|site| site["name"].as_str().is_some_and(|name| name.contains("cache.shard")))
        .map(|site| site["change"]["count"].as_i64().expect("a number"))
        .sum();
    let saved: Value =
        serde_json::from_slice(&std::fs::read(&before).expect("the file is accessible"))
            .expect("JSON");
    let (now, then) = (count(&report(&file), "cache.shard"), count(&saved, "cache.shard"));
    assert!(now > then && then > 0, "{now} after {then}");
    assert_eq!(taken.unsigned_abs(), now - then);
    assert!(text_of(&["diff", &before, &file]).contains("+"));
    assert!(text_of(&["diff", &before, &before]).ends_with("no number has changed\n"));
}

#[test]
fn a_server_without_a_profile_has_no_file() {
    let origin = fresh();
    let server =
        ServerBuilder::new(PROGRAM).origin(&origin).flag("--lock-profile-size", "0").start();
    assert!(!file_of(&server).exists());
    Client::connect(server.address()).ask("GET", "/", &[]).expect("served");
    let said = text_of_admin(&server, "POST /locks?on");
    assert!(said.starts_with("HTTP/1.1 404 ") && said.contains("lock_profile_size"), "{said}");
}

#[test]
fn an_upgraded_server_has_a_profile_of_its_own_under_the_same_name() {
    let origin = fresh();
    let mut first =
        ServerBuilder::new(PROGRAM).origin(&origin).flag("--lock-profile", "true").start();
    let file = file_of(&first).display().to_string();
    Client::connect(first.address()).ask("GET", "/", &[]).expect("served");
    assert!(all(&report(&file)) > 0);
    let next = first.successor().start();
    assert!(first.wait().is_some_and(|status| status.success()));
    let taken = report(&file);
    assert_eq!((&taken["pid"], &taken["is_alive"]), (&next.id().into(), &true.into()));
    assert!(text_of(&["off", &file]).ends_with(": recording is off\n"));
}

fn text_of_admin(server: &Server, line: &str) -> String {
    let mut socket = UnixStream::connect(server.admin()).expect("it listens");
    let request = format!("{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).expect("it reads");
    let mut said = String::new();
    socket.read_to_string(&mut said).expect("it answers");
    said
}

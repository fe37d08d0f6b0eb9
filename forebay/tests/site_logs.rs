//! The access logs of sites: which log has a request, and reloads, rotation and failures of several
//! logs.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::process::Command;

use forebay_testkit::script::answer_head;
use forebay_testkit::{Client, Gate, Origin, Script, Server, ServerBuilder, Signal, eventually};
use serde_json::Value;

fn builder() -> ServerBuilder {
    ServerBuilder::new(env!("CARGO_BIN_EXE_forebay")).flag("--workers", "2")
}

fn origin() -> Origin {
    Origin::start(|_| Script::answer("200 OK", &["Cache-Control: max-age=60"], b"body"))
}

/// A site that serves the host `NAME.test`, with further lines.
fn site(name: &str, origin: &Origin, lines: &str) -> String {
    format!(
        "[[site]]\nname = \"{name}\"\nnames = [\"{name}.test\"]\norigin = \"http://{}\"\n{lines}\n",
        origin.address()
    )
}

fn log(path: &Path) -> String {
    format!("access_log = '{}'\n", path.display())
}

fn ask(server: &Server, host: &str, target: &str) -> u16 {
    let mut client = Client::connect(server.address());
    client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    client.response("GET").expect("an answer").status
}

/// The targets in a log, in the order of its lines.
fn targets(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let line = |line| serde_json::from_str::<Value>(line).expect("a line of JSON");
    let target = |line: Value| line["target"].as_str().unwrap_or_default().to_owned();
    text.lines().map(line).map(target).collect()
}

fn assert_ends(server: &mut Server) {
    assert!(server.stop().is_some_and(|status| status.success()), "{}", server.errors());
}

#[test]
fn a_request_is_in_the_log_of_its_site_only() {
    let origin = origin();
    let server = builder();
    let path = |name: &str| server.path(name);
    let config = [
        log(&path("server.log")),
        site("own", &origin, &log(&path("own.log"))),
        site("shared", &origin, &log(&path("own.log"))),
        site("dotted", &origin, &log(&path("./own.log"))),
        site("off", &origin, "access_log = \"off\""),
        site("out", &origin, "access_log = \"-\""),
        site("same", &origin, &log(&path("server.log"))),
        site("inherits", &origin, ""),
    ];
    let mut server = server.config(&config.concat()).start();
    for (host, status) in [
        ("own.test", 200),
        ("shared.test", 200),
        ("dotted.test", 200),
        ("off.test", 200),
        ("out.test", 200),
        ("same.test", 200),
        ("inherits.test", 200),
        ("unknown.test", 421),
        ("not a host", 400),
    ] {
        // The second one is a hit.
        for _ in 0..2 {
            assert_eq!(ask(&server, host, &format!("/{}", &host[..3])), status, "{host}");
        }
    }
    assert!(server.stop().is_some_and(|status| status.success()));
    let twice = |names: &[&str]| -> Vec<String> {
        names.iter().flat_map(|name| [format!("/{name}"), format!("/{name}")]).collect()
    };
    let sorted = |path: &Path| {
        let mut targets = targets(path);
        targets.sort();
        targets
    };
    assert_eq!(sorted(&server.path("server.log")), twice(&["inh", "not", "sam", "unk"]));
    assert_eq!(sorted(&server.path("own.log")), twice(&["dot", "own", "sha"]));
    let output = server.output();
    let lines: Vec<_> = output.lines().filter(|line| line.starts_with('{')).collect();
    assert!(lines.len() == 2 && lines.iter().all(|line| line.contains("\"/out\"")), "{output}");
}

#[test]
fn a_site_can_have_a_log_although_the_server_has_none() {
    let origin = origin();
    let server = builder();
    let own = server.path("own.log");
    let config = site("own", &origin, &log(&own)) + &site("other", &origin, "");
    let mut server = server.config(&config).flag("--access-log-sample", "2").start();
    for number in 0..6 {
        assert_eq!(ask(&server, "own.test", &format!("/{number}")), 200);
        assert_eq!(ask(&server, "other.test", "/other"), 200);
        assert_eq!(ask(&server, "unknown.test", "/unknown"), 421);
    }
    assert_ends(&mut server);
    let seen = targets(&own);
    // Each worker logs the first of two requests.
    assert!((3..=4).contains(&seen.len()), "{seen:?}");
    assert!(seen.iter().all(|target| target.len() == 2), "{seen:?}");
}

#[test]
fn lines_of_all_sites_and_workers_are_whole_in_a_shared_file() {
    const REQUESTS: usize = 300;
    let origin = origin();
    let server = builder();
    let shared = server.path("shared.log");
    let sites = ["a", "b", "c"].map(|name| site(name, &origin, &log(&shared)));
    let mut server = server.config(&sites.concat()).start();
    std::thread::scope(|scope| {
        for host in ["a.test", "b.test", "c.test"] {
            let address = server.address();
            scope.spawn(move || {
                for number in 0..REQUESTS {
                    let mut client = Client::connect(address);
                    let target = format!("/{}", "x".repeat(number * 7 % 2000));
                    client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
                    client.response("GET").expect("an answer");
                }
            });
        }
    });
    assert_ends(&mut server);
    assert_eq!(targets(&shared).len(), 3 * REQUESTS);
}

#[test]
fn a_reload_adds_changes_and_removes_logs_and_loses_no_line() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |request| match request.target.starts_with("/held") {
        true => Script::new().send(answer_head("200 OK", &[], 4)).wait(&held).send("body"),
        false => Script::answer("200 OK", &["Cache-Control: no-store"], b"body"),
    });
    let server = builder();
    let path = |name: &str| server.path(name);
    let [top, changed, new_changed, added, removed] =
        ["top", "changed", "new-changed", "added", "removed"].map(path);
    let before = [
        log(&top),
        site("changed", &origin, &log(&changed)),
        site("added", &origin, ""),
        site("removed", &origin, &log(&removed)),
        site("gone", &origin, &log(&removed)),
    ];
    let after = [
        log(&top),
        site("removed", &origin, ""),
        site("added", &origin, &log(&added)),
        site("changed", &origin, &log(&new_changed)),
    ];
    let mut server = server.config(&before.concat()).start();
    let hosts = ["changed.test", "added.test", "removed.test", "gone.test"];
    // These requests begin before the reload, and end after it.
    let mut waiting = hosts.map(|host| {
        let mut client = Client::connect(server.address());
        client.send(format!("GET /held-{host} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        client.peek("GET", |response| response.status == 200).expect("it has begun");
        client
    });
    for host in hosts {
        assert_eq!(ask(&server, host, &format!("/before-{host}")), 200);
    }
    server.write_config(&after.concat());
    let reload = server.command(&["reload"]);
    assert!(reload.status.success(), "{reload:?}");
    for host in &hosts[..3] {
        assert_eq!(ask(&server, host, &format!("/after-{host}")), 200);
    }
    gate.open();
    for client in &mut waiting {
        assert_eq!(client.response("GET").expect("whole").text(), "body");
    }
    drop(waiting);
    assert_ends(&mut server);
    let sorted = |path: &Path| {
        let mut targets = targets(path);
        targets.sort();
        targets
    };
    assert_eq!(sorted(&changed), ["/before-changed.test"]);
    assert_eq!(sorted(&new_changed), ["/after-changed.test", "/held-changed.test"]);
    assert_eq!(sorted(&added), ["/after-added.test", "/held-added.test"]);
    assert_eq!(sorted(&removed), ["/before-gone.test", "/before-removed.test"]);
    let of_top = ["/after-removed.test", "/before-added.test", "/held-gone.test"];
    assert_eq!(sorted(&top), [&of_top[..], &["/held-removed.test"]].concat());
}

#[test]
fn sigusr1_reopens_all_logs_or_none() {
    let origin = origin();
    let server = builder();
    let [top, own, old_top, old_own] =
        ["top", "own", "top.1", "own.1"].map(|name| server.path(name));
    let config = [log(&top), site("a", &origin, ""), site("own", &origin, &log(&own))];
    let mut server = server.config(&config.concat()).start();
    let ask_both = |server: &Server, target: &str| {
        assert_eq!(ask(server, "a.test", target), 200);
        assert_eq!(ask(server, "own.test", target), 200);
    };
    ask_both(&server, "/1");
    eventually("lines are written", || targets(&top).len() == 1 && targets(&own).len() == 1);
    std::fs::rename(&top, &old_top).expect("the folder is ours");
    std::fs::rename(&own, &old_own).expect("the folder is ours");
    server.signal(Signal::USR1);
    eventually("both are open again", || top.exists() && own.exists());
    eventually("the event is logged", || server.errors().contains("log_reopened"));
    // Every worker has taken the new files when a reload has ended.
    assert!(server.command(&["reload"]).status.success());
    ask_both(&server, "/2");
    eventually("lines are written", || targets(&top).len() == 1 && targets(&own).len() == 1);

    // If one file cannot be opened again, all logs stay as they are.
    std::fs::rename(&top, server.path("top.2")).expect("the folder is ours");
    std::fs::rename(&own, server.path("own.2")).expect("the folder is ours");
    std::fs::create_dir(&own).expect("the folder is ours");
    server.signal(Signal::USR1);
    eventually("the failure is logged", || server.errors().contains("log_failed"));
    ask_both(&server, "/3");
    assert_ends(&mut server);
    assert_eq!(targets(&server.path("top.2")), ["/2", "/3"]);
    assert_eq!(targets(&server.path("own.2")), ["/2", "/3"]);
}

#[test]
fn a_stalled_log_loses_only_its_own_lines() {
    let origin = origin();
    let server = builder().flag("--head-bytes-max", "128KiB");
    let (pipe, other) = (server.path("pipe"), server.path("other.log"));
    let _open = unread_pipe(&pipe);
    let config = site("stalled", &origin, &log(&pipe)) + &site("other", &origin, &log(&other));
    let mut server = server.config(&config).start();
    let mut client = Client::connect(server.address());
    let long = "x".repeat(64 << 10);
    let mut count = 0;
    eventually("lines are dropped", || {
        for _ in 0..64 {
            let request =
                format!("GET /a HTTP/1.1\r\nHost: stalled.test\r\nUser-Agent: {long}\r\n\r\n");
            client.send(request);
            assert_eq!(client.response("GET").expect("an answer").status, 200);
            assert_eq!(ask(&server, "other.test", "/b"), 200);
            count += 1;
        }
        server.stat("log_lines_dropped_total") > 0.0
    });
    assert!(server.stop().is_some_and(|status| status.success()), "the server does not end");
    assert_eq!(targets(&other).len(), count, "the other log lost lines");
}

/// A named pipe that stays open and full: the file holds both ends, and no process reads.
fn unread_pipe(path: &Path) -> File {
    let made = Command::new("mkfifo").arg(path).status().expect("mkfifo is there");
    assert!(made.success());
    OpenOptions::new().read(true).write(true).open(path).expect("the folder is writable")
}

#[test]
fn lines_that_the_logs_of_sites_refuse_are_counted() {
    let origin = origin();
    let server = builder();
    let good = server.path("good.log");
    let config =
        site("full", &origin, "access_log = '/dev/full'") + &site("good", &origin, &log(&good));
    let mut server = server.config(&config).start();
    for _ in 0..3 {
        assert_eq!(ask(&server, "full.test", "/a"), 200);
        assert_eq!(ask(&server, "good.test", "/a"), 200);
    }
    eventually("lost lines are counted", || server.stat("log_lines_failed_total") == 3.0);
    assert_eq!(server.stat("log_lines_dropped_total"), 0.0);
    assert_ends(&mut server);
    assert_eq!(targets(&good).len(), 3);
}

#[test]
fn both_processes_of_an_upgrade_write_the_logs_of_sites() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |request| match request.target.as_str() {
        "/held" => Script::new().send(answer_head("200 OK", &[], 4)).wait(&held).send("body"),
        _ => Script::answer("200 OK", &["Cache-Control: no-store"], b"body"),
    });
    let server = builder();
    let own = server.path("own.log");
    let cache = server.path("cache").display().to_string();
    let config = site("own", &origin, &log(&own));
    let mut old = server.config(&config).flag("--cache-dir", &cache).start();
    let mut busy = Client::connect(old.address());
    busy.send("GET /held HTTP/1.1\r\nHost: own.test\r\n\r\n");
    busy.peek("GET", |response| response.status == 200).expect("it has begun");
    let mut new = old.successor().start();
    assert_eq!(ask(&new, "own.test", "/new"), 200);
    gate.open();
    assert_eq!(busy.response("GET").expect("whole").text(), "body");
    assert!(old.wait().is_some_and(|status| status.success()), "{}", old.errors());
    assert_ends(&mut new);
    let mut seen = targets(&own);
    seen.sort();
    assert_eq!(seen, ["/held", "/new"]);
}

#[test]
fn a_log_that_cannot_be_opened_is_named_with_its_place() {
    let origin = origin();
    let config = site("a", &origin, "access_log = '/nowhere/a.log'");
    let output = builder().config(&config).run();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let wanted = "forebay.toml:5:14: /nowhere/a.log: No such file or directory";
    assert!(said.contains("cannot open the access log: ") && said.contains(wanted), "{said}");

    let server = builder();
    let folder = server.path("folder");
    std::fs::create_dir(&folder).expect("the folder is ours");
    let config = log(&server.path("top.log"))
        + &site("a", &origin, "access_log = '/nowhere/a.log'")
        + &site("b", &origin, &log(&folder));
    let server = server.config(&config);
    let output = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["check", "--resolve"])
        .arg(server.path("forebay.toml"))
        .output()
        .expect("it was built");
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for wanted in [
        "forebay.toml:1:14: access_log: the directory",
        "forebay.toml:6:14: access_log: cannot use the directory /nowhere: No such file",
        "forebay.toml:11:14: access_log: ",
    ] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    assert!(said.contains("folder is a directory"), "{said}");
}

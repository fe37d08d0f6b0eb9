//! Live upgrades with real processes: under load, refused, killed midway, with other numbers of
//! workers; and the guard of the cache directory.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use forebay_testkit::clock::holds_within;
use forebay_testkit::script::answer_head;
use forebay_testkit::{
    Client, Gate, Origin, PATIENCE, Script, Server, ServerBuilder, Signal, StopFlag, eventually,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// The number of clients under load. Half of them use a new connection for each request.
const CLIENTS: usize = 6;

/// More requests than clients send before a test ends.
const REQUESTS_MAX: u64 = 1_000_000_000;

/// Crash points exist only in builds with debug assertions.
const HAS_CRASH_POINTS: bool = cfg!(debug_assertions);

/// The crash points of a new process, in the order in which it reaches them, and of an old one.
const NEW_DIES_AT: [&str; 2] = ["upgrade.taken", "upgrade.built"];
const OLD_DIES_AT: &str = "upgrade.offered";

fn origin() -> Origin {
    Origin::start(|request| {
        let field = match request.target.as_str() {
            "/cached" => "Cache-Control: max-age=600",
            _ => "Cache-Control: no-store",
        };
        Script::answer("200 OK", &[field], request.target.as_bytes())
    })
}

/// A server with its own cache directory.
fn builder(origin: &Origin, workers: usize) -> ServerBuilder {
    let builder = ServerBuilder::new(PROGRAM).origin(origin);
    let cache_dir = builder.path("cache").display().to_string();
    builder.flag("--cache-dir", &cache_dir).flag("--workers", &workers.to_string())
}

/// Runs `work` to its end while clients send requests. Returns its result and the clients' errors.
fn under_load<T>(address: SocketAddr, work: impl FnOnce() -> T) -> (T, Vec<String>) {
    let (stop, served) = (StopFlag::default(), AtomicUsize::new(0));
    thread::scope(|scope| {
        let (stop, served, guard) = (&stop, &served, stop.guard());
        let loads: Vec<_> = (0..CLIENTS)
            .map(|number| scope.spawn(move || load(address, number, stop, served)))
            .collect();
        eventually("the load runs", || served.load(Relaxed) > 10 * CLIENTS);
        let done = work();
        let so_far = served.load(Relaxed);
        holds_within(PATIENCE, || served.load(Relaxed) > so_far + 10 * CLIENTS);
        drop(guard);
        let ended = loads.into_iter().map(|load| load.join().expect("no panic"));
        let failed: Vec<_> = ended.filter_map(Result::err).collect();
        assert!(!failed.is_empty() || served.load(Relaxed) > so_far + CLIENTS, "the load stopped");
        (done, failed)
    })
}

/// Sends requests until it is told to stop. Every answer must be right and whole.
fn load(
    address: SocketAddr,
    number: usize,
    stop: &StopFlag,
    served: &AtomicUsize,
) -> Result<(), String> {
    let fields: &[&str] = if number.is_multiple_of(2) { &[] } else { &["Connection: close"] };
    let mut client = Client::connect(address);
    for _ in stop.steps(REQUESTS_MAX) {
        for target in ["/cached", "/plain"] {
            let response = match client.ask("GET", target, fields) {
                Ok(response) if response.status == 200 && response.text() == target => response,
                other => return Err(format!("client {number}: {other:?}")),
            };
            served.fetch_add(1, Relaxed);
            if response.field("connection").is_some_and(|value| value == "close") {
                client = Client::connect(address);
            }
        }
    }
    Ok(())
}

fn ask(server: &Server) -> u16 {
    Client::connect(server.address()).ask("GET", "/plain", &[]).expect("an answer").status
}

/// Whether the target is answered from the cache.
fn hits(server: &Server, target: &str) -> bool {
    let response = Client::connect(server.address()).ask("GET", target, &[]).expect("an answer");
    response.field("cache-status").is_some_and(|value| value.contains("hit"))
}

/// Whether the server answers. It may have exited.
fn answers(server: &Server) -> bool {
    let Ok(mut stream) = TcpStream::connect(server.address()) else {
        return false;
    };
    let _ = stream.set_read_timeout(Some(PATIENCE));
    let asked = stream.write_all(b"GET /plain HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let mut answer = String::new();
    asked.is_ok()
        && stream.read_to_string(&mut answer).is_ok()
        && answer.starts_with("HTTP/1.1 200")
}

/// The path of the socket on which a server waits for its successor.
fn upgrade_socket(server: &Server) -> PathBuf {
    server.path("run").join(format!("{}.upgrade", server.address().port()))
}

/// Checks that the runtime directory holds the files of one server and no leftovers.
fn assert_is_tidy(server: &Server) {
    let port = server.address().port();
    let kinds = ["admin-address", "counters", "locks", "upgrade"];
    let wanted = kinds.map(|kind| format!("{port}.{kind}").into());
    let found = std::fs::read_dir(server.path("run")).expect("the path exists");
    let found: BTreeSet<_> = found.map(|entry| entry.expect("readable").file_name()).collect();
    assert_eq!(found, BTreeSet::from(wanted));
}

#[test]
fn five_upgrades_in_a_row_under_load_fail_no_request() {
    let origin = origin();
    let first = builder(&origin, 2).start();
    let address = first.address();
    let (last, failed) = under_load(address, || {
        (0..5).fold(first, |mut old, round| {
            let new = old.successor().start();
            assert_eq!(new.address(), address);
            let ended = old.wait().unwrap_or_else(|| panic!("round {round}: the old one stays"));
            assert!(ended.success(), "round {round}: {ended:?} {}", old.errors());
            eventually("the log has the handover", || old.errors().contains("handed_over"));
            new
        })
    });
    assert_eq!(failed, Vec::<String>::new());
    assert_eq!(last.stat("upgrades_total"), 5.0);
    assert_eq!(last.stat("upgrades_failed_total"), 0.0);
    assert_is_tidy(&last);
}

#[test]
fn open_requests_are_finished_by_the_old_process() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |request| match request.target.as_str() {
        "/held" => {
            let script = Script::new().send(answer_head("200 OK", &[], 8)).send("part");
            script.wait(&held).send("rest")
        }
        _ => Script::answer("200 OK", &["Cache-Control: no-store"], b"new"),
    });
    let mut old = builder(&origin, 2).start();
    let mut busy = Client::connect(old.address());
    busy.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\n");
    busy.peek("GET", |response| response.body == b"part").expect("the response is in flight");
    let mut idle = Client::connect(old.address());
    assert_eq!(idle.ask("GET", "/", &[]).expect("served").status, 200);

    let new = old.successor().start();
    assert!(idle.is_closed_cleanly(), "an idle connection is not closed");
    assert_eq!(ask(&new), 200);
    assert!(old.is_running(), "the old process did not wait for its open request");
    let refused = ServerBuilder::bare(PROGRAM, "serve").origin(&origin);
    let refused = refused.flag("--listen", "127.0.0.1:0").flag("--cache-dir", &cache_dir(&new));
    let run = refused.path("run").display().to_string();
    assert!(!refused.flag("--runtime-dir", &run).run().status.success(), "the lock was free");
    gate.open();
    assert_eq!(busy.response("GET").expect("whole").text(), "partrest");
    assert!(busy.is_closed_cleanly(), "the connection outlives its last answer");
    assert!(old.wait().is_some_and(|status| status.success()), "{}", old.errors());
    assert_eq!(ask(&new), 200);
}

fn cache_dir(server: &Server) -> String {
    server.path("cache").display().to_string()
}

#[test]
fn a_new_process_that_cannot_take_over_leaves_the_old_one_serving() {
    let origin = origin();
    let old = builder(&origin, 2).start();
    let port = old.address().port();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let in_use = taken.local_addr().expect("it is bound").to_string();
    let elsewhere = old.path("other").display().to_string();
    let no_folder = old.path("no/log").display().to_string();
    let file = old.path("bad.toml");
    std::fs::write(&file, "listen = \n").expect("the folder is writable");
    let other_ip = format!("127.0.0.2:{port}");
    let cases: [(&str, &str, &str, bool); 7] = [
        ("--cache-size", "1KiB", "cache_size", false),
        ("--listen", &other_ip, "this server listens on", true),
        ("--listen", "127.0.0.1:0", "must have the port", false),
        ("--cache-dir", &elsewhere, "the `cache_dir` of this server differs", true),
        ("--cache-dir", "none", "the `cache_dir` of this server differs", true),
        ("--admin", &in_use, "cannot listen for admin requests", true),
        ("--access-log", &no_folder, "cannot open the access log", true),
    ];
    let mut failed_count = 0.0;
    let (_, failed) = under_load(old.address(), || {
        for (flag, value, said, is_counted) in cases {
            let output = old.successor().flag(flag, value).run();
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && text.contains(said), "{flag} {value}: {text}");
            failed_count += f64::from(u8::from(is_counted));
            assert_eq!(old.stat("upgrades_failed_total"), failed_count, "{flag} {value}");
            assert_is_tidy(&old);
        }
    });
    assert_eq!(failed, Vec::<String>::new());
    assert!(!old.path("other").exists(), "the refused process made a directory");
    eventually("the log has the reason", || old.errors().contains("cannot open the access log"));
    let new = old.successor().start();
    assert_eq!((new.stat("upgrades_total"), ask(&new)), (1.0, 200));
    assert_eq!(new.stat("upgrades_failed_total"), failed_count);
}

#[test]
fn a_new_process_killed_in_the_middle_leaves_the_old_one_serving() {
    if !HAS_CRASH_POINTS {
        return;
    }
    let origin = origin();
    let mut old = builder(&origin, 2).start();
    let store = old.path("cache/store");
    let inode = || std::fs::metadata(&store).map(|meta| meta.ino()).ok();
    let was = inode();
    let (_, failed) = under_load(old.address(), || {
        for (point, turn) in NEW_DIES_AT.into_iter().zip([1.0, 2.0]) {
            let killed = old.successor().flag("--workers", "4").variable("FOREBAY_CRASH_AT", point);
            assert_eq!(killed.run().status.code(), None, "{point}: it was not killed");
            eventually(point, || old.stat("upgrades_failed_total") == turn);
            assert_eq!((was.is_some(), inode()), (true, was), "{point}: no cache is left");
        }
        let no_folder = old.path("no/log").display().to_string();
        let other_plan = old.successor().flag("--workers", "4").flag("--access-log", &no_folder);
        assert!(!other_plan.run().status.success());
        assert_eq!(inode(), was, "the cache belongs to the server that continues");
    });
    assert_eq!(failed, Vec::<String>::new());
    let counters = old.path("run").join(format!("{}.counters", old.address().port()));
    let command = &mut Command::new(PROGRAM);
    let output = command.args(["counters", "--json"]).arg(counters).output();
    let text = String::from_utf8_lossy(&output.expect("forebay was built").stdout).into_owned();
    assert!(text.contains("\"upgrades_failed_total\":3"), "no counter file is left: {text}");
    assert!(old.stop().is_some_and(|status| status.success()), "{}", old.errors());
    let again = old.successor().start();
    assert!(hits(&again, "/cached"), "the cache is cold");
    let new = again.successor().start();
    assert_eq!((new.stat("upgrades_total"), ask(&new)), (1.0, 200));
    assert!(!old.path("cache/store.new").exists(), "a file of the killed one is left");
}

#[test]
fn another_cache_size_starts_cold_reports_it_and_fails_no_request() {
    let origin = origin();
    let mut old = builder(&origin, 2).start();
    let (new, failed) = under_load(old.address(), || {
        assert!(hits(&old, "/cached"));
        let new = old.successor().flag("--cache-size", "64MiB").start();
        assert!(old.wait().is_some_and(|status| status.success()), "{}", old.errors());
        new
    });
    assert_eq!(failed, Vec::<String>::new());
    eventually("the log has the new size", || new.errors().contains("for another size"));
    assert_eq!(new.stat("misses_total").min(1.0), 1.0, "the cache was warm");
    let mut new = new;
    assert!(new.stop().is_some_and(|status| status.success()), "{}", new.errors());
    assert!(hits(&new.successor().start(), "/cached"), "the successor did not find the new cache");
}

#[test]
fn processes_are_killed_at_every_crash_point_of_the_server() {
    let mut folders = vec![PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../server/src"))];
    let mut found = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the path exists").flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
                continue;
            }
            let text = std::fs::read_to_string(entry.path()).expect("it is text");
            let names = text.split("crash_point!(\"").skip(1);
            found.extend(names.filter_map(|rest| rest.split('"').next().map(str::to_owned)));
        }
    }
    let used = NEW_DIES_AT.into_iter().chain([OLD_DIES_AT, "acme.written"]).map(str::to_owned);
    assert_eq!(found, used.collect(), "the tests of ACME kill at `acme.written`");
}

#[test]
fn a_new_process_killed_at_any_time_leaves_one_that_serves_or_has_taken_over() {
    let origin = origin();
    let mut old = builder(&origin, 1).start();
    let mut handed_over_count = 0;
    for delay_ms in (0..80).step_by(4) {
        let command = &mut old.successor().command();
        let mut new =
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("forebay was built");
        holds_within(Duration::from_millis(delay_ms), || false);
        new.kill().expect("it is our child");
        new.wait().expect("it is our child");
        eventually("the old process serves or has ended", || !old.is_running() || answers(&old));
        if !old.is_running() {
            // The sockets that it took over are gone. The next start finds the path free.
            assert!(old.wait().is_some_and(|status| status.success()), "{}", old.errors());
            handed_over_count += 1;
            old = old.successor().start();
        }
    }
    assert!(handed_over_count < 20, "the new process was never killed before it took over");
}

#[test]
fn an_old_process_killed_in_the_middle_ends_the_upgrade_and_the_next_start_works() {
    if !HAS_CRASH_POINTS {
        return;
    }
    let origin = origin();
    let mut old = builder(&origin, 2).variable("FOREBAY_CRASH_AT", OLD_DIES_AT).start();
    let output = old.successor().run();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("ended before it handed over"), "{text}");
    assert!(old.wait().is_some_and(|status| status.code().is_none()), "the old one was not killed");
    let new = old.successor().start();
    assert_eq!((ask(&new), new.stat("upgrades_total")), (200, 0.0));
    eventually("the log has the event", || new.errors().contains("nobody_to_upgrade"));
}

#[test]
fn other_numbers_of_workers_take_every_connection() {
    let origin = origin();
    let first = builder(&origin, 2).start();
    let address = first.address();
    let (last, failed) = under_load(address, || {
        [4, 1, 3, 6, 2].into_iter().fold(first, |mut old, workers| {
            let new = old.successor().flag("--workers", &workers.to_string()).start();
            assert!(old.wait().is_some_and(|status| status.success()), "to {workers}");
            assert_eq!(new.stat("workers"), workers as f64);
            // Each socket gets about an equal share of these connections.
            for turn in 0..48 {
                assert_eq!(ask(&new), 200, "{workers} workers, connection {turn}");
            }
            new
        })
    });
    assert_eq!(failed, Vec::<String>::new());
    let mut last = last;
    assert!(last.stop().is_some_and(|status| status.success()), "{}", last.errors());
    eventually("no process listens any more", || TcpStream::connect(address).is_err());
}

#[test]
fn the_admin_interface_stays_where_it_is_or_goes_where_it_is_told() {
    let origin = origin();
    let mut old = builder(&origin, 1).start();
    let path = old.admin();
    let mode = |path: &PathBuf| std::fs::metadata(path).map(|meta| meta.permissions().mode());
    let elsewhere = old.path("elsewhere").display().to_string();
    for (admin, at) in [
        (path.display().to_string(), path.clone()),
        (elsewhere.clone(), elsewhere.clone().into()),
        (elsewhere.clone(), elsewhere.clone().into()),
        ("127.0.0.1:0".to_owned(), PathBuf::new()),
    ] {
        let before = old.admin();
        let new = old.successor().flag("--admin", &admin).start();
        assert!(at == new.admin() || admin == "127.0.0.1:0", "{admin}: {:?}", new.admin());
        assert!(old.wait().is_some_and(|status| status.success()), "{admin}: {}", old.errors());
        assert_eq!(new.stat("workers"), 1.0, "{admin}");
        assert_eq!(before.exists(), before == new.admin(), "{admin}: the old socket's file");
        assert!(!new.admin().exists() || mode(&new.admin()).is_ok_and(|mode| mode & 0o77 == 0));
        old = new;
    }
    let port = old.admin().display().to_string();
    let new = old.successor().flag("--admin", &port).start();
    assert!(old.wait().is_some_and(|status| status.success()), "{}", old.errors());
    assert_eq!((new.admin(), new.stat("workers")), (old.admin(), 1.0), "the same port");
}

#[test]
fn other_programs_at_the_socket_change_nothing() {
    let origin = origin();
    let old = builder(&origin, 1).start();
    let socket = upgrade_socket(&old);
    assert_eq!(std::fs::metadata(&socket).expect("the path exists").permissions().mode() & 0o77, 0);
    let connect = || UnixStream::connect(&socket).expect("it listens");
    drop(connect());
    let hello = |version: u32| {
        let contents = [&version.to_le_bytes()[..], &[0; 17], b"127.0.0.1:1"].concat();
        let length = u32::try_from(contents.len()).expect("it is short");
        [&1u32.to_le_bytes()[..], &length.to_le_bytes(), &contents].concat()
    };
    let cases = [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), ""),
        (vec![0xff; 64], ""),
        (vec![6, 0, 0, 0, 0, 0, 0, 0], ""),
        (hello(4), "between protocol versions"),
        (hello(3), "this server listens on"),
    ];
    let count = cases.len() as f64;
    for (bytes, said) in cases {
        let mut stranger = connect();
        stranger.write_all(&bytes).expect("it listens");
        let mut answer = Vec::new();
        let _ = stranger.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.contains(said) && answer.is_empty() == said.is_empty(), "{answer:?}");
    }
    eventually("all failed upgrades are counted", || old.stat("upgrades_failed_total") == count);

    // The successor waits behind a silent peer, but only for a limited time.
    let silent = connect();
    let new = old.successor().start();
    assert_eq!((ask(&new), new.stat("upgrades_total")), (200, 1.0));
    assert_eq!(new.stat("upgrades_failed_total"), count + 1.0);
    drop(silent);
}

#[test]
fn an_old_process_that_hangs_is_not_waited_for() {
    let origin = origin();
    let old = builder(&origin, 1).start();
    old.signal(Signal::STOP);
    let output = old.successor().run();
    old.signal(Signal::CONT);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("does not answer"), "{text}");
    eventually("the failure is counted", || old.stat("upgrades_failed_total") == 1.0);
    assert_eq!((ask(&old), ask(&old.successor().start())), (200, 200));
}

#[test]
fn concurrent_upgrades_run_one_after_the_other() {
    let origin = origin();
    let old = builder(&origin, 2).start();
    let (mut started, failed) = under_load(old.address(), || {
        let asking: Vec<_> = (0..4).map(|_| old.successor()).collect();
        let asking = asking.into_iter().map(|new| thread::spawn(move || new.start()));
        let asking: Vec<_> = asking.collect();
        let started = asking.into_iter().map(|new| new.join().expect("the process takes over"));
        let mut started: Vec<_> = started.collect();
        eventually("one process is left", || {
            started.retain_mut(Server::is_running);
            started.len() == 1
        });
        started
    });
    assert_eq!(failed, Vec::<String>::new());
    let last = started.pop().expect("one is left");
    assert_eq!((last.stat("upgrades_total"), ask(&last)), (4.0, 200));
}

#[test]
fn a_second_server_on_a_cache_directory_is_refused_until_the_first_exits() {
    let origin = origin();
    let mut first = builder(&origin, 1).start();
    let second = builder(&origin, 1).flag("--cache-dir", &cache_dir(&first));
    let refused = |id: u32| {
        let output = second.clone().run();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "two servers: {text}");
        for part in [cache_dir(&first), format!("process {id};"), "--upgrade".to_owned()] {
            assert!(text.contains(&part), "{part}: {text}");
        }
    };
    refused(first.id());
    let free = TcpListener::bind("127.0.0.1:0").and_then(|one| one.local_addr()).expect("a port");
    let elsewhere = second.clone().flag("--listen", &free.to_string()).switch("--upgrade").run();
    let text = String::from_utf8_lossy(&elsewhere.stderr).into_owned();
    assert!(text.contains("another `runtime_dir`") && !text.contains("`--upgrade`"), "{text}");
    let new = first.successor().start();
    assert!(first.wait().is_some_and(|status| status.success()), "{}", first.errors());
    eventually("the lock file has the new id", || {
        let text = std::fs::read_to_string(new.path("cache/server.lock")).expect("the path exists");
        text.trim() == new.id().to_string()
    });
    let mut first = new;
    let refused_by_new = second.clone().run();
    let text = String::from_utf8_lossy(&refused_by_new.stderr).into_owned();
    assert!(text.contains(&format!("process {};", first.id())), "{text}");
    first.signal(Signal::KILL);
    assert!(first.wait().is_some());
    assert_eq!(ask(&second.start()), 200, "the lock outlives its owner");
}

//! The cache in a live upgrade: purges apply to both processes, and the owner of the directory is
//! checked.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use forebay_testkit::{Client, Origin, Script, Server, ServerBuilder, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// A server with its own cache directory.
fn builder(origin: &Origin, workers: usize) -> ServerBuilder {
    let builder = ServerBuilder::new(PROGRAM).origin(origin);
    let cache_dir = builder.path("cache").display().to_string();
    builder.flag("--cache-dir", &cache_dir).flag("--workers", &workers.to_string())
}

/// Whether the target is answered from the cache.
fn hits(server: &Server, target: &str) -> bool {
    let response = Client::connect(server.address()).ask("GET", target, &[]).expect("an answer");
    response.field("cache-status").is_some_and(|value| value.contains("hit"))
}

/// Flags with their values.
type Flags = &'static [(&'static str, &'static str)];

#[test]
fn a_purge_during_an_upgrade_holds_for_the_old_process_too() {
    let forms: [(&str, Flags, Flags); 3] = [
        ("one cache", &[], &[]),
        ("another plan", &[], &[("--cache-size", "64MiB")]),
        ("no cache directory", &[("--cache-dir", "none")], &[]),
    ];
    for (form, of_both, of_new) in forms {
        let version = Arc::new(AtomicUsize::new(1));
        let served = Arc::clone(&version);
        let origin = Origin::start(move |_| {
            let body = served.load(Relaxed).to_string();
            Script::answer("200 OK", &["Cache-Control: max-age=600"], body.as_bytes())
        });
        let with = |builder: ServerBuilder, flags: &[(&str, &str)]| {
            flags.iter().fold(builder, |builder, (name, value)| builder.flag(name, value))
        };
        let mut old = with(builder(&origin, 1), of_both).start();
        Client::connect(old.address()).ask("GET", "/", &[]).expect("an answer");
        assert!(hits(&old, "/"), "{form}");
        let mut kept = Client::connect(old.address());
        kept.send("GET / HTTP/1.1\r\nHost: example.test\r\n");
        let mut kept_too = Client::connect(old.address());
        kept_too.send("GET / HTTP/1.1\r\nHost: example.test\r\n");
        eventually("both connections are accepted", || old.stat("connections_open") == 2.0);
        let new = with(old.successor(), of_new).start();
        assert!(old.is_running(), "{form}: the old process has no open request");
        version.store(2, Relaxed);
        assert!(new.command(&["purge", "http://example.test/"]).status.success(), "{form}");
        for client in [&mut kept, &mut kept_too] {
            client.send("\r\n");
            let response = client.response("GET").expect("the old process answers");
            assert_eq!(response.text(), "2", "{form}: {:?}", response.field("cache-status"));
        }
        assert!(old.wait().is_some_and(|status| status.success()), "{form}: {}", old.errors());
        let mut client = Client::connect(new.address());
        assert_eq!(client.ask("GET", "/", &[]).expect("an answer").text(), "2", "{form}");
    }
}

#[test]
fn a_cache_directory_of_another_user_is_refused() {
    let origin = Origin::echo();
    let builder = builder(&origin, 1);
    let dir = builder.path("cache");
    std::fs::create_dir(&dir).expect("the folder is writable");
    std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o700))
        .expect("the file is accessible");
    if std::os::unix::fs::chown(&dir, Some(12_345), None).is_err() {
        eprintln!("skipped: only root can give a directory to another user");
        return;
    }
    let output = builder.run();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    for part in ["cannot use the cache directory", &dir.display().to_string(), "user 12345"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_cache_directory_that_was_deleted_is_made_again_by_an_upgrade() {
    let origin = Origin::start(|_| Script::answer("200 OK", &["Cache-Control: max-age=60"], b"a"));
    let mut old = builder(&origin, 1).start();
    let cache_dir = old.path("cache");
    std::fs::remove_dir_all(&cache_dir).expect("the folder is ours");
    assert!(!hits(&old, "/"));
    assert!(hits(&old, "/"), "the running server continues");
    let new = old.successor().start();
    assert!(old.wait().is_some_and(|status| status.success()), "{}", old.errors());
    assert!(cache_dir.join("server.lock").exists() && cache_dir.join("store").exists());
    assert!(!hits(&new, "/"), "the cache begins cold");
    assert!(hits(&new, "/"));
    let mut newest = new.successor().start();
    assert!(hits(&newest, "/"), "the new directory is handed over");
    assert!(newest.stop().is_some_and(|status| status.success()));
}

#[test]
fn a_process_that_waits_for_an_earlier_one_to_leave_the_cache_says_so() {
    let origin = Origin::echo();
    let mut first = builder(&origin, 1).start();
    let mut kept = Client::connect(first.address());
    kept.send("GET / HTTP/1.1\r\nHost: example.test\r\n");
    eventually("the connection is accepted", || first.stat("connections_open") == 1.0);
    let second = first.successor().start();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let successor = second.successor().errors_into(writer);
    let third = std::thread::spawn(move || successor.start());
    let mut lines = BufReader::new(reader).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("upgrade_waits")), "no event");
    assert!(first.is_running());
    kept.send("\r\n");
    assert_eq!(kept.response("GET").expect("the first process answers").status, 200);
    let third = third.join().expect("no panic");
    let mut before_handover = lines.take_while(|line| !line.contains("took_over"));
    assert!(!before_handover.any(|line| line.contains("upgrade_waits")), "said twice");
    assert_eq!(Client::connect(third.address()).ask("GET", "/", &[]).expect("served").status, 200);
    assert!(first.wait().is_some_and(|status| status.success()), "{}", first.errors());
}

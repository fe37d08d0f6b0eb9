//! An unsafe request takes effect even if another purge takes long, and no other request waits for
//! it.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use forebay_shm::RegionReader;
use forebay_testkit::clock::Deadline;
use forebay_testkit::{Client, Origin, PATIENCE, Script, Server, ServerBuilder, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// The kind of the area in which the store keeps its own variables: see `docs/format/store.md`.
/// `PURGE_LOCK_WORD` is the index of the purge lock in that area.
const STORE_KIND: u32 = 16;
const PURGE_LOCK_WORD: u64 = 41;

/// How long the lock is held: longer than other requests may take, shorter than the unsafe request
/// waits for the lock.
const HELD: Duration = Duration::from_millis(1_500);

#[test]
fn a_request_that_waits_for_a_purge_holds_up_no_other_and_takes_effect() {
    let (origin, server) = start();
    let lock = PurgeLock::of(&server);
    let mut reader = Client::connect(server.address()).with_patience(HELD / 2);
    assert_eq!(reader.ask("GET", "/", &[]).expect("served").status, 200);
    let mut writer = Client::connect(server.address());
    lock.hold();
    let deadline = Deadline::after(HELD);
    writer.send("POST / HTTP/1.1\r\nHost: example.test\r\nContent-Length: 0\r\n\r\n");
    eventually("the origin has the request", || origin.requests().len() == 2);
    while deadline.remaining().is_some() {
        assert_eq!(reader.ask("GET", "/", &[]).expect("no other request waits").status, 200);
    }
    assert_eq!(server.stat("invalidated_total"), 0.0, "the purge did not wait for the lock");
    let line = |log: &str| log.contains("\"POST\"");
    let log = server.path("access.log");
    let is_answered = || std::fs::read_to_string(&log).is_ok_and(|log| line(&log));
    assert!(!is_answered(), "the request was answered before its page was invalidated");
    lock.release();
    assert_eq!(writer.response("POST").expect("served").status, 200);
    assert_eq!(server.stat("invalidated_total"), 1.0);
    assert_eq!(server.stat("purges_busy_total"), 0.0);
    eventually("the request is logged", is_answered);
    let response = reader.ask("GET", "/", &[]).expect("served");
    assert!(!response.field("cache-status").is_some_and(|value| value.contains("hit")));
}

#[test]
fn a_request_that_invalidates_a_group_waits_for_it_too() {
    let (_origin, server) = start();
    let lock = PurgeLock::of(&server);
    let mut reader = Client::connect(server.address()).with_patience(HELD / 2);
    reader.ask("GET", "/group/page", &[]).expect("served");
    let mut writer = Client::connect(server.address());
    lock.hold();
    let deadline = Deadline::after(HELD);
    writer.send("POST /group HTTP/1.1\r\nHost: example.test\r\nContent-Length: 0\r\n\r\n");
    while deadline.remaining().is_some() {
        assert_eq!(
            reader.ask("GET", "/group/page", &[]).expect("no other request waits").status,
            200
        );
    }
    assert_eq!(server.stat("invalidated_total"), 0.0, "the purge did not wait for the lock");
    lock.release();
    assert_eq!(writer.response("POST").expect("served").status, 200);
    let response = reader.ask("GET", "/group/page", &[]).expect("served");
    assert!(!response.field("cache-status").is_some_and(|value| value.contains("hit")));
    let counts = (server.stat("invalidated_total"), server.stat("purges_busy_total"));
    assert_eq!(counts, (1.0, 0.0));
}

#[test]
fn an_answer_that_invalidates_groups_waits_some_seconds_but_not_for_all_purges() {
    let (_origin, server) = start();
    let lock = PurgeLock::of(&server);
    let mut reader = Client::connect(server.address());
    reader.ask("GET", "/group/page", &[]).expect("served");
    lock.hold();
    let mut purge = Admin::ask(&server, "POST /purge?host=other.test");
    assert!(purge.line().contains("\"seen\":"));
    let mut writer = Client::connect(server.address());
    let invalidation = "POST /group HTTP/1.1\r\nHost: example.test\r\nContent-Length: 0\r\n\r\n";
    writer.send(invalidation);
    assert_eq!(
        writer.response("POST").expect("the request waits only for a limited time").status,
        200
    );
    assert_eq!(server.stat("groups_late_total"), 1.0);
    lock.release();
    eventually("the groups are invalidated later", || !is_hit(&mut reader));
}

#[test]
fn a_server_that_stops_says_how_many_purges_are_left() {
    let (_origin, mut server) = start();
    let lock = PurgeLock::of(&server);
    lock.hold();
    let mut purges =
        ["a.test", "b.test"].map(|host| Admin::ask(&server, &format!("POST /purge?host={host}")));
    purges.iter_mut().for_each(|purge| assert!(purge.line().contains("\"seen\":")));
    let mut count = Admin::ask(&server, "POST /purge?host=a.test&dry-run");
    assert!(count.line().contains("\"seen\":"));
    server.stop();
    let errors = server.errors();
    assert!(
        errors.contains("purge_failed") && errors.contains("2 purges had not finished"),
        "{errors}"
    );
}

#[test]
fn a_purge_that_does_not_end_is_counted_and_reported() {
    let (_origin, server) = start();
    let lock = PurgeLock::of(&server);
    lock.hold();
    let mut client = Client::connect(server.address());
    assert_eq!(
        client.ask("POST", "/", &[]).expect("the request waits only for a limited time").status,
        200
    );
    assert_eq!(server.stat("purges_busy_total"), 1.0);
    eventually("the log reports the busy purge", || server.errors().contains("purge_busy"));
    lock.release();
}

#[test]
fn a_long_purge_reports_progress_and_holds_up_no_request() {
    let (_origin, server) = start();
    let lock = PurgeLock::of(&server);
    let mut reader = Client::connect(server.address()).with_patience(HELD / 2);
    reader.ask("GET", "/", &[]).expect("served");
    lock.hold();
    let mut purge = Admin::ask(&server, "POST /purge?host=example.test");
    let first = purge.line();
    assert!(first.contains("\"seen\":") && first.contains("\"matched\":"), "{first}");
    assert_eq!(reader.ask("GET", "/", &[]).expect("no other request waits").status, 200);
    assert!(Admin::ask(&server, "GET /healthz").line().starts_with("ok"));
    // The caller gets progress lines even if nothing changes.
    assert!(purge.line().contains("\"seen\":"));
    assert_eq!(server.stat("purges_busy_total"), 0.0, "the line was the last one");
    lock.release();
    let mut line = purge.line();
    while line.contains("\"seen\":") {
        line = purge.line();
    }
    assert!(line.contains("\"purged\":1"), "{line}");
    assert_eq!(purge.line(), "", "a line follows the last one");
    assert!(!is_hit(&mut reader));
    assert_eq!(server.stat("purges_busy_total"), 0.0);
}

#[test]
fn a_purge_goes_on_if_its_caller_disconnects() {
    let (_origin, server) = start();
    let lock = PurgeLock::of(&server);
    let mut reader = Client::connect(server.address());
    reader.ask("GET", "/", &[]).expect("served");
    assert!(is_hit(&mut reader));
    lock.hold();
    let mut purge = Admin::ask(&server, "POST /purge?host=example.test");
    assert!(purge.line().contains("\"seen\":"));
    drop(purge);
    lock.release();
    eventually("the page is purged", || server.stat("purged_total") == 1.0);
    assert!(!is_hit(&mut reader));
}

#[test]
fn a_purge_that_cannot_begin_is_reported_and_counted() {
    let (_origin, server) = start();
    let lock = PurgeLock::of(&server);
    Client::connect(server.address()).ask("GET", "/", &[]).expect("served");
    lock.hold();
    let output = server.command(&["purge", "--host", "example.test"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("another purge did not end in time"), "{said}");
    assert_eq!((server.stat("purges_busy_total"), server.stat("purged_total")), (1.0, 0.0));
    lock.release();
}

#[test]
fn a_failed_purge_of_a_client_is_answered_and_counted_once() {
    let (_origin, server) = start();
    let lock = PurgeLock::of(&server);
    lock.hold();
    for (number, fields) in [&[][..], &["Surrogate-Key: a"]].into_iter().enumerate() {
        let mut client = Client::connect(server.address());
        assert_eq!(client.ask("PURGE", "/", fields).expect("answered").status, 503, "{fields:?}");
        let counts = (server.stat("purges_busy_total"), server.stat("purged_total"));
        assert_eq!(counts, (number as f64 + 1.0, 0.0), "{fields:?}");
    }
    lock.release();
}

#[test]
fn a_client_that_purges_waits_and_others_do_not() {
    let (_origin, server) = start();
    let lock = PurgeLock::of(&server);
    let mut reader = Client::connect(server.address()).with_patience(HELD / 2);
    for fields in [&[][..], &["Fastly-Soft-Purge: 1"]] {
        reader.ask("GET", "/", &[]).expect("served");
        let before = server.stat("purged_total");
        let mut purger = Client::connect(server.address());
        lock.hold();
        let deadline = Deadline::after(HELD);
        purger.send(forebay_testkit::client::request_text("PURGE", "/", fields));
        eventually("the server has read the purge", || {
            server.stat("purge_requests_total") > before
        });
        while deadline.remaining().is_some() {
            assert_eq!(reader.ask("GET", "/", &[]).expect("no other request waits").status, 200);
        }
        assert_eq!(server.stat("purged_total"), before, "the purge did not wait for the lock");
        lock.release();
        assert!(purger.response("PURGE").expect("the purge ends").text().contains("\"purged\":1"));
        assert!(!is_hit(&mut reader), "{fields:?}");
    }
}

fn is_hit(client: &mut Client) -> bool {
    let response = client.ask("GET", "/", &[]).expect("served");
    response.field("cache-status").is_some_and(|value| value.contains("hit"))
}

/// An admin response that is read line by line.
struct Admin(BufReader<UnixStream>);

impl Admin {
    fn ask(server: &Server, line: &str) -> Admin {
        let mut stream = UnixStream::connect(server.admin()).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time above zero");
        let request = format!("{line} HTTP/1.0\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("the server reads the request");
        let mut admin = Admin(BufReader::new(stream));
        while admin.line() != "\r\n" {}
        admin
    }

    /// Returns the next line with its line end, or an empty string at the end of the response.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("the server answers");
        line
    }
}

fn start() -> (Origin, Server) {
    let origin = Origin::start(|request| {
        let of_group = match (request.method.as_str(), request.target.as_str()) {
            ("GET", "/group/page") => "Cache-Groups: \"g\"",
            ("POST", "/group") => "Cache-Group-Invalidation: \"g\"",
            _ => "X: y",
        };
        Script::answer("200 OK", &["Cache-Control: max-age=60", "ETag: \"a\"", of_group], b"x")
    });
    let builder = ServerBuilder::new(PROGRAM).origin(&origin).flag("--workers", "1");
    let builder = builder.flag("--purge-from", "127.0.0.1");
    let cache_dir = builder.path("cache").display().to_string();
    let log = builder.path("access.log").display().to_string();
    let server = builder.flag("--cache-dir", &cache_dir).flag("--access-log", &log).start();
    (origin, server)
}

/// Holds the purge lock of a server's cache, as another thread of that server would.
struct PurgeLock {
    file: File,
    offset: u64,
    owned: u64,
}

impl PurgeLock {
    fn of(server: &Server) -> PurgeLock {
        let path = server.path("cache/store");
        let file =
            OpenOptions::new().read(true).write(true).open(&path).expect("the file is accessible");
        let offset = area_offset(&file) + 8 * PURGE_LOCK_WORD;
        PurgeLock { file, offset, owned: word_of_the_control_thread(&path) }
    }

    fn hold(&self) {
        self.write(self.owned);
    }

    fn release(&self) {
        self.write(0);
    }

    fn write(&self, word: u64) {
        self.file.write_all_at(&word.to_le_bytes(), self.offset).expect("the file is accessible");
    }
}

/// The value of the lock's word while the control thread, the first participant, owns the lock. It
/// consists of the participant's row and generation.
fn word_of_the_control_thread(path: &Path) -> u64 {
    let participants = forebay_shm::Region::attach_read_only(path).map(|region: RegionReader| {
        let mut listed = region.list();
        listed.sort_by_key(|one| one.joined_ns);
        listed
    });
    let first = participants
        .expect("the file is a region")
        .first()
        .expect("the region has a participant")
        .id;
    (u64::from(first.row) + 1) | (u64::from(first.generation) << 32)
}

/// Returns the offset of the store's area: see `docs/format/region.md`.
fn area_offset(file: &File) -> u64 {
    let mut head = [0; 4096];
    file.read_exact_at(&mut head, 0).expect("the file has a whole header");
    let number = |at: usize, bytes: usize| {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(&head[at..at + bytes]);
        u64::from_le_bytes(word)
    };
    let entries = (0..number(64, 4) as usize).map(|index| 128 + 32 * index);
    let mut found = entries.filter(|at| number(*at, 4) == u64::from(STORE_KIND));
    number(found.next().expect("every store has this area") + 8, 8)
}

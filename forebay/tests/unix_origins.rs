//! Origins that listen on Unix sockets.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use forebay_testkit::{Client, Origin, Response, Server, ServerBuilder, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// A path for a socket in a new directory.
fn socket_path(name: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("fb-unix-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    directory.join("app.sock")
}

/// Starts an origin at `path` that answers each request with its target and its `Host`. Returns the
/// number of connections that it has accepted.
fn listen(path: &Path) -> Arc<AtomicUsize> {
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path).expect("a socket");
    let count = Arc::new(AtomicUsize::new(0));
    let accepted = Arc::clone(&count);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            accepted.fetch_add(1, Relaxed);
            std::thread::spawn(move || answer_all(BufReader::new(stream.expect("a connection"))));
        }
    });
    count
}

fn answer_all(mut stream: BufReader<std::os::unix::net::UnixStream>) {
    loop {
        let (mut target, mut host, mut line) = (String::new(), String::new(), String::new());
        while stream.read_line(&mut line).is_ok_and(|length| length > 2) {
            match line.trim_end().split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("host") => host = value.to_owned(),
                None => target = line.split(' ').nth(1).unwrap_or_default().to_owned(),
                Some(_) => {}
            }
            line.clear();
        }
        if target.is_empty() {
            return;
        }
        let body = format!("{target} of {host}");
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length:";
        if write!(stream.get_mut(), "{head} {}\r\n\r\n{body}", body.len()).is_err() {
            return;
        }
    }
}

fn ask(server: &Server, target: &str) -> Response {
    Client::connect(server.address()).ask("GET", target, &[]).expect("whole")
}

#[test]
fn requests_reach_a_unix_socket_over_pooled_connections_and_are_cached() {
    let path = socket_path("pool");
    let accepted = listen(&path);
    let server = ServerBuilder::new(PROGRAM).flag("--workers", "1");
    let server = server.switch(&format!("--origin=unix:{}", path.display())).start();
    for number in 0..4 {
        let answer = ask(&server, &format!("/{number}"));
        let host = server.address();
        assert_eq!(answer.status, 200);
        assert!(answer.text().starts_with(&format!("/{number} of ")), "{host}: {}", answer.text());
    }
    assert_eq!(accepted.load(Relaxed), 1, "the connection is kept");
    eventually("they are stored", || server.stat("stored_total") == 4.0);
    ask(&server, "/1");
    assert_eq!(server.stat("hits_total"), 1.0);
    // HTTP/1.0 without a host.
    let mut client = Client::connect(server.address());
    assert!(client.send("GET /old HTTP/1.0\r\n\r\n"));
    assert_eq!(client.response("GET").expect("whole").text(), "/old of localhost");
    let line = format!("{{site=\"unix:{0}\",origin=\"unix:{0}\"}} 5", path.display());
    assert!(server.metrics().contains(&format!("site_origin_requests_total{line}\n")));
}

#[test]
fn a_failed_connection_names_the_path_and_another_origin_answers() {
    let path = socket_path("gone");
    let (_, other) = (listen(&path), Origin::echo());
    let config = |origins: &str| {
        format!("[[site]]\nname = \"a\"\nnames = [\"*\"]\norigin = {origins}\ncache = false\n")
    };
    let unix = format!("unix:{}", path.display());
    let server = ServerBuilder::new(PROGRAM).flag("--workers", "1");
    let server = server.config(&config(&format!("{unix:?}"))).start();
    assert_eq!(ask(&server, "/").status, 200);
    drop(server);

    std::fs::remove_file(&path).expect("it is there");
    let server = ServerBuilder::new(PROGRAM).flag("--workers", "1");
    let server = server.config(&config(&format!("{unix:?}"))).start();
    assert_eq!(ask(&server, "/").status, 502);
    let cause = format!("({}: No such file or directory (os error 2))", path.display());
    eventually("the event has the path", || server.errors().contains(&cause));
    // The program behind the socket starts again.
    listen(&path);
    assert_eq!(ask(&server, "/").status, 200);
    drop(server);

    std::fs::remove_file(&path).expect("it is there");
    let both = format!("[{unix:?}, \"http://{}\"]", other.address());
    let server = ServerBuilder::new(PROGRAM).flag("--workers", "1").config(&config(&both)).start();
    for _ in 0..4 {
        assert_eq!(ask(&server, "/").status, 200);
    }
    assert_eq!(other.request_count(), 4);
    assert!(server.stat("origin_failovers_total") >= 1.0);
}

#[test]
fn a_health_check_reaches_a_unix_socket() {
    let path = socket_path("health");
    let accepted = listen(&path);
    let config = format!(
        "[[site]]\nname = \"a\"\nnames = [\"*\"]\norigin = \"unix:{}\"\nhealth_path = \"/up\"\n\
         health_interval_ms = \"1s\"\n",
        path.display()
    );
    let server = ServerBuilder::new(PROGRAM).flag("--workers", "1").config(&config).start();
    eventually("a check has passed", || server.stat("origin_checks_total") >= 1.0);
    assert!(accepted.load(Relaxed) >= 1);
    assert_eq!(server.stat("origin_checks_failed_total"), 0.0);
}

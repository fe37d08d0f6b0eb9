//! `forebay rules top` with a server that ends and comes back.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use forebay_testkit::clock::holds_within;
use forebay_testkit::{Origin, Server, ServerBuilder};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

fn start(origin: &Origin) -> Server {
    let builder = ServerBuilder::new(PROGRAM).origin(origin);
    let path = builder.path("all.rules");
    std::fs::write(&path, "set-header X-A 1\n").expect("the folder is writable");
    builder.flag("--rules", &path.display().to_string()).start()
}

fn watch(server: &Server, flags: &[&str]) -> Child {
    Command::new(PROGRAM)
        .args(["rules", "top", "--admin", &server.admin().display().to_string()])
        .args(flags)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("forebay was built")
}

#[test]
fn top_goes_on_when_the_server_was_away() {
    let origin = Origin::echo();
    let mut server = start(&origin);
    let mut watcher = watch(&server, &["--json", "--count", "300", "--interval", "100ms"]);
    let mut tables = BufReader::new(watcher.stdout.take().expect("the output is piped")).lines();
    let mut complaints =
        BufReader::new(watcher.stderr.take().expect("the output is piped")).lines();
    let mut next_table = || tables.next().expect("a table").expect("a text");
    assert!(next_table().contains("\"per_second\":true"));
    let builder = server.again();
    server.stop();
    let complaint = complaints.next().expect("a complaint").expect("a text");
    assert!(
        complaint.contains("no answer") && complaint.ends_with("trying again to reach the server"),
        "{complaint}"
    );
    let back = builder.start();
    assert!(next_table().contains("\"per_second\":true"));
    drop(back);
    watcher.kill().expect("it still runs");
    watcher.wait().expect("it was killed");
}

#[test]
fn top_that_ends_while_the_server_is_away_fails() {
    let mut server = start(&Origin::echo());
    let mut watcher = watch(&server, &["--count", "3", "--interval", "300ms"]);
    let mut output = watcher.stdout.take().expect("the output is piped");
    output.read_exact(&mut [0]).expect("a table");
    server.stop();
    let ended = watcher.wait_with_output().expect("it ends");
    let complaint = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{complaint}");
    assert_eq!(complaint.matches("trying again").count(), 1, "{complaint}");
}

#[test]
fn top_ends_when_its_reader_closes_the_pipe() {
    let server = start(&Origin::echo());
    // A file name with line ends is printed in an escaped form.
    for format in [&["--json"][..], &[]] {
        let mut watcher =
            watch(&server, &[&["--count", "100", "--interval", "100ms"], format].concat());
        let mut output = BufReader::new(watcher.stdout.take().expect("the output is piped"));
        output.read_line(&mut String::new()).expect("a table");
        drop(output);
        let has_ended = || watcher.try_wait().expect("the file is accessible").is_some();
        assert!(holds_within(Duration::from_secs(5), has_ended), "{format:?}: top does not end");
        assert!(watcher.wait().expect("the file is accessible").success());
    }
}

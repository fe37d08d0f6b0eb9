//! The privileges that a server gives up.

use forebay_testkit::{Origin, Server, ServerBuilder};

#[test]
fn a_server_cannot_gain_privileges_and_warns_if_it_is_root() {
    let origin = Origin::echo();
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay")).origin(&origin).start();
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id()));
    let status = status.expect("the server runs");
    let line = |name: &str| {
        let mut lines = status.lines().filter_map(|line| line.strip_prefix(name));
        lines.next().unwrap_or_default().split_whitespace().collect::<Vec<_>>()
    };
    assert_eq!(line("NoNewPrivs:"), ["1"]);
    assert_restricted(&server);
    let is_root = line("Uid:").get(1) == Some(&"0");
    assert_eq!(server.errors().contains("runs_as_root"), is_root, "{}", server.errors());
}

#[test]
fn try_cannot_gain_privileges_with_any_of_its_threads() {
    let builder = ServerBuilder::bare(env!("CARGO_BIN_EXE_forebay"), "try");
    let run = builder.path("run").display().to_string();
    let builder = builder.flag("--listen", "127.0.0.1:0").flag("--runtime-dir", &run);
    assert_restricted(&builder.start());
}

fn assert_restricted(server: &Server) {
    for thread in std::fs::read_dir(format!("/proc/{}/task", server.id())).expect("it runs") {
        let path = thread.expect("it runs").path().join("status");
        let status = std::fs::read_to_string(&path).expect("its threads run");
        assert!(status.contains("NoNewPrivs:\t1"), "{}: {status}", path.display());
    }
}

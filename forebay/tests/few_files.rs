//! A low limit of open files: clients cannot take the files that the rest of the server needs, and
//! one address cannot take the files of all clients.

use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;

use forebay_testkit::server::Folder;
use forebay_testkit::{Client, Origin, Server, ServerBuilder, eventually};

/// Starts a server that may open 200 files.
fn start(folder: &Folder, origin: &Origin, workers: &str) -> Server {
    start_with(folder, origin, workers, "")
}

fn start_with(folder: &Folder, origin: &Origin, workers: &str, settings: &str) -> Server {
    let program = folder.path("limited");
    let script =
        format!("#!/bin/sh\nulimit -n 200\nexec {} \"$@\"\n", env!("CARGO_BIN_EXE_forebay"));
    std::fs::write(&program, script).expect("the folder is ours");
    let executable = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(&program, executable).expect("the file is ours");
    let site = format!(
        "{settings}[[site]]\nname = \"a\"\nnames = [\"*\"]\norigin = \"http://{}\"\n",
        origin.address()
    );
    let server = ServerBuilder::new(&program.display().to_string())
        .config(&site)
        .flag("--workers", workers)
        .flag("--admin", "127.0.0.1:0")
        .start();
    assert!(server.errors().contains("few_files"), "{}", server.errors());
    server
}

/// A connection from an address of its own.
fn connect_from(server: &Server, number: u8) -> Client {
    Client::connect_from(IpAddr::from([127, 0, 1, number]), server.address())
}

/// Begins a request, so that the connection is not idle: an idle connection would be closed to make
/// room for another.
fn begin(client: &mut Client) {
    // The server may have closed the connection.
    let _ = client.send("GET / HTTP/1.1\r\n");
}

/// Connections from as many addresses, each with a request that has begun.
fn crowd(server: &Server, count: u8) -> Vec<Client> {
    let busy = |number| {
        let mut client = connect_from(server, number);
        begin(&mut client);
        client
    };
    (0..count).map(busy).collect()
}

#[test]
fn clients_leave_files_for_origins_reloads_and_the_admin_interface() {
    let (folder, origin) = (Folder::new(), Origin::echo());
    let server = start(&folder, &origin, "1");
    let mut first = Client::connect(server.address());
    assert_eq!(first.ask("GET", "/first", &[]).expect("served").status, 200);
    begin(&mut first);
    let _others = crowd(&server, 250);
    eventually("connections are refused", || {
        // A connection may be idle for a moment before its request begins.
        server.stat("connections_refused_total") + server.stat("idle_displaced_total") >= 190.0
    });
    assert_eq!(server.stat("accept_errors_total"), 0.0);
    assert!(server.stat("connections_open") > 40.0, "most files are for clients");
    first.send("Host: a\r\n\r\n");
    assert_eq!(first.response("GET").expect("served").status, 200);
    for _ in 0..2 {
        assert!(server.command(&["reload"]).status.success(), "{}", server.errors());
    }
    assert_eq!(first.ask("GET", "/third", &[]).expect("served").status, 200);
}

#[test]
fn tunnels_leave_files_for_other_requests() {
    let (folder, origin) = (Folder::new(), Origin::echo());
    let server = start_with(&folder, &origin, "1", "upgrade_protocols = [\"websocket\"]\n");
    let errors = server.errors();
    assert!(errors.contains("tunnels_per_worker_max is "), "{errors}");
    assert!(errors.contains(" instead of 4096, and tunnels_per_address_max is "), "{errors}");
}

#[test]
fn many_workers_and_admin_connections_take_no_files_of_others() {
    let (folder, origin) = (Folder::new(), Origin::echo());
    let server = start(&folder, &origin, "8");
    let admin = server.admin().display().to_string().parse().expect("an address");
    let _idle: Vec<_> = (0..60).map(|_| Client::connect(admin)).collect();
    let _crowd = crowd(&server, 250);
    eventually("connections are refused", || {
        let stats = server.stats();
        // A connection may be idle for a moment before its request begins.
        let gone = stats["connections_refused_total"] + stats["idle_displaced_total"];
        gone + stats["connections_open"] >= 250.0 || stats["accept_errors_total"] > 0.0
    });
    assert_eq!(server.stat("accept_errors_total"), 0.0);
    assert!(server.command(&["reload"]).status.success(), "{}", server.errors());
}

#[test]
fn one_address_cannot_take_the_few_connections_of_all() {
    let (folder, origin) = (Folder::new(), Origin::echo());
    let server = start(&folder, &origin, "1");
    let _greedy: Vec<_> = (0..250).map(|_| Client::connect(server.address())).collect();
    eventually("connections are displaced", || server.stat("idle_displaced_total") > 150.0);
    let mut other = connect_from(&server, 1);
    assert_eq!(other.ask("GET", "/", &[]).expect("served").status, 200);
}

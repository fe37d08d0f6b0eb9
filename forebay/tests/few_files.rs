//! A low limit of open files: clients cannot take the files that the rest of the server needs.

use std::os::unix::fs::PermissionsExt;

use forebay_testkit::server::Folder;
use forebay_testkit::{Client, Origin, ServerBuilder, eventually};

#[test]
fn clients_leave_files_for_origins_reloads_and_the_admin_interface() {
    let folder = Folder::new();
    let program = folder.path("limited");
    let script =
        format!("#!/bin/sh\nulimit -n 200\nexec {} \"$@\"\n", env!("CARGO_BIN_EXE_forebay"));
    std::fs::write(&program, script).expect("the folder is ours");
    let executable = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(&program, executable).expect("the file is ours");

    let origin = Origin::echo();
    let site = format!(
        "[[site]]\nname = \"a\"\nnames = [\"*\"]\norigin = \"http://{}\"\n",
        origin.address()
    );
    let server = ServerBuilder::new(&program.display().to_string())
        .config(&site)
        .flag("--workers", "1")
        .start();
    assert!(server.errors().contains("few_files"), "{}", server.errors());
    let mut first = Client::connect(server.address());
    assert_eq!(first.ask("GET", "/first", &[]).expect("served").status, 200);
    let _others: Vec<_> = (0..300).map(|_| Client::connect(server.address())).collect();
    eventually("connections are refused", || server.stat("connections_refused_total") >= 200.0);
    assert_eq!(server.stat("accept_errors_total"), 0.0);
    assert!(server.stat("connections_open") > 60.0, "most files are for clients");
    assert_eq!(first.ask("GET", "/second", &[]).expect("served").status, 200);
    for _ in 0..2 {
        assert!(server.command(&["reload"]).status.success(), "{}", server.errors());
    }
    assert_eq!(first.ask("GET", "/third", &[]).expect("served").status, 200);
}

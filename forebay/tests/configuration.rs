//! Configurations in several files, as a running server and the commands read them.

use std::fs;

use forebay_testkit::{Client, Origin, Script, Server, ServerBuilder};

const BIN: &str = env!("CARGO_BIN_EXE_forebay");

fn origin() -> Origin {
    Origin::start(|request| Script::answer("200 OK", &[], request.target.as_bytes()))
}

fn site(name: &str, origin: &Origin) -> String {
    let address = origin.address();
    format!(
        "[[site]]\nname = \"{name}\"\nnames = [\"{name}.test\"]\norigin = \"http://{address}\"\n"
    )
}

fn status(server: &Server, host: &str) -> u16 {
    let mut client = Client::connect(server.address());
    client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    client.response("GET").expect("an answer").status
}

#[test]
fn a_reload_reads_new_and_removed_files_of_a_pattern() {
    let origin = origin();
    let builder = ServerBuilder::new(BIN);
    fs::create_dir(builder.path("conf.d")).expect("writable");
    fs::write(builder.path("conf.d/a.toml"), site("a", &origin)).expect("writable");
    let main = "include = [\"conf.d/*.toml\"]\n";
    let server = builder.config(main).flag("--workers", "1").start();
    assert_eq!((status(&server, "a.test"), status(&server, "b.test")), (200, 421));

    fs::write(server.path("conf.d/b.toml"), site("b", &origin)).expect("writable");
    assert!(server.command(&["reload"]).status.success());
    assert_eq!((status(&server, "a.test"), status(&server, "b.test")), (200, 200));

    fs::write(server.path("conf.d/c.toml"), site("a", &origin)).expect("writable");
    let output = server.command(&["reload"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{told}");
    assert!(told.contains("conf.d/c.toml:2:8: two sites have the name \"a\""), "{told}");
    assert!(told.contains("conf.d/a.toml:2:8"), "{told}");
    assert_eq!((status(&server, "a.test"), status(&server, "b.test")), (200, 200));

    fs::remove_file(server.path("conf.d/c.toml")).expect("it exists");
    fs::remove_file(server.path("conf.d/a.toml")).expect("it exists");
    assert!(server.command(&["reload"]).status.success());
    assert_eq!((status(&server, "a.test"), status(&server, "b.test")), (421, 200));
}

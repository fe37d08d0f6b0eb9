//! Helpers of the tests of a server's locks.

use std::path::PathBuf;
use std::process::{Command, Output};

use forebay_testkit::{Origin, Script, Server};
use serde_json::Value;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

pub(crate) fn locks(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).arg("locks").args(arguments).output().expect("forebay was built")
}

pub(crate) fn text_of(arguments: &[&str]) -> String {
    let output = locks(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

pub(crate) fn report(file: &str) -> Value {
    serde_json::from_str(&text_of(&["report", "--json", file])).expect("JSON")
}

pub(crate) fn file_of(server: &Server) -> PathBuf {
    server.path(&format!("run/{}.locks", server.address().port()))
}

/// An origin that answers with fresh responses.
pub(crate) fn fresh() -> Origin {
    Origin::start(|_| {
        Script::new()
            .send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nCache-Control: max-age=600\r\n\r\nbody")
    })
}

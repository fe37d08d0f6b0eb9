//! Helpers of the recording tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use forebay_testkit::has_compiler;
use serde_json::Value;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

pub(crate) fn record(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(["locks", "record"]).args(arguments).current_dir(dir);
    command.env("FOREBAY_LOCKPROF", library());
    command
}

/// Returns the path of the library that cargo built for this test.
pub(crate) fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    test.parent().expect("a directory").join("liblockprof.so")
}

pub(crate) fn run(dir: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = record(dir, arguments).output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code(), text(stdout), text(stderr))
}

pub(crate) fn compiled() -> Option<tempfile::TempDir> {
    compiled_program("locks")
}

/// Compiles one of the library's own test programs in a new directory. Returns `None` if tests
/// without a compiler are skipped.
pub(crate) fn compiled_program(name: &str) -> Option<tempfile::TempDir> {
    if !has_compiler("cc") {
        return None;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let programs = concat!(env!("CARGO_MANIFEST_DIR"), "/../lockprof/tests/programs");
    let source = Path::new(programs).join(name).with_extension("c");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-g", "-fno-omit-frame-pointer", "-pthread", "-o"]);
    let output = cc.arg(dir.path().join(name)).arg(source).output().expect("cc is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(dir)
}

pub(crate) fn report(file: &Path) -> Value {
    let mut command = Command::new(PROGRAM);
    let output = command.args(["locks", "report", "--json"]).arg(file).output().expect("it runs");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Returns the output of `forebay locks`.
pub(crate) fn locks(dir: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(PROGRAM);
    let output = command.arg("locks").args(arguments).current_dir(dir).output().expect("it runs");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a directory");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string());
    let mut names: Vec<_> = names.map(|name| name.expect("text")).collect();
    names.sort();
    names
}

/// Compiles a program from source. Returns false if tests that need a compiler are skipped.
pub(crate) fn compile(dir: &Path, compiler: &str, source: &str, flags: &[&str]) -> bool {
    if !has_compiler(compiler) {
        return false;
    }
    let name = if compiler == "cc" { "program.c" } else { "program.cc" };
    fs::write(dir.join(name), source).expect("written");
    let mut command = Command::new(compiler);
    command.args(["-pthread", "-o", "program", name]).args(flags).current_dir(dir);
    let output = command.output().expect("the compiler is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    true
}
